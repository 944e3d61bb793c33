"""Measure this checkout beside other systems: python -m benchmarks.beside [SECTION…]

Installs what is missing, prints tables, and writes `docs/benchmarks.md` with its plots when all is measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys

from benchmarks.beside.report import markdown, page, plot_data
from benchmarks.beside.sections import SECTIONS, Bench
from benchmarks.beside.server_process import serving
from benchmarks.beside.systems import HERE, PACKAGES, ROOT, SYSTEMS, install, python, version


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


def main() -> None:
    """Install, measure, print, write."""
    parser = argparse.ArgumentParser(prog="benchmarks.beside", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; all without")
    parser.add_argument("--only", default="", help="names of systems, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--conversations", type=int, default=10)
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]}; there are {', '.join(SECTIONS)}")
    missing: dict[str, str] = {}
    for environment in PACKAGES:
        print(f"installing {environment}", file=sys.stderr, flush=True)
        reason = install(environment)
        if reason is not None:
            missing[environment] = reason
            print(f"{environment} cannot be installed and is left out: {reason}", file=sys.stderr)
    if "server" in missing:
        sys.exit(3)
    wanted = set(options.only.split(",")) if options.only else None
    systems = [
        system
        for system in SYSTEMS
        if system.environment not in missing and (wanted is None or system.name in wanted)
    ]
    results = {}
    with serving() as server:
        bench = Bench(server, systems, options.runs, options.conversations)
        for name in options.sections or SECTIONS:
            table = SECTIONS[name]
            results[name] = table.measure(bench)
            print(f"\n## {table.title}\n\n{markdown(table, results[name])}", flush=True)
    if not options.sections and wanted is None:
        machine = [_processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
        versions = {system.name: version(system) for system in systems}
        (ROOT / "docs" / "benchmarks.md").write_text(page(results, versions, machine), encoding="utf-8")
        command = [python("server"), str(HERE / "plots.py"), str(ROOT / "docs" / "benchmarks")]
        subprocess.run(command, input=plot_data(results), text=True, check=True)
        print("\nwritten to docs/benchmarks.md")


if __name__ == "__main__":
    main()
