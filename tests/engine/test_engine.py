"""The shell: locks, request ids, commits, journals, handlers, deadlines. Nothing acknowledged is
lost or done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import time
from typing import Any

import pytest

from llm_fsm.engine.handlers.registry import Occasion, Veto, create_handler
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import observe
from llm_fsm.errors import (
    ConfigurationError,
    ConversationConflict,
    ConversationEnded,
    ConversationNotFound,
    HandlerError,
    ModelError,
    StoreError,
)
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import FaultyStream, HttpReply, serve_scripted
from machines import GREETER, reply

pytestmark = pytest.mark.anyio


def scripted(*replies: Any, **options: Any) -> AsyncMachine:
    document = options.pop("definition", GREETER)
    return AsyncMachine.from_dict(document, model=ScriptedLLM(list(replies)), **options)


class Slow:
    """A model that takes its time and counts how many calls run at once."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.running = 0
        self.most = 0
        self.calls = 0

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        return ModelReply(text=reply("hello", f"answer {self.calls}"))


async def test_turn_shows_what_happened() -> None:
    machine = scripted(reply("hello", "Hi!"), reply("bye", "Bye Ada", name="Ada"))
    chat = await machine.start(conversation_id="c1")
    assert (chat.id, chat.greeting, chat.state, chat.context, chat.ended, chat.paused) == (
        "c1",
        "Hi!",
        "hello",
        {},
        False,
        None,
    )
    turn = await chat.send("I'm Ada", request_id="m1")
    assert (turn.text, turn.state, turn.previous_state, turn.moved, turn.ended) == (
        "Bye Ada",
        "bye",
        "hello",
        True,
        True,
    )
    assert (turn.context, turn.request_id, turn.number, turn.usage.calls) == (
        {"name": "Ada"},
        "m1",
        1,
        1,
    )
    assert [(m.role, m.text, m.turn) for m in await chat.history()] == [
        ("assistant", "Hi!", 0),
        ("user", "I'm Ada", 1),
        ("assistant", "Bye Ada", 1),
    ]
    with pytest.raises(ConversationEnded, match="has ended"):
        await chat.send("more")


async def test_tokens_from_a_cache_stand_in_the_record() -> None:
    class Caching:
        async def complete(self, request: LLMRequest) -> ModelReply:
            return ModelReply(text=reply("hello", "Hi!"), input_tokens=900, cached_tokens=800)

    machine = AsyncMachine.from_dict(GREETER, model=Caching())
    chat = await machine.start()
    await chat.send("hi")
    replies = [
        event
        for turn in await chat.turns()
        for event in turn.events
        if isinstance(event, ev.ModelReplied)
    ]
    assert [(event.input_tokens, event.cached_tokens) for event in replies] == [
        (900, 800),
        (900, 800),
    ]


async def test_same_request_id_gives_the_recorded_turn_without_a_call() -> None:
    machine = scripted(
        reply("hello", "one"), reply("hello", "two", x=2), reply("bye", "three", name="A")
    )
    chat = await machine.start(greet=False)
    first = await chat.send("a", request_id="m1")
    second = await chat.send("b", request_id="m2")
    third = await chat.send("c", request_id="m3")
    assert [
        await chat.send(text, request_id=key)
        for text, key in (("a", "m1"), ("b", "m2"), ("c", "m3"))
    ] == [first, second, third]
    assert first.context == {}
    with pytest.raises(ConversationConflict, match="'m1' was already used for another message"):
        await chat.send("different", request_id="m1")


async def test_messages_at_once_are_taken_one_after_the_other() -> None:
    model = Slow()
    machine = AsyncMachine.from_dict(GREETER, model=model)
    chat = await machine.start(greet=False)
    turns = await asyncio.gather(*(chat.send(f"m{n}") for n in range(10)))
    assert [turn.number for turn in turns] == list(range(1, 11))
    assert (model.most, model.calls) == (1, 10)


async def test_same_message_at_once_is_answered_by_one_call() -> None:
    model = Slow()
    machine = AsyncMachine.from_dict(GREETER, model=model)
    chat = await machine.start(greet=False)
    turns = await asyncio.gather(*(chat.send("m", request_id="same") for _ in range(10)))
    assert model.calls == 1
    assert all(turn == turns[0] for turn in turns)


async def test_failed_turn_leaves_no_trace_and_can_be_sent_again() -> None:
    machine = scripted(ModelError("down", retryable=True), reply("bye", "Bye", name="Ada"))
    chat = await machine.start(greet=False)
    with pytest.raises(ModelError, match="down"):
        await chat.send("Ada", request_id="m1")
    assert (chat.state, len(await chat.history())) == ("hello", 0)
    assert (await chat.send("Ada", request_id="m1")).state == "bye"


