"""Sinks are told every event at least once and in order, whatever fails or dies; they hold nothing
up.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from llm_fsm._json import text_of
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import observe
from llm_fsm.engine.outbox.sinks import Delivery, Sink, SinkFailed, exclusive, sink
from llm_fsm.errors import ConfigurationError, HandlerError, StoreError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.base import OutboxQuery
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.turn.effects import Point
from machines import GREETER, reply

pytestmark = pytest.mark.anyio


def machine(
    *replies: Any, store: Any = None, sinks: Sequence[Any] = (), **options: Any
) -> AsyncMachine:
    document = options.pop("definition", GREETER)
    return AsyncMachine.from_dict(
        document, model=ScriptedLLM(list(replies)), store=store, sinks=sinks, **options
    )


class Told:
    """A sink that remembers, and fails as often as it is told to."""

    __name__ = "told"

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.calls = 0
        self.seen: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.calls += 1
        if self.calls <= self.fails:
            raise RuntimeError("not now")
        self.seen.append(delivery)

    def keys(self) -> list[str]:
        return [delivery.key for delivery in self.seen]


async def settled(bot: AsyncMachine) -> None:
    await bot._engine.services.dispatcher.flush()


async def test_sink_is_told_every_event_of_every_turn_in_order() -> None:
    told = Told()
    bot = machine(reply("hello", "Hi!"), reply("bye", "Bye", name="Ada"), sinks=[told])
    chat = await bot.start(conversation_id="c")
    turn = await chat.send("Ada")
    await settled(bot)
    assert told.keys() == [
        f"c/{record}/{index}"
        for record, item in enumerate(await chat.turns(), 1)
        for index in range(len(item.events))
    ]
    last = [delivery for delivery in told.seen if delivery.record == 2]
    assert [delivery.event for delivery in last] == [
        json.loads(text_of(event)) for event in turn.events
    ]
    assert (last[0].index, last[0].definition, last[0].kind, last[0].state) == (
        0,
        "greeter",
        "message",
        "bye",
    )
    await bot.close()


async def test_sink_that_fails_is_told_again_before_anything_later_and_holds_no_turn_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.01)
    told, other = Told(fails=3), Told()
    other.__name__ = "other"
    bot = machine(*(reply("hello", str(n)) for n in range(3)), sinks=[told, other])
    chat = await bot.start(conversation_id="c", greet=False)
    for text in "abc":
        await chat.send(text)
    await settled(bot)
    while len(told.seen) < len(other.seen):
        await asyncio.sleep(0.005)
    assert told.keys() == other.keys()
    assert told.calls == len(told.seen) + 3
    await bot.close()


async def test_sink_out_of_which_a_cancellation_comes_that_nobody_asked_for_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.01)
    told: list[str] = []

    async def odd(delivery: Delivery) -> None:
        told.append(delivery.key)
        if len(told) == 1:
            raise asyncio.CancelledError

    bot = machine(sinks=[sink(odd, events=["Started"])])
    await bot.start(conversation_id="c", greet=False)
    async with asyncio.timeout(20):
        while len(told) < 2:
            await asyncio.sleep(0.005)
    assert told == ["c/1/0", "c/1/0"]
    await bot.close()


async def test_slow_sink_is_given_up_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.01)
    calls: list[str] = []

    async def slow(delivery: Delivery) -> None:
        calls.append(delivery.key)
        await asyncio.sleep(10 if len(calls) == 1 else 0)

    bot = machine(sinks=[sink(slow, timeout=0.02, events=["Started"])])
    await bot.start(conversation_id="c", greet=False)
    while len(calls) < 2:
        await asyncio.sleep(0.005)
    assert calls == ["c/1/0", "c/1/0"]
    await bot.close()


async def test_slow_sink_that_will_not_be_cancelled_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.01)
    monkeypatch.setattr("llm_fsm.tools.executor.GRACE", 0.01)
    release = asyncio.Event()
    calls: list[str] = []

    async def stubborn(delivery: Delivery) -> None:
        calls.append(delivery.key)
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    bot = machine(sinks=[sink(stubborn, timeout=0.02, events=["Started"])])
    await bot.start(conversation_id="c", greet=False)
    async with asyncio.timeout(20):
        while len(calls) < 2:
            await asyncio.sleep(0.005)
    release.set()
    await bot.close()


async def test_object_whose_call_is_async_takes_no_thread_as_a_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda thread: (begun.append(thread.name), start(thread))
    )
    told: list[str] = []

    class Desk:
        async def __call__(self, delivery: Delivery) -> None:
            told.append(delivery.key)

    bot = machine(sinks=[sink(Desk(), name="desk", events=["Started"])])
    await bot.start(conversation_id="c", greet=False)
    await bot.close()
    assert told == ["c/1/0"]
    assert [name for name in begun if "sink" in name] == []


async def test_observers_are_told_why_a_sink_fails_at_once_and_then_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in {
        "FIRST_WAIT": 0.001,
        "LONGEST_WAIT": 0.001,
        "FIRST_SILENCE": 0.02,
    }.items():
        monkeypatch.setattr(f"llm_fsm.engine.outbox.dispatcher.{name}", seconds)
    told, seen = Told(fails=100), list[tuple[str, SinkFailed]]()

    def observer(conversation_id: str, event: Any) -> None:
        if not isinstance(event, SinkFailed):
            return
        seen.append((conversation_id, event))
        raise RuntimeError("an observer that fails ends no delivery")

    stop = observe(observer)
    bot = machine(sinks=[sink(told, name="https://me:pass@example.org/hook", events=["Started"])])
    try:
        await bot.start(conversation_id="c", greet=False)
        while not told.seen:
            await asyncio.sleep(0.005)
        assert seen[0] == (
            "c",
            SinkFailed(
                sink="https://example.org/hook",
                error="RuntimeError: not now",
                again=0.001,
                failures=1,
            ),
        )
        assert 2 <= len(seen) <= 8
        told.fails = told.calls + 1
        await bot.start(conversation_id="d", greet=False)
        while len(told.seen) < 2:
            await asyncio.sleep(0.005)
        assert (seen[-1][0], seen[-1][1].failures) == ("d", 1)
    finally:
        stop()
        await bot.close()


async def test_store_that_is_busy_is_no_fault_of_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.001)
    store, told, seen = MemoryStore(), Told(), list[Any]()
    stop = observe(lambda _, event: seen.append(event) if isinstance(event, SinkFailed) else None)
    bot = machine(store=store, sinks=[sink(told, name="told", events=["Started"])])
    try:
        async with store.lock(exclusive("told", "c"), 1.0):
            await bot.start(conversation_id="c", greet=False)
            await asyncio.sleep(0.05)
        while not told.seen:
            await asyncio.sleep(0.005)
        assert seen == []
    finally:
        stop()
        await bot.close()


@pytest.mark.parametrize("wake", ["start", "resume", "run_due"])
async def test_what_a_dead_process_left_is_delivered_by_the_next_one(
    wake: str, tmp_path: Any
) -> None:
    path = tmp_path / "bots.db"
    dead = machine(reply("hello", "1"), store=SQLiteStore(path), sinks=[Told(fails=10**6)])
    chat = await dead.start(conversation_id="c", greet=False)
    turn = await chat.send("a")
    await dead.close()
    told = Told()
    async with machine(store=SQLiteStore(path), sinks=[told]) as bot:
        if wake == "start":
            await bot.start(greet=False)
        elif wake == "resume":
            await bot.resume("c")
        else:
            await bot.run_due()
        await settled(bot)
    found = [delivery.key for delivery in told.seen if delivery.conversation_id == "c"]
    assert found == ["c/1/0", *(f"c/2/{index}" for index in range(len(turn.events)))]


async def test_two_machines_deliver_a_conversation_one_after_the_other() -> None:
    store, seen, at_once = MemoryStore(), [], 0

    async def told(delivery: Delivery) -> None:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        await asyncio.sleep(0.001)
        seen.append((delivery.record, delivery.index))
        at_once -= 1

    bots = [
        machine(*(reply("hello", "x") for _ in range(4)), store=store, sinks=[told])
        for _ in range(2)
    ]
    chat = await bots[0].start(conversation_id="c", greet=False)
    other = await bots[1].resume("c")
    for n in range(4):
        await (chat, other)[n % 2].send(f"m{n}")
    for _ in range(400):
        if not await store.outbox(OutboxQuery(sink="told")):
            break
        await asyncio.sleep(0.01)
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert {record for record, _ in seen} == {1, 2, 3, 4, 5}
    for bot in bots:
        await bot._engine.services.dispatcher.close()


async def test_sinks_are_not_told_secrets() -> None:
    definition = {
        **GREETER,
        "context_schema": {
            "properties": {
                "name": {"type": "string"},
                "pin": {"x-secret": True, "x-source": "host"},
            }
        },
    }
    told = Told()
    bot = machine(reply("hello", "Your pin is 471147"), definition=definition, sinks=[told])
    chat = await bot.start({"pin": "471147"}, conversation_id="c", greet=False)
    await chat.send("It is 471147")
    await settled(bot)
    assert "471147" not in json.dumps([dict(delivery.event) for delivery in told.seen])
    assert told.seen[0].event["context"] == {"pin": "•••"}
    await bot.close()


async def test_sinks_are_told_no_secret_that_is_no_text_by_an_undo_or_a_restart() -> None:
    definition = {
        **GREETER,
        "patterns": ["restart"],
        "context_schema": {
            "properties": {"ill": {"type": "boolean", "x-secret": True, "x-source": "host"}}
        },
    }
    told = Told()
    replies = reply("hello", "Hm"), reply("restart", "Again")
    bot = machine(*replies, definition=definition, sinks=[told])
    chat = await bot.start({"ill": True}, conversation_id="c", greet=False)
    await chat.send("Hm")
    await chat.send("Begin again")
    await chat.undo()
    await settled(bot)
    seen = {delivery.event["type"]: delivery.event for delivery in told.seen}
    contexts = seen["Started"], seen["Restarted"], seen["TurnUndone"]["session"]
    assert [event["context"] for event in contexts] == [{"ill": "•••"}] * 3
    await bot.close()


async def test_only_the_events_that_a_sink_wants_are_kept_for_it() -> None:
    told, store = Told(), MemoryStore()
    bot = machine(
        reply("bye", "x", name="A"),
        store=store,
        sinks=[sink(told, events=["StateEntered", "Ended"])],
    )
    chat = await bot.start(conversation_id="c", greet=False)
    await chat.send("A")
    await settled(bot)
    assert [delivery.event["type"] for delivery in told.seen] == ["StateEntered", "Ended"]
    assert await store.outbox(OutboxQuery(sink="told")) == ()
    await bot.close()


async def test_a_sink_wants_the_events_of_its_states_alone() -> None:
    """A function or an address: the state that is entered, or the one in which the turn ends."""
    told, other = Told(), Told()
    sinks = [
        sink(told, states=["bye"]),
        sink(other, name="other", states=["hello"], events=["StateEntered"]),
    ]
    bot = machine(reply("bye", "x", name="A"), sinks=sinks)
    chat = await bot.start(conversation_id="c", greet=False)
    await chat.send("A")
    await settled(bot)
    assert {delivery.state for delivery in told.seen} == {"bye"}
    assert [one.event["state"] for one in told.seen if one.event["type"] == "StateEntered"] == [
        "bye"
    ]
    assert other.seen == []
    hook = sink("https://example.org/hook", states=["bye"])
    assert hook.states == frozenset({"bye"})
    with pytest.raises(ConfigurationError, match="states= is a list"):
        sink(told, states="bye")
    await bot.close()


async def test_webhook_is_posted_json_with_the_key_until_it_answers_2xx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_fsm.engine.outbox.dispatcher.FIRST_WAIT", 0.01)
    seen: list[tuple[str, Any]] = []
    answers = iter([500, 302, 204, 200])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(size))
        key = head.split("idempotency-key: ")[1].split("\r\n")[0]
        assert "x-token: t" in head
        status = next(answers)
        seen.append((key, body["event"]["type"]))
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hook = sink(f"http://127.0.0.1:{port}/x?y=1", events=["UserSaid"], headers={"X-Token": "t"})
    assert hook.name == f"http://127.0.0.1:{port}/x"
    bot = machine(reply("hello", "1"), reply("hello", "2"), sinks=[hook])
    chat = await bot.start(conversation_id="c", greet=False)
    await chat.send("a")
    while len(seen) < 3:
        await asyncio.sleep(0.005)
    await chat.send("b")
    while len(seen) < 4:
        await asyncio.sleep(0.005)
    assert seen == [("c/2/0", "UserSaid")] * 3 + [("c/3/0", "UserSaid")]
    await bot.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([lambda delivery: None], "give it one with name="),
        (["ftp://example.org"], "a function or an http:// or https:// address"),
        (["http://[::1"], "a function or an http:// or https:// address"),
        (["https://example.org:99999/hook"], "a function or an http:// or https:// address"),
        ([Told(), Told()], "two sinks are named 'told'"),
        (
            [Sink(name="a", deliver=print), "http://x/", "http://x/?y"],
            "two sinks are named 'http://x/'",
        ),
    ],
)
def test_sinks_that_cannot_be_kept_apart_are_told_when_the_machine_is_made(
    given: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        machine(sinks=given)


def test_unknown_event_of_a_sink_is_named() -> None:
    with pytest.raises(ConfigurationError, match="there is no event 'Endet'; did you mean 'Ended'"):
        sink(print, events=["Endet"])


class Dies(BaseException):
    """What ends a process, as far as a turn can tell."""


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("wake", ["start", "run_due"])
async def test_end_handlers_that_a_dead_process_owes_run_in_the_next_one_if_it_is_still_the_end(
    wake: str, undone: bool
) -> None:
    store, seen = MemoryStore(), []

    def bot(*replies: Any, dies: bool) -> AsyncMachine:
        made = machine(*replies, store=store)

        @made.on(Point.END_CONVERSATION)
        async def ended(occasion: Any) -> None:
            if dies:
                raise Dies
            seen.append((occasion.conversation_id, occasion.text, occasion.key))

        return made

    chat = await bot(reply("bye", "Bye", name="Ada"), dies=True).start(
        conversation_id="c", greet=False
    )
    with pytest.raises(Dies):
        await chat.send("Ada", request_id="m1")
    if undone:
        await chat.undo()
    second = bot(dies=False)
    await (second.start(greet=False) if wake == "start" else second.run_due())
    assert [item[:2] for item in seen] == [("c", "Bye")] * (not undone)
    await (second.start(greet=False) if wake == "start" else second.run_due())
    assert len(seen) == (not undone)


async def test_end_handlers_that_are_owed_for_an_end_taken_back_do_not_run_with_the_next_one() -> (
    None
):
    bot, seen = machine(*[reply("bye", text, name="Ada") for text in ("One", "Two")]), []

    @bot.on(Point.END_CONVERSATION)
    async def ended(occasion: Any) -> None:
        if occasion.text == "One":
            raise Dies
        seen.append(occasion.text)

    chat = await bot.start(conversation_id="c", greet=False)
    with pytest.raises(Dies):
        await chat.send("Ada")
    await chat.undo()
    await chat.send("Ada")
    assert (seen, await bot.store.outbox(OutboxQuery())) == (["Two"], ())


@pytest.mark.parametrize("failing", ["lock", "outbox", "load", "acknowledge"])
async def test_store_that_fails_after_the_end_is_on_record_fails_no_turn_and_its_end_handlers_run_later(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, seen = MemoryStore(), []
    bot = machine(reply("bye", "Bye", name="Ada"), store=store)
    chat = await bot.start(conversation_id="c", greet=False)

    @bot.on("end_conversation")
    def ended(occasion: Any) -> None:
        seen.append(occasion.key)

    commit = store.save

    def fails(*_: Any, **__: Any) -> Any:
        raise StoreError("gone", retryable=True)

    async def save(*given: Any) -> None:
        await commit(*given)
        monkeypatch.setattr(store, failing, fails)

    monkeypatch.setattr(store, "save", save)
    with pytest.warns(
        RuntimeWarning,
        match="END_CONVERSATION handlers of the conversation 'c' are still to run.*gone",
    ):
        turn = await chat.send("Ada")
    assert (turn.text, turn.ended) == ("Bye", True)
    assert len(seen) == (failing == "acknowledge")
    monkeypatch.undo()
    await bot.run_due()
    assert len(set(seen)) == 1
    assert await store.outbox(OutboxQuery()) == ()


async def test_end_handler_that_fails_has_run_all_the_same() -> None:
    store = MemoryStore()
    bot = machine(reply("bye", "Bye", name="Ada"), store=store, error_mode="raise")
    bot.on("end_conversation")(lambda occasion: 1 / 0)
    chat = await bot.start(conversation_id="c", greet=False)
    with pytest.raises(HandlerError):
        await chat.send("Ada")
    assert (await bot.resume("c")).ended
    assert await bot.run_due() == ()


def test_the_user_and_password_of_an_address_are_no_part_of_a_sinks_name() -> None:
    assert (
        sink("https://ada:s3cret@example.org:8443/hook?token=x").name
        == "https://example.org:8443/hook"
    )
    assert sink("https://example.org/@ada").name == "https://example.org/@ada"


def test_a_sink_without_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="timeout is a number of seconds above 0, not 0"):
        sink("https://example.org", timeout=0)


@pytest.mark.parametrize("begins", ["", "c", "chat-1", "desk~", "z"])
async def test_a_sink_gets_the_conversations_whose_ids_begin_as_it_says(begins: str) -> None:
    told = Told()
    one = Sink(name="told", deliver=told, events=frozenset({"UserSaid"}), begins=begins)
    bot = machine(*(reply("hello", str(n)) for n in range(3)), sinks=[one])
    names = ["chat-1", "chat-2", "desk~1"]
    for name in names:
        chat = await bot.start(conversation_id=name, greet=False)
        await chat.send("Hello")
    await settled(bot)
    got = sorted(delivery.conversation_id for delivery in told.seen)
    assert got == [name for name in names if name.startswith(begins)]
    await bot.close()


@pytest.mark.parametrize("fails", [0, 1, 2, 3, 5])
async def test_a_sink_that_came_later_is_hurried_until_it_takes_an_event(fails: int) -> None:
    told = Told(fails)
    one = Sink(name="told", deliver=told, events=frozenset({"UserSaid"}))
    bot = machine(reply("hello", "Hi"))
    dispatcher = bot.closing.dispatcher
    dispatcher.add(one)
    chat = await bot.start(conversation_id="c", greet=False)
    await chat.send("Hello")
    refused = 0
    while not await dispatcher.hurry(one, "c"):
        refused += 1
    assert refused <= fails
    assert await dispatcher.hurry(one, "c")
    assert (told.calls, len(told.seen)) == (fails + 1, 1)
    await bot.close()
