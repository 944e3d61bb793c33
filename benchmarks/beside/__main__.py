"""Measure this checkout beside other systems: python -m benchmarks.beside [SECTION…]

Installs what is missing and prints tables. When all is measured, writes `docs/benchmarks.md` and
its plots. The figures are kept in `.bench/beside.json`; `--again` writes the page from them and
measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from typing import TypedDict

from benchmarks.beside.report import markdown, page, plot_data
from benchmarks.beside.sections import SECTIONS, Bench, Row
from benchmarks.beside.server_process import serving
from benchmarks.beside.systems import (
    ENVIRONMENTS,
    HERE,
    PACKAGES,
    ROOT,
    SYSTEMS,
    install,
    python,
    version,
)

CPUINFO = "/proc/cpuinfo"
KEPT = ENVIRONMENTS / "beside.json"
"""The figures of the last whole run."""


def _processor() -> str:
    try:
        with open(CPUINFO, encoding="utf-8") as lines:
            named = next(
                (line.split(":")[1].strip() for line in lines if line.startswith("model name")), ""
            )
    except OSError:  # another system than Linux
        named = ""
    return named or platform.processor() or platform.machine()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few; at least 1")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    """Install, measure, print, write."""
    try:
        _run(_options(arguments))
    except KeyboardInterrupt:
        print("\ninterrupted; docs/benchmarks.md stays as it was", file=sys.stderr)
        sys.exit(130)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.beside", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; all without")
    names = [system.name for system in SYSTEMS]
    told = "a system, as the tables name it; may be repeated"
    parser.add_argument("--only", action="append", metavar="SYSTEM", help=told)
    parser.add_argument(
        "--runs",
        type=_count,
        default=5,
        help="of each for the CPU of a turn and for keeping it (5)",
    )
    parser.add_argument(
        "--conversations", type=_count, default=10, help="of each run for the CPU of a turn (10)"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the page of benchmarks, though not all is measured",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="write the page from .bench/beside.json, measuring none",
    )
    parser.add_argument("--note", default="", help="a sentence for the page about this run")
    options = parser.parse_args(arguments)
    for given, known, what in (
        (options.sections, SECTIONS, "section"),
        (options.only or (), names, "system"),
    ):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"unknown {what} {unknown[0]!r}; there are {'; '.join(known)}")
    return options


def _run(options: argparse.Namespace) -> None:
    if options.again:
        _write_again()
        return
    chosen = [system for system in SYSTEMS if not options.only or system.name in options.only]
    missing: set[str] = set()
    for environment in PACKAGES:
        if environment not in ("server", *(system.environment for system in chosen)):
            continue
        print(f"installing {environment}", file=sys.stderr, flush=True)
        reason = install(environment)
        if reason is not None and environment == "server":
            print(
                f"the fake server cannot be installed, and nothing is measured without it: {reason}",
                file=sys.stderr,
            )
            sys.exit(3)
        if reason is not None:
            missing.add(environment)
            print(f"{environment} cannot be installed and is left out: {reason}", file=sys.stderr)
    systems = [system for system in chosen if system.environment not in missing]
    if not systems:
        print("none of the systems can be installed, so nothing is measured", file=sys.stderr)
        sys.exit(3)
    results = {}
    with serving() as server:
        bench = Bench(server, systems, options.runs, options.conversations)
        for name in options.sections or SECTIONS:
            table = SECTIONS[name]
            results[name] = table.measure(bench)
            print(f"\n## {table.title}\n\n{markdown(table, results[name])}", flush=True)
    if options.page or not (options.sections or options.only):
        machine = [_processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
        machine[-1] += f". {options.note.rstrip('.')}" if options.note else ""
        versions = {system.name: version(system) for system in systems}
        _write(Measured(results=results, versions=versions, machine=machine, runs=options.runs))


class Measured(TypedDict):
    """The figures of a run, as `.bench/beside.json` keeps them: the rows of each system for each
    section.
    """

    results: dict[str, dict[str, Row]]
    versions: dict[str, str]
    machine: list[str]
    runs: int


def _write(measured: Measured) -> None:
    """Keep the figures, and write the page and its plots."""
    KEPT.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    written = page(measured["results"], measured["versions"], measured["machine"], measured["runs"])
    (ROOT / "docs" / "benchmarks.md").write_text(written, encoding="utf-8")
    command = [python("server"), str(HERE / "plots.py"), str(ROOT / "docs" / "benchmarks")]
    subprocess.run(command, input=plot_data(measured["results"]), text=True, check=True)
    print("\nwritten to docs/benchmarks.md")


def _write_again() -> None:
    try:
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
    except FileNotFoundError:
        print(f"{KEPT} is missing: measure once without --again", file=sys.stderr)
        sys.exit(2)
    _write(kept)


if __name__ == "__main__":
    main()
