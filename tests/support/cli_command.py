"""Ways to run the command line: in this process for tables, as a process of its own for what only
that shows.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import warm_parent
from llm_fsm.cli import main

GREETER: dict[str, Any] = {
    "name": "greeter",
    "initial_state": "hello",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "pin": {"type": "string", "x-secret": True},
        },
    },
    "states": {
        "hello": {
            "purpose": "Greet the user and learn their name",
            "required_context_keys": ["name"],
            "transitions": [
                {
                    "target_state": "bye",
                    "description": "The name is known",
                    "conditions": [
                        {"description": "Name known", "requires_context_keys": ["name"]}
                    ],
                },
                {
                    "target_state": "bar",
                    "description": "Wants a drink",
                    "priority": 50,
                    "conditions": [
                        {"description": "is of age", "logic": {">=": [{"var": "age"}, 18]}}
                    ],
                },
            ],
        },
        "bar": {"purpose": "Serve", "transitions": [{"target_state": "bye"}]},
        "bye": {"purpose": "Say goodbye by name"},
    },
}
HELLO = {"message": "Hello!"}
ASKS = {"transition": {"target_state": "hello", "context_update": {}}, "message": "Your name?"}
BYE = {
    "transition": {"target_state": "bye", "context_update": {"name": "Ada"}},
    "message": "Bye Ada.",
}
TO_BAR = {
    "transition": {"target_state": "bar", "context_update": {"age": 12, "pin": "4711"}},
    "message": "Cheers!",
}


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder with definitions and replies, and the command line in it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def write(self, name: str, content: object) -> str:
        """A file: text and bytes as they stand, everything else as JSON."""
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(
                content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
            )
        return name

    def replies(self, *replies: object) -> tuple[str, str]:
        """Options for a scripted model with these replies."""
        self.write("replies.json", list(replies))
        return "--model", "scripted:replies.json"

    def run(self, *arguments: str, stdin: bytes = b"") -> Done:
        """The command in this process."""
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self.capsys.readouterr()
        with warnings.catch_warnings():
            # its pytest reports warnings, which the one around it would make errors
            if arguments[:1] == ("test",):
                warnings.simplefilter("default")
            code = main(arguments)
        found = self.capsys.readouterr()
        return Done(code, found.out, found.err)

    def process(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """The command as a process of its own, forked from the warm parent."""
        return warm_parent.run(
            command(*arguments),
            input=stdin,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=self.folder,
            timeout=60,
            check=False,
            **options,
        )


def command(*arguments: str) -> Sequence[str]:
    """The command line as a process."""
    return [sys.executable, "-m", "llm_fsm", *arguments]


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    """A fresh folder to work in, with `greeter.json` in it, and a data folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_FSM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERM", "xterm-256color")  # which --plain changes
    made = Desk(tmp_path, capsys, monkeypatch)
    made.write("greeter.json", GREETER)
    return made
