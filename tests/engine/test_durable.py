"""`send(durable=True)`: an accepted message is answered, whatever becomes of the process that took
it.
"""

from __future__ import annotations

import json

import pytest

from dead_processes import Hanging, killed_in, kinds_of
from llm_fsm import AsyncMachine, Machine
from llm_fsm.errors import ConversationConflict, ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.memory import MemoryStore
from orders import ORDER, REPLIES

pytestmark = pytest.mark.anyio


class Written(MemoryStore):
    """One that counts its writes."""

    def __init__(self):
        super().__init__()
        self.written = []

    async def save(self, commit):
        self.written.append("save")
        await super().save(commit)

    async def journal(self, conversation_id, step, text):
        self.written.append("journal")
        await super().journal(conversation_id, step, text)

    async def accept(self, message):
        self.written.append("accept")
        return await super().accept(message)


class HangsAt(ScriptedLLM):
    """A model whose process can be killed while it is asked."""

    def __init__(self, hanging):
        super().__init__(REPLIES, loop=True)
        self.hanging = hanging

    async def complete(self, request):
        await self.hanging.hang()
        return await super().complete(request)


def order(store, model=None, **settings):
    model = model or ScriptedLLM(REPLIES, loop=True)
    return AsyncMachine.from_dict(ORDER, model=model, store=store, **settings)


async def dead(text="hello", request_id="r1", handled=False):
    """Return the store that a process left, which died while it answered a durable message."""
    store, hanging = MemoryStore(), Hanging()
    machine = order(store, HangsAt(hanging))
    if handled:
        machine.on("pre_processing")(lambda occasion: None)
    chat = await machine.start(conversation_id="c", greet=False)
    return await killed_in(hanging, chat.send(text, request_id=request_id, durable=True), store)


async def test_a_durable_message_costs_one_write_more_and_another_one_none():
    store = Written()
    chat = await order(store).start(conversation_id="c", greet=False)
    store.written.clear()
    await chat.send("hello", request_id="r1")
    assert store.written == ["save"]
    store.written.clear()
    await chat.send("soup", request_id="r2", durable=True)
    assert store.written == ["journal", "save"]
    assert await store.journalled("c") == ()


async def test_a_message_on_record_is_the_whole_message_before_its_turn_begins():
    store = await dead('a "soup"\n\U0001f963')
    (entry,) = [json.loads(text) for text in await store.journalled("c")]
    said = (entry["kind"], entry["text"], entry["request_id"])
    assert said == ("message", 'a "soup"\n\U0001f963', "r1")
    assert list(await store.unfinished()) == ["c"]


@pytest.mark.parametrize("handled", [False, True], ids=["talks", "acts"])
async def test_a_worker_answers_it_with_the_same_text_and_request_id(handled):
    store = await dead(handled=handled)
    machine = order(store)
    if handled:
        assert await machine.take_up("c") is None  # it has not the handlers of the turn
        machine.on("pre_processing")(lambda occasion: None)
    turn = await machine.take_up("c")
    said = [event.text for event in turn.events if type(event).__name__ == "UserSaid"]
    assert (said, turn.request_id, turn.text) == (["hello"], "r1", "Which one?")
    assert await machine.take_up("c") is None
    chat = await machine.resume("c")
    assert (await chat.send("hello", request_id="r1", durable=True)).number == 1


async def test_a_later_message_waits_until_it_is_answered():
    machine = order(await dead())
    chat = await machine.resume("c")
    turn = await chat.send("soup", request_id="r2")
    assert (turn.number, turn.text) == (2, "With salad?")
    assert [one.request_id for one in await chat.turns()] == [None, "r1", "r2"]


async def test_the_sender_may_send_it_again_and_it_is_answered_once():
    machine = order(await dead())
    chat = await machine.resume("c")
    assert (await chat.send("hello", request_id="r1")).number == 1
    assert len(await chat.turns()) == 2
    with pytest.raises(ConversationConflict, match="already used for another message"):
        await chat.send("other", request_id="r1", durable=True)


async def test_a_message_that_ends_each_process_is_parked():
    store = await dead()
    for _ in range(3):
        hanging = Hanging()
        store = await killed_in(hanging, order(store, HangsAt(hanging)).take_up("c"), store)
    assert await order(store).take_up("c") is None
    assert (await kinds_of(store, "c"))[-1] == "parked"


async def test_its_sender_who_hears_of_an_error_decides_what_follows():
    store = MemoryStore()
    machine = order(store, ScriptedLLM([ModelError("down"), *REPLIES], loop=True))
    chat = await machine.start(conversation_id="c", greet=False)
    with pytest.raises(ModelError):
        await chat.send("hello", request_id="r1", durable=True)
    assert list(await store.unfinished()) == []
    assert (await chat.send("soup", request_id="r2")).number == 1


async def test_a_durable_message_does_not_wait_for_others():
    machine = order(MemoryStore(), merge_within=60.0)
    chat = await machine.start(conversation_id="c", greet=False)
    assert (await chat.send("hello", request_id="r1", durable=True)).number == 1


async def test_a_durable_stream_is_on_record_too():
    store = Written()
    chat = await order(store).start(conversation_id="c", greet=False)
    store.written.clear()
    stream = chat.stream("hello", request_id="r1", durable=True)
    async for _ in stream:
        pass
    assert (stream.turn.number, store.written) == (1, ["journal", "save"])


def test_a_durable_message_needs_a_request_id():
    with Machine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True)) as machine:
        chat = machine.start(greet=False)
        with pytest.raises(ValueError, match="needs a request_id"):
            chat.send("hello", durable=True)
        assert chat.send("hello", request_id="r1", durable=True).number == 1
        assert chat.stream("soup", request_id="r2", durable=True).finish().number == 2