async def test_cancelled_turn_leaves_no_trace_and_frees_the_conversation() -> None:
    machine = AsyncMachine.from_dict(GREETER, model=Slow(5))
    chat = await machine.start(greet=False)
    task = asyncio.create_task(chat.send("m"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    machine.llm.seconds = 0  # type: ignore[attr-defined]
    assert (await chat.send("m")).number == 1


async def test_turn_has_a_deadline_for_model_and_lock() -> None:
    machine = AsyncMachine.from_dict(GREETER, model=Slow(5), timeout=0.05)
    chat = await machine.start(greet=False)
    first, second = await asyncio.gather(chat.send("a"), chat.send("b"), return_exceptions=True)
    assert isinstance(first, ModelError)
    assert "within 0.05 seconds" in str(first)
    assert isinstance(second, ModelError | StoreError)


async def test_greeting_that_fails_saves_nothing() -> None:
    machine = scripted(ModelError("down"), reply("hello", "Hi"))
    with pytest.raises(ModelError):
        await machine.start(conversation_id="c1")
    assert list(await machine.conversations()) == []
    assert (await machine.start(conversation_id="c1")).greeting == "Hi"


async def test_existing_id_is_a_conflict_and_unknown_id_is_not_found() -> None:
    machine = scripted()
    await machine.start(conversation_id="c1", greet=False)
    with pytest.raises(ConversationConflict, match="exists already"):
        await machine.start(conversation_id="c1", greet=False)
    with pytest.raises(ConversationNotFound, match="'c2'"):
        await machine.resume("c2")


@pytest.mark.parametrize("text", ["", "  \n", "x" * 100_001])
async def test_empty_and_overlong_messages_are_value_errors(text: str) -> None:
    chat = await scripted().start(greet=False)
    with pytest.raises(ValueError, match="message is"):
        await chat.send(text)


@pytest.mark.parametrize("bad", ["", "x" * 201, "a\nb", "\x00", "\ud800", 7])
async def test_ids_that_no_store_could_keep_are_value_errors(bad: Any) -> None:
    with pytest.raises(ValueError, match="conversation id"):
        await scripted().start(conversation_id=bad, greet=False)


async def test_conversation_can_be_resumed_by_another_machine_on_the_same_store() -> None:
    store = MemoryStore()
    chat = await scripted(
        reply("hello", "Hi"), reply("hello", "one", city="Rome"), store=store
    ).start(conversation_id="c")
    await chat.send("m")
    again = await scripted(reply("bye", "Bye", name="Ada"), store=store).resume("c")
    assert (again.greeting, again.state, again.context) == ("Hi", "hello", {"city": "Rome"})
    assert (await again.send("Ada")).number == 2


async def test_undo_takes_turns_back_one_by_one_and_stays_on_record() -> None:
    machine = scripted(
        reply("hello", "1", a=1),
        reply("hello", "2", a=2),
        reply("bye", "3", name="x"),
        reply("hello", "4"),
    )
    chat = await machine.start(greet=False)
    for text in "abc":
        await chat.send(text)
    await chat.undo()
    assert (chat.state, chat.ended, chat.context) == ("hello", False, {"a": 2})
    await chat.undo()
    assert (chat.context, [m.text for m in await chat.history()]) == ({"a": 1}, ["a", "1"])
    assert (await chat.send("d")).number == 2
    assert [m.text for m in await chat.history()] == ["a", "1", "d", "4"]
    assert [type(turn.events[-1]).__name__ for turn in await chat.turns()].count("TurnUndone") == 2
    await chat.undo()
    await chat.undo()
    with pytest.raises(ConversationConflict, match="no turn to take back"):
        await chat.undo()


async def test_end_closes_for_good_and_twice_is_once() -> None:
    chat = await scripted().start(greet=False)
    await chat.end()
    await chat.end()
    with pytest.raises(ConversationEnded, match="has been closed"):
        await chat.send("m")


async def test_delete_and_list() -> None:
    machine = scripted()
    for name in ("b", "a"):
        await machine.start(conversation_id=name, greet=False)
    assert [item.conversation_id for item in await machine.conversations()] == ["a", "b"]
    assert await machine.delete("a")
    assert not await machine.delete("a")
    assert [item.conversation_id for item in await machine.conversations()] == ["b"]


async def test_answer_without_a_question_is_a_conflict() -> None:
    chat = await scripted().start(greet=False)
    with pytest.raises(ConversationConflict, match="waits for no answer"):
        await chat.answer({"approved": True})


async def test_fallback_models_are_asked_in_order() -> None:
    machine = AsyncMachine.from_dict(
        GREETER,
        model=ScriptedLLM([ModelError("a")] * 2),
        fallbacks=[
            ScriptedLLM([ModelError("b"), ModelError("b")]),
            ScriptedLLM([reply("hello", "c"), ModelError("c")]),
        ],
    )
    chat = await machine.start(greet=False)
    assert (await chat.send("m")).text == "c"
    with pytest.raises(ModelError, match="every model failed: a; b; c"):
        await chat.send("m")


# -- streaming


async def test_stream_gives_events_as_they_happen_and_then_the_turn() -> None:
    chat = await scripted(reply("bye", "Bye", name="Ada")).start(greet=False)
    stream = chat.stream("Ada")
    names = [type(event).__name__ async for event in stream]
    assert names == [
        "UserSaid",
        "MessageDelta",
        "ModelReplied",
        "MovePicked",
        "ContextSet",
        "StateEntered",
        "BotSaid",
        "Ended",
    ]
    assert stream.turn is not None
    assert stream.turn.text == "Bye"
    assert chat.state == "bye"


async def test_a_stream_that_is_played_calls_a_function_with_the_same_events() -> None:
    async with AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "Your name?")] * 2)
    ) as machine:
        looped, played = [await machine.start(greet=False) for _ in range(2)]
        events = [event async for event in looped.stream("Hi")]
        stream, heard = played.stream("Hi"), []
        turn = await stream.play(heard.append)
        assert [type(event) for event in heard] == [type(event) for event in events]
        assert (turn, turn.text) == (stream.turn, "Your name?")
        with pytest.raises(RuntimeError, match="once"):
            await stream.play(heard.append)


