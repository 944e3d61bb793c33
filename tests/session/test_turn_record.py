"""Turn records: what is written of a turn, and read again."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict

from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply, Usage
from llm_fsm.session.session import Session, dump_session, parse_session
from llm_fsm.session.turn_record import TurnRecord, dump, parse


def test_a_record_holds_every_number_of_what_a_reply_took() -> None:
    used = ModelReply(text="", attempts=2, input_tokens=3, seconds=0.5).usage
    record = TurnRecord(kind="message", turn=1, usage=used, events=())
    assert json.loads(dump(record))["usage"] == asdict(used)
    assert parse(dump(record)) == record


def test_numbers_that_a_newer_version_counts_do_not_make_a_record_unreadable() -> None:
    record = TurnRecord(
        kind="message", turn=1, usage=ModelReply(text="", attempts=2).usage, events=()
    )
    document = json.loads(dump(record))
    document["usage"]["cached"] = 5
    assert parse(json.dumps(document)) == record


def test_an_event_is_written_without_fields_that_have_their_defaults() -> None:
    event = ev.ContextSet(source="model", values={"name": "Ada"})
    text = dump(TurnRecord(kind="message", turn=1, usage=Usage(), events=(event,)))
    assert json.loads(text)["events"] == [
        {"type": "ContextSet", "source": "model", "values": {"name": "Ada"}}
    ]
    assert parse(text).events == (event,)


def test_fields_that_a_newer_version_knows_do_not_make_an_event_unreadable() -> None:
    document = json.loads(
        dump(TurnRecord(kind="message", turn=1, usage=Usage(), events=(ev.Missed(count=1),)))
    )
    document["events"][0]["mood"] = "good"
    assert parse(json.dumps(document)).events == (ev.Missed(count=1),)


@pytest.mark.parametrize("name", ["Danced", None, 5])
def test_a_record_with_an_unknown_event_is_unreadable(name: object) -> None:
    document = {"format": 1, "kind": "message", "turn": 1, "usage": {}, "events": [{"type": name}]}
    with pytest.raises(UnreadableError, match=r"record\.events\[0\]"):
        parse(json.dumps(document))


def test_what_a_newer_version_knows_of_a_conversation_is_not_dropped_unseen() -> None:
    document = {**json.loads(dump_session(Session(conversation_id="c", state="a"))), "mood": "good"}
    with pytest.raises(
        UnreadableError, match="newer version of llm_fsm: this one does not know its 'mood'"
    ):
        parse_session(json.dumps(document))


def test_a_conversation_that_ended_before_outcomes_were_written_is_still_over() -> None:
    document = {**json.loads(dump_session(Session(conversation_id="c", state="a"))), "ended": True}
    assert (
        parse_session(json.dumps(document)).ended,
        parse_session(json.dumps(document)).outcome,
    ) == (True, "final")
