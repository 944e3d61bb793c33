"""Entries of a journal."""

from __future__ import annotations

import json

from llm_fsm.effects import OutOfTime
from llm_fsm.journal import entry_reply, reply_entry
from llm_fsm.messages import ModelReply, ToolCall


def test_a_reply_is_read_whatever_another_version_kept_beside_it() -> None:
    reply = ModelReply(text="x", seconds=2.5, tool_calls=(ToolCall(id="1", name="look", arguments="{}"),))
    for said in (reply, OutOfTime(seconds=3.0)):
        entry = json.loads(json.dumps(reply_entry(said)))
        assert entry_reply({**entry, "kind": "model", "step": 3, "time": 1.0}) == said