async def test_a_function_that_fails_stops_the_stream_that_it_plays() -> None:
    def refuse(event: ev.Event) -> None:
        raise ValueError("not this one")

    async with AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "Your name?")] * 2)
    ) as machine:
        chat = await machine.start(greet=False)
        with pytest.raises(ValueError, match="not this one"):
            await chat.stream("Hi").play(refuse)
        assert [turn.text for turn in await chat.turns()] == [""]


async def test_stream_raises_what_send_would() -> None:
    chat = await scripted(ModelError("down")).start(greet=False)
    with pytest.raises(ModelError):
        async for _ in chat.stream("m"):
            pass


@pytest.mark.parametrize("streams", [False, True])
async def test_a_turn_whose_machine_is_closed_is_not_asked_for_again(streams: bool) -> None:
    head = {
        "transition": {"target_state": "hello", "context_update": {}},
        "message": "How do you do? " * 9,
    }
    slow = FaultyStream(words=head, split=50, pause=0.05) if streams else HttpReply(delay=math.inf)
    with serve_scripted([slow, reply("hello", "again")]) as server:
        machine = AsyncMachine.from_dict(GREETER, model="m", base_url=server.base_url)
        chat = await machine.start(greet=False)
        heard = asyncio.Event()

        async def follow() -> None:
            if not streams:
                await chat.send("Hello")
                return
            async for event in chat.stream("Hello"):
                if isinstance(event, ev.MessageDelta):
                    heard.set()

        turn = asyncio.create_task(follow())
        if streams:
            await heard.wait()
        while not server.requests:
            await asyncio.sleep(0.01)
        await machine.close()
        with pytest.raises(ModelError, match="closed on this side"):
            async with asyncio.timeout(20):
                await turn
        assert len(server.requests) == 1


async def test_leaving_a_stream_cancels_the_turn() -> None:
    machine = AsyncMachine.from_dict(GREETER, model=Slow(5))
    chat = await machine.start(greet=False)
    stream = aiter(chat.stream("m"))
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0.01)
    machine.llm.seconds = 0  # type: ignore[attr-defined]
    assert (await chat.send("m")).number == 1


async def test_observers_hear_every_event_until_they_stop() -> None:
    heard: list[tuple[str, str]] = []
    stop = observe(lambda conversation, event: heard.append((conversation, type(event).__name__)))
    chat = await scripted(reply("hello"), reply("hello")).start(conversation_id="c", greet=False)
    await chat.send("m")
    stop()
    await chat.send("m")
    turn = ("UserSaid", "ModelReplied", "MovePicked", "BotSaid", "TurnSaved")
    assert heard == [("c", name) for name in ("Started", "TurnSaved", *turn)]


# -- handlers


