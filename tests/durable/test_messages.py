"""Submitted messages: accepted once, answered in order by workers, and told what became of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

import warm_parent
from dead_processes import Hanging, killed_in
from llm_fsm import AsyncMachine
from llm_fsm.durable import MessageCancelled, MessageRefused, cancel, health, result, submit
from llm_fsm.engine.journal import TurnParked
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.errors import ConversationConflict, ConversationNotFound, ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import ModelReply
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import reply
from orders import ORDER, REPLIES
from paths import SUPPORT
from store_talkers import ECHO

pytestmark = pytest.mark.anyio
ACCEPTING = str(SUPPORT.joinpath("accepting_process.py"))


class Echo:
    """A model that says what it heard."""

    def __init__(self, hanging=None):
        self.heard = []
        self.hanging = hanging

    async def complete(self, request):
        if self.hanging is not None:
            await self.hanging.hang()
        self.heard.append(request.messages[-1].content)
        await asyncio.sleep(0.001)
        return ModelReply(text='{"message":"I see.","transition":{"target_state":"hear"}}')


def echo(store, model=None):
    return AsyncMachine.from_dict(ECHO, model=model or Echo(), store=store)


def order(store, *replies):
    model = ScriptedLLM(replies or REPLIES, loop=True)
    return AsyncMachine.from_dict(ORDER, model=model, store=store)


async def asked(machine, name="c"):
    """Return what the user said in a conversation, in order, with the request ids."""
    turns = await (await machine.resume(name)).turns()
    events = [event for turn in turns for event in turn.events]
    return [
        (event.request_id, event.text) for event in events if type(event).__name__ == "UserSaid"
    ]


@pytest.fixture(params=["sqlite", "file", "postgresql", "redis"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'x.db'}"
    if request.param == "file":
        return f"file://{tmp_path / 'x'}"
    return request.getfixturevalue(f"{request.param}_url")


@pytest.mark.parametrize("role", ["submits", "sends"])
async def test_what_a_killed_process_accepted_is_answered_without_a_caller(url, role):
    async with echo(url) as machine:
        await machine.start(conversation_id="c", greet=False)
        command = [sys.executable, ACCEPTING, url, role]
        with warm_parent.Popen(command, stdout=subprocess.PIPE, text=True) as accepting:
            said = await asyncio.to_thread(accepting.stdout.readline)
            assert said == {"submits": "accepted\n", "sends": "asked\n"}[role]
            accepting.kill()
        keeper = Upkeep(lambda: [machine], every=0.1)
        looking = asyncio.create_task(keeper.run())
        turn = await result("c", "m1", 20.0, store=machine.store)
        looking.cancel()
        await keeper.stop()
        assert (turn.request_id, turn.text) == ("m1", "I see.")
        assert await asked(machine) == [("m1", "hello")]


async def test_two_workers_answer_each_message_once_and_in_order(url):
    async with echo(url) as one, echo(url) as other:
        for number in range(6):
            for name in ("a", "b"):
                await submit("echo", name, f"{number}", f"{number}", store=one.store)
        keepers = [Upkeep(lambda machine=machine: [machine], every=0.1) for machine in (one, other)]
        looking = [asyncio.create_task(keeper.run()) for keeper in keepers]
        for name in ("a", "b"):
            await result(name, "5", 20.0, store=one.store)
        for task in looking:
            task.cancel()
        for keeper in keepers:
            await keeper.stop()
        for name in ("a", "b"):
            assert await asked(one, name) == [(f"{number}", f"{number}") for number in range(6)]
        assert len(one.llm.heard) + len(other.llm.heard) == 12
        assert (await health(store=one.store)).waiting == 0


async def test_a_message_is_accepted_without_its_machine_and_begins_its_conversation():
    store = MemoryStore()
    submission = await submit("echo", "new", "hello", "m1", store=store)
    seen = await health(store=store)
    assert (submission.state, seen.waiting, seen.scheduled) == ("waiting", 1, 0)
    assert 0 <= seen.oldest < 60
    (turn,) = await echo(store).run_due()
    assert (turn.request_id, turn.number, turn.text) == ("m1", 1, "I see.")
    assert (await submit("echo", "new", "hello", "m1", store=store)).state == "answered"


async def test_it_is_accepted_while_another_turn_is_under_way():
    store, hanging = MemoryStore(), Hanging()
    machine = echo(store, Echo(hanging))
    chat = await machine.start(conversation_id="c", greet=False)
    talking = asyncio.create_task(chat.send("first"))
    await hanging.entered.wait()
    accepted = await asyncio.wait_for(submit("echo", "c", "second", "m2", store=store), 2.0)
    assert accepted.state == "waiting"
    assert await echo(store).take_up("c") is None  # its process lives
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)


async def test_the_same_request_id_is_accepted_once_and_refused_for_another_text():
    store = MemoryStore()
    for _ in range(2):
        await submit("echo", "c", "hello", "m1", store=store)
    with pytest.raises(ConversationConflict, match="'m1' was already used for another message"):
        await submit("echo", "c", "other", "m1", store=store)
    assert len(await echo(store).run_due()) == 1
    with pytest.raises(ConversationConflict, match="'m1' was already used for another message"):
        await submit("echo", "c", "other", "m1", store=store)
    assert (await submit("echo", "other", "other", "m1", store=store)).state == "waiting"


async def test_a_message_waits_for_its_time_and_holds_no_other_up():
    store = MemoryStore()
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit("echo", "c", "later", "m1", later, store=store)
    await submit("echo", "c", "now", "m2", store=store)
    machine = echo(store)
    assert [turn.request_id for turn in await machine.run_due()] == ["m2"]
    seen = await health(store=store)
    assert (seen.waiting, seen.scheduled, seen.oldest) == (0, 1, None)
    with pytest.raises(TimeoutError, match="is not answered yet"):
        await result("c", "m1", 0, store=store)
    assert [turn.request_id for turn in await machine.run_due(later.timestamp() + 1)] == ["m1"]


async def test_a_look_begins_what_is_due_and_nothing_else():
    store = MemoryStore()
    await submit("echo", "c", "soon", "m1", time.time() + 0.4, store=store)
    machine = echo(store)
    keeper = Upkeep(lambda: [machine], every=0.05)
    looking = asyncio.create_task(keeper.run())
    turn = await result("c", "m1", 10.0, store=store)
    looking.cancel()
    await keeper.stop()
    assert turn.request_id == "m1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"not_before": datetime(2030, 1, 1)}, "no time zone"),
        ({"not_before": float("nan")}, "not_before is a datetime with a time zone"),
        ({"not_before": True}, "not_before is a datetime"),
        ({"not_before": "soon"}, "not_before is a datetime"),
        ({"text": "  "}, "the message is empty"),
        ({"request_id": ""}, "a request id is a text"),
        ({"conversation": "a\0"}, "a conversation id must not contain"),
    ],
)
async def test_what_cannot_be_accepted_is_said(given, message):
    whole = {
        "definition": "echo",
        "conversation": "c",
        "text": "hello",
        "request_id": "m1",
        **given,
    }
    with pytest.raises(ValueError, match=message):
        await submit(**whole, store=MemoryStore())


async def test_a_message_is_cancelled_before_it_begins_and_never_after():
    store = MemoryStore()
    machine = echo(store)
    for number in (1, 2):
        await submit("echo", "c", "hello", f"m{number}", store=store)
    assert [await cancel("c", "m1", store=store) for _ in range(2)] == [True, True]
    assert [turn.request_id for turn in await machine.run_due()] == ["m2"]
    assert await cancel("c", "m2", store=store) is False
    with pytest.raises(MessageCancelled, match="was cancelled"):
        await result("c", "m1", 5.0, store=store)
    with pytest.raises(MessageCancelled, match="submit it with a new request id"):
        await submit("echo", "c", "hello", "m1", store=store)
    with pytest.raises(ConversationNotFound, match="never accepted"):
        await cancel("c", "m3", store=store)


async def test_a_message_that_has_begun_is_not_cancelled():
    store, hanging = MemoryStore(), Hanging()
    await submit("echo", "c", "hello", "m1", store=store)
    left = await killed_in(hanging, echo(store, Echo(hanging)).run_due(), store)
    assert await cancel("c", "m1", store=left) is False
    assert (await health(store=left)).unfinished == 1
    (turn,) = await echo(left).run_due()
    assert turn.request_id == "m1"
    assert await echo(left).run_due() == ()


async def test_a_deleted_conversation_takes_its_messages_along():
    store, hanging = MemoryStore(), Hanging()
    machine = echo(store, Echo(hanging))
    await machine.start(conversation_id="c", greet=False)
    for number in (1, 2):
        await submit("echo", "c", "hello", f"m{number}", store=store)
    working = asyncio.create_task(machine.take_up("c"))
    await hanging.entered.wait()
    await machine.delete("c")
    hanging.entered.clear()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    for number in (1, 2):
        with pytest.raises(ConversationNotFound, match="its conversation was deleted"):
            await result("c", f"m{number}", 5.0, store=store)
    assert await echo(store).run_due() == ()


async def test_a_turn_that_ends_after_its_conversation_was_deleted_is_not_kept():
    store, entered, go_on = MemoryStore(), asyncio.Event(), asyncio.Event()

    class Held(Echo):
        async def complete(self, request):
            entered.set()
            await go_on.wait()
            return await super().complete(request)

    machine = echo(store, Held())
    await machine.start(conversation_id="c", greet=False)
    await submit("echo", "c", "hello", "m1", store=store)
    working = asyncio.create_task(machine.take_up("c"))
    await entered.wait()
    await machine.delete("c")
    go_on.set()
    with pytest.raises(ConversationConflict, match="is gone"):
        await working
    with pytest.raises(ConversationNotFound):
        await result("c", "m1", 0, store=store)


async def test_a_conversation_that_is_over_refuses_a_message_and_says_why():
    store = MemoryStore()
    machine = order(store, reply("done", "Thanks."))
    await submit("order", "c", "soup", "m1", store=store)
    await submit("order", "c", "bread", "m2", store=store)
    assert [turn.request_id for turn in await machine.run_due()] == ["m1"]
    with pytest.raises(MessageRefused, match=r"'m2' .* was refused: This conversation has ended"):
        await result("c", "m2", 5.0, store=store)
    assert (await health(store=store)).waiting == 0


async def test_an_error_is_tried_again_and_keeps_the_order():
    store = MemoryStore()
    machine = order(store, ModelError("down"), *REPLIES)
    for number in (1, 2):
        await submit("order", "c", f"{number}", f"m{number}", store=store)
    with pytest.raises(ModelError, match="down"):
        await machine.run_due()
    assert await machine.take_up("c") is None  # the first is tried again later
    with pytest.raises(TimeoutError):
        await result("c", "m1", 0, store=store)
    machine._engine.now = lambda: time.time() + 60
    assert [turn.request_id for turn in await machine.run_due()] == ["m1", "m2"]


async def test_a_message_that_ends_each_process_is_parked_and_holds_later_ones_up():
    store = MemoryStore()
    for number in (1, 2):
        await submit("echo", "c", "hello", f"m{number}", store=store)
    for _ in range(4):
        hanging = Hanging()
        store = await killed_in(hanging, echo(store, Echo(hanging)).run_due(), store)
    assert await echo(store).run_due() == ()
    with pytest.raises(TurnParked, match=r"'m1' .* parked"):
        await result("c", "m1", 5.0, store=store)
    seen = await health(store=store, definition="echo")
    assert (seen.parked, seen.waiting) == (1, 2)


async def test_a_changed_definition_answers_on_the_version_that_the_conversation_began_with():
    store = MemoryStore()
    await order(store).start(conversation_id="c", greet=False)
    await submit("order", "c", "soup", "m1", store=store)
    changed = {
        **ORDER,
        "states": {**ORDER["states"], "new": {"purpose": "Be new.", "transitions": []}},
    }
    changed["states"]["ask"] = {
        "purpose": "Ask anew.",
        "transitions": [{"target_state": "new", "description": "always"}],
    }
    model = ScriptedLLM([reply("done", "Thanks.")], loop=True)
    machine = AsyncMachine.from_dict(changed, model=model, store=store)
    (turn,) = await machine.run_due()
    assert (turn.state, turn.request_id) == ("done", "m1")


async def test_a_conversation_belongs_to_one_definition():
    store = MemoryStore()
    await echo(store).start(conversation_id="c", greet=False)
    with pytest.raises(
        ConversationConflict, match="belongs to the definition 'echo', not to 'order'"
    ):
        await submit("order", "c", "soup", "m1", store=store)
    await submit("nobody", "d", "soup", "m1", store=store)
    assert await echo(store).run_due() == ()
