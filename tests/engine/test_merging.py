"""Messages that come close together are one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, ConversationConflict, Machine
from llm_fsm.events import BotSaid, UserSaid
from llm_fsm.records.doctor import examine
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM
from machines import GREETER, reply

pytestmark = pytest.mark.anyio
REPLIES = [reply("hello", "first"), reply("hello", "second"), reply("hello", "third")]


def machine(**options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(GREETER, model=ScriptedLLM(REPLIES), merge_within=0.05, **options)


async def test_each_sender_gets_the_one_turn_that_answers_all() -> None:
    async with machine() as made:
        chat = await made.start(greet=False, conversation_id="c")
        other = await made.resume("c")
        turns = await asyncio.gather(chat.send("hello"), other.send("a room"), chat.send("for two"))
        assert [(turn.text, turn.number) for turn in turns] == [("first", 1)] * 3
        assert [event.text for event in turns[0].events if isinstance(event, UserSaid)] == [
            "hello\na room\nfor two"
        ]
        assert (await chat.send("later")).number == 2


async def test_conversations_are_not_mixed() -> None:
    async with machine() as made:
        chats = [await made.start(greet=False) for _ in range(2)]
        turns = await asyncio.gather(
            *(chat.send(f"to {number}") for number, chat in enumerate(chats))
        )
        assert {turn.text for turn in turns} == {"first", "second"}


async def test_every_request_id_of_a_merged_turn_gives_that_turn_again() -> None:
    async with machine() as made:
        chat = await made.start(greet=False)
        sent = (("hello", "r1"), ("a room", "r2"), ("a room", "r2"))
        await asyncio.gather(*(chat.send(text, request_id=name) for text, name in sent))
        again = [await chat.send(text, request_id=name) for text, name in sent]
        assert [(turn.text, turn.number) for turn in again] == [("first", 1)] * 3
        for other in ("another", "hello"):
            with pytest.raises(ConversationConflict):
                await chat.send(other, request_id="r2")


class CountingStore(MemoryStore):
    """A store that counts the records that it hands out."""

    def __init__(self) -> None:
        super().__init__()
        self.handed_out = 0

    async def records(self, *args: Any, **options: Any) -> Sequence[str]:
        found = await super().records(*args, **options)
        self.handed_out += len(found)
        return found


async def test_messages_of_a_long_conversation_are_merged_without_reading_its_records() -> None:
    store = CountingStore()
    async with machine(store=store) as made:
        chat = await made.start(greet=False)
        await chat.send("hello", request_id="r1")
        await asyncio.gather(
            chat.send("a room", request_id="r2"), chat.send("for two", request_id="r3")
        )
        await chat.send("later", request_id="r4")
    assert store.handed_out == 0


async def test_a_moved_conversation_knows_every_request_id_of_a_merged_turn(tmp_path: Path) -> None:
    sent = (("hello", "r1"), ("a room", "r2"))
    async with machine() as made:
        chat = await made.start(greet=False, conversation_id="c")
        await asyncio.gather(*(chat.send(text, request_id=name) for text, name in sent))
        text = await made.export("c")
    async with machine(store=f"sqlite:///{tmp_path / 'moved.db'}") as moved:
        chat = await moved.resume(await moved.take_in(text))
        again = [await chat.send(text, request_id=name) for text, name in sent]
        assert [(turn.text, turn.number) for turn in again] == [("first", 1)] * 2
        assert list(await examine(moved.store)) == []


async def test_one_id_for_two_messages_at_once_is_a_conflict_and_the_other_is_answered() -> None:
    async with machine() as made:
        chat = await made.start(greet=False)
        found = await asyncio.gather(
            chat.send("hello", request_id="r"),
            chat.send("bye", request_id="r"),
            return_exceptions=True,
        )
        assert isinstance(found[1], ConversationConflict)
        assert not isinstance(found[0], BaseException)
        assert found[0].text == "first"


async def test_a_sender_who_leaves_takes_no_message_along() -> None:
    async with machine() as made:
        chat = await made.start(greet=False)
        leaves = asyncio.create_task(chat.send("hello"))
        await asyncio.sleep(0)
        stays = asyncio.create_task(chat.send("a room"))
        await asyncio.sleep(0)
        leaves.cancel()
        turn = await stays
        assert [event.text for event in turn.events if isinstance(event, UserSaid)] == [
            "hello\na room"
        ]


async def test_every_stream_of_a_merged_turn_hears_it() -> None:
    async with machine() as made:
        chat = await made.start(greet=False)

        async def heard(text: str) -> list[str]:
            return [event.text async for event in chat.stream(text) if isinstance(event, BotSaid)]

        assert await asyncio.gather(heard("hello"), heard("a room")) == [["first"], ["first"]]


def test_a_wrong_number_of_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match="merge_within"):
        Machine.from_dict(GREETER, model="offline", merge_within=-1)
