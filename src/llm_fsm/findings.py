"""What a check has to say about a definition: one frozen value per problem.

A finding answers three questions: what is wrong, where it stands, and what would be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Level = Literal["error", "warning", "info"]

NO_FILE = "<definition>"
"""Stands for the file name of a definition that was given as a value."""


class Place(NamedTuple):
    """Where something stands: its JSON pointer, and its line and column if it was read from a text."""

    pointer: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem of a definition.

    `code` is short and stable (`F101`), `name` is readable (`unknown-target`). `message` says what is
    wrong, `hint` what would be right. `line` and `column` count from 1, columns in characters.
    `pointer` is the JSON pointer (RFC 6901) of the value that is meant; `path` names states, if the
    finding is about a way through the machine; `where` are the places of these states, which the JSON form leaves out.
    It has no slots, for the sake of `llm_fsm._copies`: a hopeless file has thousands of findings.
    """

    code: str
    name: str
    level: Level
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str = ""
    path: tuple[str, ...] = ()
    where: tuple[Place, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as `llm-fsm validate --format json` prints it."""
        return {
            "code": self.code,
            "name": self.name,
            "level": self.level,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "pointer": self.pointer,
            "path": list(self.path),
        }

    def __str__(self) -> str:
        """`file:line:column: level: message; hint (name code)`, without the parts that are not known."""
        place = NO_FILE if self.file is None else self.file
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        text = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{place}: {self.level}: {text} ({self.name} {self.code})"
