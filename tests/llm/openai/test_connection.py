from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.openai.connection import Closed, Post, checked_headers

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}"


class Seen:
    """What a server was sent: the head and the body of every request, and how often somebody
    connected.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0


@asynccontextmanager
async def server(*answers: bytes, keep: bool = True):
    """Answers in order, over however many connections; `keep` False: each connection ends with its
    answer.
    """
    seen, left = Seen(), list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                seen.requests.append((head, await reader.readexactly(length)))
                writer.write(left.pop(0))
                await writer.drain()
                if not keep:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    post = Post(
        URL(f"http://127.0.0.1:{port}/v1/chat?a=b%20c"), {"X-Team": "ä", "accept": "text/plain"}
    )
    try:
        yield post, seen
    finally:
        await post.close()
        listening.close()


async def body(post: Post, sent: bytes = b"{}", limit: int = 1000) -> bytes:
    answer = await post.send(sent)
    try:
        return await answer.read(limit)
    finally:
        answer.close()


async def test_a_request_has_its_headers_once_and_its_length():
    async with server(OK) as (post, seen):
        assert await body(post, b"hello") == b"{}"
    ((head, sent),) = seen.requests
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /v1/chat?a=b%20c http/1.1"
    assert sorted(line.partition(":")[0] for line in lines[1:-2]) == [
        "accept",
        "accept-encoding",
        "content-length",
        "host",
        "user-agent",
        "x-team",
    ]
    assert {"x-team: ä", "accept: text/plain", "content-length: 5"} <= set(lines)
    assert sent == b"hello"


async def test_an_answer_that_was_read_leaves_its_connection_for_the_next_request():
    async with server(OK, OK, OK) as (post, seen):
        assert [await body(post) for _ in range(3)] == [b"{}"] * 3
        assert seen.connections == 1


async def test_one_that_was_not_read_to_its_end_does_not():
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 500_000
    async with server(long, OK) as (post, seen):
        assert len(await body(post, limit=10)) < 500_000
        assert await body(post) == b"{}"
        assert seen.connections == 2


async def test_a_connection_that_the_server_closed_is_not_used_again():
    async with server(OK, OK, keep=False) as (post, seen):
        assert await body(post) == b"{}"
        await asyncio.sleep(0.01)
        assert await body(post) == b"{}"
        assert seen.connections == 2


@asynccontextmanager
async def forgetful(resets: bool, first: int):
    """A server that ends each connection with its second request; the first `first` answers come
    together.
    """
    connections, together = [0], asyncio.Barrier(first)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[0] += 1
        try:
            await reader.readuntil(b"\r\n\r\n{}")
            if connections[0] <= first:
                await together.wait()
            writer.write(OK)
            await reader.readuntil(b"\r\n\r\n{}")
            if resets:
                writer.transport.abort()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    post = Post(URL(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"), {})
    try:
        yield post, connections
    finally:
        await post.close()
        listening.close()


@pytest.mark.parametrize("resets", [False, True], ids=["closes", "resets"])
async def test_a_request_whose_kept_connection_ends_under_it_is_sent_over_a_new_one(resets):
    async with forgetful(resets, 9) as (post, connections):
        assert await asyncio.gather(*(body(post) for _ in range(9))) == [b"{}"] * 9
        assert await body(post) == b"{}"
        assert connections[0] == 10


async def test_a_request_whose_new_connection_ends_without_an_answer_is_not_sent_again():
    async with server(b"", keep=False) as (post, seen):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await body(post)
        assert (seen.connections, len(seen.requests)) == (1, 1)


async def test_what_the_server_says_before_the_answer_is_passed_over():
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with server(early + b"HTTP/1.1 100 Continue\r\n\r\n" + OK, OK) as (post, seen):
        answer = await post.send(b"{}")
        assert (answer.status, answer.content_type, await answer.read(10)) == (
            200,
            "application/json",
            b"{}",
        )
        answer.close()
        answer.close()
        assert await body(post) == b"{}"
        assert seen.connections == 1


async def test_chunks_and_bodies_without_a_length_are_read():
    chunks = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    for said, whole in [(chunks, b"abcde"), (b"HTTP/1.1 200 OK\r\n\r\nall of it", b"all of it")]:
        async with server(said, keep=False) as (post, _):
            assert await body(post) == whole


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 20", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
)
async def test_what_is_no_answer_is_an_error_of_the_client(said):
    async with server(said, keep=False) as (post, _):
        with pytest.raises(aiohttp.ClientError):
            await body(post)


async def test_a_body_that_breaks_off_is_an_error_of_the_client():
    async with server(OK[:-1], keep=False) as (post, _):
        with pytest.raises(aiohttp.ClientError):
            await body(post)


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"], ids=["head", "body"]
)
async def test_whoever_waits_for_an_answer_is_told_that_its_connection_was_closed_here(begun):
    async with server(begun, OK) as (post, seen):

        async def asking() -> None:
            answer = await post.send(b"{}")
            try:
                await answer.read(9)
            finally:
                answer.close()

        waiting = asyncio.create_task(asking())
        while not seen.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await post.close()
        with pytest.raises(Closed):
            async with asyncio.timeout(20):
                await waiting


@contextmanager
def nobody() -> Iterator[int]:
    """The port of a server that accepts no connection, and has as many waiting as it takes."""
    with socket.socket() as listening, ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


async def test_whoever_waits_for_a_connection_is_told_that_it_was_closed_here():
    with nobody() as port:
        post = Post(URL(f"http://127.0.0.1:{port}/v1"), {})
        waiting = asyncio.create_task(post.send(b"{}"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await post.close()
        with pytest.raises(Closed):
            async with asyncio.timeout(20):
                await waiting


async def test_whoever_waits_for_a_name_is_told_that_it_was_closed_here(monkeypatch):
    looking = asyncio.Event()

    async def resolve(*_, **__) -> list[object]:
        looking.set()
        await asyncio.sleep(30)
        return []

    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", resolve)
    post = Post(URL("http://models.example/v1"), {})
    waiting = asyncio.create_task(post.send(b"{}"))
    await looking.wait()
    await post.close()
    with pytest.raises(Closed):
        async with asyncio.timeout(20):
            await waiting


async def test_who_has_just_been_sent_the_head_is_told_that_its_connection_was_closed_here(
    monkeypatch,
):
    read = ResponseHandler.read

    async with server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") as (post, _):

        async def closes(protocol: ResponseHandler) -> object:
            found = await read(protocol)
            await post.close()
            return found

        monkeypatch.setattr(ResponseHandler, "read", closes)
        with pytest.raises(Closed):
            async with asyncio.timeout(20):
                await body(post)


async def test_who_gives_up_leaves_nothing_behind_for_others():
    async with server(b"", OK) as (post, seen):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await body(post)
        assert await body(post) == b"{}"
        assert seen.connections == 2


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"A": "b\r\nC: d"}, "the header A holds characters"),
        ({"A\r\nB": "c"}, "no name of a header"),
        ({"A: b": "c"}, "no name of a header"),
        ({"": "c"}, "no name of a header"),
        ({"content-length": "3"}, "leave it out"),
    ],
)
def test_headers_that_cannot_be_sent_are_one_clear_error(headers, says):
    with pytest.raises(ConfigurationError, match=says):
        checked_headers(headers)
