"""The fake server as a process of its own on the second core, and its admin page."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.beside.systems import HERE, python


class Server:
    """A running fake server."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._admin = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """A GET, or a POST of `body`."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self._admin + path, data=data), timeout=60
        ) as answer:
            return json.load(answer)

    def configure(self, **settings: Any) -> None:
        """`delay_ms`, `token_delay_ms`, `record`, `pad_tokens`; what is not named goes back to
        none.
        """
        self.ask(
            "/admin/config",
            {"delay_ms": 0, "token_delay_ms": 0, "record": "off", "pad_tokens": 0, **settings},
        )
        self.ask("/admin/reset", {})


@contextmanager
def serving() -> Iterator[Server]:
    """A fake server while the block runs; where there is none the run is over."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pinned = (
        ["taskset", "-c", "1"] if shutil.which("taskset") and 1 in os.sched_getaffinity(0) else []
    )
    command = [*pinned, python("server"), "fake_llm.py", "--port", str(port), "--record", "off"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL)
    server = Server(port)
    try:
        _wait(server, process)
        yield server
    finally:
        process.terminate()
        process.wait()


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        try:
            server.ask("/v1/models")
        except OSError:
            if process.poll() is not None:
                sys.exit(
                    f"the fake server ended with exit code {process.returncode} before it answered"
                )
            time.sleep(0.1)
        else:
            return
    sys.exit(f"the fake server gave no answer at {server.base_url} within 20 s")
