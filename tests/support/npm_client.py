"""Clients from the npm registry, for tests: installed once into the user's cache, each run in a
node process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from paths import SUPPORT


def folder(*packages: str) -> Path:
    """The folder with the packages. Several processes may ask at once: the one that is first ready
    counts.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip(
            "this test runs an npm package, and node and npm are not installed: apt-get install nodejs npm"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llm-fsm-tests"
    target = cache / "-".join(
        name.replace("@", "-").replace("/", "-").strip("-") for name in packages
    )
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as fresh:
        place = Path(fresh, "tree")
        place.mkdir()
        (place / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=100)
        try:
            place.rename(target)
        except OSError:
            assert target.exists()
    return target


def run(script: str, packages: Sequence[str], *arguments: str, given: str = "") -> str:
    """What a script of `tests/support` prints, with these packages at hand."""
    place = folder(*packages)
    shutil.copy(SUPPORT / script, place / script)
    done = subprocess.run(
        ("node", script, *arguments),
        cwd=place,
        input=given,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
