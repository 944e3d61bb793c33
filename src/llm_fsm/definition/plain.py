"""A copy of a document as plain JSON values, or what keeps it from being one."""

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
    """A value that no definition may hold, with the finding about it."""

    def __init__(self, found: Finding) -> None:
        self.finding = found
        super().__init__(found.message)


def plain(document: object) -> Any:
    """Return the document as plain JSON values. Raises NotPlainError."""
    try:
        return _copied(document, 0)
    except (_OddError, UnicodeEncodeError):
        return _Plain([]).of(document)


class _OddError(Exception):
    """There is something that is not simply copied."""


def _copied(value: Any, depth: int) -> Any:
    """Return a copy of what consists of nothing but the commonest values, of which no place has to be told."""
    kind = value.__class__
    if kind is dict and depth <= MAX_DEPTH:
        if not all(name.__class__ is str and name.isascii() for name in value):
            raise _OddError
        return {
            name: item if item.__class__ is str and item.isascii() else _copied(item, depth + 1)
            for name, item in value.items()
        }
    if kind is list and depth <= MAX_DEPTH:
        return [item if item.__class__ is str and item.isascii() else _copied(item, depth + 1) for item in value]
    if value is None or kind is bool or (kind is int and -_MAX_INT <= value <= _MAX_INT):
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is str:
        value.encode()  # half of a surrogate pair cannot be
        return value
    raise _OddError


class _Plain(NamedTuple):
    """The copying; `path` is where it is."""

    path: list[str | int]

    def of(self, value: object) -> Any:
        if value.__class__ is str:
            return self.text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float):
            return self.number(value)
        if len(self.path) > MAX_DEPTH:
            raise self.fault("too-deep", f"lists and objects are nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return {
                self.key(name): item if item.__class__ is str and item.isascii() else self.at(name, item)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                item if item.__class__ is str and item.isascii() else self.at(index, item)
                for index, item in enumerate(value)
            ]
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
            raise self.fault("bad-text", "a text holds half of a surrogate pair, which is not a character")
        return str(value)

    def number(self, value: float) -> int | float:
        if isinstance(value, int):
            if abs(value) > _MAX_INT:
                raise self.fault("bad-number", "a whole number does not fit in 64 bits")
        elif not math.isfinite(value):
            raise self.fault("bad-number", "a number is not finite, or too large")
        return value

    def fault(self, name: str, message: str) -> NotPlainError:
        return NotPlainError(finding(name, message, pointer="".join(step(part) for part in self.path)))
