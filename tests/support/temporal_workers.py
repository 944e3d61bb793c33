"""Workers of Temporal as processes: begin them, and end them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import warm_parent
from paths import SUPPORT
from temporal_server import TemporalServer


def begin(
    server: TemporalServer, store: str, ledger: Path, *purpose: str
) -> subprocess.Popen[bytes]:
    """Start a process of `temporal_worker.py`."""
    script = [sys.executable, str(SUPPORT / "temporal_worker.py")]
    return warm_parent.Popen([*script, server.address, store, str(ledger), *purpose])


def end(workers: Iterable[subprocess.Popen[bytes]]) -> None:
    """Kill them."""
    for worker in workers:
        worker.kill()
        worker.wait()