async def test_decorated_handlers_run_at_their_points_and_states() -> None:
    machine = scripted(reply("hello", "Hi"), reply("bye", "Bye", name="Ada"))
    seen: list[str] = []

    @machine.on("start_conversation")
    def begin(event: Occasion) -> dict[str, Any]:
        return {"tier": "gold"}

    @machine.on("post_transition", state="bye")
    async def told(event: Occasion) -> dict[str, Any] | None:
        seen.append(
            f"{event.previous_state}->{event.state} {event.context} {event.system['_turn']}"
        )
        return None

    @machine.on("post_transition", state="hello")
    def never(event: Occasion) -> None:
        seen.append("wrong")

    @machine.on("post_processing", priority=5)
    def shout(event: Occasion) -> str:
        return (event.text or "").upper()

    @machine.on("end_conversation")
    def ended(event: Occasion) -> None:
        seen.append("ended")

    chat = await machine.start()
    assert (chat.greeting, chat.context) == ("HI", {"tier": "gold"})
    turn = await chat.send("Ada")
    assert turn.text == "BYE"
    assert seen == ["hello->bye {'tier': 'gold', 'name': 'Ada'} 1", "ended"]


async def test_handlers_see_what_those_before_them_changed_and_none_deletes() -> None:
    machine = scripted(reply("hello"))
    add = (
        create_handler("add")
        .with_priority(1)
        .at("pre_processing")
        .do(lambda event: {"n": 1, "gone": None})
    )
    double = (
        create_handler("double")
        .at("pre_processing")
        .do(lambda event: {"n": event.context["n"] * 2, "had": "gone" in event.context})
    )
    machine.add_handler(double)
    machine.add_handler(add)
    chat = await machine.start(context={"gone": 1}, greet=False)
    assert (await chat.send("m")).context == {"n": 2, "had": False}


async def test_veto_forbids_a_move() -> None:
    machine = scripted(reply("bye", "Bye", name="A"), reply("hello", "Not yet"))
    machine.add_handler(
        create_handler("guard")
        .at("pre_transition")
        .on_target_state("bye")
        .do(lambda event: Veto("closed"))
    )
    turn = await (await machine.start(greet=False)).send("A")
    assert (turn.state, turn.text) == ("hello", "Not yet")


@pytest.mark.parametrize(
    "build",
    [
        lambda b: b.on_state_entry("by"),
        lambda b: b.on_state_exit("by"),
        lambda b: b.at("pre_transition").on_target_state("hello", "by"),
        lambda b: b.at("pre_transition").not_on_target_state("by"),
        lambda b: b.at("pre_processing").on_state("by"),
        lambda b: b.at("pre_processing").not_on_state("by"),
    ],
)
def test_a_handler_for_a_state_that_is_not_there_is_refused(build: Any) -> None:
    handler = build(create_handler("guard")).do(lambda event: None)
    said = "handler 'guard' names the state 'by', which the definition 'greeter' does not have; did you mean 'bye'?"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        scripted(handlers=[handler])
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        scripted().add_handler(handler)
    with pytest.raises(ConfigurationError, match="'by'"):
        scripted().on("pre_transition", state="by")(lambda event: None)
    with pytest.raises(ConfigurationError, match=re.escape("['bye']")):
        scripted(handlers=[create_handler("guard").on_state_entry(["bye"]).do(print)])  # type: ignore[arg-type]


async def failing(event: Occasion) -> None:
    raise KeyError("boom")


async def test_failing_handler_is_recorded_and_the_turn_goes_on() -> None:
    machine = scripted(reply("hello", "ok"))
    machine.add_handler(create_handler("bad").at("pre_processing").do(failing))
    turn = await (await machine.start(greet=False)).send("m")
    assert turn.text == "ok"
    assert (
        ev.HandlerFailed(handler="bad", point="pre_processing", error="KeyError: 'boom'")
        in turn.events
    )


async def test_handler_that_is_cancelled_from_inside_has_failed_and_cancels_nobody() -> None:
    async def waits(occasion: Occasion) -> None:
        raise asyncio.CancelledError

    machine = scripted(reply("hello", "ok"))
    machine.add_handler(create_handler("bad").at("pre_processing").do(waits))
    turn = await (await machine.start(greet=False)).send("m")
    said = "RuntimeError: it was cancelled from inside"
    assert ev.HandlerFailed(handler="bad", point="pre_processing", error=said) in turn.events


class Mute:
    """An object that cannot say what it is as JSON."""

    def model_dump(self, mode: str) -> Any:
        raise KeyError("nothing to say")


async def test_value_of_a_handler_that_fails_to_become_json_is_its_error() -> None:
    machine = scripted(reply("hello", "ok"))
    machine.add_handler(
        create_handler("bad").at("pre_processing").do(lambda _: {"day": 1, "mute": Mute()})
    )
    turn = await (await machine.start(greet=False)).send("m")
    said = "key 'mute': KeyError: 'nothing to say'"
    assert ev.HandlerFailed(handler="bad", point="pre_processing", error=said) in turn.events
    assert turn.context == {"day": 1}


def unknown(occasion: Occasion) -> bool:
    return bool({}["boom"])


