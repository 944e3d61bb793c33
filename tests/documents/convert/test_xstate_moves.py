"""A converted XState machine makes no move that the original does not make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.documents.convert.registry import convert

EVENTS = ("A", "B")
LEAVES = ("s", "o.p", "o.q", "o.r.t", "o.r.u")
TARGETS = ("s", "o", "p", "q", "r", "t")
"""Ids of states, also of states that contain others."""


def converted(machine: Any) -> Any:
    return convert(json.dumps(machine), "xstate", "x")


def told(machine: Any) -> str:
    return "\n".join(note.message for note in converted(machine).notes)


# An independent reading of XState's rules, one step from a leaf.


def node_at(machine: dict[str, Any], path: str) -> dict[str, Any]:
    node = machine
    for name in path.split(".") if path else ():
        node = node["states"][name]
    return node


def owners(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def entered(machine: dict[str, Any], target: str) -> str:
    path = {"s": "s", "o": "o", "p": "o.p", "q": "o.q", "r": "o.r", "t": "o.r.t"}[target[1:]]
    while "initial" in node_at(machine, path):
        path = f"{path}.{node_at(machine, path)['initial']}"
    return path


def candidates(given: Any) -> list[dict[str, Any]]:
    return given if isinstance(given, list) else [given]


def possible(machine: dict[str, Any], leaf: str, event: str) -> set[str]:
    """The states that an event may lead to, whatever its guards say."""
    found = set()
    for owner in owners(leaf):
        on = node_at(machine, owner).get("on", {})
        for descriptor in (event, "*"):
            if descriptor not in on:
                continue
            for one in candidates(on[descriptor]):
                move = one or {}
                if move.get("target"):
                    found.add(entered(machine, move["target"]))
                if "guard" not in move:
                    return found
    return found


def always(machine: dict[str, Any], leaf: str) -> list[dict[str, Any]]:
    return [
        one
        for owner in owners(leaf)
        for one in candidates(node_at(machine, owner).get("always", []))
    ]


MOVES = st.fixed_dictionaries(
    {"target": st.sampled_from([f"#{name}" for name in TARGETS])},
    optional={"guard": st.just("someGuard")},
)
HANDLERS = st.one_of(MOVES, st.lists(MOVES, min_size=1, max_size=2), st.just({}), st.none())
ON = st.dictionaries(st.sampled_from((*EVENTS, "*")), HANDLERS, max_size=2)
ALWAYS = st.lists(MOVES, max_size=2)


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    def node(name: str, **more: Any) -> dict[str, Any]:
        return {"id": name, "on": draw(ON), "always": draw(ALWAYS), **more}

    inner = node("r", initial="t", states={"t": node("t"), "u": node("u")})
    outer = node("o", initial="p", states={"p": node("p"), "q": node("q"), "r": inner})
    on = draw(ON)
    return {"id": "m", "initial": "s", "on": on, "states": {"s": node("s"), "o": outer}}


@given(machine=machines())
def test_every_move_of_a_converted_machine_is_one_of_the_original(machine: dict[str, Any]) -> None:
    document = converted(machine).document
    for leaf in LEAVES:
        state = document["states"][leaf.replace(".", "_")]
        allowed = {entered(machine, one["target"]) for one in always(machine, leaf)}
        for event in (*EVENTS, "SOMETHING_ELSE"):
            allowed |= possible(machine, leaf, event)
        offered = [*state.get("transitions", ()), *document.get("global_transitions", ())]
        assert {move["target_state"] for move in offered} <= {
            name.replace(".", "_") for name in (*allowed, leaf)
        }


@given(machine=machines())
def test_only_a_move_that_is_always_made_is_automatic(machine: dict[str, Any]) -> None:
    document = converted(machine).document
    for leaf in LEAVES:
        certain = set()
        for one in always(machine, leaf):
            if "guard" in one:
                break
            certain.add(entered(machine, one["target"]).replace(".", "_"))
        state = document["states"][leaf.replace(".", "_")]
        automatic = {one["target_state"] for one in state.get("transitions", ()) if one.get("auto")}
        assert automatic <= certain


@pytest.mark.parametrize(
    ("after", "expected", "is_told"),
    [
        ({"30000": "late"}, {"timeout": 30.0, "on_timeout": "late"}, False),
        ({"500": {"target": "late"}}, {"timeout": 0.5, "on_timeout": "late"}, False),
        ({"9000": "other", "2000": "late"}, {"timeout": 2.0, "on_timeout": "late"}, True),
        ({"1000": {"target": "late", "guard": "isQuiet"}}, {}, True),
        ({"SLOW": "late"}, {}, True),
        ({"1000": [{"target": "late"}]}, {}, True),
    ],
)
def test_a_plain_delay_becomes_the_time_out_and_others_are_told(
    after: dict[str, Any], expected: dict[str, Any], *, is_told: bool
) -> None:
    states = {"a": {"on": {"GO": "other"}, "after": after}, "late": {}, "other": {}}
    machine = {"initial": "a", "states": states}
    state = converted(machine).document["states"]["a"]
    assert {key: state[key] for key in ("timeout", "on_timeout") if key in state} == expected
    assert ("delay" in told(machine)) is is_told


def test_what_meta_says_is_reported_as_lost() -> None:
    machine = {"initial": "a", "states": {"a": {"meta": {"prompt": "What would you like?"}}}}
    assert '"meta" of "a"' in told(machine)
