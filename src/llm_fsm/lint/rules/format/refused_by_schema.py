"""A `default`, an example or a listed value is refused by the very schema it stands in, or is listed twice.

Why it is bad:
The value can never be stored, although the file offers it. Mostly the type or a bound is wrong.

Example:
    "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1, "default": 0}}},
    "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the value, or what refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schema_parts import Part, refusal, schema_parts
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.value_sets import domain

_MOST = 50
"""Of a long list of values the first so many are looked at."""


def check(subject: Subject) -> Iterator[Finding]:
    """Hold offered values against their own schema."""
    for part in schema_parts(subject):
        listed = part.schema.get("enum")
        if isinstance(listed, list):
            yield from _twice(part, listed)
        if domain(part.schema, part.definitions).empty:
            continue
        for key, value in _offered(part):
            why = refusal(part, value)
            if why is not None:
                yield RULE.finding(
                    f"{_named(key)} {_shown(value)} of {part.name} is refused by its own schema: {why}"[:300],
                    pointer=f"{part.pointer}/{key}",
                )


def _offered(part: Part) -> Iterator[tuple[str, Any]]:
    """(place in the schema, value); null as a default says that there is none."""
    if part.schema.get("default") is not None:
        yield "default", part.schema["default"]
    for key in ("enum", "examples"):
        values = part.schema.get(key)
        for index, value in enumerate(values[:_MOST] if isinstance(values, list) else ()):
            if value is not None:
                yield f"{key}/{index}", value


def _named(place: str) -> str:
    names = {"default": "the default", "enum": "the listed value", "examples": "the example"}
    return names[place.partition("/")[0]]


def _twice(part: Part, listed: list[Any]) -> Iterator[Finding]:
    seen: set[str] = set()
    plain: dict[str, str] = {}
    for index, value in enumerate(listed):
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            yield RULE.finding(
                f"{part.name} lists {_shown(value)} a second time",
                pointer=f"{part.pointer}/enum/{index}",
                hint="was another value meant?",
            )
        near = _plain(value)
        if text not in seen and near is not None and near in plain:
            yield RULE.finding(
                f"{part.name} lists {_shown(value)} beside {_shown(plain[near])}: they differ by case or blanks alone",
                pointer=f"{part.pointer}/enum/{index}",
                hint="keep one of them",
            )
        elif isinstance(value, str) and value != value.strip() and near:
            message = f"{part.name} lists {_shown(value)}, which begins or ends with a blank"
            yield RULE.finding(
                message, pointer=f"{part.pointer}/enum/{index}", hint=f"write {_shown(value.strip())}"
            )
        seen.add(text)
        if near is not None:
            plain.setdefault(near, value)


def _plain(value: Any) -> str | None:
    return " ".join(value.casefold().split()) if isinstance(value, str) else None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


RULE = Rule(name="refused-by-schema", code="S121", level="warning", check=check)
