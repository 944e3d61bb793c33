"""Nothing is agreed to by a repair pattern: every pattern at every confirmation of every shipped
definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.definition.names import PATTERNS
from llm_fsm.documents.loader import load
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.testing import ScriptedLLM
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import reads, verdict
from llm_fsm.turn.repair.patterns import named
from machines import machine, reply, say, start
from paths import ROOT

FOLDER = ROOT / "fsm_definitions"
KNOWN: dict[str, dict[str, Any]] = {
    "appointment": {"reason": "check-up", "date": "2099-03-02", "time": "10:00", "patient_name": "Ada Byron",
                    "phone": "+49 30 1234567"},
    "order": {"pizza": "funghi", "size": "large", "quantity": 2, "handover": "pickup"},
    "quiz": {"capital": "Canberra", "river": "Volga", "neighbours": "nine", "desert": "Antarctica"},
    "registration": {"full_name": "Ada Byron", "email": "ada@example.com", "phone": "+49 30 1234567"},
    "reservation": {"guests": 4, "date": "2099-03-02", "time": "19:00", "name": "Ada"},
    "returns": {"order_number": "R-123456", "pin": "1234", "verified_order": "R-123456", "item": "lamp",
                "reason": "damaged", "resolution": "refund"},
    "support_desk": {"topic": "other", "problem": "It does not open.", "email": "ada@example.com"},
}  # fmt: skip
"""Answers with which the last question of a definition can be agreed to."""
ELSEWHERE: dict[tuple[str, str], dict[str, Any]] = {("reservation", "group"): {"guests": 12}}
"""Answers with which a state that is not the last one keeps the conversation."""
LAST = {"appointment": "confirm", "order": "confirm", "quiz": "review", "registration": "review",
        "reservation": "confirm", "returns": "confirm", "support_desk": "ticket"}  # fmt: skip
PROMISE = "Of course, that is done!"


@cache
def program(name: str) -> CompiledMachine:
    definition = load(FOLDER / f"{name}.json").model_dump(exclude_unset=True)
    return machine(
        **{key: value for key, value in definition.items() if key != "patterns"},
        patterns=list(PATTERNS),
    )


def confirmations() -> Iterator[tuple[str, str]]:
    """Yield the states that collect nothing or wait for a yes or a no."""
    for path in sorted(FOLDER.glob("*.json")):
        definition = load(path)
        if any(state.kind in ("subflow", "task") for state in definition.states.values()):
            continue
        for state in program(path.stem).states.values():
            if state.kind == "converse" and (
                not state.collects or _waits_for_yes(program(path.stem), state)
            ):
                yield path.stem, state.id


def _waits_for_yes(made: CompiledMachine, state: CompiledState) -> bool:
    keys = [key for key, schema in made.keys.offered.items() if schema.get("type") == "boolean"]
    return any(reads(move, keys) for move in state.own)


def at(name: str, state: str) -> Session:
    known = KNOWN.get(name, {}) | ELSEWHERE.get((name, state), {})
    begun = start(program(name), state=state, context=known).session
    return say(program(name), begun, "hello", reply(state, "So far, so good.")).session


CONFIRMATIONS = list(confirmations())


@pytest.mark.parametrize(("name", "state"), LAST.items())
def test_the_confirmations_that_are_tried_can_be_agreed_to(name: str, state: str) -> None:
    assert (name, state) in CONFIRMATIONS
    session = at(name, state)
    moves = program(name).states[state].own
    assert any(
        verdict(move, session.data()).holds for move in moves if move.guards or len(moves) == 1
    )


@pytest.mark.parametrize("pattern", named(PATTERNS))
@pytest.mark.parametrize(("name", "state"), CONFIRMATIONS)
def test_no_pattern_agrees_to_anything(name: str, state: str, pattern: str) -> None:
    if pattern in program(name).own_patterns:  # a state of that name means something else there
        pattern = "cancel"
    done = say(program(name), at(name, state), "Rather not.", reply(pattern, PROMISE))
    entered = [event.state for event in done.of(ev.StateEntered)]
    if pattern == "cancel":
        assert done.session.state == "cancelled" or done.session.outcome == "cancelled"
    elif pattern == "handover":
        assert done.session.outcome == "handover"
    elif pattern == "restart":
        assert entered[0] == program(name).definition.initial_state
        assert not done.session.ended
    else:
        assert (entered, done.session.state, done.session.ended) == ([], state, False)
    if pattern == "skip":
        assert PROMISE not in done.text
        assert done.session.skipped == ()


@pytest.mark.parametrize(
    "pattern", ["correct", "digress", "clarify", "repeat", "skip", "cannot_handle", "back"]
)
@pytest.mark.parametrize("asks", ["method", "invoice"])
@pytest.mark.parametrize(
    ("name", "calls", "known"),
    [
        ("tickets", "payment", {"concert": "brass", "seats": 2, "guest": "Ada Byron"}),
        ("membership", "fee", {"name": "Ada Byron", "age": 30, "days": 2}),
    ],
)
def test_no_pattern_agrees_to_anything_inside_a_shipped_flow(
    name: str, calls: str, known: dict[str, Any], asks: str, pattern: str
) -> None:
    path = FOLDER / f"{name}.json"
    definition = {**load(path).model_dump(exclude_unset=True), "patterns": list(PATTERNS)}
    replies = [reply(asks, "Gladly.", method="invoice", payer="Ada Byron"), reply(pattern, PROMISE)]
    replies += replies[-1:] if pattern == "correct" else []  # it corrects nothing, twice
    with Machine.from_dict(definition, file=path, model=ScriptedLLM(replies)) as made:
        chat = made.start(known, state=calls, greet=False)
        chat.send("By invoice.")
        before = chat.state
        turn = chat.send("Rather not.")
    assert before in ("method", "invoice")
    assert not turn.ended
    if not (pattern in ("skip", "back") and before == "invoice"):
        assert turn.state == before
    if pattern == "skip":
        assert PROMISE not in turn.text
