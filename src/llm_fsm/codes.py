"""The findings that are made while a document is read: name, code and level, and how one is made.

All others belong to rules, which know their own codes (`llm_fsm.lint`). Families: E reading and JSON, S form,
F graph, C decision, K data flow, W words, T work, P properties, M older forms, R running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from llm_fsm.findings import Finding, Level
from llm_fsm.source import escape


class Code(NamedTuple):
    """One kind of finding. `at_key`: it stands at the key of its pointer, not at the value."""

    code: str
    level: Level
    at_key: bool = False


CODES: Mapping[str, Code] = {
    "unreadable-file": Code("E001", "error"),
    "too-large": Code("E002", "error"),
    "empty-file": Code("E003", "error"),
    "not-utf8": Code("E004", "error"),
    "bad-json": Code("E005", "error"),
    "too-deep": Code("E006", "error"),
    "bad-number": Code("E007", "error"),
    "not-a-definition": Code("E008", "error"),
    "not-json": Code("E009", "error"),
    "bad-text": Code("E010", "error"),
    "unknown-key": Code("S101", "warning", at_key=True),
    "wrong-type": Code("S102", "error"),
    "missing-key": Code("S103", "error"),
    "bad-value": Code("S104", "error"),
    "duplicate-key": Code("S105", "error", at_key=True),
    "bad-state-id": Code("S107", "error", at_key=True),
    "unknown-rule": Code("S117", "warning"),
    "ignore-without-reason": Code("S118", "info"),
    "unused-ignore": Code("S119", "info"),
    "older-form": Code("M701", "info"),
    "not-mapped": Code("M702", "warning", at_key=True),
    "no-effect": Code("M703", "info", at_key=True),
    "flow-nesting": Code("R902", "error"),
}


def finding(name: str, message: str, *, pointer: str = "", hint: str | None = None) -> Finding:
    """A finding of the catalogue, not yet placed in a file."""
    entry = CODES[name]
    return Finding(code=entry.code, name=name, level=entry.level, message=message, hint=hint, pointer=pointer)


def step(key: str | int) -> str:
    """One step of a JSON pointer (RFC 6901), its slash included."""
    return "/" + escape(str(key))


def steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer, unescaped."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def places_of(pointer: str) -> Iterator[str]:
    """A JSON pointer and those of all that it stands in, the whole document's last."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a message, the first `limit` of them."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return f"{shown}, … ({len(every)} in all)" if len(every) > limit else shown


def value_at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer in a document; None where nothing does."""
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
