"""Measure and print the table. `--quick`: fewer repetitions. `--once`: only see that it works."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from benchmarks import server, shapes, startup, turns
from benchmarks.figures import ONCE, QUICK, WHOLE, Repeats, table


def main() -> None:
    """Measure everything; the exit code is 0 whatever was found, 130 if that is interrupted."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    for name, repeats in (("--quick", QUICK), ("--once", ONCE)):
        parser.add_argument(name, dest="repeats", action="store_const", const=repeats)
    repeats: Repeats = parser.parse_args().repeats or WHOLE
    shape_names = () if repeats is WHOLE else ("grid",)
    try:
        figures = [
            *startup.measure(repeats.starts),
            *turns.measure(repeats),
            *shapes.measure(shape_names, runs=min(3, repeats.rounds)),
            *server.measure(repeats),
        ]
    except KeyboardInterrupt:
        print("\ninterrupted before all was measured", file=sys.stderr)
        sys.exit(130)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n")
    print(table(figures))


if __name__ == "__main__":
    main()
