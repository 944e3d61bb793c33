"""What checking costs for machines of awkward shapes, see `benchmarks.machines`.

    python -m benchmarks.shapes [NAME…] [--profile]

Every shape is checked from its text, as a file would be, in processor time of this process. The
exit code is 1 when one of them takes longer than its bar.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure, table
from benchmarks.machines import SHAPES
from llm_fsm.documents.check import CheckOptions, check_text

BAR = 1000.0
"""Milliseconds of processor time."""


def measure(names: Sequence[str] = (), runs: int = 1) -> Iterator[Figure]:
    """The processor time of one check for each shape: the least of some runs."""
    for name in names or SHAPES:
        text = json.dumps(SHAPES[name](), indent=1)
        yield Figure(f"checking: {name}", min(_checked(text) for _ in range(runs)), BAR)


def _checked(text: str) -> float:
    started = time.process_time()
    check_text(text, CheckOptions(file="shape.json"))
    return (time.process_time() - started) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and say with the exit code whether all shapes kept within their
    bar.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.shapes", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of: {', '.join(SHAPES)}")
    parser.add_argument("--profile", action="store_true", help="show which functions take the time")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SHAPES]
    if unknown:
        parser.error(f"no such shape: {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    _checked('{"name": "warm", "initial_state": "s", "states": {"s": {}}}')
    if given.profile:
        profile = cProfile.Profile()
        profile.runcall(list, measure(given.names))
        pstats.Stats(profile).sort_stats("cumulative").print_stats(40)
        return 0
    figures = list(measure(given.names))
    print(table(figures))
    return 0 if all(figure.verdict == "pass" for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
