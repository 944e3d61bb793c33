"""Work is counted: requests, streams, and the turns of the service's own machines."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from llm_fsm.server.limits import Gauge
from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller, Tokens, add_token
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import served
from served_clients import begin, client_of

SAID = {"messages": [{"role": "user", "content": "a"}], "model": "greeter"}
AG_UI = {
    "threadId": "c", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
    "messages": [{"id": "m", "role": "user", "content": "a"}],
}  # fmt: skip
RPC = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
COUNTED: list[tuple[str, str, Any]] = [
    ("POST", "/conversations", {"definition": "greeter"}),
    ("POST", "/conversations/c/messages", {"text": "a"}),
    ("POST", "/conversations/c/answer", {"value": 1}),
    ("POST", "/conversations/c/undo", None),
    ("POST", "/conversations/c/fork", None),
    ("POST", "/conversations/c/end", None),
    ("DELETE", "/conversations/c", None),
    ("POST", "/runs", {"definition": "greeter"}),
    ("POST", "/runs/c/answer", {"value": 1}),
    ("POST", "/runs/c/cancel", None),
    ("POST", "/v1/conversations", None),
    ("POST", "/v1/chat/completions", SAID),
    ("POST", "/v1/responses", {"model": "greeter", "input": "a"}),
    ("POST", "/ag-ui/greeter", AG_UI),
    ("POST", "/mcp", RPC),
    ("POST", "/nowhere", None),
    ("GET", "/definitions", None),
    ("GET", "/conversations/c/history", None),
    ("HEAD", "/conversations/c/turns", None),
    ("GET", "/v1/models", None),
    ("GET", "/nowhere", None),
]


def greeter(*replies: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)))


@pytest.mark.parametrize(("method", "path", "body"), COUNTED, ids=lambda value: str(value)[:30])
def test_every_request_counts_once(method: str, path: str, body: Any) -> None:
    with client_of(greeter(reply("hello", "Hi.")), limits=Limits(messages_per_minute=2)) as client:
        answers = [client.request(method, path, json=body) for _ in range(3)]
        assert [answer.status_code == 429 for answer in answers] == [False, False, True]
        assert int(answers[2].headers["retry-after"]) > 0
        assert client.get("/healthz").status_code == 200


def test_all_bodies_under_way_have_one_limit_and_one_token_half_of_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    ada, bob, eve = (add_token(file, name) for name in ("ada", "bob", "eve"))
    limits = Limits(body_bytes=1_000, bodies_bytes=2_000)
    app = create_app(greeter(), tokens=Tokens.from_file(file), limits=limits, closes=True)
    with served(app, limits) as url, ExitStack() as stack:

        def half_sent(token: str, size: int) -> socket.socket:
            head = (
                f"POST /conversations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {size + 1}\r\n\r\n"
            )
            place = httpx.URL(url)
            client = stack.enter_context(socket.create_connection((place.host, place.port or 80)))
            client.settimeout(30)
            client.sendall(head.encode() + b" " * size)
            return client

        first = half_sent(ada, 900)
        assert b" 429 " in half_sent(ada, 900).recv(100).splitlines()[0]
        second = half_sent(bob, 900)
        assert b" 429 " in half_sent(eve, 900).recv(100).splitlines()[0]
        for client in (first, second):
            client.sendall(b" ")
            assert b" 400 " in client.recv(100).splitlines()[0]
        third = half_sent(eve, 900)
        third.sendall(b" ")
        assert b" 400 " in third.recv(100).splitlines()[0]


def test_those_without_a_token_have_half_of_all_bytes_like_one_token() -> None:
    limits = Limits(body_bytes=1_000, bodies_bytes=2_000)
    head = (
        b"POST /conversations HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 901\r\n\r\n"
    )
    app = create_app(greeter(), limits=limits, closes=True)
    with served(app, limits) as url:
        place = httpx.URL(url).host, httpx.URL(url).port or 80
        with socket.create_connection(place) as first, socket.create_connection(place) as second:
            first.sendall(head + b" " * 900)
            second.settimeout(30)
            second.sendall(head + b" " * 900)
            assert b" 429 " in second.recv(100).splitlines()[0]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_mcp_opens_no_stream_that_nobody_counts(method: str) -> None:
    with client_of(greeter()) as client:
        answer = client.request(method, "/mcp", headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")


class Held(ScriptedLLM):
    """A model that answers when it is told to."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies)
        self.may_answer = threading.Event()

    async def complete(self, request: Any, **named: Any) -> Any:
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        return await super().complete(request, **named)


