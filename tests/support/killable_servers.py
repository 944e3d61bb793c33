"""`llm-fsm serve` as a process that can be killed and started again, at one address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import warm_parent
from served import free_port


class KillableServer:
    """A server of a file or folder, with its conversations in a store."""

    def __init__(self, path: Path, store: str, *options: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        serve = (sys.executable, "-m", "llm_fsm", "serve", str(path))
        self.command = (*serve, "--port", str(port), "--db", store, *options)
        self.environment = {**os.environ, "LLM_FSM_API_KEY": "none"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = warm_parent.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @contextmanager
    def running(self) -> Iterator[KillableServer]:
        """Run it, and kill it at the end."""
        self.start()
        try:
            yield self
        finally:
            self.kill()
