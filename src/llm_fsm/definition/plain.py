"""Copy a document as plain JSON values, or find the value that prevents that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_fsm._json import step
from llm_fsm.definition.codes import finding
from llm_fsm.definition.json_source import MAX_DEPTH
from llm_fsm.errors import Finding

_MAX_INT = 2**63


class NotPlainError(Exception):
    """A value that no definition may have, with the finding about it."""

    def __init__(self, found: Finding) -> None:
        self.finding = found
        super().__init__(found.message)


def plain(document: object) -> Any:
    """Return the document as plain JSON values. Raises NotPlainError."""
    return _Plain([]).of(document)


class _Plain(NamedTuple):
    """A copy in progress; `path` is the current place."""

    path: list[str | int]

    def of(self, value: object) -> Any:
        match value:
            case None | bool():
                return value
            case str():
                return self.text(value)
            case int() | float():
                return self.number(value)
            case _ if len(self.path) > MAX_DEPTH:
                words = f"lists and objects are nested deeper than {MAX_DEPTH} levels"
                raise self.fault("too-deep", words)
            case Mapping():
                return {self.key(name): self.at(name, item) for name, item in value.items()}
            case list() | tuple():
                return [self.at(index, item) for index, item in enumerate(value)]
        raise self.fault("not-json", f"a value of type {type(value).__name__} has no place in JSON")

    def at(self, name: str | int, item: object) -> Any:
        self.path.append(name)
        plain = self.of(item)
        self.path.pop()
        return plain

    def key(self, name: object) -> str:
        if isinstance(name, str):
            return self.text(name)
        raise self.fault("not-json", f"the keys of an object are text, not {type(name).__name__}")

    def text(self, value: str) -> str:
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise self.fault(
                "bad-text", "a text holds half of a surrogate pair, which is not a character"
            )
        return str(value)

    def number(self, value: float) -> int | float:
        if isinstance(value, int):
            if abs(value) > _MAX_INT:
                raise self.fault("bad-number", "a whole number does not fit in 64 bits")
        elif not math.isfinite(value):
            raise self.fault("bad-number", "a number is not finite, or too large")
        return value

    def fault(self, name: str, message: str) -> NotPlainError:
        return NotPlainError(
            finding(name, message, pointer="".join(step(part) for part in self.path))
        )
