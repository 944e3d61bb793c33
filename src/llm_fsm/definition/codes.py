"""The findings that are made while a document is read, with name, code and level.

All others belong to rules, which know their own codes (`llm_fsm.lint`). Families: E reading and
JSON, S form, F graph, C decision, K data flow. Also W words, T work, P properties, M older forms, R
running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from llm_fsm.errors import Finding, Level


class Code(NamedTuple):
    """One kind of finding. `at_key`: it points to the key at its pointer, not to the value."""

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
    "bad-translations": Code("E011", "error"),
    "fuzzy-translation": Code("W418", "warning"),
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
    """Return a finding of the catalogue, without a place in a file."""
    entry = CODES[name]
    return Finding(
        code=entry.code, name=name, level=entry.level, message=message, hint=hint, pointer=pointer
    )
