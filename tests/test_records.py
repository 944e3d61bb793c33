"""Turn records: what is written of a turn, and read again."""

from __future__ import annotations

import json
from dataclasses import asdict

from llm_fsm.messages import ModelReply
from llm_fsm.records import TurnRecord, dump, parse


def test_a_record_holds_every_number_of_what_a_reply_took() -> None:
    used = ModelReply(text="", attempts=2, input_tokens=3, seconds=0.5).usage
    record = TurnRecord(kind="message", turn=1, usage=used, events=())
    assert json.loads(dump(record))["usage"] == asdict(used)
    assert parse(dump(record)) == record
