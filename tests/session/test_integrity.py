"""Sessions and records are held against their types, to the last value in them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.session import serialization as event_json
from llm_fsm.session.integrity import record_fault, session_fault
from llm_fsm.session.messages import Paused, Usage
from llm_fsm.session.session import OF_FLOW, OF_PLACE, Frame, Session, Silence, Work, from_dict, to_dict
from llm_fsm.session.turn_record import TurnRecord, dump_session, parse_session

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
PLACE = {name: getattr(Session(conversation_id="c", state="s"), name) for name in OF_PLACE}
WHOLE = Session(
    conversation_id="c",
    state="s",
    context={"a": [None, {"b": 1}]},
    origins={"a": (1, "model")},
    window=((None, "hello"), ("hi \ud800", "ho")),
    time=5,
    notes=(("a", "why"),),
    settled=("p", "answered"),
    misses=(1, 2),
    silence=Silence(reminders=(1.0, 2), closes=None),
    pause=Paused(id="p", kind="approval", what="look", state="s", call=CALL),
    work=Work(state="s", attempt=1, checkpoint={"context": {}, "origins": {"a": (1, "model")}}, loop=LOOP),
    stack=(Frame(kind="digression", kept=PLACE, wanted=("a",)),),
)
RECORD = TurnRecord(kind="message", turn=1, usage=Usage(), events=())


def test_what_this_package_writes_is_sound() -> None:
    again = parse_session(dump_session(WHOLE))
    assert again == WHOLE
    assert session_fault(again) is None
    events = (
        ev.UserSaid(text="hi", time=1.0),
        ev.Paused(id="p", kind="approval", what="look", state="s", call=CALL, loop=LOOP),
        ev.Paused(
            id="p", kind="break", what="?", state="s", loop={"asked_for": "execute", "answers": [1], "log": {}}
        ),
        ev.TurnUndone(record=1, session=json.loads(dump_session(WHOLE))),
    )
    read = tuple(event_json.from_dict(json.loads(json.dumps(event_json.to_dict(event)))) for event in events)
    assert record_fault(replace(RECORD, events=read)) is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"turn": True}, "session.turn is not a whole number"),
        ({"turn": 1.0}, "session.turn is not a whole number"),
        ({"time": float("nan")}, "session.time is not a number"),
        ({"time": True}, "session.time is not a number"),
        ({"context": []}, "session.context is not an object"),
        ({"window": (("a", 1.5),)}, "session.window[0] is not text"),
        ({"window": (("a",),)}, "session.window[0] is not a list of 2"),
        ({"window": "ab"}, "session.window is not a list"),
        ({"origins": {"a": ([1], "model")}}, "session.origins.a is not a whole number"),
        ({"outcome": 1}, "session.outcome is not text"),
        ({"pause": {}}, "session.pause is no Paused"),
        ({"stack": (Frame(kind="subflow", kept=PLACE),)}, "session.stack[0].kept.flow is missing"),
        (
            {"stack": (Frame(kind="digression", kept={**PLACE, "state": []}),)},
            "session.stack[0].kept.state is not text",
        ),
        ({"stack": (Frame(kind="other", kept=PLACE),)}, "session.stack[0].kind is none of subflow, digression"),  # type: ignore[arg-type]
        ({"work": Work(state="s", checkpoint={"mood": 1})}, "session.work.checkpoint.mood is no field of a session"),
        (
            {"work": replace(WHOLE.work or Work(state="s"), loop={**LOOP, "tries": "1"})},
            "session.loop.tries is not a whole number",
        ),
        (
            {"work": replace(WHOLE.work or Work(state="s"), loop={**EXECUTING, "about": []})},
            "session.loop does not say what each answer is about",
        ),
        (
            {"work": replace(WHOLE.work or Work(state="s"), loop={**EXECUTING, "more": 1})},
            "session.loop is not an object with asked_for, answers, log, key, about",
        ),
        (
            {"work": replace(WHOLE.work or Work(state="s"), loop={**LOOP, "calls": []})},
            "session waits for an answer about a call that it did not make",
        ),
    ],
)
def test_what_is_of_another_type_is_named(changes: dict[str, Any], fault: str) -> None:
    assert session_fault(replace(WHOLE, **changes)) == fault


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ({"type": "UserSaid", "text": 5, "time": 1.0}, "record.events[0].text is not text"),
        (
            {"type": "Started", "conversation_id": "c", "definition": "", "state": "s", "time": "x"},
            "time is not a number",
        ),
        ({"type": "ContextSet", "source": "model", "removed": "abc"}, "removed is not a list"),
        ({"type": "Missed", "count": None}, "count is not a whole number"),
        ({"type": "TurnUndone", "record": 1, "session": {"format": 1}}, "session is no session"),
        (
            {"type": "TurnUndone", "record": 1, "session": {"format": 1, "conversation_id": "c", "misses": ["a", 2]}},
            "session.misses is not a whole number",
        ),
        (
            {"type": "Paused", "id": "p", "kind": "break", "what": "", "state": "s", "call": {"id": "a"}},
            "a call that it did not make",
        ),
    ],
)
def test_an_event_of_another_type_is_named(event: dict[str, Any], fault: str) -> None:
    assert fault in (record_fault(replace(RECORD, events=(event_json.from_dict(event),))) or "")
    assert record_fault(replace(RECORD, kind="chat")) is not None  # type: ignore[arg-type]


def test_places_that_an_older_version_kept_without_parts_that_wait_are_sound() -> None:
    kept = {name: getattr(Session(conversation_id="c"), name) for name in OF_FLOW}
    document = json.loads(json.dumps(to_dict(Session(conversation_id="c", stack=(Frame(kind="subflow", kept=kept),)))))
    del document["stack"][0]["kept"]["begun"]
    read = from_dict(document)
    assert read.stack[0].kept["begun"] == {}
    assert session_fault(read) is None
