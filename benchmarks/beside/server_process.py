"""The fake server as a process of its own on the second core, and its admin page."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
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
        """`delay_ms`, `token_delay_ms`, `record`, `pad_tokens`; what is not named goes back to none."""
        self.ask(
            "/admin/config",
            {"delay_ms": 0, "token_delay_ms": 0, "record": "off", "pad_tokens": 0, **settings},
        )
        self.ask("/admin/reset", {})


@contextmanager
def serving() -> Iterator[Server]:
    """A fake server while the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pinned = ["taskset", "-c", "1"] if shutil.which("taskset") else []
    command = [*pinned, python("server"), "fake_llm.py", "--port", str(port), "--record", "off"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL)
    server = Server(port)
    try:
        for _ in range(200):
            try:
                server.ask("/v1/models")
                break
            except OSError:
                time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait()
