"""Turns that a process left are finished without a caller, and those that somebody stopped are not."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing

import pytest

from dead_processes import Hanging, killed_in, kinds_of
from llm_fsm import AsyncMachine
from llm_fsm.engine.journal import TurnParked
from llm_fsm.engine.recovery import FIRST_WAIT, LONGEST_WAIT, left_turn, reopen
from llm_fsm.engine.unattended import take_up
from llm_fsm.errors import ConfigurationError, ConversationConflict, HandlerError, ModelError
from llm_fsm.events import AttemptBegun
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import ModelReply
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.testing import reply
from machines import calls
from orders import ORDER, REPLIES

pytestmark = pytest.mark.anyio
FLOW = {
    "name": "flow",
    "initial_state": "one",
    "states": {
        "one": {
            "kind": "task",
            "purpose": "Do it",
            "execute": "first",
            "transitions": [{"target_state": "two"}],
        },
        "two": {
            "kind": "task",
            "purpose": "Do the rest",
            "execute": "second",
            "transitions": [{"target_state": "over"}],
        },
        "over": {"kind": "final"},
    },
}
SHOP = {
    "name": "shop",
    "initial_state": "ask",
    "tools": {"charge": {"registered": "charge"}},
    "states": {
        "ask": {
            "purpose": "Sell",
            "tools": ["charge"],
            "model": {"on_failure": "We are sorry."},
            "transitions": [{"target_state": "bye", "description": "The user leaves"}],
        },
        "bye": {"purpose": "Say goodbye"},
    },
}


class Replies:
    """A model that answers from a list."""

    def __init__(self, *replies):
        self.replies = list(replies)

    async def complete(self, request):
        found = self.replies.pop(0)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, ModelReply) else ModelReply(text=json.dumps(found))


def order(store, *, hear=None, **settings):
    """The order, with a handler, so that each of its turns has a journal."""
    machine = AsyncMachine.from_dict(
        ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store, **settings
    )
    machine.on("pre_processing")(hear or (lambda occasion: None))
    return machine


def flow(store, first, second, **settings):
    machine = AsyncMachine.from_dict(FLOW, model=Replies(), store=store, **settings)
    for name, work in (("first", first), ("second", second)):
        machine.function(_function(work), name=name)
    return machine


def _function(work):
    async def run(task):
        done = work()
        return await done if asyncio.iscoroutine(done) else done

    return run


def shop(store, charge, *replies, **settings):
    async def tool(amount: int) -> str:
        """Take the money."""
        done = charge(amount)
        return await done if asyncio.iscoroutine(done) else str(done)

    machine = AsyncMachine.from_dict(SHOP, model=Replies(*replies), store=store, **settings)
    machine.tool(name="charge")(tool)
    return machine


PAYS = (calls(("charge", {"amount": 3})), reply("ask", "Paid."))


async def test_a_message_whose_process_died_is_answered_without_a_caller():
    store, hanging = MemoryStore(), Hanging()
    machine = order(store)
    await machine.start(conversation_id="c", greet=False)
    dying = order(store, hear=hanging.handle)
    chat = await dying.resume("c")
    left = await killed_in(hanging, chat.send("hello", request_id="r1"), store)
    assert list(await left.unfinished(10, ["order"])) == ["c"]
    heard = []
    alive = order(left, hear=lambda occasion: heard.append(occasion.user_input))
    (turn,) = await alive.run_due()
    assert (turn.request_id, turn.text, heard) == ("r1", "Which one?", ["hello"])
    assert (await left.unfinished(), await alive.run_due()) == ((), ())
    again = await (await alive.resume("c")).send("hello", request_id="r1")
    assert (again.text, heard) == ("Which one?", ["hello"])


async def test_a_live_turn_is_left_to_its_process():
    store, hanging = MemoryStore(), Hanging()
    await order(store).start(conversation_id="c", greet=False)
    chat = await order(store, hear=hanging.handle).resume("c")
    task = asyncio.create_task(chat.send("hello", request_id="r1"))
    await hanging.entered.wait()
    assert await order(store).take_up("c") is None
    assert await order(store).run_due() == ()
    task.cancel()


async def stopped_message(store):
    hanging = Hanging()
    await order(store).start(conversation_id="c", greet=False)
    chat = await order(store, hear=hanging.handle).resume("c")
    task = asyncio.create_task(chat.send("hello", request_id="r1"))
    await hanging.entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return order(store)


async def stopped_run(store):
    hanging = Hanging()
    machine = flow(store, hanging.hang, hanging.hang)
    task = asyncio.create_task(machine.run(conversation_id="c"))
    await hanging.entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return flow(store, Hanging(1).hang, Hanging(1).hang)


async def reader_that_left(store):
    hanging = Hanging()
    machine = flow(store, hanging.hang, hanging.hang)
    async with aclosing(aiter(machine.run_stream(conversation_id="c"))) as events:
        async for event in events:
            if isinstance(event, AttemptBegun):
                await hanging.entered.wait()
                break
    return flow(store, Hanging(1).hang, Hanging(1).hang)


async def run_without_a_model(store):
    document = {
        "name": "flow",
        "initial_state": "one",
        "states": {"one": {"kind": "task", "purpose": "Do it"}},
    }
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([ModelError("down")]), store=store)
    with pytest.raises(ModelError):
        await machine.run(conversation_id="c")
    return AsyncMachine.from_dict(document, model=ScriptedLLM(["done"]), store=store)


async def failed_message(store):
    hear = order(store, error_mode="raise")
    await hear.start(conversation_id="c", greet=False)
    hear.llm = ScriptedLLM([ModelError("down")])
    with pytest.raises(ModelError):
        await (await hear.resume("c")).send("hello", request_id="r1")
    return order(store)


@pytest.mark.parametrize(
    "stopped", [stopped_message, stopped_run, reader_that_left, run_without_a_model, failed_message]
)
async def test_what_somebody_stopped_is_not_taken_up(stopped):
    store = MemoryStore()
    machine = await stopped(store)
    records = len(await store.records("c"))
    assert (await kinds_of(store, "c"))[-1] in ("stopped", "failed")
    assert await store.unfinished() == ()
    assert await machine.run_due(time.time() + 3600) == ()
    assert await machine.take_up("c") is None
    assert len(await store.records("c")) == records


async def test_a_run_that_somebody_stopped_goes_on_when_it_is_resumed():
    store = MemoryStore()
    machine = await stopped_run(store)
    turn = await machine.run(conversation_id="c")
    assert (turn.outcome, await store.journalled("c")) == ("passed", ())


async def test_a_run_that_died_before_its_first_step_is_found():
    store, hanging = MemoryStore(), Hanging()
    seen = []

    machine = flow(store, hanging.hang, hanging.hang)
    engine_started = machine._engine.run

    async def never(*given, **named):
        hanging.entered.set()
        await asyncio.Event().wait()

    machine._engine.run = never
    left = await killed_in(hanging, machine.run(conversation_id="c"), store)
    machine._engine.run = engine_started
    (row,) = await left.due(time.time())
    assert (row.conversation_id, row.kind, await left.journalled("c")) == ("c", "run", ())
    alive = flow(left, lambda: seen.append("first"), lambda: seen.append("second"))
    (turn,) = await alive.run_due()
    assert (turn.outcome, seen, await left.due(time.time())) == ("passed", ["first", "second"], ())


async def test_a_run_goes_on_behind_the_steps_that_are_on_record():
    store, hanging, seen = MemoryStore(), Hanging(), []
    machine = flow(store, lambda: seen.append("first"), hanging.hang)
    left = await killed_in(hanging, machine.run(conversation_id="c"), store)
    alive = flow(left, lambda: seen.append("first"), lambda: seen.append("second"))
    (turn,) = await alive.run_due()
    assert (turn.outcome, seen) == ("passed", ["first", "second"])


async def test_a_beginning_that_acted_is_taken_up_though_there_is_no_conversation_yet():
    store, hanging, seen = MemoryStore(), Hanging(), []
    machine = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)
    machine.on("start_conversation")(hanging.handle)
    begun = machine.start(
        {"dish": "soup"}, "c", background={"goals": ["sell"]}, metadata={"user": "ada"}
    )
    left = await killed_in(hanging, begun, store)
    assert list(await left.unfinished(5, ["order"])) == ["c"]
    alive = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=left)
    alive.on("start_conversation")(lambda occasion: seen.append(occasion.conversation_id))
    (turn,) = await alive.run_due()
    chat = await alive.resume("c")
    assert (seen, turn.conversation_id, chat.context) == (["c"], "c", {"dish": "soup"})
    (line,) = await alive.conversations(metadata={"user": "ada"})
    assert line.conversation_id == "c"


async def test_the_first_entry_of_a_journal_names_the_definition_and_its_hash():
    store, hanging = MemoryStore(), Hanging()
    await order(store).start(conversation_id="c", greet=False)
    machine = order(store, hear=hanging.handle)
    left = await killed_in(
        hanging, (await machine.resume("c")).send("hello", request_id="r"), store
    )
    first = json.loads((await left.journalled("c"))[0])
    assert (first["definition"], first["sha"]) == ("order", machine.program.identity)


async def test_conversations_on_older_versions_are_taken_up_with_their_own():
    store, hanging = MemoryStore(), Hanging()
    await order(store).start(conversation_id="c", greet=False)
    dying = order(store, hear=hanging.handle)
    left = await killed_in(hanging, (await dying.resume("c")).send("hello", request_id="r"), store)
    newer = {**ORDER, "description": "another version"}
    alive = AsyncMachine.from_dict(newer, model=ScriptedLLM(REPLIES, loop=True), store=left)
    alive.on("pre_processing")(lambda occasion: None)
    (turn,) = await alive.run_due()
    session = await alive._engine.load("c")
    assert (turn.request_id, session.definition) == ("r", dying.program.identity)


async def killed_while_charging(store):
    hanging = Hanging()

    async def charge(amount):
        await hanging.hang()

    dying = shop(store, charge, *PAYS)
    await dying.start(conversation_id="c", greet=False)
    return await killed_in(hanging, (await dying.resume("c")).send("pay", request_id="r1"), store)


async def test_a_worker_without_the_tool_of_a_turn_leaves_it_alone():
    left = await killed_while_charging(MemoryStore())
    before = await left.journalled("c")
    without = AsyncMachine.from_dict(SHOP, model=Replies(*PAYS), store=left)
    assert await take_up(without._engine, "c") is None
    other = AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES), store=left)
    assert await other.run_due() == ()
    assert await other.take_up("c") is None
    assert await left.journalled("c") == before
    with pytest.raises(ConfigurationError):
        await without.start()
    (turn,) = await shop(left, lambda amount: f"{amount} taken", *PAYS[1:]).run_due()
    assert turn.text == "Paid."


async def dead_again(store):
    """What is left after one more process died in the same turn."""
    hanging = Hanging()

    async def charge(amount):
        await hanging.hang()

    machine = shop(store, charge, *PAYS[1:])
    return await killed_in(hanging, take_up(machine._engine, "c"), store)


async def test_a_turn_that_ends_three_processes_is_parked_and_the_next_message_gets_the_apology():
    left = await killed_while_charging(MemoryStore())
    for _ in range(3):
        left = await dead_again(left)
    charged = []
    alive = shop(left, charged.append, *PAYS[1:], *PAYS[1:])
    assert await alive.run_due() == ()
    assert (await left.unfinished(), list(await left.unfinished(parked=True))) == ((), ["c"])
    chat = await alive.resume("c")
    turn = await chat.send("hello?", request_id="r2")
    assert (turn.text, charged) == ("We are sorry.", [])
    same = await chat.send("pay", request_id="r1")
    assert (same.text, charged) == ("We are sorry.", [])
    with pytest.raises(TurnParked, match="ended 3 processes"):
        await chat.update(state="bye")
    await reopen(left, "c", time.time())
    (turn,) = await alive.run_due()
    assert (turn.request_id, turn.text, charged) == ("r1", "Paid.", [3])
    with pytest.raises(ConversationConflict, match="nothing to retry"):
        await reopen(left, "c", time.time())


async def test_errors_are_no_deaths_and_wait_longer_each_time():
    left, now = await killed_while_charging(MemoryStore()), [time.time()]
    waits = []
    for _ in range(8):
        machine = shop(left, lambda amount: "taken", ModelError("down"), clock=lambda: now[0])
        with pytest.raises(ModelError):
            await machine.run_due()
        assert await machine.run_due() == ()
        entries = [json.loads(text) for text in await left.journalled("c")]
        waits.append(left_turn(entries).retry_at - now[0])
        now[0] += waits[-1] + 0.01
    assert waits == [min(FIRST_WAIT * 2**number, LONGEST_WAIT) for number in range(8)]
    assert list(await left.unfinished()) == ["c"]
    machine = shop(left, lambda amount: "taken", PAYS[1], clock=lambda: now[0])
    (turn,) = await machine.run_due()
    assert turn.text == "Paid."


async def test_a_result_that_is_new_is_progress_and_no_repeated_death():
    marks = [{"kind": "attempt"}, {"kind": "attempt"}]
    first = {"kind": "run", "time": 1.0}
    assert left_turn([first, *marks]).deaths == 2
    assert left_turn([first, *marks, {"kind": "keyed"}, {"kind": "attempt"}]).deaths == 1
    assert (
        left_turn([first, *marks, {"kind": "error", "time": 1.0}, {"kind": "attempt"}]).deaths == 1
    )


async def test_a_turn_that_is_handed_back_is_taken_up_at_once_and_is_no_death():
    left, hanging = await killed_while_charging(MemoryStore()), Hanging()

    async def charge(amount):
        await hanging.hang()

    for _ in range(4):
        closing = asyncio.create_task(take_up(shop(left, charge, *PAYS[1:])._engine, "c"))
        await hanging.entered.wait()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        hanging.entered.clear()
    assert list(await left.unfinished()) == ["c"]
    (turn,) = await shop(left, lambda amount: "taken", *PAYS[1:]).run_due()
    assert turn.text == "Paid."


async def test_a_message_whose_sender_has_no_request_id_waits_for_its_sender():
    store, hanging = MemoryStore(), Hanging()
    await order(store).start(conversation_id="c", greet=False)
    left = await killed_in(
        hanging, (await order(store, hear=hanging.handle).resume("c")).send("hello"), store
    )
    assert await order(left).run_due() == ()
    assert (await (await order(left).resume("c")).send("hello")).number == 1


async def test_a_failing_handler_fails_its_turn_and_not_the_look():
    store, hanging = MemoryStore(), Hanging()
    for name in ("a", "b"):
        await order(store).start(conversation_id=name, greet=False)
        chat = await order(store, hear=hanging.handle).resume(name)
        store = await killed_in(hanging, chat.send("hello", request_id="r"), store)
        hanging.entered.clear()

    def hear(occasion):
        if occasion.conversation_id == "a":
            raise KeyError("no")

    machine = order(store, hear=hear, error_mode="raise")
    with pytest.raises(HandlerError):
        await machine.run_due()
    assert len(await store.records("b")) == 2
    assert list(await store.unfinished()) == ["a"]


async def test_several_lookers_take_each_turn_up_once(tmp_path):
    path, seen = tmp_path / "bots.db", []
    store = SQLiteStore(path)
    await order(store).start(conversation_id="c", greet=False)
    entries = [
        {"kind": "message", "request_id": "r1", "text": "hello", "time": 1.0, "definition": "order"}
    ]
    await store.journal("c", 0, json.dumps({**entries[0], "step": 0}))
    lookers = [order(SQLiteStore(path), hear=lambda occasion: seen.append(1)) for _ in range(4)]
    found = await asyncio.gather(*(looker.run_due() for looker in lookers))
    assert (sum(map(len, found)), seen) == (1, [1])
    for looker in lookers:
        await looker.close()
    await store.close()


def booking(store, book, *replies):
    """A machine whose task acts, with a first question that the task follows."""
    document = {
        "name": "booking",
        "initial_state": "ask",
        "states": {
            "ask": {
                "purpose": "Book it?",
                "transitions": [
                    {"target_state": "book", "description": "The user agrees"},
                    {"target_state": "over", "description": "The user declines"},
                ],
            },
            "book": {
                "kind": "task",
                "purpose": "Book",
                "execute": "book",
                "transitions": [{"target_state": "more"}],
            },
            "more": {
                "purpose": "Anything else?",
                "transitions": [{"target_state": "over", "description": "No"}],
            },
            "over": {"kind": "final", "reply": "Goodbye."},
        },
    }
    machine = AsyncMachine.from_dict(document, model=Replies(*replies), store=store)
    machine.function(book, name="book")
    return machine


@pytest.mark.parametrize("target", ["more", "over"])
async def test_an_act_whose_process_died_is_finished_before_another_message_with_its_key(target):
    store, hanging = MemoryStore(), Hanging()
    keys = []

    async def dies(ctx):
        keys.append(ctx.key)
        await hanging.hang()

    async def books(ctx):
        keys.append(ctx.key)
        return "booked"

    chat = await booking(store, dies, reply("book", "I book it.")).start(
        conversation_id="c", greet=False
    )
    left = await killed_in(hanging, chat.send("yes", request_id="r1"), store)
    machine = booking(left, books, reply("more", "What else?"), reply(target, "Well."))
    later = await machine.resume("c")
    turn = await later.send("no", request_id="r2")
    repeated = await later.send("yes", request_id="r1")
    assert (repeated.number, turn.number, turn.state) == (1, 2, target)
    assert (len(keys), len(set(keys))) == (2, 1)


async def test_a_turn_that_was_stopped_before_its_first_reply_waits_for_nobody():
    store, hanging = MemoryStore(), Hanging()
    chat = await order(store, hear=hanging.handle).start(conversation_id="c", greet=False)
    turn = asyncio.ensure_future(chat.send("soup", request_id="r1"))
    await hanging.entered.wait()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    assert (await kinds_of(store, "c"))[-1] == "stopped"
    later = await (await order(store).resume("c")).send("no, rather salad", request_id="r2")
    assert (later.number, later.request_id) == (1, "r2")
