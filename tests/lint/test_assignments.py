"""What the checker knows of keys that a definition sets and clears itself."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

KEYS = {
    "tier": {"enum": ["gold", "basic"]},
    "n": {"type": "integer", "x-source": "host"},
    "done": {"type": "boolean", "x-source": "answer"},
    "pin": {"type": "string", "x-secret": True},
    "open": {"type": "string"},
}
COUNT = {"n": {"+": [{"var": ["n", 0]}, 1]}}


def one(
    move: Written | None = None, state: Written | None = None, *, schema: Any = KEYS
) -> Written:
    ask = {"purpose": "Ask", "transitions": [to("b", **(move or {}))], **(state or {})}
    return machine({"a": ask}, schema)


def names(document: Written) -> list[str]:
    return [found.name for found in check(document) if found.level != "info"]


def test_what_is_set_counts_as_set() -> None:
    states = {
        "a": {"purpose": "Ask", "transitions": [to("b", set={"done": True})]},
        "b": {
            "purpose": "Go on",
            "set": COUNT,
            "reply": "{{ n }}",
            "transitions": [to("c", when(None, "done"))],
        },
        "c": {"purpose": "Say it", "reply": "{{ n }} {{ done }}"},
    }
    assert names(machine(states, {key: KEYS[key] for key in ("n", "done")})) == []


def test_a_loop_that_counts_is_no_endless_one() -> None:
    states = {
        "a": {"purpose": "Ask", "transitions": [to("b")]},
        "b": {
            "kind": "decide",
            "transitions": [
                to("c", when({">=": [{"var": "n"}, 3]})),
                to("again", priority=200, set=COUNT),
            ],
        },
        "again": {"kind": "decide", "transitions": [to("b")]},
    }
    assert names(machine(states, {"n": {"type": "integer"}})) == []


@pytest.mark.parametrize(
    ("document", "rule", "pointer"),
    [
        (
            one({"set": {"teir": "gold"}}),
            "unknown-key-in-mapping",
            "/states/a/transitions/0/set/teir",
        ),
        (one({"clear": ["teir"]}), "unknown-key-in-mapping", "/states/a/transitions/0/clear/0"),
        (one(state={"clear": ["teir"]}), "unknown-key-in-mapping", "/states/a/clear/0"),
        (
            one({"set": {"tier": {"var": "teir"}}}),
            "unknown-condition-key",
            "/states/a/transitions/0/set/tier",
        ),
        (one(state={"set": {"n": {"var": "_tunr"}}}), "unknown-condition-key", "/states/a/set/n"),
        (
            one({"set": {"tier": {"plus": [1, 2]}}}),
            "bad-condition",
            "/states/a/transitions/0/set/tier/plus",
        ),
        (one({"set": {"tier": "golden"}}), "bad-set", "/states/a/transitions/0/set/tier"),
        (one({"set": {"_n": 1}}), "bad-set", "/states/a/transitions/0/set/_n"),
        (one({"set": {"open": {"var": "pin"}}}), "bad-set", "/states/a/transitions/0/set/open"),
        (one({"set": {"tier": "gold"}}), "set-never-used", "/states/a/transitions/0/set/tier"),
    ],
)
def test_what_is_wrong_with_what_is_set_is_found(
    document: Written, rule: str, pointer: str
) -> None:
    assert pointer in [found.pointer for found in found_by(rule, document)]


def test_counts_of_the_system_are_known_and_those_of_unknown_keys_are_found() -> None:
    good = [when({">=": [{"var": "_misses"}, 2]}), when({">=": [{"var": "_refusals.tier"}, 2]})]
    assert (
        names(machine({"a": {"purpose": "A", "transitions": [to("b", *good), to("c")]}}, KEYS))
        == []
    )
    bad = when({">=": [{"var": "_refusals.teir"}, 2]})
    [found] = found_by(
        "unknown-condition-key",
        machine({"a": {"purpose": "A", "transitions": [to("b", bad)]}}, KEYS),
    )
    assert found.hint == 'did you mean "tier"?'


@pytest.mark.parametrize(
    "move",
    [
        {"set": {"tier": "gold"}},
        {"set": {"done": {"==": [{"var": "pin"}, "1"]}}},
        {"set": {"tier": None}},
    ],
)
def test_what_can_be_set_is_no_finding(move: Written) -> None:
    assert briefly(found_by("bad-set", one(move))) == []


@pytest.mark.parametrize(("move", "pointer"), [({"set": ["n"]}, "set"), ({"clear": "n"}, "clear")])
def test_a_wrong_form_is_told(move: Written, pointer: str) -> None:
    found = [(one.name, one.pointer) for one in check(one(move))]
    assert ("wrong-type", f"/states/a/transitions/0/{pointer}") in found
