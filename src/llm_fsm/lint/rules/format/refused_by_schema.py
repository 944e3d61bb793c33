"""Schemas that accept no value, or that refuse their own values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from llm_fsm._json import JsonMap, json_text, list_at
from llm_fsm.conditions.coercion import is_number
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.schema_parts import SchemaPart, refusal, schema_parts
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule
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
"""(lower, upper, true if the two must differ)."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_ENDS_EARLY = re.compile(r"\$\w(?![*?{])|\w\^")
_LETTER = re.compile(r"[dDwWsSbB](?!\w)")


@lint_rule("S120", "error", blocks=False)
def impossible_schema(document: Document) -> Faults:
    """A schema accepts no value at all: its bounds cross, its list of values is empty, or its keywords contradict.

    Why it is bad:
    No value is ever stored under the key, so nothing that needs it ever happens.

    Example:
        "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "minLength": 6, "maxLength": 4}}},
        "states": {"hello": {"purpose": "Ask for the PIN", "required_context_keys": ["pin"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the bound, or write the values that you mean.
    """
    # Of nested schemas the outermost is reported.
    outer = "\0"
    for part in schema_parts(document):
        if part.pointer.startswith(outer + "/"):
            continue
        found = _crossed(part) or _empty(part) or _unmatched(part)
        if found is not None:
            outer = part.pointer
            yield found


def _crossed(part: SchemaPart) -> Fault | None:
    for low, high, apart in _BOUNDS:
        least = part.schema.get(low)
        most = part.schema.get(high)
        if is_number(least) and is_number(most) and (least > most or (apart and least == most)):
            return Fault(
                f'{part.name} can have no value: "{low}" {least:g} and "{high}" {most:g} exclude'
                " each other",
                pointer=f"{part.pointer}/{low}",
                hint="are the two the wrong way round?" if least > most else None,
            )
    return None


def _empty(part: SchemaPart) -> Fault | None:
    if part.schema.get("enum") == []:
        message = f'{part.name} can have no value: its "enum" is empty'
        return Fault(message, pointer=part.pointer + "/enum", hint="list the values")
    if not domain(part.schema, part.definitions).empty:
        return None
    pointer = part.pointer
    for key in ("enum", "const"):
        if key in part.schema:
            pointer = f"{part.pointer}/{key}"
            break
    message = f"{part.name} can have no value: {_told(part.schema)}"
    return Fault(message, pointer=pointer)


def _unmatched(part: SchemaPart) -> Fault | None:
    """Find a pattern with text after the end or before the beginning, or with a backslash instead
    of a class.
    """
    pattern = part.schema.get("pattern")
    if not isinstance(pattern, str) or "(?" in pattern:
        return None
    place = part.pointer + "/pattern"
    plain = _CLASS.sub("x", _ESCAPED.sub("x", pattern))
    if "|" not in plain and _ENDS_EARLY.search(plain):
        return Fault(
            f'{part.name} can have no value: its "pattern" wants something after "$", or before'
            ' "^"',
            pointer=place,
            hint="a pattern reads ^…$",
        )
    if any(
        found[0] == "\\\\" and _LETTER.match(pattern, found.end())
        for found in _ESCAPED.finditer(pattern)
    ):
        return Fault(
            f'the "pattern" of {part.name} wants a backslash: it is escaped twice',
            pointer=place,
            hint=f"in JSON write {json.dumps(pattern.replace(chr(92) * 2, chr(92)))}",
            level="warning",
        )
    return None


def _told(schema: JsonMap) -> str:
    words = [
        key for key in ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf") if key in schema
    ]
    if "enum" not in words and "const" not in words:
        bounds = {}
        for low, high, _ in _BOUNDS:
            bounds.update(dict.fromkeys(key for key in (low, high) if key in schema))
        words += bounds
    if not words:
        return "its words exclude each other"
    return f"its {' and '.join(map(quoted, words))} exclude each other"


_MOST = 50
"""The most values of a long list that are checked."""


@lint_rule("S121", "warning")
def refused_by_schema(document: Document) -> Faults:
    """A `default`, an example or a listed value is refused by its own schema, or is listed twice.

    Why it is bad:
    The value can never be stored, although the file offers it. Mostly the type or a bound is wrong.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1, "default": 0}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the value, or the keyword that refuses it.
    """
    for part in schema_parts(document):
        yield from _twice(part, list_at(part.schema, "enum"))
        if domain(part.schema, part.definitions).empty:
            continue
        for key, value in _offered(part):
            why = refusal(part, value)
            if why is not None:
                yield Fault(
                    f"{_named(key)} {_shown(value)} of {part.name} is refused by its own schema:"
                    f" {why}"[:300],
                    pointer=f"{part.pointer}/{key}",
                )


def _offered(part: SchemaPart) -> Iterator[tuple[str, Any]]:
    """Yield (place in the schema, value). A default of null means that there is none."""
    if part.schema.get("default") is not None:
        yield "default", part.schema["default"]
    for key in ("enum", "examples"):
        for index, value in enumerate(list_at(part.schema, key)[:_MOST]):
            if value is not None:
                yield f"{key}/{index}", value


def _named(place: str) -> str:
    names = {"default": "the default", "enum": "the listed value", "examples": "the example"}
    return names[place.partition("/")[0]]


def _twice(part: SchemaPart, listed: list[Any]) -> Faults:
    seen = set()
    plain: dict[str, str] = {}
    for index, value in enumerate(listed):
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            yield Fault(
                f"{part.name} lists {_shown(value)} a second time",
                pointer=f"{part.pointer}/enum/{index}",
                hint="was another value meant?",
            )
        near = _plain(value)
        if text not in seen and near is not None and near in plain:
            yield Fault(
                f"{part.name} lists {_shown(value)} beside {_shown(plain[near])}: they differ by"
                " case or blanks alone",
                pointer=f"{part.pointer}/enum/{index}",
                hint="keep one of them",
            )
        elif isinstance(value, str) and value != value.strip() and near:
            message = f"{part.name} lists {_shown(value)}, which begins or ends with a blank"
            yield Fault(
                message,
                pointer=f"{part.pointer}/enum/{index}",
                hint=f"write {_shown(value.strip())}",
            )
        seen.add(text)
        if near is not None:
            plain.setdefault(near, value)


def _plain(value: Any) -> str | None:
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    return None


def _shown(value: Any) -> str:
    text = json_text(value)
    if len(text) <= 60:
        return text
    return text[:60] + "…"