@pytest.mark.parametrize("door", ["rest", "chat", "ag-ui"])
def test_streams_at_once_are_never_more_than_their_limit(door: str) -> None:
    count, most = 8, 2
    model = Held([reply("hello", "Hi.")] * count)
    machine = AsyncMachine.from_dict(GREETER, model=model)
    with client_of(machine, limits=Limits(streams=most)) as client:
        for number in range(count):
            begin(client, id=f"c{number}")
        statuses: list[int] = []

        def talk(name: str) -> None:
            asked: dict[str, tuple[str, Any, dict[str, str]]] = {
                "rest": (
                    f"/conversations/{name}/messages",
                    {"text": "a"},
                    {"Accept": "text/event-stream"},
                ),
                "chat": (
                    "/v1/chat/completions",
                    {**SAID, "stream": True},
                    {"X-Conversation-Id": name},
                ),
                "ag-ui": ("/ag-ui/greeter", {**AG_UI, "threadId": name}, {}),
            }
            path, body, headers = asked[door]
            statuses.append(client.post(path, json=body, headers=headers).status_code)

        threads = [threading.Thread(target=talk, args=(f"c{number}",)) for number in range(count)]
        for thread in threads:
            thread.start()
        while len(statuses) < count - most:  # the refused ones are answered while the others wait
            threads[0].join(0.05)
        model.may_answer.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] * most + [429] * (count - most)
        deadline = time.monotonic() + 20
        while "llm_fsm_open_streams 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < deadline, "a stream that is over still counts"
            time.sleep(0.05)


def test_figures_count_the_machines_of_the_service_alone() -> None:
    other = {**GREETER, "name": "of_the_host"}
    with client_of(greeter(reply("hello", "Hi."))) as client:
        client.post(f"/conversations/{begin(client)}/messages", json={"text": "a"})

        async def play() -> None:
            model = ScriptedLLM([reply("bye", "Bye.", name="Ada")])
            async with AsyncMachine.from_dict(other, model=model) as machine:
                await (await machine.start(greet=False)).send("Ada")

        asyncio.run(play())
        lines = client.get("/metrics").text.splitlines()
    assert not any("of_the_host" in line for line in lines)
    assert next(line for line in lines if line.startswith("llm_fsm_model_calls_total{")).endswith(
        " 1.0"
    )
    assert not any('to="bye"' in line for line in lines)


def test_methods_that_nobody_knows_make_no_series() -> None:
    with client_of(greeter()) as client:
        for method in ("PROPFIND", "MKCOL", "LOCK"):
            client.request(method, "/definitions")
        figures: str = client.get("/metrics").text
    assert not any(method in figures for method in ("PROPFIND", "MKCOL", "LOCK"))


def test_one_token_has_at_most_half_of_the_streams() -> None:
    gauge = Gauge(Limits(streams=4))
    ada, bob = Caller(name="ada"), Caller(name="bob")
    with gauge.stream(ada), gauge.stream(ada):
        with pytest.raises(Problem, match="half"):
            gauge.check_streams(ada)
        with gauge.stream(bob):
            assert gauge.streams == 3
    assert gauge.streams == 0
    gauge.check_streams(ada)


def test_the_limit_of_requests_remembers_no_caller_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gauge = Gauge(Limits(messages_per_minute=2))
    sizes = []
    for number in range(500):
        now += 1
        gauge.request(Caller(f"jwt:{number}"))
        sizes.append(len(gauge))
    assert max(sizes) <= 61
    busy = Caller("jwt:busy")
    gauge.request(busy)
    gauge.request(busy)
    with pytest.raises(Problem):
        gauge.request(busy)
    now += 30
    gauge.request(busy)
    with pytest.raises(Problem):
        gauge.request(busy)
