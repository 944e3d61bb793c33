"""How many packages and bytes an installation brings: the base, checking alone, and each extra.

`python -m benchmarks.installed` prints the table of docs/dependencies.md. The base and the checker
have a fresh environment each. An extra is installed into a copy of the base, so that its row has
only what it adds. `python -m benchmarks.installed --largest 15` prints the largest packages of the
base instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = {"pip", "setuptools", "wheel"}
"""What an environment has before anything is installed."""

LIST = """
import json
from importlib.metadata import distributions

def size(found):
    files = [found.locate_file(file) for file in found.files or ()]
    return sum(file.stat().st_size for file in files if file.is_file())

print(json.dumps({found.metadata["Name"].lower(): size(found) for found in distributions()}))
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The packages of an environment with their bytes, and the seconds that pip took."""

    sizes: dict[str, int]
    seconds: float

    @property
    def megabytes(self) -> float:
        """The sum of all packages, in units of 1,000,000 bytes."""
        return sum(self.sizes.values()) / 1e6


def fresh(place: Path) -> Path:
    """Make an environment without packages."""
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", place), check=True)
    return place


def copied(base: Path, place: Path) -> Path:
    """Copy an environment by hard links."""
    shutil.copytree(base, place, symlinks=True, copy_function=os.link)
    return place


def install(place: Path, *arguments: str) -> Installation:
    """Install into an environment and read what is there then."""
    python = str(place / "bin" / "python")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--disable-pip-version-check",
    )
    began = time.perf_counter()
    subprocess.run((*pip, *arguments), check=True, cwd=ROOT)
    took = time.perf_counter() - began
    listed = subprocess.run(
        (python, "-c", LIST), check=True, capture_output=True, text=True, cwd=place
    )
    sizes = {name: size for name, size in json.loads(listed.stdout).items() if name not in TOOLS}
    return Installation(sizes, took)


def row(name: str, found: Installation) -> str:
    """Write one row of the table."""
    return f"| {name} | {len(found.sizes)} | {found.megabytes:.0f} | {found.seconds:.0f} |"


def added(base: Installation, found: Installation) -> Installation:
    """Return what `found` has beyond `base`."""
    sizes = {name: size for name, size in found.sizes.items() if name not in base.sizes}
    return Installation(sizes, found.seconds)


def extras(project: dict[str, object]) -> list[str]:
    """Return the names of the extras that bring packages, in order."""
    given = project["optional-dependencies"]
    assert isinstance(given, dict)
    return sorted(name for name, packages in given.items() if packages)


def measure(folder: Path, largest: int) -> None:
    """Install everything and print the table, or the largest packages of the base."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    base_place = fresh(folder / "base")
    base = install(base_place, ".")
    if largest:
        ordered = sorted(base.sizes.items(), key=lambda pair: -pair[1])
        for name, size in ordered[:largest]:
            print(f"{size / 1e6:8.1f} MB  {name}")
        return
    checker = install(
        fresh(folder / "lint"), "--no-deps", ".", *settings["dependency-groups"]["lint"]
    )
    print("| installed | packages | MB | seconds |\n|---|---|---|---|")
    print(row("checking alone", checker))
    print(row("the base", base), flush=True)
    for name in extras(settings["project"]):
        found = install(copied(base_place, folder / name), f".[{name}]")
        print(row(f"`{name}` adds", added(base, found)), flush=True)


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--largest", type=int, default=0, help="print this many packages of the base"
    )
    largest = parser.parse_args().largest
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), largest)


if __name__ == "__main__":
    main()
