"""Sessions and records are checked against their types, to the last value in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from llm_fsm._json import read
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.integrity import record_fault, session_fault
from llm_fsm.session.messages import Paused, Usage
from llm_fsm.session.session import (
    OF_PLACE,
    Frame,
    Session,
    Silence,
    Work,
    dump_session,
    parse_session,
    session_to_dict,
)
from llm_fsm.session.turn_record import TurnRecord, dump, parse

LOOP: dict[str, Any] = {
    "asked_for": "task",
    "messages": [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "name": "look", "arguments": "{}"}],
            "tool_call_id": "",
        }
    ],
    "refused": ["why"],
    "tries": 1,
    "calls": [{"id": "a", "name": "look", "arguments": "{}"}],
    "keys": {"a": "k"},
    "answers": {},
    "done": {"a": {"value": 1}},
}
EXECUTING: dict[str, Any] = {"asked_for": "execute", "answers": [], "log": {}}
CALL = {"id": "a", "name": "look", "arguments": {}}
PLACE = Session(conversation_id="c", state="s").fields(OF_PLACE)
WHOLE = Session(
    conversation_id="c",
    state="s",
    context={"a": [None, {"b": 1}]},
    origins={"a": (1, "model")},
    window=((None, "hello"), ("hi \ud800", "ho")),
    time=5,
    settled=("p", "answered"),
    misses=(1, 2),
    silence=Silence(reminders=(1.0, 2), closes=None),
    pause=Paused(id="p", kind="approval", what="look", state="s", call=CALL),
    work=Work(
        state="s", attempt=1, checkpoint={"context": {}, "origins": {"a": (1, "model")}}, loop=LOOP
    ),
    stack=(Frame(kind="digression", saved=PLACE, wanted=("a",)),),
)
RECORD = TurnRecord(kind="message", turn=1, usage=Usage(), events=())


def _changed(changes: dict[str, Any]) -> str:
    """The text of a session with some fields changed, deep ones by their path."""
    document: dict[str, Any] = json.loads(dump_session(WHOLE))
    for path, value in changes.items():
        *place, name = (int(part) if part.isdecimal() else part for part in path.split("."))
        found: Any = document
        for part in place:
            found = found[part]
        found[name] = value
    return json.dumps(document)


def test_a_session_that_this_package_writes_is_sound() -> None:
    again = parse_session(dump_session(WHOLE))
    assert again == WHOLE
    assert session_fault(again) is None


def test_a_record_that_this_package_writes_is_sound() -> None:
    events = (
        ev.UserSaid(text="hi", time=1.0),
        ev.Paused(id="p", kind="approval", what="look", state="s", call=CALL, loop=LOOP),
        ev.Paused(
            id="p",
            kind="break",
            what="?",
            state="s",
            loop={"asked_for": "execute", "answers": [1], "log": {}},
        ),
        ev.TurnUndone(record=1, session=session_to_dict(WHOLE)),
    )
    record = replace(RECORD, events=events)
    again = parse(dump(record))
    assert again.events[:3] == events[:3]
    assert record_fault(again) is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"turn": True}, "session.turn: expected a whole number, got true or false"),
        ({"turn": 1.0}, "session.turn: expected a whole number, got a number"),
        ({"time": True}, "session.time: expected a number, got true or false"),
        ({"context": []}, "session.context: expected an object, got a list"),
        ({"window": [["a", 1.5]]}, "session.window[0][1]: expected text, got a number"),
        ({"window": [["a"]]}, "session.window[0]: expected a list of length 2, got 1"),
        ({"window": "ab"}, "session.window: expected a list, got text"),
        (
            {"origins": {"a": [[1], "model"]}},
            "session.origins[...][0]: expected a whole number, got a list",
        ),
        ({"outcome": 1}, "session.outcome: expected text or null, got a whole number"),
        ({"pause": {}}, "session.pause: object missing required field id"),
        ({"pause": 1}, "session.pause: expected an object or null, got a whole number"),
        ({"pause.kind": "nap"}, "session.pause.kind: invalid enum value 'nap'"),
        ({"stack.0.kept.state": []}, "session.stack[0].kept.state: expected text, got a list"),
        ({"stack.0.kind": "other"}, "session.stack[0].kind: invalid enum value 'other'"),
        ({"stack.0.mood": "good"}, "session.stack[0]: object contains unknown field mood"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(
    changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(UnreadableError) as refused:
        parse_session(_changed(changes))
    assert str(refused.value) == f"a stored conversation cannot be read: {fault}"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"stack.0.kind": "subflow"}, "session.stack[0].kept.flow is missing"),
        ({"work.loop.tries": "1"}, "session.loop.tries: expected a whole number, got text"),
        (
            {"work.loop": {**EXECUTING, "about": []}},
            "session.loop does not say what each answer is about",
        ),
        (
            {"work.loop": {**EXECUTING, "log": []}},
            "session.loop.log: expected an object, got a list",
        ),
        ({"work.loop.calls": []}, "session waits for an answer about a call that it did not make"),
    ],
)
def test_a_session_that_no_turn_can_go_on_from_is_unsound(
    changes: dict[str, Any], fault: str
) -> None:
    assert session_fault(parse_session(_changed(changes))) == fault


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (
            {"type": "UserSaid", "text": 5, "time": 1.0},
            "UserSaid.text: expected text, got a whole number",
        ),
        (
            {
                "type": "Started",
                "conversation_id": "c",
                "definition": "",
                "state": "s",
                "time": "x",
            },
            "Started.time: expected a number, got text",
        ),
        (
            {"type": "ContextSet", "source": "model", "removed": "abc"},
            "ContextSet.removed: expected a list, got text",
        ),
        ({"type": "Missed", "count": None}, "Missed.count: expected a whole number, got null"),
        ({"type": "UserSaid", "time": 1.0}, "UserSaid: object missing required field text"),
    ],
)
def test_an_event_of_another_type_is_refused_by_its_place(
    event: dict[str, Any], fault: str
) -> None:
    with pytest.raises(UnreadableError) as refused:
        read(event, ev.AnyEvent, f"an event cannot be read: {event['type']}")
    assert str(refused.value) == f"an event cannot be read: {fault}"


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (
            ev.TurnUndone(record=1, session={"format": 1}),
            "session: object missing required field conversation_id",
        ),
        (
            ev.TurnUndone(
                record=1, session={"format": 1, "conversation_id": "c", "misses": ["a", 2]}
            ),
            "session.misses[0]: expected a whole number, got text",
        ),
        (
            ev.Paused(id="p", kind="break", what="", state="s", call={"id": "a"}),
            "a call that it did not make",
        ),
    ],
)
def test_an_event_that_cannot_have_happened_is_unsound(event: ev.Event, fault: str) -> None:
    assert fault in (record_fault(replace(RECORD, events=(event,))) or "")