async def test_condition_of_a_handler_that_fails_is_a_failure_of_that_handler() -> None:
    machine = scripted(reply("hello", "ok"), reply("hello", "ok"))
    machine.add_handler(
        create_handler("bad")
        .at("pre_processing", "context_update")
        .when(unknown)
        .do(lambda _: None)
    )
    chat = await machine.start(greet=False)
    turn = await chat.send("m")
    assert turn.text == "ok"
    assert (
        ev.HandlerFailed(handler="bad", point="pre_processing", error="KeyError: 'boom'")
        in turn.events
    )
    stopping = scripted(reply("bye", "ok", name="Ada"))
    stopping.add_handler(
        create_handler("bad").at("context_update").when(unknown).as_critical().do(lambda _: None)
    )
    chat = await stopping.start(greet=False)
    with pytest.raises(HandlerError, match="handler 'bad' failed at context_update: KeyError"):
        async for _ in chat.stream("m"):
            pass
    assert await chat.history() == ()


def test_condition_of_a_handler_is_a_plain_function() -> None:
    with pytest.raises(
        TypeError,
        match="failing is async, and nobody would await it: a condition is a plain function",
    ):
        create_handler("bad").when(failing)


async def test_condition_that_returns_a_coroutine_does_not_hold() -> None:
    async def never(_: Any) -> bool:
        return False

    ran: list[object] = []
    builder = create_handler("bad").at("pre_processing")
    bad = builder.when(lambda occasion: never(occasion)).do(ran.append)  # noqa: PLW0108
    machine = scripted(reply("bye", "ok", name="Ada"))
    machine.add_handler(bad)
    turn = await (await machine.start(greet=False)).send("m")
    [failed] = [event for event in turn.events if isinstance(event, ev.HandlerFailed)]
    assert "returned a coroutine, and nobody would await it" in failed.error
    assert ran == []


async def test_veto_without_a_reason_forbids_all_the_same() -> None:
    machine = scripted(reply("bye", "Bye", name="Ada"), reply("bye", "Bye", name="Ada"))
    machine.on("pre_transition")(lambda _: Veto(None))  # type: ignore[arg-type]
    turn = await (await machine.start(greet=False)).send("I'm Ada")
    assert (turn.state, turn.moved) == ("hello", False)


async def test_words_of_handlers_are_whole_characters() -> None:
    machine = scripted(reply("hello", "ok"))
    machine.on("post_processing")(lambda _: "half \ud83d and \ud83d\ude00")
    assert (await (await machine.start(greet=False)).send("m")).text == "half \ufffd and \U0001f600"


@pytest.mark.parametrize("options", [{"error_mode": "raise"}, {}])
async def test_failing_handler_stops_the_turn_where_it_counts(options: dict[str, Any]) -> None:
    machine = scripted(reply("hello", "ok"), **options)
    builder = create_handler("bad").at("pre_processing")
    machine.add_handler((builder if options else builder.as_critical()).do(failing))
    chat = await machine.start(greet=False)
    with pytest.raises(HandlerError, match="handler 'bad' failed at pre_processing: KeyError"):
        await chat.send("m")
    assert len(await chat.history()) == 0


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_handler_needs_a_timeout_above_0(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"'slow': timeout is a number of seconds above 0"):
        create_handler("slow").with_timeout(seconds)


async def test_handler_that_hangs_runs_out_of_time() -> None:
    machine = scripted(reply("hello", "ok"))
    machine.add_handler(
        create_handler("slow")
        .at("pre_processing")
        .with_timeout(0.02)
        .do(lambda event: time.sleep(0.3))
    )
    turn = await (await machine.start(greet=False)).send("m")
    assert (
        ev.HandlerFailed(handler="slow", point="pre_processing", error="it ran out of time")
        in turn.events
    )


async def test_handler_that_will_not_be_cancelled_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_fsm.tools.executor.GRACE", 0.02)
    release = asyncio.Event()

    async def stubborn(event: Any) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    machine = scripted(reply("hello", "ok"))
    machine.add_handler(
        create_handler("stubborn").at("pre_processing").with_timeout(0.02).do(stubborn)
    )
    turn = await (await machine.start(greet=False)).send("m")
    release.set()
    await asyncio.sleep(0.01)
    assert (
        ev.HandlerFailed(handler="stubborn", point="pre_processing", error="it ran out of time")
        in turn.events
    )


