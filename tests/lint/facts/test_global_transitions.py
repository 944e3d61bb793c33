"""Global transitions among those of the states, without a copy of them for every state."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lint_cases import Written, to, when
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.transitions import taken
from llm_fsm.lint.graph import GlobalTransitions, arcs_from, graph_of

STATES = ("a", "b", "c")
moves = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(STATES)), max_size=5)


def document(own: dict[str, list[Written]], shared: list[Written], **more: Any) -> Document:
    states = {name: {"purpose": "Ask", "transitions": own.get(name, [])} for name in STATES}
    return Document(
        Placed("", {"initial_state": "a", "states": states, "global_transitions": shared, **more})
    )


@given(moves, moves, st.sampled_from(STATES))
def test_items_stand_in_order_of_priority_and_what_leads_to_the_state_itself_is_left_out(
    own, shared, state
) -> None:
    menu = GlobalTransitions(
        (rank, target, ("shared", place)) for place, (rank, target) in enumerate(shared)
    )
    mine = sorted(
        ((rank, ("own", place)) for place, (rank, _) in enumerate(own)), key=itemgetter(0)
    )
    others = [
        (rank, ("shared", place)) for place, (rank, target) in enumerate(shared) if target != state
    ]
    assert menu.beside(state, mine) == [
        item for _, item in sorted([*mine, *others], key=itemgetter(0))
    ]


def test_a_state_has_the_global_transitions_that_do_not_lead_to_it_after_its_own() -> None:
    known = document({"a": [to("b")], "b": [to("c")]}, [to("a"), to("c", priority=1)])
    assert [(arc.source, arc.target) for arc in arcs_from(known)["a"]] == [("a", "c"), ("a", "b")]
    assert [(arc.source, arc.target) for arc in arcs_from(known)["b"]] == [
        ("b", "c"),
        ("b", "c"),
        ("b", "a"),
    ]
    assert arcs_from(known)["c"] == ()  # without transitions of its own it ends the conversation
    assert graph_of(known) == {"a": ("c", "b"), "b": ("c", "a"), "c": ()}


@pytest.mark.parametrize(
    ("own", "shared", "must"),
    [
        ({"a": [to("b")], "b": [to("a")]}, ["k"], {"a": set(), "b": set(), "c": {"k"}}),
        (
            {"a": [to("b", when(None, "m"))], "b": [to("a")]},
            ["k"],
            {"a": set(), "b": {"m"}, "c": {"k"}},
        ),
    ],
)
def test_what_is_demanded_on_the_way_through_a_global_transition(own, shared, must) -> None:
    known = document(own, [to("c", {"requires_context_keys": shared})])
    assert data_flow(known).must == must


def test_the_transitions_that_can_be_taken_come_with_each_reached_state_that_offers_them() -> None:
    known = document({"a": [to("b")], "b": [to("a")]}, [to("a"), to("c")])
    found = [
        (state, arc.target)
        for state, arc in taken(known, {"/global_transitions/0", "/states/a/transitions/0"})
    ]
    assert found == [("a", "b"), ("b", "a")]
