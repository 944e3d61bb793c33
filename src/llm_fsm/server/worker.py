"""A process of `WorkPool`: it reads jobs from standard input, and writes their results to standard
output.

Each message is JSON behind its length in four bytes. Run it as `python -m llm_fsm.server.worker`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.documents.draw.graphviz import GraphvizError
from llm_fsm.errors import DefinitionError, told
from llm_fsm.server import workbench
from llm_fsm.server.pool import READY

_HEAD = struct.Struct(">I")
_NICE = 5
_MEMORY = 2**31
"""Bytes that a worker may take, so that no job takes those of the server."""
JOBS: Mapping[str, Callable[..., Any]] = {
    "findings": workbench.findings,
    "prompt": workbench.prompt,
    "played": workbench.played,
    "drawn": workbench.drawn,
    "picture": workbench.picture,
}


def answer(asked: JsonMap) -> JsonDict:
    """Do one job.

    Args:
        asked: `job`, a name of `JOBS`, its `arguments`, and the `seconds` that it may take.

    Returns:
        `result`; or `problem`, a row of `problems.KINDS`, its `detail`, and perhaps the `reason`
        for the log.
    """
    try:
        return {"result": JOBS[asked["job"]](*asked["arguments"])}
    except DefinitionError as error:
        return {"problem": "invalid", "detail": "\n".join(map(str, error.findings))}
    except GraphvizError as error:
        detail = "this picture cannot be drawn here; ask for format=mermaid"
        return {"problem": "unavailable", "detail": detail, "reason": str(error)}
    except MemoryError:
        return {
            "problem": "too-large",
            "detail": "this needs more memory than there is for it; give a smaller one",
        }
    except ValueError as error:
        return {"problem": "invalid", "detail": str(error)}
    except Exception as error:
        detail = "this is a fault of the server; the operator finds the reason in the log"
        return {"problem": "internal", "detail": detail, "reason": told(error)}


def main(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Say that it is ready, and do jobs until there are no more."""
    stdout.write(READY)
    stdout.flush()
    while len(head := stdin.read(_HEAD.size)) == _HEAD.size:
        asked = json.loads(stdin.read(_HEAD.unpack(head)[0]))
        with _limited(asked["seconds"]):
            done = json.dumps(answer(asked)).encode()
        stdout.write(_HEAD.pack(len(done)) + done)
        stdout.flush()


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process if a job takes much too long: the server that should end it may be gone."""
    if not hasattr(signal, "alarm"):
        yield
        return
    signal.alarm(math.ceil(seconds) + 5)
    try:
        yield
    finally:
        signal.alarm(0)


def _lower() -> None:
    """Take a low priority and little memory, if the system knows that."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    if find_spec("resource") is not None:
        resource = import_module("resource")
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    _lower()
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not come between two answers
    main(sys.stdin.buffer, output)