class Speechless(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise KeyError("words")


async def test_handler_whose_error_has_no_words_fails_and_the_turn_goes_on() -> None:
    def bad(event: Any) -> None:
        raise Speechless

    machine = scripted(reply("hello", "ok"))
    machine.add_handler(create_handler("bad").at("pre_processing").do(bad))
    turn = await (await machine.start(greet=False)).send("m")
    said = "Speechless: (its words cannot be had: KeyError)"
    assert ev.HandlerFailed(handler="bad", point="pre_processing", error=said) in turn.events


async def test_error_handler_gives_the_words_and_the_turn_is_on_record() -> None:
    machine = scripted(ModelError("down"), reply("hello", "better"))
    machine.add_handler(
        create_handler("sorry").at("error").do(lambda event: f"Sorry: {event.error}")
    )
    chat = await machine.start(greet=False)
    turn = await chat.send("m", request_id="r")
    assert (turn.text, turn.state, turn.moved) == ("Sorry: down", "hello", False)
    assert (await chat.send("m", request_id="r")) == turn
    assert (await chat.send("n")).text == "better"


async def test_values_of_handlers_become_json_or_are_recorded_as_their_error() -> None:
    import datetime

    machine = scripted(reply("hello"))
    day = datetime.date(2026, 1, 2)
    machine.add_handler(
        create_handler("h")
        .at("pre_processing")
        .do(lambda event: {"day": day, "bad": object(), "_turn": 5})
    )
    turn = await (await machine.start(greet=False, context={"when": day})).send("m")
    assert turn.context == {"when": "2026-01-02", "day": "2026-01-02"}
    assert any(
        isinstance(event, ev.HandlerFailed) and "'bad'" in event.error for event in turn.events
    )


@pytest.mark.parametrize(
    ("build", "points"),
    [
        (lambda b: b.on_state_entry("bye"), ["post_transition"]),
        (lambda b: b.on_state_exit("hello"), ["post_transition"]),
        (lambda b: b.on_context_update("name"), ["context_update"]),
        (lambda b: b.on_context_update("other"), []),
        (lambda b: b.at("context_update").when_keys_updated("name", "x"), ["context_update"]),
        (lambda b: b.at("post_processing").when_context_has("name"), ["post_processing"]),
        (
            lambda b: b.at("pre_transition").on_state("hello").not_on_target_state("hello"),
            ["pre_transition"],
        ),
        (lambda b: b.at("pre_transition").not_on_state("hello"), []),
        (
            lambda b: b.at("pre_processing", "post_processing").when(
                lambda event: event.state == "bye"
            ),
            ["post_processing"],
        ),
    ],
)
async def test_builder_narrows_when_a_handler_runs(build: Any, points: list[str]) -> None:
    seen: list[str] = []
    machine = scripted(reply("bye", "Bye", name="Ada"))
    machine.add_handler(build(create_handler("h")).do(lambda event: seen.append(event.point.value)))
    await (await machine.start(greet=False)).send("Ada")
    assert seen == points


async def test_the_conditions_of_a_handler_see_what_those_before_it_changed_and_change_nothing_themselves() -> (
    None
):
    seen: list[dict[str, Any]] = []
    machine = scripted(reply("hello", "Hm?"))

    def spoils(event: Any) -> bool:
        event.context["spoilt"] = True
        return True

    for build, changes in (
        (create_handler("a").at("pre_processing").when_context_has("tier"), {"tier": None}),
        (create_handler("b").at("pre_processing").when_context_has("tier"), {"wrong": True}),
        (create_handler("c").at("pre_processing").when(spoils), {"vip": True}),
        (create_handler("d").at("pre_processing").when_context_has("vip"), None),
    ):
        machine.add_handler(
            build.do(lambda event, changes=changes: seen.append(dict(event.context)) or changes)
        )
    await (await machine.start(greet=False, context={"tier": "gold"})).send("m")
    assert seen == [{"tier": "gold"}, {}, {"vip": True}]


def test_handler_without_a_point_and_unknown_points_are_value_errors() -> None:
    with pytest.raises(ValueError, match="has no point"):
        create_handler("h").do(lambda event: None)
    with pytest.raises(ValueError, match="did you mean 'post_transition'"):
        create_handler("h").at("post_transitions")


# -- the journal


class Stops(Exception):
    pass


class StopsAtSave(MemoryStore):
    """A store whose process dies before the commit, once."""

    dying = True

    async def save(self, commit: Any) -> None:
        if self.dying and commit.expected > 0:
            self.dying = False
            raise Stops
        await super().save(commit)


async def test_turn_begun_again_repeats_neither_handlers_nor_model_calls() -> None:
    store = StopsAtSave()
    calls: list[str] = []

    def made(*replies: str) -> AsyncMachine:
        machine = scripted(*replies, store=store)
        machine.add_handler(
            create_handler("pay")
            .at("post_transition")
            .do(lambda event: calls.append("paid") or {"paid": len(calls)})
        )
        return machine

    chat = await made(reply("bye", "Bye", name="Ada")).start(conversation_id="c", greet=False)
    with pytest.raises(Stops):
        await chat.send("Ada", request_id="m1")
    again = await made().resume("c")
    turn = await again.send("Ada", request_id="m1")
    assert (turn.text, turn.context, calls) == ("Bye", {"name": "Ada", "paid": 1}, ["paid"])
    assert list(await store.journalled("c")) == []


async def test_journal_of_another_message_is_void() -> None:
    store = StopsAtSave()
    machine = scripted(reply("hello", "one"), reply("hello", "two"), store=store)
    machine.add_handler(create_handler("h").at("pre_processing").do(lambda event: None))
    chat = await machine.start(conversation_id="c", greet=False)
    with pytest.raises(Stops):
        await chat.send("a", request_id="m1")
    assert (await chat.send("b", request_id="m2")).text == "two"


async def test_turn_that_only_talks_writes_no_journal() -> None:
    store = StopsAtSave()
    chat = await scripted(reply("hello"), store=store).start(conversation_id="c", greet=False)
    with pytest.raises(Stops):
        await chat.send("a")
    assert list(await store.journalled("c")) == []


async def test_secret_values_are_kept_for_the_program_and_hidden_from_the_view() -> None:
    schema = {"properties": {"pin": {"type": "string", "x-secret": True}}}
    views: list[Any] = []

    class Viewer:
        reads_view = True

        async def complete(self, request: LLMRequest) -> ModelReply:
            views.append(request.view)
            return ModelReply(text=reply("hello", pin="1234"))

    machine = AsyncMachine.from_dict({**GREETER, "context_schema": schema}, model=Viewer())
    chat = await machine.start(greet=False)
    await chat.send("m")
    await chat.send("m")
    assert chat.context == {"pin": "1234"}
    assert views[1].context == {}
    assert json.dumps(dict(views[1].writable)) == json.dumps(schema["properties"])


async def test_request_id_of_long_ago_gives_its_turn_and_leaves_the_conversation_where_it_is() -> (
    None
):
    chat = await scripted(reply("hello", "one", x=1), reply("bye", "two", name="A")).start(
        greet=False
    )
    first = await chat.send("a", request_id="1")
    await chat.send("b", request_id="2")
    stream = chat.stream("a", request_id="1")
    assert [event.text async for event in stream if isinstance(event, ev.MessageDelta)] == ["one"]
    assert stream.turn == first
    assert (chat.state, chat.ended) == ("bye", True)


async def test_request_id_of_a_turn_taken_back_gives_that_turn_whole() -> None:
    chat = await scripted(
        reply("hello", "one", x=1), reply("bye", "two", name="A"), reply("hello", "three")
    ).start(greet=False)
    await chat.send("a", request_id="1")
    second = await chat.send("b", request_id="2")
    await chat.undo()
    await chat.send("c", request_id="3")
    assert await chat.send("b", request_id="2") == second
    assert (chat.state, chat.context) == ("hello", {"x": 1})


async def test_a_machine_lives_by_the_clock_it_is_given() -> None:
    logic = {">=": [{"now": []}, {"date": ["2030-01-01"]}]}
    document = {
        **GREETER,
        "states": {
            "hello": {
                "purpose": "Wait for the day",
                "transitions": [
                    {"target_state": "bye", "auto": True, "conditions": [{"logic": logic}]}
                ],
            },
            "bye": {"reply": "It is time."},
        },
    }
    moment = [1893455999.0]
    machine = AsyncMachine.from_dict(
        document,
        model=ScriptedLLM([reply("hello", "Not yet.")]),
        store="memory",
        clock=lambda: moment[0],
    )
    chat = await machine.start(greet=False)
    assert (await chat.send("now?")).text == "Not yet."
    moment[0] += 1
    assert (await chat.send("now?")).text == "It is time."
    assert [listed.updated for listed in await machine.conversations()] == moment


class Dies(BaseException):
    """What ends a process, as far as a turn can tell."""


async def _acting(store: Any, model: Any, seen: list[str]) -> AsyncMachine:
    machine = AsyncMachine.from_dict(GREETER, model=model, store=store)

    @machine.on("pre_processing")
    def noted(occasion: Occasion) -> None:
        seen.append(f"{occasion.user_input} {occasion.key}")

    return machine


async def test_message_that_died_after_it_acted_is_finished_before_the_next_one() -> None:
    store, seen = MemoryStore(), []
    first = await _acting(store, ScriptedLLM([Dies()]), seen)
    chat = await first.start(conversation_id="c", greet=False)
    with pytest.raises(Dies):
        await chat.send("one", request_id="m1")
    second = await _acting(store, ScriptedLLM([reply("hello", "1"), reply("hello", "2")]), seen)
    chat = await second.resume("c")
    assert (await chat.send("two", request_id="m2")).text == "2"
    assert (await chat.send("one", request_id="m1")).text == "1"
    assert [m.text for m in await chat.history()] == ["one", "1", "two", "2"]
    assert [said.split()[0] for said in seen] == ["one", "two"]


@pytest.mark.parametrize("request_id", ["m1", None])
async def test_message_whose_failure_was_told_is_forgotten_unless_it_comes_again(
    request_id: str | None,
) -> None:
    store, seen = MemoryStore(), []
    machine = await _acting(
        store,
        ScriptedLLM(
            [ModelError("down"), reply("hello", "2"), ModelError("down"), reply("hello", "3")]
        ),
        seen,
    )
    chat = await machine.start(conversation_id="c", greet=False)
    with pytest.raises(ModelError):
        await chat.send("one", request_id=request_id)
    assert (await chat.send("two", request_id="m2")).text == "2"
    with pytest.raises(ModelError):
        await chat.send("three", request_id="m3")
    assert (await chat.send("three", request_id="m3")).text == "3"
    assert [m.text for m in await chat.history()] == ["two", "2", "three", "3"]
    assert [said.split()[0] for said in seen] == ["one", "two", "three"]


async def test_handler_keys_tell_every_run_from_the_others_and_stay_when_a_turn_is_begun_again() -> (
    None
):
    store, keys = MemoryStore(), []
    points = (
        "pre_processing",
        "context_update",
        "pre_transition",
        "post_transition",
        "end_conversation",
    )

    def machine(*replies: Any) -> AsyncMachine:
        made = scripted(*replies, store=store, clock=lambda: 1000.0)
        made.on(*points)(lambda occasion: keys.append(occasion.key))
        return made

    chat = await machine(reply("hello", "hm"), Dies()).start(conversation_id="c", greet=False)
    await chat.send("one")
    with pytest.raises(Dies):
        await chat.send("Ada", request_id="m2")
    before, keys[:] = list(keys), []
    again = await machine(reply("bye", "Bye", name="Ada")).resume("c")
    await again.send("Ada", request_id="m2")
    assert len(before) == 2
    assert len({*before, *keys}) == len(before) + len(keys) == 6
    assert all(len(key) == 32 for key in keys)


async def test_handler_that_died_is_run_again_with_the_key_that_it_had() -> None:
    store, keys = MemoryStore(), []

    def machine(*, dies: bool) -> AsyncMachine:
        made = scripted(reply("hello", "1"), store=store)

        @made.on("pre_processing")
        async def acted(occasion: Occasion) -> None:
            keys.append(occasion.key)
            if dies:
                raise Dies

        return made

    chat = await machine(dies=True).start(conversation_id="c", greet=False)
    with pytest.raises(Dies):
        await chat.send("one", request_id="m1")
    await (await machine(dies=False).resume("c")).send("one", request_id="m1")
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_handlers_priority_and_condition_are_checked_when_they_are_given() -> None:
    with pytest.raises(ValueError, match="handler 'h': priority is a number, not 'first'"):
        create_handler("h").with_priority("first")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"handler 'h': when\(…\) takes a function, not a bool"):
        create_handler("h").when(True)  # type: ignore[arg-type]


