"""A yes through the front door: functions, tools, undo, fork, replay, streams and other processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, ConversationConflict, Machine
from llm_fsm.events import Agreed, ToolRefused
from llm_fsm.records.replay import ReplayResult, recorded_tools, replay_turns
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM
from llm_fsm.tools.schema import CallInfo

TABLE: dict[str, Any] = {
    "name": "table",
    "initial_state": "details",
    "context_schema": {"properties": {"day": {"type": "string"}, "guests": {"type": "integer"}}},
    "states": {
        "details": {
            "purpose": "For which day, and for how many?",
            "required_context_keys": ["day", "guests"],
            "transitions": [
                {
                    "target_state": "confirm",
                    "conditions": [{"requires_context_keys": ["day", "guests"]}],
                }
            ],
        },
        "confirm": {
            "purpose": "Is that right?",
            "reply": "A table for {{ guests }} on {{ day }}?",
            "confirms": ["day", "guests"],
            "transitions": [{"target_state": "book", "description": "Yes", "agrees": True}],
        },
        "book": {
            "kind": "task",
            "execute": "book",
            "acts": True,
            "transitions": [{"target_state": "booked"}],
        },
        "booked": {"reply": "Booked for {{ guests }}."},
    },
}
ALL = {"day": "Friday", "guests": 4}


def said(target: str, message: str = "", **update: Any) -> str:
    return json.dumps(
        {"transition": {"target_state": target, "context_update": update}, "message": message}
    )


def opened(*replies: str, store: str = "memory", seen: list[Any] | None = None) -> Machine:
    machine = Machine.from_dict(TABLE, model=ScriptedLLM(list(replies)), store=store)

    @machine.function
    def book(ctx: Any) -> str:
        if seen is not None:
            seen.append(ctx.agreed)
        return "done"

    return machine


def test_a_function_reads_what_the_user_agreed_to() -> None:
    seen: list[Any] = []
    with opened(said("confirm", **ALL), said("book"), seen=seen) as machine:
        chat = machine.start(greet=False)
        chat.send("four on Friday")
        turn = chat.send("yes")
    assert turn.text == "Booked for 4."
    assert [(one.keys, dict(one.values), one.turn) for one in seen] == [(("day", "guests"), ALL, 2)]
    assert [event.turn for event in turn.events if isinstance(event, Agreed)] == [2]


def test_the_program_says_yes_itself_or_is_refused() -> None:
    seen: list[Any] = []
    with opened(said("confirm", **ALL), seen=seen) as machine:
        chat = machine.start(greet=False, context=ALL)
        with pytest.raises(ConversationConflict, match="agreed=True"):
            chat.update(state="book")
        assert seen == []
        chat.update(state="book", agreed=True)
    assert [(one.by, dict(one.values)) for one in seen] == [("host", ALL)]


def test_a_value_that_the_program_updates_needs_a_new_yes() -> None:
    with opened(said("confirm", **ALL), said("book"), said("book")) as machine:
        chat = machine.start(greet=False)
        chat.send("four on Friday")
        chat.update(context={"guests": 6})
        turn = chat.send("yes")
        assert (turn.state, turn.text) == ("confirm", "A table for 6 on Friday?")
        assert chat.send("yes").text == "Booked for 6."


def test_words_of_the_program_are_no_reading_back() -> None:
    with opened(said("confirm", **ALL), said("book")) as machine:
        chat = machine.start(greet=False)
        chat.send("four on Friday")
        chat.update(context={"guests": 6})
        chat.say("We are looking forward to it.")
        assert chat.send("yes").text == "A table for 6 on Friday?"


def test_an_undone_change_is_no_change_and_another_process_takes_the_yes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/bots.db"
    with opened(said("confirm", **ALL), said("confirm", guests=5), store=store) as machine:
        chat = machine.start(greet=False, conversation_id="one")
        chat.send("four on Friday")
        chat.send("five")
        chat.undo()
    with opened(said("book"), store=store) as machine:
        turn = machine.resume("one").send("yes")
    assert turn.text == "Booked for 4."


def test_a_stream_shows_no_word_of_a_booking_that_nobody_agreed_to() -> None:
    with opened(said("confirm", **ALL), said("book", "Booked for five!", guests=5)) as machine:
        chat = machine.start(greet=False)
        chat.send("four on Friday")
        shown = "".join(getattr(event, "text", "") for event in chat.stream("yes, for five")
                        if type(event).__name__ == "MessageDelta")  # fmt: skip
        assert chat.state == "confirm"
    assert shown == "A table for 5 on Friday?"


def _replayed(document: dict[str, Any], *replies: Any, texts: tuple[str, ...]) -> ReplayResult:
    async def run() -> ReplayResult:
        store = MemoryStore()
        async with AsyncMachine.from_dict(
            document, model=ScriptedLLM(list(replies)), store=store
        ) as machine:
            machine.function(lambda ctx: "done", name="book")
            machine.tool(lambda day, guests: "done", name="book", acts=True)
            chat = await machine.start(greet=False, conversation_id="one")
            for text in texts:
                await chat.send(text)
            records = [parse(text) for text in await store.records("one")]
            return await replay_turns(
                machine.program, recorded_tools(machine.program), "one", records
            )

    return asyncio.run(run())


def test_replay_comes_to_the_same_yes() -> None:
    replies = (said("confirm", **ALL), said("book", guests=5), said("book"))
    found = _replayed(TABLE, *replies, texts=("four on Friday", "yes, for five", "yes"))
    assert (found.turns, found.divergence) == (4, None)


def test_replay_refuses_the_same_call() -> None:
    call = {"tool_calls": [{"name": "book", "arguments": {"day": "Friday", "guests": 5}}]}
    replies = (said("confirm", **ALL), said("book", "One moment."), call, said("book", "Well."))
    found = _replayed(TOOL, *replies, texts=("four on Friday", "yes", "go on"))
    assert (found.turns, found.divergence) == (4, None)


TOOL: dict[str, Any] = {
    **TABLE,
    "tools": {"book": {"registered": "book"}},
    "states": {
        **TABLE["states"],
        "book": {
            "purpose": "Book it",
            "tools": ["book"],
            "transitions": [{"target_state": "booked"}],
        },
    },
}


@pytest.mark.parametrize(("guests", "made"), [(4, True), (5, False)])
def test_a_tool_that_acts_is_told_of_the_yes_and_held_to_it(guests: int, made: bool) -> None:
    call = {"tool_calls": [{"name": "book", "arguments": {"day": "Friday", "guests": guests}}]}
    replies = [said("confirm", **ALL), said("book", "One moment."), call, said("book", "Well.")]
    seen: list[Any] = []
    with Machine.from_dict(TOOL, model=ScriptedLLM(replies)) as machine:

        @machine.tool(acts=True)
        def book(day: str, guests: int, info: CallInfo) -> str:
            """Book a table."""
            seen.append((day, guests, dict(info.agreed.values) if info.agreed else None))
            return "done"

        chat = machine.start(greet=False)
        chat.send("four on Friday")
        chat.send("yes")
        turn = chat.send("go on")
    refused = [event.name for event in turn.events if isinstance(event, ToolRefused)]
    assert (seen, refused) == (([("Friday", 4, ALL)], []) if made else ([], ["book"]))


def test_an_async_machine_holds_it_too() -> None:
    async def run() -> str:
        replies = [said("confirm", **ALL), said("book", guests=5)]
        async with AsyncMachine.from_dict(TABLE, model=ScriptedLLM(replies)) as machine:
            machine.function(lambda ctx: "done", name="book")
            chat = await machine.start(greet=False)
            await chat.send("four on Friday")
            return (await chat.send("yes, for five")).text

    assert asyncio.run(run()) == "A table for 5 on Friday?"
