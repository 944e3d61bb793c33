"""Measure and print the table. `--quick`: fewer repetitions."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from benchmarks import server, shapes, startup, turns
from benchmarks.figures import table


def main() -> None:
    """Measure everything; the exit code is 0 whatever was found, 130 if that is interrupted."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    quick = parser.parse_args().quick
    try:
        figures = [
            *startup.measure(3 if quick else 15),
            *turns.measure(1 if quick else 5),
            *shapes.measure(("grid",) if quick else (), runs=1 if quick else 3),
            *server.measure(1 if quick else 5),
        ]
    except KeyboardInterrupt:
        print("\ninterrupted before all was measured", file=sys.stderr)
        sys.exit(130)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n")
    print(table(figures))


if __name__ == "__main__":
    main()
