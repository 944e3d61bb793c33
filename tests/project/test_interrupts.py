"""Ctrl-C reaches what tests start, however the tests were started."""

from __future__ import annotations

import signal
import subprocess
import sys

from paths import ROOT


def test_an_interrupt_reaches_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode == -signal.SIGINT


def test_an_interrupt_reaches_a_child_of_tests_in_the_background() -> None:
    """A shell lets a job in the background ignore SIGINT, and so does `nohup`."""
    ignore = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    ignoring = f"{ignore}; sys.exit(pytest.main(sys.argv[1:]))"
    inner = f"{__file__}::{test_an_interrupt_reaches_a_child.__name__}"
    command = [sys.executable, "-c", ignoring, "-p", "no:cacheprovider", inner]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
