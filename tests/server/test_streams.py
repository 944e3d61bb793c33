"""Pieces of a reply that are there at once go out as one, and a piece by itself waits for nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx
import pytest

from llm_fsm import AsyncMachine, LLMRequest, ModelReply
from llm_fsm.server import create_app
from llm_fsm.server.turns import LiveTurn
from llm_fsm.testing import ScriptedLLM
from machines import GREETER
from served import client_at, served

WORDS = [f"word{number} " for number in range(200)]
WHOLE = "".join(WORDS).strip()
BEGIN = '{"transition": {"target_state": "hello"}, "message": "'


class Speaker:
    """A model that says pieces. Before a piece that is an event, it waits until that is set."""

    def __init__(self, pieces: Sequence[str | threading.Event]) -> None:
        self.pieces = [BEGIN, *pieces, '"}']

    async def complete(self, request: LLMRequest) -> ModelReply:
        return ModelReply(text=self.whole())

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        for piece in self.pieces:
            if isinstance(piece, str):
                yield piece
            else:
                while not piece.is_set():
                    await asyncio.sleep(0.001)
        yield ModelReply(text=self.whole())

    def whole(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


@contextmanager
def client_of(pieces: Sequence[str | threading.Event]) -> Iterator[httpx.Client]:
    machine = AsyncMachine.from_dict(GREETER, model=Speaker(pieces))
    app = create_app(machine, closes=True, due_seconds=None)
    with served(app) as url, client_at(url) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        yield client


DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "rest": ("/conversations/c/messages", {"text": "Go on"}),
    "chat": (
        "/v1/chat/completions",
        {"model": "greeter", "stream": True, "messages": [{"role": "user", "content": "Go on"}]},
    ),
    "responses": ("/v1/responses", {"model": "greeter", "stream": True, "input": "Go on"}),
    "ag-ui": (
        "/ag-ui/greeter",
        {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "messages": [{"id": "1", "role": "user", "content": "Go on"}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    ),
}


def piece_in(door: str, data: Any) -> str | None:
    """The piece of the reply in the data of an event of a door; None in one of another kind."""
    if door == "rest":
        return data["text"] if set(data) == {"text"} else None
    if door == "chat":
        return data["choices"][0]["delta"].get("content") or None
    if door == "responses":
        return data["delta"] if data["type"] == "response.output_text.delta" else None
    return data["delta"] if data["type"] == "TEXT_MESSAGE_CONTENT" else None


def pieces_in(door: str, lines: Iterator[str]) -> Iterator[str]:
    """The pieces of a stream of a door, as they arrive."""
    for line in lines:
        if not line.startswith("data: {"):
            continue
        piece = piece_in(door, json.loads(line.removeprefix("data: ")))
        if piece is not None:
            yield piece


@pytest.mark.parametrize("door", DOORS)
def test_pieces_that_are_there_at_once_go_out_as_one(door: str) -> None:
    path, wish = DOORS[door]
    with client_of(WORDS) as client:
        answer = client.post(path, json=wish, headers={"Accept": "text/event-stream"})
        pieces = list(pieces_in(door, iter(answer.text.splitlines())))
        assert "".join(pieces) == WHOLE
        assert len(pieces) <= 3


@pytest.mark.parametrize("door", DOORS)
def test_a_piece_is_seen_before_the_model_says_the_next_one(door: str) -> None:
    path, wish = DOORS[door]
    gates = [threading.Event() for _ in range(5)]
    pieces = [part for number, gate in enumerate(gates) for part in (f"word{number}.", gate)]
    with (
        client_of(pieces) as client,
        client.stream("POST", path, json=wish, headers={"Accept": "text/event-stream"}) as answer,
    ):
        seen = []
        for piece, gate in zip(pieces_in(door, answer.iter_lines()), gates, strict=True):
            seen.append(piece)
            gate.set()
        assert seen == [f"word{number}." for number in range(5)]


def test_a_stream_goes_on_after_any_of_its_events_though_pieces_were_joined() -> None:
    gates = [threading.Event() for _ in range(3)]
    words = [f"{number}{letter} " for number in range(3) for letter in "abc"]
    pieces = [
        part
        for number, gate in enumerate(gates)
        for part in (*words[3 * number : 3 * number + 3], gate)
    ]
    headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
    path, wish = DOORS["rest"]
    with client_of(pieces) as client:
        ids, texts = [], []
        with client.stream("POST", path, json=wish, headers=headers) as answer:
            waiting = iter(gates)
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    ids.append(line.removeprefix("id: "))
                elif line.startswith('data: {"text"'):
                    texts.append(json.loads(line.removeprefix("data: "))["text"])
                    for gate in islice(waiting, 1):
                        gate.set()
        assert "".join(texts).split() == [word.strip() for word in words]
        for place, last in enumerate(ids[: len(texts)]):
            again = client.post(
                path, json=wish, headers={"Accept": "text/event-stream", "Last-Event-ID": last}
            )
            assert "".join(pieces_in("rest", iter(again.text.splitlines()))) == "".join(
                texts[place + 1 :]
            )


def test_every_resume_with_an_event_of_an_earlier_telling_restarts_though_the_turn_is_live() -> (
    None
):
    gate = threading.Event()
    words = [f"word{number} " for number in range(9)]
    path, wish = DOORS["rest"]
    with client_of([*words, gate, "end."]) as client:
        headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
        with client.stream("POST", path, json=wish, headers=headers) as first:
            for line in first.iter_lines():
                if line.startswith('data: {"text"'):
                    break
        resumed = {"Accept": "text/event-stream", "Last-Event-ID": "k:0ld0ld.3"}
        for old in ("k:0ld0ld.1", "k:0ld0ld.3", "k:3", "k:0ld0ld.1000"):
            with client.stream(
                "POST", path, json=wish, headers={**resumed, "Last-Event-ID": old}
            ) as again:
                told = next(line for line in again.iter_lines() if line.startswith('data: {"text"'))
            data = json.loads(told.removeprefix("data: "))
            assert data["restart"]
            assert data["text"].startswith("word0 word1")
        gate.set()
        end = client.post(path, json=wish, headers=resumed)
        assert '"restart":true' in end.text
        ids = [
            line.removeprefix("id: ") for line in end.text.splitlines() if line.startswith("id: ")
        ]
        rest = client.post(path, json=wish, headers={**resumed, "Last-Event-ID": ids[0]})
        assert "restart" not in rest.text
        assert "word0 word1" not in "".join(pieces_in("rest", iter(rest.text.splitlines())))


def test_every_follower_of_a_turn_gets_all_of_its_words() -> None:
    gates = [threading.Event() for _ in range(20)]
    pieces = [part for number, gate in enumerate(gates) for part in (f"word{number}.", gate)]

    async def talk() -> list[str]:
        async with AsyncMachine.from_dict(GREETER, model=Speaker(pieces)) as machine:
            chat = await machine.start(greet=False)
            live = LiveTurn("k", "Go on")
            live.task = asyncio.create_task(live.play(chat.stream("Go on")))

            async def follow(pause: int) -> str:
                words = []
                async for _, event in live.follow():
                    words.append(
                        getattr(event, "text", "") if type(event).__name__ == "MessageDelta" else ""
                    )
                    for _ in range(pause):
                        await asyncio.sleep(0)
                return "".join(words)

            followers = [asyncio.create_task(follow(pause)) for pause in (0, 1, 7)]
            for gate in gates:
                gate.set()
                await asyncio.sleep(0.002)
            return await asyncio.gather(*followers)

    assert asyncio.run(talk()) == ["".join(f"word{number}." for number in range(20))] * 3


def test_a_stream_says_where_the_user_said_a_value_and_nothing_of_secret_keys() -> None:
    said_key = {"type": "string", "x-said": "digits"}
    keys = {"phone": said_key, "pin": {**said_key, "x-secret": True}}
    states = {
        "a": {"purpose": "Your number?", "transitions": [{"target_state": "b"}]},
        "b": {"purpose": "Bye"},
    }
    document = {
        "name": "m",
        "initial_state": "a",
        "context_schema": {"properties": keys},
        "states": states,
    }
    update = {"phone": "030555", "pin": "4711"}
    answer = {
        "transition": {"target_state": "a", "context_update": update},
        "message": "Thanks. Else?",
    }
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([answer]))
    with served(create_app(machine, due_seconds=None)) as url, client_at(url) as client:
        id = client.post("/conversations", json={"definition": "m", "greet": False}).json()["id"]
        headers = {"Accept": "text/event-stream"}
        said = client.post(
            f"/conversations/{id}/messages", json={"text": "030 555, PIN 4711"}, headers=headers
        ).text
    [told] = [line for line in said.split("\n") if '"values"' in line]
    assert json.loads(told.removeprefix("data: "))["quotes"] == {"phone": [1, 0, 7]}
