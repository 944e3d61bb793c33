"""Events and sessions in their stored JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.serialization import dump_session, from_dict, parse_session, to_dict
from llm_fsm.session.session import Session


def test_an_event_is_written_without_fields_that_have_their_defaults() -> None:
    event = ev.ContextSet(source="model", values={"name": "Ada"})
    assert to_dict(event) == {"type": "ContextSet", "source": "model", "values": {"name": "Ada"}}
    assert from_dict(to_dict(event)) == event


def test_fields_that_a_newer_version_knows_do_not_make_an_event_unreadable() -> None:
    assert from_dict({"type": "Missed", "count": 1, "mood": "good"}) == ev.Missed(count=1)


@pytest.mark.parametrize("name", ["Danced", None, 5])
def test_an_unknown_event_is_refused_with_the_names_that_are_known(name: Any) -> None:
    with pytest.raises(UnreadableError, match=f"unknown event type {name!r}; known are Answered, .*UserSaid"):
        from_dict({"type": name})


def test_a_new_session_is_written_with_the_fields_that_each_one_has() -> None:
    assert list(json.loads(dump_session(Session(conversation_id="c")))) == [
        "format",
        "conversation_id",
        "definition",
        "state",
        "previous_state",
        "turn",
        "turns_in_state",
        "context",
        "origins",
        "window",
        "user_input",
        "time",
        "notes",
        "ended",
        "outcome",
    ]


def test_a_session_is_read_as_it_was_written() -> None:
    session = Session(
        conversation_id="c",
        state="a",
        context={"name": "Ada 🦊", "age": 36, "height": 1.7, "none": None, "big": 2**63, "half": "\ud83e"},
        origins={"name": (1, "model")},
        window=((None, "Hi"), ("a\ud800", "b")),
        notes=(("age", "too old"),),
        time=1763767000.123456,
        skipped=("age",),
        path=(("a", "/states/a/transitions/0"),),
        misses=(1, 2),
        settled=("id", "answered"),
        reminders=(1.5,),
        spent={"money": 0.25, "tool_calls": 3},
    )
    assert parse_session(dump_session(session)) == session
    assert dump_session(parse_session(dump_session(session))) == dump_session(session)


def test_values_of_a_hosts_own_classes_are_written_as_what_they_are() -> None:
    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    text = dump_session(Session(conversation_id="c", context={Name("name"): Name("Ada"), "count": Count(3)}))
    assert parse_session(text).context == {"name": "Ada", "count": 3}


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000])
def test_a_text_that_is_no_session_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableError, match="a stored conversation cannot be read: "):
        parse_session(text)


def test_a_session_of_another_format_names_both() -> None:
    with pytest.raises(UnreadableError, match="is stored in format 2; this version of llm_fsm reads format 1"):
        parse_session('{"format": 2}')
