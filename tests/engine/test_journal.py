"""Entries of a journal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.engine.journal import (
    entry_executed,
    entry_reply,
    entry_result,
    entry_tool,
    executed_entry,
    reply_entry,
    result_entry,
)
from llm_fsm.errors import StoreError
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.session.events import BotSaid
from llm_fsm.session.messages import ModelReply, ToolCall, Usage
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.turn.effects import Executed, HandlerResult, OutOfTime, ToolResult
from machines import reply

PAYING: dict[str, Any] = {
    "name": "paying",
    "initial_state": "talk",
    "tools": {"pay": {"registered": "pay", "parallel": True, "at_most_once": True}},
    "states": {"talk": {"tools": ["pay"], "transitions": [{"target_state": "talk"}]}},
}


class Slow(MemoryStore):
    """One whose first write to a journal takes longer than those after it; where `fails`, nothing
    comes of it.
    """

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.landed: list[str] = []

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        if step == 0:
            await asyncio.sleep(0.02)
            if self.fails:
                raise StoreError("the disk is full")
        await super().journal(conversation_id, step, text)
        self.landed.append(json.loads(text)["kind"])


def paying(store: MemoryStore, *replies: Any) -> tuple[AsyncMachine, list[int]]:
    """A machine that pays twice at once, and what it paid."""
    paid: list[int] = []

    def pay(amount: int) -> int:
        paid.append(amount)
        return amount

    twice = calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
    return AsyncMachine.from_dict(
        PAYING, model=ScriptedLLM([twice, *replies]), store=store, tools=[pay]
    ), paid


@pytest.mark.anyio
async def test_calls_made_at_once_are_written_down_after_what_they_belong_to() -> None:
    store = Slow()
    machine, paid = paying(store, reply("talk", "Paid"))
    turn = await (await machine.start(greet=False)).send("Pay both", request_id="r")
    assert (turn.text, sorted(paid)) == ("Paid", [1, 2])
    assert store.landed[:2] == ["message", "model"]


@pytest.mark.anyio
async def test_no_call_is_made_of_a_turn_that_could_not_be_written_down() -> None:
    store = Slow(fails=True)
    machine, paid = paying(store, reply("talk", "Nothing paid"))
    chat = await machine.start(conversation_id="c", greet=False)
    with pytest.raises(StoreError, match="the disk is full"):
        await chat.send("Pay both", request_id="r")
    assert paid == []
    store.fails = False
    assert (await chat.send("Pay both", request_id="r")).text == "Nothing paid"


@pytest.mark.anyio
async def test_a_journal_that_does_not_say_whose_it_is_holds_nobody_up() -> None:
    store = MemoryStore()
    machine, _ = paying(store, reply("talk", "Paid"))
    chat = await machine.start(conversation_id="c", greet=False)
    for step, kind in enumerate(("model", "begun", "keyed"), 1):
        await store.journal("c", step, json.dumps({"kind": kind, "step": step}))
    assert (await chat.send("Pay both")).text == "Paid"


def _more(entry: dict[str, Any]) -> dict[str, Any]:
    """A journal entry with one name more in each of its objects that have fields."""
    calls = entry.get("tool_calls")
    for part in (
        *(calls if isinstance(calls, list) else ()),
        *entry.get("happened", ()),
        entry.get("usage", {}),
    ):
        part["mood"] = 1
    return {**entry, "kind": "model", "step": 3, "mood": 1}


def test_what_was_performed_is_read_whatever_another_version_kept_beside_it() -> None:
    looks = (ToolCall(id="1", name="look", arguments="{}"),)
    for done, written, read in (
        (ModelReply(text="x", seconds=2.5, tool_calls=looks), reply_entry, entry_reply),
        (OutOfTime(seconds=3.0), reply_entry, entry_reply),
        (HandlerResult(handler="h", veto="no"), result_entry, entry_result),
        (ToolResult(id="1", name="look", value=3), result_entry, entry_tool),
        (
            Executed(output="x", usage=Usage(calls=2), happened=(BotSaid(text="Hi"),)),
            executed_entry,
            entry_executed,
        ),
    ):
        assert read(_more(json.loads(json.dumps(written(done))))) == done
