"""The choice of a definition: by file, by the name of a shipped one, or from a list."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llm_fsm._text import nearest
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.files import read
from llm_fsm.documents.loader import load
from llm_fsm.errors import DefinitionError, Finding, Level

_TOLD: Sequence[Level] = ("error", "warning")
_DESCRIPTION_CHARS = 70
_LEAST_CHARS = 16
"""As much of a description is shown in any terminal, however narrow."""


def located(given: str) -> Path:
    """The file that FILE stands for: a path, or the bare name of a shipped definition. Raises
    Failure.
    """
    if os.path.lexists(given):
        return Path(given)
    shipped = definition_paths()
    if given in shipped:
        return shipped[given]
    stem = Path(given).stem
    hint = ""
    if stem in shipped:
        hint = f"; a shipped definition is named without its ending: {stem}"
    elif (near := nearest(stem, shipped)) is not None:
        hint = f"; did you mean the shipped definition {near}?"
    raise Failure(f"{given}: there is no such file{hint}")


def called(path: Path, shipped: Mapping[str, Path]) -> str:
    """Return the argument FILE for this file: the name of a shipped definition, or the path."""
    return next((name for name, place in shipped.items() if place == path), os.fspath(path))


def opened(path: Path) -> Definition:
    """The definition of a file; how much the checker finds is said on standard error. Raises
    DefinitionError.
    """
    definition = load(path)
    levels = Counter(finding.level for finding in check(path))
    counts = [escape.plural(levels[level], level) for level in _TOLD if levels[level]]
    if counts:
        console.note(f"{path}: {', '.join(counts)}; `llm-fsm validate` shows each")
    return definition


def placed(error: DefinitionError, path: Path) -> DefinitionError:
    """The same findings with file, line and column, for what was found wrong in a definition
    without its text.
    """
    scan = source.scan(read(path))

    def place(finding: Finding) -> Finding:
        position = scan.position(finding.pointer)
        return replace(finding, file=os.fspath(path), line=position.line, column=position.column)

    return DefinitionError(
        [finding if finding.file else place(finding) for finding in error.findings]
    )


def named(name: str, shipped: Mapping[str, Path]) -> Path | None:
    """The shipped definition whose `name` is this."""
    return next((path for path in shipped.values() if _head(path)[0] == name), None)


def chosen(shipped: Mapping[str, Path], model: str) -> Path | None:
    """Ask on the terminal for one of the shipped definitions that talk; None when the input ends
    instead.
    """
    talking = {name: path for name, path in shipped.items() if _talks(path)}
    names = list(talking)
    console.text(menu(talking, shutil.get_terminal_size().columns), sys.stderr)
    answering = "no model is configured: `offline` answers; --model names another"
    console.note(answering if model == "offline" else f"the model is {model}")
    while True:
        try:
            picked = picked_from(names, console.ask("Number or name", names).strip())
        except EOFError:
            return None
        if picked is not None:
            return talking[picked]
        console.err(
            f"Please type a number from 1 to {len(names)}, or one of the names; Ctrl-D leaves."
        )


def menu(shipped: Mapping[str, Path], columns: int) -> str:
    """The list of shipped definitions, one a line of so many columns."""
    width = max(map(len, shipped))
    chars = min(_DESCRIPTION_CHARS, max(_LEAST_CHARS, columns - width - len("  1    ")))
    lines = [
        f"{number:3}  {name:{width}}  {escape.shortened(_head(path)[1], chars)}".rstrip()
        for number, (name, path) in enumerate(shipped.items(), start=1)
    ]
    return "\n".join(["Which definition?", *lines])


def picked_from(names: Sequence[str], typed: str) -> str | None:
    """The name meant by a number from 1, a name, or the unmistakable beginning of one."""
    if typed.isascii() and typed.isdecimal() and len(typed) < 6:
        return names[int(typed) - 1] if 1 <= int(typed) <= len(names) else None
    if typed in names:
        return typed
    begun = [name for name in names if typed and name.startswith(typed.lower())]
    return begun[0] if len(begun) == 1 else None


def _talks(path: Path) -> bool:
    """True where some state of a shipped file talks to a user."""
    states = json.loads(path.read_text(encoding="utf-8"))["states"].values()
    return any(
        state.get("kind", "converse") == "converse" and state.get("transitions") for state in states
    )


def _head(path: Path) -> tuple[str, str]:
    """Name and description as they stand in a shipped file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    description = document.get("description", "")
    text = " ".join(description) if isinstance(description, list) else str(description)
    return str(document.get("name", "")), " ".join(text.split())
