"""The part of HTTP/1.1 that a scripted server needs, with ways to break it on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from llm_fsm._json import JsonMap, TextMap

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """An answer at the level of HTTP: any status, any bytes, late, or never whole.

    Attributes:
        status: The HTTP status.
        body: Bytes and text are sent as they are, other values as JSON.
        headers: Further headers.
        delay: Seconds before the first byte; infinity never answers.
        cut_after: Bytes of the body after which the connection breaks; None: it does not.
        pace: Seconds before each byte of the body.
    """

    status: int = 200
    body: bytes | str | JsonMap | Sequence[Any] | None = b""
    headers: TextMap = field(default_factory=dict)
    delay: float = 0.0
    cut_after: int | None = None
    pace: float = 0.0


def read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return method, path without the query, and headers with lower-case names (RFC 9112, section
    2).
    """
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return (
        method,
        target.partition("?")[0],
        {name.strip().lower(): value.strip() for name, _, value in pairs},
    )


async def send(writer: asyncio.StreamWriter, reply: HttpReply) -> bool:
    """Send one answer. Return false if it was cut, so that the connection must be closed."""
    if reply.delay:
        await asyncio.sleep(reply.delay)
    body = reply.body
    if isinstance(body, str):
        body = body.encode("utf-8", "surrogatepass")
    elif not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    body = body[: reply.cut_after]
    if reply.pace:
        writer.write(_head(reply.status, headers))
        for byte in body:
            await writer.drain()
            await asyncio.sleep(reply.pace)
            writer.write(bytes((byte,)))
    else:
        writer.write(_head(reply.status, headers) + body)
    await writer.drain()
    return reply.cut_after is None


async def stream(
    writer: asyncio.StreamWriter, events: Iterator[bytes], *, pause: float = 0.0, cut: bool = False
) -> bool:
    """Send server-sent events as they come, in chunked transfer coding. Return false if it was cut
    before its end.

    `pause`: seconds after each event.
    """
    headers = {
        "content-type": "text/event-stream",
        "transfer-encoding": "chunked",
        "cache-control": "no-cache",
    }
    writer.write(_head(200, headers))
    for event in events:
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        if pause:
            await asyncio.sleep(pause)
    if not cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return not cut


def _head(status: int, headers: TextMap) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_PHRASES.get(status, '')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
