"""The files that a new definition starts with: those of `starter/`, or a shipped definition with
tests made for it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from llm_fsm._text import nearest
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load

STARTER = Path(__file__).with_name("starter")


def files(name: str, template: str | None = None) -> dict[str, str]:
    """Return the text of each path below the new folder.

    Args:
        name: The name of the definition.
        template: The name of a shipped definition to start from.

    Raises:
        Failure: There is no such definition, or it calls one that has the same name.
    """
    workflow = _read(STARTER / "workflow.yml").replace("@NAME@", name)
    made = _starter(name) if template is None else _shipped(name, template)
    return {**made, ".github/workflows/llm-fsm.yml": workflow}


def _starter(name: str) -> dict[str, str]:
    return {
        f"{name}.json": _read(STARTER / "starter.json").replace(
            '"name": "starter"', f'"name": "{name}"', 1
        ),
        f"{name}.test.json": _read(STARTER / "starter.test.json").replace(
            "starter.json", f"{name}.json", 1
        ),
    }


def _shipped(name: str, template: str) -> dict[str, str]:
    shipped = definition_paths()
    if template not in shipped:
        near = nearest(template, shipped)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(shipped)}"
        raise Failure(f"there is no shipped definition {template[:50]!r}; {hint}")
    definition = load(shipped[template])
    called = {path.name: _read(path) for path in _called(definition, shipped[template])}
    if f"{name}.json" in called:
        raise Failure(f"{template} calls the definition {name}.json: choose another name")
    from llm_fsm.testing.generate import generator

    made = generator.generated(definition, name=f"{name}.json", place=str(shipped[template]))
    return {
        f"{name}.json": _read(shipped[template]).replace(
            f'"name": "{definition.name}"', f'"name": "{name}"', 1
        ),
        f"{name}.test.json": json.dumps(made.document, ensure_ascii=False, indent=1) + "\n",
        **called,
    }


def _called(definition: Definition, path: Path) -> Iterator[Path]:
    """Yield the files of the definitions that a shipped one calls; none of them calls another."""
    for state in definition.states.values():
        if state.flow is not None:
            yield path.parent / state.flow


def hints(name: str, folder: Path, template: str | None = None) -> str:
    """Return the text that says what to do next, for the terminal."""
    definition = load(
        STARTER / "starter.json" if template is None else definition_paths()[template]
    )
    from llm_fsm.cli import host_code as host
    from llm_fsm.engine.host_files import HostTools

    place = definition_paths().get(template or "", STARTER)
    needs = host.lacking(definition, place, HostTools(), {})
    talks = any(definition.kind_of(state) == "converse" for state in definition.states)
    start = f"llm-fsm {'chat' if talks else 'run'} {name}.json{' --tools FILE.py' if needs else ''} --model offline"
    steps = [
        (f"cd {shlex.quote(str(folder))}", ""),
        (
            start,
            "talk to it without a model, or name one"
            if talks
            else "run it without a model, or name one",
        ),
        (f"llm-fsm show {name}.json", "draw it"),
        (f"llm-fsm validate {name}.json", "check it after each change"),
        ("llm-fsm test . -v", "run its test conversations"),
    ]
    width = max(len(command) for command, _ in steps)
    return "\n".join(
        [
            "",
            "What to do next:",
            *(f"  {command:{width}}  {what}".rstrip() for command, what in steps),
            *([f"Note that {needs}.", "The CI file takes them from tools.py."] if needs else []),
            "The CI file works where this folder is the root of a repository;",
            "else move .github there and set paths.",
        ]
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
