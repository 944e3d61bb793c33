"""The command `llm-fsm` for shells of tests, without the price of its imports.

`commands(folder)` puts a program of that name into a folder for PATH. It asks the test process,
which asks the warm parent for the real process (see `warm_parent`), and gives it its own arguments,
folder, environment and streams. It passes signals on, and ends as the process ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import warm_parent

_PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
wish = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
socket.send_fds(line, [json.dumps(wish).encode() + b"\\0"], [0, 1, 2])
answers = line.makefile()
pid = int(answers.readline())
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
    signal.signal(getattr(signal, name), lambda number, frame: os.kill(pid, number))
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def commands(folder: Path) -> Iterator[None]:
    """Make `folder/llm-fsm`, and answer it until the block ends.

    Args:
        folder: An empty folder with a short path: a socket stands in it, too.
    """
    address = str(folder / "s")
    program = folder / "llm-fsm"
    program.write_text(_PROGRAM.format(python=sys.executable, address=address))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        threading.Thread(target=_serve, args=(door,), daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)  # the thread stops to wait


def _serve(door: socket.socket) -> None:
    with suppress(OSError):
        while True:
            line, _ = door.accept()
            threading.Thread(target=_answer, args=(line,), daemon=True).start()


def _answer(line: socket.socket) -> None:
    """Start the process that a program wishes for, and tell its id and its exit code."""
    with line, suppress(BrokenPipeError):
        body, streams, _, _ = socket.recv_fds(line, 65_536, 3)
        while not body.endswith(b"\0"):
            body += line.recv(65_536)
        wish = json.loads(body[:-1])
        command = [sys.executable, "-m", "llm_fsm", *wish["arguments"]]
        standard = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
        process = warm_parent.Popen(
            command, cwd=wish["folder"], env=wish["environment"], **standard
        )
        for stream in streams:
            os.close(stream)
        line.sendall(f"{process.pid}\n".encode())
        line.sendall(f"{process.wait()}\n".encode())
