"""Whole processes on the wall clock: the median of several runs, the programs taking turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.form import long_definition


def _milliseconds(command: tuple[str, ...]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def measure(runs: int) -> Iterator[Figure]:
    """Bare Python, the command line, and imports above bare Python."""
    python = sys.executable
    program = str(Path(python).with_name("llm-fsm"))
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"questionnaire_{number}.json")) for number in range(10)]
        for file in files:
            Path(file).write_text(json.dumps(long_definition(20), indent=2), encoding="utf-8")
        commands = {
            "bare": (python, "-c", "pass"),
            "help": (program, "--help"),
            "validate": (program, "validate", files[0]),
            "validate ten": (program, "validate", *files),
            "package": (python, "-c", "import llm_fsm"),
            "machine": (python, "-c", "from llm_fsm import Machine"),
        }
        for command in commands.values():
            _milliseconds(command)  # byte code is written, files are in the page cache
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                taken[name].append(_milliseconds(command))
    median = {name: statistics.median(times) for name, times in taken.items()}
    yield Figure("python -c pass", median["bare"])
    yield Figure("llm-fsm --help", median["help"], 150)
    yield Figure("llm-fsm validate, a file of 20 states", median["validate"], 150)
    yield Figure("llm-fsm validate, ten files of 20 states", median["validate ten"], 250)
    yield Figure("import llm_fsm, above bare Python", median["package"] - median["bare"], 60)
    yield Figure(
        "from llm_fsm import Machine, above bare Python", median["machine"] - median["bare"], 250
    )
