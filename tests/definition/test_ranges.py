"""Each number of the format has a range, and a number out of it is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from llm_fsm import check
from llm_fsm.definition.published import published_schema

BASE: dict[str, Any] = {
    "name": "d",
    "initial_state": "a",
    "states": {
        "a": {
            "purpose": "P",
            "model": {"temperature": 1, "max_tokens": 9},
            "timeout": 60,
            "on_timeout": "b",
            "remind": [5],
            "transitions": [{"target_state": "w", "description": "go", "priority": 1}],
        },
        "w": {
            "kind": "task",
            "purpose": "W",
            "tools": ["t"],
            "max_retries": 1,
            "transitions": [{"target_state": "b"}],
        },
        "b": {"kind": "final", "purpose": "B"},
    },
    "tools": {"t": {"registered": "t", "timeout": 5}},
    "history": {"max_exchanges": 5, "max_message_chars": 10, "max_tokens": 10},
    "limits": {
        "auto_steps": 1,
        "llm_calls": 1,
        "tool_calls": 1,
        "seconds": 1,
        "tokens": 1,
        "money": 1,
    },
}
# Key, the least and the greatest number; None: any number above 0.
RANGES = {
    "history/max_exchanges": (0, 10_000),
    "history/max_message_chars": (1, 1_000_000),
    "history/max_tokens": (1, 10_000_000),
    "limits/auto_steps": (1, 1_000_000),
    "limits/llm_calls": (0, 1_000_000),
    "limits/tool_calls": (0, 1_000_000),
    "limits/seconds": (None, 315_360_000),
    "limits/tokens": (1, 1_000_000_000_000),
    "limits/money": (None, 1_000_000_000),
    "states/a/model/temperature": (0, 2),
    "states/a/model/max_tokens": (1, 10_000_000),
    "states/a/timeout": (None, 315_360_000),
    "states/a/remind/0": (None, 315_360_000),
    "states/a/transitions/0/priority": (-1_000_000_000, 1_000_000_000),
    "states/w/max_retries": (0, 1_000_000),
    "tools/t/timeout": (None, 315_360_000),
}


def with_value(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    head, *rest = path
    if isinstance(document, list):
        return [
            with_value(item, rest, value) if str(place) == head else item
            for place, item in enumerate(document)
        ]
    return {**document, head: with_value(document[head], rest, value)}


def faults(key: str, value: Any) -> list[str]:
    found = check(with_value(BASE, key.split("/"), value))
    return [
        finding.message
        for finding in found
        if finding.name in ("bad-value", "bad-number", "wrong-type")
    ]


@pytest.mark.parametrize("key", RANGES)
def test_a_number_is_taken_up_to_its_bounds_and_not_beyond(key: str) -> None:
    least, most = RANGES[key]
    assert faults(key, most) == []
    assert faults(key, 0.001 if least is None else least) == []
    above = 2.5 if most == 2 else most + 1
    assert f"expected a number of at most {most:,}" in faults(key, above)[0]
    below = 0 if least is None else least - 1
    assert "expected a number" in faults(key, below)[0]
    for wrong in (1e308, 10**30, -(10**30), True, "1"):
        assert faults(key, wrong), wrong


def numbers(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every schema of a number in the published schema."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield schema
        for part in schema.values():
            yield from numbers(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from numbers(part)


def test_every_number_of_the_published_schema_has_both_bounds() -> None:
    schema = published_schema()
    # any JSON
    kinds = {name: part for name, part in schema["$defs"].items() if name != "JsonValue"}
    # JSON Schema's
    own = {name: part for name, part in schema["properties"].items() if name != "context_schema"}
    found = list(numbers({**schema, "properties": own, "$defs": kinds}))
    assert len(found) >= len(RANGES)
    for number in found:
        assert "maximum" in number, number
        assert {"minimum", "exclusiveMinimum"} & number.keys(), number
