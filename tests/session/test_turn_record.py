"""Turn records: what is written of a turn, and read again."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict

from llm_fsm.errors import UnreadableError
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.serialization import dump_session, parse_session
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, dump, parse


def test_a_record_holds_every_number_of_what_a_reply_took() -> None:
    used = ModelReply(text="", attempts=2, input_tokens=3, seconds=0.5).usage
    record = TurnRecord(kind="message", turn=1, usage=used, events=())
    assert json.loads(dump(record))["usage"] == asdict(used)
    assert parse(dump(record)) == record


def test_numbers_that_a_newer_version_counts_do_not_make_a_record_unreadable() -> None:
    record = TurnRecord(kind="message", turn=1, usage=ModelReply(text="", attempts=2).usage, events=())
    document = json.loads(dump(record))
    document["usage"]["cached"] = 5
    assert parse(json.dumps(document)) == record


def test_what_a_newer_version_knows_of_a_conversation_is_not_dropped_unseen() -> None:
    document = {**json.loads(dump_session(Session(conversation_id="c", state="a"))), "mood": "good"}
    with pytest.raises(UnreadableError, match="newer version of llm_fsm: this one does not know its 'mood'"):
        parse_session(json.dumps(document))


def test_a_conversation_that_ended_before_outcomes_were_written_is_still_over() -> None:
    document = {**json.loads(dump_session(Session(conversation_id="c", state="a"))), "ended": True}
    assert (parse_session(json.dumps(document)).ended, parse_session(json.dumps(document)).outcome) == (True, "final")
