"""Which turn in a journal was interrupted and has to be finished."""

from __future__ import annotations

import json

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.engine.recovery import UnderWay, identity, interrupted, under_way
from llm_fsm.errors import HandlerError, ModelError, StoreError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.turn.pipeline import UserMessage
from orders import ORDER, REPLIES

pytestmark = pytest.mark.anyio


async def left_behind(store, *entries):
    for step, entry in enumerate(entries):
        await store.journal("c", step, json.dumps({**entry, "step": step}))


async def test_what_is_left_of_a_message_that_has_its_answer_holds_nobody_up():
    store, heard = MemoryStore(), []
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)

    @machine.on("pre_processing")
    async def hear(occasion):
        heard.append(occasion.user_input)

    chat = await machine.start(conversation_id="c", greet=False)
    await chat.send("hello", request_id="r1")
    message = {"kind": "message", "request_id": "r1", "text": "hello", "time": 1.0}
    await left_behind(store, message, {"kind": "handler"})
    assert await under_way(store, "c") == UnderWay()
    turn = await chat.send("soup", request_id="r2")
    assert (turn.number, turn.request_id, heard) == (2, "r2", ["hello", "soup"])
    assert (await chat.send("hello", request_id="r1")).number == 1
    assert await store.journalled("c") == ()


async def test_a_message_that_acted_and_has_no_answer_is_to_be_finished():
    store = MemoryStore()
    await left_behind(
        store,
        {"kind": "message", "request_id": "r1", "text": "hello", "time": 1.0},
        {"kind": "handler"},
    )
    first, must, blank = await under_way(store, "c")
    assert (first["text"], must, blank) == ("hello", True, False)


@pytest.mark.parametrize("how", ["end", "undo"])
async def test_a_message_that_acted_is_finished_before_the_conversation_is_ended_or_a_turn_taken_back(
    how,
):
    store, heard = MemoryStore(), []
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)
    machine.on("pre_processing")(lambda occasion: heard.append(occasion.user_input))
    chat = await machine.start(conversation_id="c", greet=False)
    message = {"kind": "message", "request_id": "r1", "text": "hello", "time": 1.0}
    await left_behind(store, message, {"kind": "handler"})
    await getattr(chat, how)()
    assert [turn.request_id for turn in await chat.turns()] == [None, "r1", None]
    assert (await store.journalled("c"), chat.ended) == ((), how == "end")
    assert ((await chat.send("hello", request_id="r1")).number, heard) == (1, ["hello"])


async def test_a_turn_whose_error_handler_failed_was_told_and_is_not_finished_later():
    replies = [ModelError("down"), "never said"]
    machine = AsyncMachine.from_dict(
        ORDER, model=ScriptedLLM(replies), store=MemoryStore(), error_mode="raise"
    )
    machine.on("pre_processing")(lambda occasion: {"heard": occasion.user_input})

    @machine.on("error")
    def fails(occasion):
        raise KeyError("no words")

    chat = await machine.start(conversation_id="c", greet=False)
    with pytest.raises(HandlerError, match="handler 'fails' failed at error"):
        await chat.send("hello", request_id="r1")
    machine.llm = ScriptedLLM(REPLIES)
    turn = await chat.send("soup", request_id="r2")
    assert (turn.number, turn.request_id) == (1, "r2")


class Full(MemoryStore):
    """One that keeps no turn while it is `full`."""

    full = False

    async def save(self, commit):
        if self.full:
            raise StoreError("the disk is full")
        await super().save(commit)


async def test_a_turn_that_could_not_be_kept_was_told_and_is_not_finished_later():
    store, heard = Full(), []
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)
    machine.on("pre_processing")(lambda occasion: heard.append(occasion.user_input))
    chat = await machine.start(conversation_id="c", greet=False)
    store.full = True
    with pytest.raises(StoreError, match="the disk is full"):
        await chat.send("hello", request_id="r1")
    store.full = False
    turn = await chat.send("soup", request_id="r2")
    assert (turn.number, turn.request_id, heard) == (1, "r2", ["hello", "soup"])
    assert [message.text for message in await chat.history() if message.role == "user"] == ["soup"]


async def test_a_start_that_failed_gives_nothing_to_another_one_under_its_id():
    replies = [ModelError("down"), ModelError("down"), {"message": "Hello"}]
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(replies), store=MemoryStore())
    ran = []

    @machine.on("start_conversation")
    def greet(occasion):
        ran.append(occasion.context["dish"])
        return {"wanted": occasion.context["dish"]}

    for _ in range(2):
        with pytest.raises(ModelError):
            await machine.start({"dish": "soup"}, conversation_id="c")
    chat = await machine.start({"dish": "fish"}, conversation_id="c")
    assert (chat.context["wanted"], ran) == ("fish", ["soup", "fish"])


class Read(MemoryStore):
    """One that counts how often a journal is read."""

    count = 0

    async def journalled(self, conversation_id):
        self.count += 1
        return await super().journalled(conversation_id)


async def test_a_turn_reads_its_journal_once_where_nothing_is_written_down():
    store = Read()
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)
    machine.on("pre_processing")(lambda occasion: None)
    chat = await machine.start(conversation_id="c", greet=False)
    store.count = 0
    await chat.send("hello")
    assert store.count == 1
    message = {"kind": "message", "request_id": None, "text": "soup", "time": 1.0}
    await left_behind(store, message, {"kind": "handlers", "results": []})
    turn = await chat.send("bread")
    assert (turn.number, store.count) == (2, 3)
    assert (await under_way(store, "c")).blank


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sent": 3.5},
        {"sent": 8.0, "request_id": "r7"},
        {"sent": 1e9, "picked": True, "request_id": "17"},
        {"merged": (("a", "hi"), (None, "Oui"))},
    ],
)
def test_a_message_is_the_same_and_as_old_when_another_process_finishes_it(more):
    message = UserMessage(text="Oui", time=9.0, **more)
    left = json.loads(json.dumps({**identity(message), "time": message.time}))
    assert interrupted(left, None) == message
