"""Faults of a file of conversation tests: one frozen value per fault, with its place in the
file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from llm_fsm._text import nearest, shortened
from llm_fsm.definition.json_source import Position, Scan, scan
from llm_fsm.errors import hinted

_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
_QUOTED = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """One fault, or with `level` a warning.

    `line` and `column` count from 1; `pointer` is the JSON pointer (RFC 6901) of the value.
    """

    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str = ""
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        """Return `file:line:column: level: message; hint`, without unknown parts."""
        place = self.file or "<tests>"
        if self.line is not None:
            place += f":{self.line}:{self.column}"
        return hinted(f"{place}: {self.level}: {self.message}", self.hint)


class SuiteError(Exception):
    """A file of tests cannot be used; `faults` says everything that is wrong, in file order."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


@dataclass(frozen=True, kw_only=True)
class CaseFileText:
    """The text of a file of tests."""

    file: str
    text: str

    @cached_property
    def places(self) -> Scan:
        """The value and its positions."""
        return scan(self.text)

    def position(self, pointer: str, *, at_key: bool = False) -> Position:
        """Return the position of a value, or of its key. For a missing value, it is that of its
        nearest ancestor.
        """
        return self.places.position(pointer, at_key=at_key)

    def fault(
        self,
        message: str,
        pointer: str = "",
        *,
        hint: str | None = None,
        at_key: bool = False,
        level: Literal["error", "warning"] = "error",
    ) -> FileFault:
        """Return a fault of this file, or a warning."""
        line, column = self.position(pointer, at_key=at_key)
        place = {"file": self.file, "pointer": pointer}
        return FileFault(message=message, hint=hint, line=line, column=column, level=level, **place)


def meant(word: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name."""
    names = list(known)
    near = nearest(word, names)
    if near is not None:
        return f'did you mean "{near}"?'
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"there are {shown}" if names else "there are none"


def in_order(faults: Iterable[FileFault]) -> list[FileFault]:
    """Return faults in file order, each once."""
    return sorted(dict.fromkeys(faults), key=lambda fault: (fault.line or 0, fault.column or 0))


def plural(number: int, one: str) -> str:
    """Return `1 case`, `2 cases`."""
    return f"{number} {one if number == 1 else one + 's'}"


def quoted(value: Any) -> str:
    """Return a value for a message, as short JSON."""
    return shortened(_JSON.encode(value), _QUOTED)
