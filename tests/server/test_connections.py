"""Connections of a server: how many there are, and how long each may do nothing."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from llm_fsm.server.connections import most_connections
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from paths import ROOT
from served import client_at, served


class Waiting(ScriptedLLM):
    """A model that answers when it is told to."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies)
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    async def complete(self, request: Any, **named: Any) -> Any:
        self.asked.set()
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        return await super().complete(request, **named)


@contextmanager
def address_of(limits: Limits, model: Any = "offline") -> Iterator[tuple[str, int]]:
    app = create_app(
        AsyncMachine.from_dict(GREETER, model=model), closes=True, due_seconds=None, limits=limits
    )
    with served(app, limits) as url:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        yield place.hostname, place.port


def is_served(connection: socket.socket) -> bool:
    """True if the server answers a request on this connection."""
    answer = b""
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while b"}" not in answer:
            part = connection.recv(4096)
            if not part:
                return False
            answer += part
    except ConnectionError:
        return False
    return answer.startswith(b"HTTP/1.1 200 ")


def is_closed(connection: socket.socket, seconds: float = 20) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def taken(connection: socket.socket) -> int:
    """The bytes that the server takes until it closes the connection, at most 30 million."""
    sent = 0
    with suppress(ConnectionError):
        while sent < 30_000_000:
            sent += connection.send(b"a" * 8_000)
            time.sleep(0.001)
    return sent


def test_the_longest_idle_connection_makes_room_for_a_new_one() -> None:
    with address_of(Limits(connections=3)) as place, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(place, 20)) for _ in range(3)]
        assert is_served(idle[0])  # now the second one is idle for longest
        fresh = stack.enter_context(socket.create_connection(place, 20))
        assert is_served(fresh)
        assert is_closed(idle[1])
        assert is_served(idle[0])
        assert is_served(idle[2])


def test_a_connection_with_a_request_is_never_closed_for_a_new_one() -> None:
    model = Waiting([reply("bye", "Bye.", name="Ada")])
    with address_of(Limits(connections=1), model) as place:
        url = f"http://{place[0]}:{place[1]}"
        with client_at(url) as client:
            wish = {"definition": "greeter", "greet": False, "id": "c"}
            assert client.post("/conversations", json=wish).status_code == 201
            said: list[httpx.Response] = []
            body = {"text": "Ada"}
            talk = threading.Thread(
                target=lambda: said.append(client.post("/conversations/c/messages", json=body))
            )
            talk.start()
            assert model.asked.wait(20)
            with socket.create_connection(place, 20) as other:
                refused = other.recv(65_536)
            model.may_answer.set()
            talk.join()
    head, _, body_text = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5" in head
    assert json.loads(body_text)["type"] == "urn:llm-fsm:problem:unavailable"
    assert said[0].json()["text"] == "Bye."


HALF_BODY = (
    b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Expect: 100-continue\r\nContent-Length: 900000\r\n\r\n{"definition":'
)
UNREAD = b"GET /assets/openapi-explorer.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20


@pytest.mark.parametrize("sent", [HALF_BODY, UNREAD, UNREAD[:-2] + b"Connection: close\r\n\r\n"])
def test_a_connection_that_waits_for_its_client_makes_room_for_a_new_one(sent: bytes) -> None:
    with address_of(Limits(connections=2, body_seconds=60)) as place, ExitStack() as stack:
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            waiting.connect(place)
            waiting.sendall(sent)
            assert waiting.recv(9) == b"HTTP/1.1 "
        assert soon(lambda: is_served(stack.enter_context(socket.create_connection(place, 20))))


def soon(found: Callable[[], bool]) -> bool:
    """True as soon as it is found within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if found():
            return True
        time.sleep(0.05)
    return False


def test_a_connection_without_requests_is_closed() -> None:
    limits = Limits(idle_seconds=1, header_seconds=1)
    with address_of(limits) as place, socket.create_connection(place, 20) as silent:
        with socket.create_connection(place, 20) as once:
            assert is_served(once)
            assert is_closed(once)
        assert is_closed(silent)


ENDLESS = [b"GET /", b"GET / HTTP/1.1\r\nx: ", b"GET / HTTP/1.1\r\na: b\r\nx: "]
"""Beginnings of a head that a client goes on with for ever."""
TRAILER = b"POST /conversations/c/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: "


@pytest.mark.parametrize(
    ("head", "is_answering"),
    [
        *((head, is_answering) for head in ENDLESS for is_answering in (False, True)),
        (TRAILER, False),
    ],
)
def test_a_head_without_an_end_is_not_kept(head: bytes, is_answering: bool) -> None:
    with address_of(Limits()) as place, socket.create_connection(place, 20) as endless:
        if is_answering:
            wish = {"definition": "greeter", "greet": False, "id": "c"}
            begun = httpx.post(
                f"http://{place[0]}:{place[1]}/conversations", json=wish, trust_env=False
            )
            assert begun.status_code == 201
            endless.sendall(b"GET /conversations/c/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert endless.recv(12) == b"HTTP/1.1 200"
        endless.sendall(head)
        assert taken(endless) < 30_000_000


def test_a_body_may_be_larger_than_a_head() -> None:
    with address_of(Limits()) as place:
        body = {"definition": "greeter", "greet": False, "context": {"name": "a" * 900_000}}
        answered = httpx.post(
            f"http://{place[0]}:{place[1]}/conversations", json=body, trust_env=False, timeout=30
        )
        assert answered.status_code == 201


def test_a_client_that_reads_nothing_loses_its_connection() -> None:
    with address_of(Limits(send_seconds=0.3)) as place, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(place)
        deaf.settimeout(20)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        lost = False
        deadline = time.monotonic() + 60
        while not lost and time.monotonic() < deadline:
            try:
                deaf.sendall(asked * 20)
                time.sleep(0.02)
            except ConnectionError:
                lost = True
            except TimeoutError:  # the server reads no more, as nobody takes its answers
                deaf.settimeout(0.5)
        assert lost


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 4096])
def test_connections_leave_descriptors_for_the_work(descriptors: int) -> None:
    code = (
        "import resource; from llm_fsm.server.connections import most_connections;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}));"
        "print(most_connections(10_000))"
    )
    most = int(_python(code))
    assert 1 <= most <= descriptors // 2
    assert most_connections(5) == 5


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = (
        "import resource; from llm_fsm.server.connections import raise_descriptors;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}));"
        "raise_descriptors(); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert _python(code).split() == [str(hard), str(hard)]


_LOGGING = """
import asyncio, logging, sys
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.mcp_server import mcp_server

if sys.argv[1] == "host":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
root = logging.getLogger()
before = list(root.handlers), root.level
app = create_app(AsyncMachine.from_file("fsm_definitions/greeting.json", model="offline"))

async def main():
    async with app.router.lifespan_context(app):
        mcp_server(app.service)

asyncio.run(main())
print((list(root.handlers), root.level) == before)
"""


@pytest.mark.parametrize("setup", ["none", "host"])
def test_the_logging_of_the_host_program_stays_as_it_was(setup: str) -> None:
    assert _python(_LOGGING, setup).splitlines()[-1] == "True"


def _python(code: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        (sys.executable, "-c", code, *arguments),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout
