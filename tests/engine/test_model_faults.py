"""Whatever a model's server does, a turn ends as declared: asked again, next model, an apology, or
a typed error.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.retry import RETRYABLE_STATUS, Pacing, RetryPolicy
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.events import BotSaid, MessageDelta
from llm_fsm.testing import FAULTS, FaultyStream, HttpReply, serve_scripted
from machines import GREETER, reply

pytestmark = pytest.mark.anyio

ATTEMPTS = 2
SLOW = (FAULTS["hangs"], FAULTS["one byte a second"])
SOUND = reply("bye", "Bye, Ada – grüß dich!", name="Ada")
STATUSES = {f"status {status}": status for status in range(204, 600)}
WORDS = [name for name in FAULTS if name.startswith(("no words", "words that", "NUL"))]
FOR_GOOD = [
    name
    for name in FAULTS
    if (status := STATUSES.get(name, 500 if name != "status 204" else 400)) < 500
    and status not in RETRYABLE_STATUS
]
"""Faults that another attempt would not mend."""
PASSING = [name for name in FAULTS if name not in WORDS and name not in FOR_GOOD]
SOME = [name for name in PASSING if name not in STATUSES] + [
    "status 429",
    "status 500",
    "status 503",
    "status 599",
]
"""Those without the statuses that are treated as their neighbours."""


async def _no_sleep(seconds: float) -> None:
    return None


class Desk:
    """A machine whose model is a server that follows a script, and one conversation."""

    def __init__(self, machine: AsyncMachine, server: Any) -> None:
        self.machine = machine
        self.server = server

    async def begun(self) -> Any:
        self.chat = await self.machine.start({"tier": "gold"}, conversation_id="c", greet=False)
        self.before = await self.machine.store.load("c")
        return self.chat

    async def untouched(self) -> bool:
        return await self.machine.store.load("c") == self.before


@asynccontextmanager
async def desk(*replies: Any, **options: Any) -> AsyncIterator[Desk]:
    async with serve_scripted(list(replies), loop=len(replies) == 1) as server:
        pacing = Pacing(now=time.monotonic, sleep=_no_sleep, chance=lambda: 1.0)
        patience = 0.4 if replies[0] in SLOW else 30.0
        policy = RetryPolicy(attempts=ATTEMPTS, attempt_timeout=patience)
        llm = CompatLLM("m", base_url=server.base_url, retry=policy, pacing=pacing)
        machine = AsyncMachine.from_dict(GREETER, model=llm, **{"timeout": 60.0, **options})
        made = Desk(machine, server)
        await made.begun()
        try:
            yield made
        finally:
            await machine.close()


async def streamed(chat: Any, text: str) -> tuple[Any, str]:
    """The turn, and what a listener was left with."""
    heard = ""
    stream = chat.stream(text)
    async for event in stream:
        if isinstance(event, MessageDelta):
            heard = event.text if event.restart else heard + event.text
    return stream.turn, heard


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", SOME)
async def test_fault_that_lasts_is_a_typed_error_after_bounded_attempts(
    name: str, streams: bool
) -> None:
    async with desk(FAULTS[name]) as at:
        with pytest.raises(ModelError) as caught:
            await (streamed(at.chat, "Ada") if streams else at.chat.send("Ada"))
        assert caught.value.retryable
        assert len(at.server.requests) <= 2 * ATTEMPTS
        assert await at.untouched()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", [name for name in SOME if "long" not in name])
async def test_fault_that_passes_is_asked_again_and_leaves_no_trace(
    name: str, streams: bool
) -> None:
    async with desk(FAULTS[name], SOUND) as at:
        turn = (await streamed(at.chat, "Ada"))[0] if streams else await at.chat.send("Ada")
        assert (turn.text, turn.state, turn.context["name"]) == (
            "Bye, Ada – grüß dich!",
            "bye",
            "Ada",
        )
        assert len(at.server.requests) == 2


async def test_every_status_is_either_asked_again_or_told_at_once() -> None:
    answers = iter(())
    async with desk(lambda _: next(answers)) as at:
        for name in FAULTS.keys() & STATUSES.keys():
            answers = iter([FAULTS[name], SOUND])
            seen = len(at.server.requests)
            chat = await at.machine.start(conversation_id=name, greet=False)
            if name in FOR_GOOD:
                with pytest.raises(ModelError) as caught:
                    await chat.send("Ada")
                assert (caught.value.status, caught.value.retryable) == (STATUSES[name], False)
                assert len(at.server.requests) == seen + 1
            assert (await chat.send("Ada")).state == "bye"
            assert len(at.server.requests) == seen + 2


async def test_server_that_refuses_connections_is_a_typed_error() -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{port.getsockname()[1]}/v1"
        llm = CompatLLM("m", base_url=address, retry=RetryPolicy(attempts=2, base=0.001))
        machine = AsyncMachine.from_dict(GREETER, model=llm)
        chat = await machine.start(conversation_id="c", greet=False)
        before = await machine.store.load("c")
        with pytest.raises(ModelError, match="is the server running"):
            await chat.send("Ada")
        assert await machine.store.load("c") == before
        await machine.close()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", WORDS)
async def test_words_that_are_no_reply_are_asked_for_once_more_then_the_state_stays(
    name: str, streams: bool
) -> None:
    async with desk(FAULTS[name]) as at:
        turn, heard = (
            await streamed(at.chat, "Ada") if streams else (await at.chat.send("Ada"), None)
        )
        assert (turn.state, turn.moved, turn.context) == ("hello", False, {"tier": "gold"})
        (said,) = [event for event in turn.events if isinstance(event, BotSaid)]
        assert said.fallback
        assert turn.text.startswith("Sorry, I did not get that.")
        assert heard in (None, turn.text)
        assert len(at.server.requests) == 2
    async with desk(FAULTS[name], SOUND) as at:
        assert (await at.chat.send("Ada")).state == "bye"


@pytest.mark.parametrize("name", [*SOME, "status 401", "status 404", "status 302"])
async def test_next_model_answers_when_one_fails_for_good(name: str) -> None:
    async with desk(FAULTS[name], fallbacks=[ScriptedLLM([SOUND])]) as at:
        turn = await at.chat.send("Ada")
        assert (turn.state, turn.context["name"]) == ("bye", "Ada")


@pytest.mark.parametrize("name", ["hangs", "status 500", "status 401", "HTML"])
async def test_apology_of_the_host_is_the_turn_where_it_has_one(name: str) -> None:
    async with desk(FAULTS[name]) as at:
        at.machine.on("error")(lambda occasion: "We are sorry, please try later.")
        turn = await at.chat.send("Ada")
        assert (turn.text, turn.state, turn.context) == (
            "We are sorry, please try later.",
            "hello",
            {"tier": "gold"},
        )


@pytest.mark.parametrize("name", ["hangs", "one byte a second"])
async def test_deadline_of_the_turn_bounds_what_the_server_makes_it_wait(name: str) -> None:
    async with serve_scripted([FAULTS[name]], loop=True) as server:
        machine = AsyncMachine.from_dict(GREETER, model="m", base_url=server.base_url, timeout=0.2)
        chat = await machine.start(conversation_id="c", greet=False)
        with pytest.raises(ModelError, match=r"within"):
            await chat.send("Ada")
        assert len(server.requests) == 1
        await machine.close()


async def test_wait_that_a_provider_asks_for_is_not_begun_past_the_deadline() -> None:
    async with desk(FAULTS["429 with a long Retry-After"]) as at:
        with pytest.raises(ModelError) as caught:
            await at.chat.send("Ada")
        assert (caught.value.status, caught.value.retry_after) == (429, 86400)
        assert len(at.server.requests) == 1


# -- streams

TURN = ("Bye, Ada – grüß dich!", "bye")
FAULTY = [
    FaultyStream(words=SOUND, done=False),
    FaultyStream(words=SOUND, split=1),
    FaultyStream(words=SOUND, split=7, size=1),
    FaultyStream(words=SOUND, pause=0.001, split=100),
    FaultyStream(words=SOUND, doubled=True),
    FaultyStream(words=SOUND, doubled=True, done=False, split=3),
    FaultyStream(words=SOUND, doubled=True, size=10_000),
]


@pytest.mark.parametrize(
    "faulty", FAULTY, ids=lambda faulty: f"{faulty.doubled}-{faulty.done}-{faulty.split}"
)
async def test_odd_stream_gives_the_words_or_is_asked_for_again(faulty: FaultyStream) -> None:
    async with desk(faulty, SOUND) as at:
        turn, heard = await streamed(at.chat, "Ada")
        assert (turn.text, turn.state) == TURN
        assert heard == turn.text
        assert len(at.server.requests) <= (2 if faulty.doubled else 1)


async def cut_streams(words: str, size: int, step: int) -> tuple[int, int]:
    """A stream cut at every so many bytes, and then a sound answer: how many turns there were, and
    how many failed.

    A turn that did not fail has the whole words, and so has its listener; one that failed did so
    after words were shown, and changed nothing.
    """
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": []}
    length = sum(map(len, FaultyStream(words=words, size=size).pieces(body, 1)))
    answers = iter(())
    failed = 0
    async with desk(lambda _: next(answers)) as at:
        for place in range(0, length, step):
            answers = iter([FaultyStream(words=words, size=size, cut_after=place), words])
            chat = await at.machine.start(conversation_id=f"c{place}", greet=False)
            before = await at.machine.store.load(chat.id)
            stream, heard, error = chat.stream("Ada"), "", None
            try:
                async for event in stream:
                    heard += event.text if isinstance(event, MessageDelta) else ""
            except ModelError as raised:
                error = raised
            said = json.loads(words)["message"]
            if error is None:
                assert stream.turn is not None
                assert (stream.turn.text, heard) == (said, said), place
                continue
            failed += 1
            assert (error.retryable, said.startswith(heard), heard != "") == (True, True, True), (
                place
            )
            assert await at.machine.store.load(chat.id) == before
    return len(range(0, length, step)), failed


async def test_stream_cut_at_any_byte_is_asked_for_again_or_fails_after_words_and_changes_nothing() -> (
    None
):
    turns, failed = await cut_streams(reply("hello", "ok"), 10_000, 1)
    assert turns > 500
    assert failed < turns / 2


async def test_stream_of_small_events_cut_anywhere_is_treated_alike() -> None:
    turns, failed = await cut_streams(SOUND, 8, 41)
    assert 0 < failed < turns


@pytest.mark.parametrize("place", [0, 100, 400, 500])
async def test_stream_that_is_cut_again_and_again_leaves_nothing(place: int) -> None:
    cut = FaultyStream(words=SOUND, cut_after=place)
    async with desk(lambda body: cut if body.get("stream") else HttpReply(status=500)) as at:
        with pytest.raises(ModelError):
            await streamed(at.chat, "Ada")
        assert len(at.server.requests) <= 2 * ATTEMPTS
        assert await at.untouched()


def test_catalogue_is_what_a_server_can_send() -> None:
    assert {"hangs", "429 with Retry-After", "10 MB", "two objects"} < FAULTS.keys()
    assert json.loads(SOUND)["message"] == TURN[0]
