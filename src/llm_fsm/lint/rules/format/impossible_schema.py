"""A schema accepts no value at all: its bounds cross, its list of values is empty, or its words contradict.

Why it is bad:
No value is ever stored under the key, so whatever needs it never happens.

Example:
    "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "minLength": 6, "maxLength": 4}}},
    "states": {"hello": {"purpose": "Ask for the PIN", "required_context_keys": ["pin"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the bound, or write the values that are meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from llm_fsm.conditions.coercion import is_number
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schema_parts import Part, schema_parts
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.value_sets import domain

_BOUNDS = (
    ("minimum", "maximum", False),
    ("exclusiveMinimum", "maximum", True),
    ("minimum", "exclusiveMaximum", True),
    ("exclusiveMinimum", "exclusiveMaximum", True),
    ("minLength", "maxLength", False),
    ("minItems", "maxItems", False),
    ("minProperties", "maxProperties", False),
)
"""(lower, upper, whether the two must differ)."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_ENDS_EARLY = re.compile(r"\$\w(?![*?{])|\w\^")
_LETTER = re.compile(r"[dDwWsSbB](?!\w)")


def check(subject: Subject) -> Iterator[Finding]:
    """Compare bounds, then ask which values are left; of nested schemas the outermost is reported."""
    outer = "\0"
    for part in schema_parts(subject):
        if part.pointer.startswith(outer + "/"):
            continue
        found = _crossed(part) or _empty(part) or _unmatched(part)
        if found is not None:
            outer = part.pointer
            yield found


def _crossed(part: Part) -> Finding | None:
    for low, high, apart in _BOUNDS:
        least, most = part.schema.get(low), part.schema.get(high)
        if is_number(least) and is_number(most) and (least > most or (apart and least == most)):
            return RULE.finding(
                f'{part.name} can have no value: "{low}" {least:g} and "{high}" {most:g} exclude each other',
                pointer=f"{part.pointer}/{low}",
                hint="are the two the wrong way round?" if least > most else None,
            )
    return None


def _empty(part: Part) -> Finding | None:
    if part.schema.get("enum") == []:
        message = f'{part.name} can have no value: its "enum" is empty'
        return RULE.finding(message, pointer=part.pointer + "/enum", hint="list the values")
    if not domain(part.schema, part.definitions).empty:
        return None
    key = "enum" if "enum" in part.schema else "const" if "const" in part.schema else None
    return RULE.finding(
        f"{part.name} can have no value: {_told(part.schema)}",
        pointer=part.pointer if key is None else f"{part.pointer}/{key}",
    )


def _unmatched(part: Part) -> Finding | None:
    """A pattern that wants something after the end or before the beginning, or a backslash where a class was meant."""
    pattern = part.schema.get("pattern")
    if not isinstance(pattern, str) or "(?" in pattern:
        return None
    place = part.pointer + "/pattern"
    plain = _CLASS.sub("x", _ESCAPED.sub("x", pattern))
    if "|" not in plain and _ENDS_EARLY.search(plain):
        return RULE.finding(
            f'{part.name} can have no value: its "pattern" wants something after "$", or before "^"',
            pointer=place,
            hint="a pattern reads ^…$",
        )
    if any(found[0] == "\\\\" and _LETTER.match(pattern, found.end()) for found in _ESCAPED.finditer(pattern)):
        return RULE.finding(
            f'the "pattern" of {part.name} wants a backslash: it is escaped twice',
            pointer=place,
            hint=f"in JSON write {json.dumps(pattern.replace(chr(92) * 2, chr(92)))}",
            level="warning",
        )
    return None


def _told(schema: Mapping[str, Any]) -> str:
    words = [key for key in ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf") if key in schema]
    if "enum" not in words and "const" not in words:
        words += dict.fromkeys(key for low, high, _ in _BOUNDS for key in (low, high) if key in schema)
    return (
        f"its {' and '.join(map(_quoted, words))} exclude each other"
        if words
        else "its words exclude each other"
    )


def _quoted(word: str) -> str:
    return f'"{word}"'


RULE = Rule(name="impossible-schema", code="S120", level="error", check=check, blocks=False)
