"""Why a turn went as it did: explained from its events, in agreement with what the machine did."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.records.explain import (
    Candidate,
    ConditionCheck,
    MoveDecision,
    explain,
    explain_each,
    explain_turn,
)
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import DOTS
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import parse, replay
from llm_fsm.testing import ScriptedLLM, calls
from llm_fsm.turn.compiled import CompiledMachine
from machines import machine

pytestmark = pytest.mark.anyio

AGE = {"description": "is of age", "logic": {">=": [{"var": "age"}, 18]}}
NAMED = {"description": "named", "requires_context_keys": ["name", "address.city"]}
SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "name": {}, "pin": {"x-secret": True}},
}


def to(target: str, *conditions: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"target_state": target, "conditions": list(conditions), **keys}


def menu(*transitions: dict[str, Any], **keys: Any) -> CompiledMachine:
    states = {"a": {"transitions": list(transitions)}, "b": {}, "c": {}}
    return machine(states, context_schema=SCHEMA, **keys)


def session(state: str = "a", **context: Any) -> Session:
    return Session(conversation_id="x", state=state, context=context)


def said(text: str = "{}") -> ev.ModelReplied:
    return ev.ModelReplied(asked_for="turn", text=text, model="m")


def moved(state: str, pointer: str, by: str = "model", previous: str = "a") -> ev.StateEntered:
    return ev.StateEntered(state=state, previous=previous, by=by, transition=pointer)


HEARD = ev.UserSaid(text="hi", time=1.0)
WORDS = ev.BotSaid(text="ok")


def decisions(
    program: CompiledMachine, before: Session, *events: ev.Event
) -> list[tuple[str, str, str, str]]:
    found = explain(program, before, [HEARD, *events, WORDS])
    return [
        (n.state, n.by, n.target, n.outcome) for n in found.notes if isinstance(n, MoveDecision)
    ]


def candidates(
    program: CompiledMachine, before: Session, *events: ev.Event
) -> tuple[Candidate, ...]:
    found = explain(program, before, [HEARD, *events, WORDS])
    return next(note.candidates for note in found.notes if isinstance(note, MoveDecision))


def test_candidates_stand_in_order_of_priority_with_what_their_conditions_read() -> None:
    program = menu(to("b", AGE), to("c", NAMED, priority=5, description="has a name"))
    found = candidates(program, session(age=12, name="Ada"), said(), ev.MovePicked(target="a"))
    assert found == (
        Candidate(
            target="c",
            description="has a name",
            priority=5,
            auto=False,
            holds=False,
            checks=(
                ConditionCheck(
                    description="named",
                    holds=False,
                    values={"name": "Ada"},
                    unset=("address.city",),
                ),
            ),
        ),
        Candidate(
            target="b",
            description="",
            priority=100,
            auto=False,
            holds=False,
            checks=(ConditionCheck(description="is of age", holds=False, values={"age": 12}),),
        ),
    )


@pytest.mark.parametrize(
    ("condition", "context", "expected"),
    [
        (AGE, {"age": 18}, ConditionCheck(description="is of age", holds=True, values={"age": 18})),
        (AGE, {}, ConditionCheck(description="is of age", holds=False, values={}, unset=("age",))),
        (
            {"description": "wants it"},
            {},
            ConditionCheck(description="wants it", holds=None, values={}),
        ),
        (
            {"logic": {"==": [{"var": "pin"}, "1"]}},
            {"pin": "1"},
            ConditionCheck(description="", holds=True, values={"pin": DOTS}),
        ),
        (
            {"requires_context_keys": ["name"], "logic": {"==": [1, 1]}},
            {},
            ConditionCheck(description="", holds=False, values={}, unset=("name",)),
        ),
        (
            {"logic": {"==": [{"var": "_user_input"}, "hi"]}},
            {},
            ConditionCheck(description="", holds=True, values={"_user_input": "hi"}),
        ),
    ],
)
def test_a_condition_is_evaluated_again(
    condition: dict[str, Any], context: dict[str, Any], expected: ConditionCheck
) -> None:
    program = menu(to("b", condition))
    [found] = candidates(program, session(**context), said(), ev.MovePicked(target="a"))
    assert found.checks == (expected,)
    assert found.holds is (expected.holds is not False)


def test_a_condition_that_cannot_be_evaluated_says_why() -> None:
    program = menu(to("b", {"logic": {"/": [1, {"var": "age"}]}}))
    [found] = candidates(program, session(age=0), said(), ev.MovePicked(target="a"))
    assert found.checks[0].holds is False
    assert found.checks[0].error


PICK_B = ev.MovePicked(target="b")
REFUSED_B = ev.MoveRefused(target="b", reason="closed", by="closed")
TO_B = "/states/a/transitions/0"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([said(), ev.MovePicked(target="a")], [("a", "model", "a", "stayed")]),
        ([said(), PICK_B, moved("b", TO_B)], [("a", "model", "b", "moved")]),
        (
            [said(), PICK_B, REFUSED_B, said(), ev.MovePicked(target="a")],
            [("a", "model", "b", "refused"), ("a", "model", "a", "stayed")],
        ),
        (
            [said(), PICK_B, REFUSED_B, said(), PICK_B, REFUSED_B],
            [("a", "model", "b", "refused")] * 2,
        ),
        (
            [
                said(),
                ev.ReplyRejected(fault="not-json", reason="no"),
                said(),
                ev.MovePicked(target="a"),
            ],
            [("a", "model", "", "unreadable"), ("a", "model", "a", "stayed")],
        ),
        ([moved("b", TO_B, "auto")], [("a", "auto", "b", "moved")]),
        (
            [said(), ev.MovePicked(target="a"), moved("b", TO_B, "auto")],
            [("a", "auto", "b", "moved")],
        ),
        (
            [said(), PICK_B, moved("b", TO_B), moved("c", "", "decide", "b")],
            [("a", "model", "b", "moved"), ("b", "decide", "c", "moved")],
        ),
        (
            [
                ev.MoveRefused(target="c", reason="veto", by="veto"),
                said(),
                ev.MovePicked(target="a"),
            ],
            [("a", "auto", "c", "refused"), ("a", "model", "a", "stayed")],
        ),
        ([ev.Ended(outcome="stuck")], [("a", "decide", "", "stuck")]),
    ],
)
def test_every_way_a_turn_can_go_is_a_list_of_decisions(
    events: list[ev.Event], expected: list[tuple[str, str, str, str]]
) -> None:
    assert decisions(menu(to("b"), to("c")), session(), *events) == expected


def test_the_move_that_was_made_is_marked() -> None:
    program = menu(to("b", AGE), to("b"))
    found = candidates(program, session(), said(), PICK_B, moved("b", "/states/a/transitions/1"))
    assert [candidate.taken for candidate in found] == [False, True]


def test_conditions_are_judged_on_what_the_reply_wrote() -> None:
    wrote = ev.ContextSet(source="model", values={"age": 20})
    [found] = candidates(
        menu(to("b", AGE)), session(age=3), said(), PICK_B, wrote, moved("b", TO_B)
    )
    assert found.holds
    assert found.checks[0].values == {"age": 20}


def test_what_was_set_and_refused_is_told_without_secrets() -> None:
    events = [
        HEARD,
        said('{"pin": "4711", "age": "x"}'),
        PICK_B,
        ev.ContextSet(source="model", values={"pin": "4711", "name": "Ada"}, removed=("age",)),
        ev.ContextRefused(key="age", reason="no number", source="model", kept_in="_extra"),
        REFUSED_B,
        ev.LimitReached(limit="llm_calls", value=1),
        ev.BotSaid(text="sorry", fallback=True),
    ]
    found = explain(menu(to("b")), session(), events)
    assert (found.turn, found.state, found.arrived, found.user, found.fallback) == (
        1,
        "a",
        "a",
        "hi",
        True,
    )
    assert [note for note in found.notes if not isinstance(note, MoveDecision)] == [
        ev.ModelReplied(asked_for="turn", text='{"pin": "•••", "age": "x"}', model="m"),
        ev.ContextSet(source="model", values={"pin": DOTS, "name": "Ada"}, removed=("age",)),
        ev.ContextRefused(key="age", reason="no number", source="model", kept_in="_extra"),
        ev.LimitReached(limit="llm_calls", value=1),
    ]


def test_no_note_tells_a_secret_that_another_key_or_the_message_repeats() -> None:
    events = [
        ev.UserSaid(text="it is 4 7 1 1", time=1.0),
        said('{"pin": "4711", "name": "PIN 4711"}'),
        PICK_B,
        ev.ContextSet(
            source="model", values={"pin": "4711", "name": "PIN 4711", "_extra": {"n": 4711}}
        ),
        ev.BotSaid(text="thanks"),
    ]
    found = explain(menu(to("b")), session(), events)
    assert found.user == f"it is {DOTS}"
    assert "4711" not in str(found.notes)


def test_a_state_that_the_definition_lost_has_no_candidates() -> None:
    assert candidates(menu(to("b")), session("gone"), said(), ev.MovePicked(target="gone")) == ()


GATE = {
    "name": "gate",
    "initial_state": "a",
    "context_schema": SCHEMA,
    "states": {
        "a": {"purpose": "Ask", "transitions": [to("route", {"requires_context_keys": ["name"]})]},
        "route": {"kind": "decide", "transitions": [to("b", AGE), to("c")]},
        "b": {"purpose": "In"},
        "c": {"purpose": "Out"},
    },
}


async def test_a_real_conversation_explains_itself_and_every_move_that_was_made_holds() -> None:
    replies = [
        {"message": "Hello"},
        {"transition": {"target_state": "route", "context_update": {}}, "message": "In!"},
        {"transition": {"target_state": "a", "context_update": {"age": 7}}, "message": "Name?"},
        {
            "transition": {"target_state": "route", "context_update": {"name": "Ada"}},
            "message": "Out.",
        },
    ]
    async with AsyncMachine(Definition.model_validate(GATE), model=ScriptedLLM(replies)) as running:
        chat = await running.start()
        await chat.send("let me in")
        await chat.send("Ada")
        records = [parse(text) for text in await running.store.records(chat.id)]
    program = machine(GATE["states"], context_schema=SCHEMA)  # type: ignore[arg-type]
    found = explain_turn(program, chat.id, records)
    assert found is not None
    assert (found.turn, found.state, found.arrived, found.outcome) == (2, "a", "c", "final")
    made = [note for note in found.notes if isinstance(note, MoveDecision)]
    assert [(note.state, note.by, note.target) for note in made] == [
        ("a", "model", "route"),
        ("route", "decide", "c"),
    ]
    assert all(candidate.holds for note in made for candidate in note.candidates if candidate.taken)
    assert [candidate.holds for candidate in made[1].candidates] == [False, True]

    first = explain(program, replay(chat.id, records[:1]), records[1].events)
    assert [note.outcome for note in first.notes if isinstance(note, MoveDecision)] == [
        "refused",
        "stayed",
    ]
    greeting = explain_turn(program, chat.id, records[:1])
    assert greeting is not None
    assert [type(note) for note in greeting.notes] == [ev.ModelReplied]


def test_before_anything_happened_there_is_nothing_to_explain() -> None:
    assert explain_turn(menu(to("b")), "x", []) is None


async def test_a_run_explains_its_tools_checks_and_attempts_in_order() -> None:
    small = {"name": "small", "check": {"<": [{"var": "output"}, 3]}}
    states = {
        "add": {"kind": "task", "purpose": "Add", "tools": ["add"], "max_retries": 1,
                "key_results": [small], "transitions": [{"target_state": "end"}]},
        "end": {"kind": "task", "purpose": "End"},
    }  # fmt: skip
    document = {"name": "sum", "initial_state": "add", "states": states,
                "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}},
                "tools": {"add": {"registered": "add"}}}  # fmt: skip
    replies = [calls(("add", {"a": 2, "pin": "4711"})), "4", "2", "done"]

    def add(a: int, pin: str) -> int:
        return a + len(pin)

    async with AsyncMachine(
        Definition.model_validate(document), model=ScriptedLLM(replies), tools=[add]
    ) as running:
        await running.run(context={"pin": "4711"}, conversation_id="r")
        records = [parse(text) for text in await running.store.records("r")]
        found = explain_turn(running.program, "r", records)
        each = list(explain_each(running.program, "r", records))
    assert found is not None
    assert [type(note).__name__ for note in found.notes] == [
        "ModelReplied",
        "ToolReturned",
        "ModelReplied",
        "KeyResultChecked",
        "AttemptFailed",
        "ModelReplied",
        "KeyResultChecked",
        "MoveDecision",
        "ModelReplied",
    ]
    assert [note for account in each for note in account.notes] == list(found.notes)
    [called] = [note for note in found.notes if isinstance(note, ev.ToolReturned)]
    assert (called.arguments, called.result) == ({"a": 2, "pin": DOTS}, 6)