async def test_each_handler_of_the_words_is_given_those_of_the_one_before_it() -> None:
    seen: list[str | None] = []

    def masked(occasion: Occasion) -> str:
        return str(occasion.text).replace("4711", "•••")

    def looked(occasion: Occasion) -> None:
        seen.append(occasion.text)

    def signed(occasion: Occasion) -> str:
        return f"{occasion.text} – your bot"

    def masks(occasion: Occasion) -> bool:
        return "•••" in str(occasion.text)

    made = [
        create_handler("signed").at("post_processing").with_priority(3).when(masks).do(signed),
        create_handler("looked").at("post_processing").with_priority(2).do(looked),
        create_handler("masked").at("post_processing").with_priority(1).do(masked),
    ]
    model = ScriptedLLM([reply("hello", "Code 4711")])
    async with AsyncMachine.from_dict(GREETER, model=model, handlers=made) as machine:
        turn = await (await machine.start(greet=False)).send("Hi")
    assert (turn.text, seen) == ("Code ••• – your bot", ["Code •••"])


async def test_handlers_hear_only_of_values_that_changed() -> None:
    heard: list[object] = []
    hear = (
        create_handler("h")
        .at("context_update")
        .when_keys_updated("name")
        .do(lambda occasion: heard.append(occasion.context["name"]))
    )
    replies = [reply("hello", name="Ada"), reply("hello", name="Ada"), reply("hello", name="Ida")]
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM(replies), handlers=[hear])
    chat = await machine.start(greet=False)
    turns = [await chat.send(text) for text in ("Ada", "Ada", "Ida")]
    assert heard == ["Ada", "Ida"]
    assert [sum(isinstance(event, ev.ContextSet) for event in turn.events) for turn in turns] == [
        1,
        0,
        1,
    ]
