"""Run the tests of the rooms that a change touches: `make quick`.

A room is a package below `llm_fsm` with its folder of tests. A change touches the rooms of its
files, and the rooms that import its modules. Rooms of whole processes are left to `make test`,
unless the change is in them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
SLOW = frozenset({"cli", "durable", "editor", "project", "server", "stores", "telemetry"})
"""Rooms whose tests start processes, servers and browsers."""


def changed_files(root: Path, base: str = "main") -> list[str]:
    """Return the files that differ from where the branch left its base, and the new ones."""
    forked = _git(root, "merge-base", "HEAD", base) or ["HEAD"]
    changed = _git(root, "diff", "--name-only", forked[0])
    return sorted({*changed, *_git(root, "ls-files", "--others", "--exclude-standard")})


def rooms_of(files: Iterable[str], graph: grimp.ImportGraph) -> tuple[set[str], set[str]]:
    """Return the rooms of the files, and further rooms that import their modules."""
    own: set[str] = set()
    users: set[str] = set()
    for file in files:
        where, *steps = Path(file).with_suffix("").parts
        if where == "tests" and len(steps) > 1:
            own.add(steps[0])
        if (where, steps[:1]) != ("src", ["llm_fsm"]) or not file.endswith(".py"):
            continue
        if len(steps) > 2:
            own.add(steps[1])
        module = ".".join(steps).removesuffix(".__init__")
        if module in graph.modules:
            users |= {_room(user) for user in graph.find_modules_that_directly_import(module)}
    return own, users - own - {""}


def _room(module: str) -> str:
    """Return the room of a module; "" for the modules at the top of the package."""
    _, *steps = module.split(".")
    return steps[0] if len(steps) > 1 else ""


def _git(root: Path, *arguments: str) -> list[str]:
    run = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return run.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Say what runs and what does not, and run it. Returns the exit code of pytest."""
    own, users = rooms_of(changed_files(ROOT), grimp.build_graph("llm_fsm", cache_dir=None))
    with_tests = {path.name for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    wanted = (own | (users - SLOW)) & with_tests
    left = users & SLOW
    rest = f"; not {', '.join(sorted(left))}, which import them: make test" if left else ""
    print(f"quick: {', '.join(sorted(wanted)) or 'nothing that changed'} and tests/*.py{rest}")
    top = sorted(str(path) for path in (ROOT / "tests").glob("test_*.py"))
    folders = [str(ROOT / "tests" / room) for room in sorted(wanted)]
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--maxprocesses", "4"]
    return subprocess.run([*command, *top, *folders, *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
