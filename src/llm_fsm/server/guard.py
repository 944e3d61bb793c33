"""The check of every request: Host, Origin, token, size and time of the body; and headers of every
answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_fsm.server.faults import PREFIX, REQUEST_ID
from llm_fsm.server.limits import Limits
from llm_fsm.server.problems import BUSY_SECONDS, CHANNELS, Problem, path_of, problem_in
from llm_fsm.server.rights import local_rights
from llm_fsm.server.tokens import NOBODY, Caller, Right, Tokens

OPEN = frozenset({"/", "/operator", "/docs", "/openapi.json", "/healthz", "/readyz"})
"""Paths that need no token: pages and documents without private data."""
Answered = Callable[[Scope, int, float], None]
"""A function that receives each answer: the scope of its request, its status, and its seconds."""


class Admission(Protocol):
    """Counts a request of a caller; `reads`: it only reads. Raises Problem 429 and 503."""

    def __call__(self, caller: Caller, *, reads: bool) -> None:
        """Let the request in."""


AGAIN_SECONDS = 1.0
"""Seconds for which a token that was checked counts, so that what a stream tells seldom costs
another check.
"""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class _WithdrawnError(Exception):
    """The token of a request counts no longer, or has other rights."""


class RequestGuard:
    """An ASGI application in front of another one.

    A stream ends with its token: no part of an answer leaves for a token that was withdrawn, or has
    other rights now.

    `hosts`: names that the Host header may have besides addresses and `localhost`. None: any name.
    That is safe with tokens, which a foreign page cannot make a browser send. `origins`: origins
    whose pages may call the server.
    `anonymous`: rights of a caller without a token, if there are no tokens. None: as `local_rights`
    says. `enter` is called for each request. It raises Problem 429 for too many.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        tokens: Tokens | None,
        hosts: Collection[str] | None,
        origins: Collection[str],
        enter: Admission,
        anonymous: Collection[Right] | None = None,
        answered: Sequence[Answered] = (),
    ) -> None:
        self.app = app
        self.limits = limits
        self.answered = answered
        self.enter = enter
        self.tokens = tokens
        self.anonymous = None if anonymous is None else Caller(rights=frozenset(anonymous))
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self.origins = {origin.rstrip("/") for origin in origins}
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        REQUEST_ID.set(request_id)
        status, since = 0, time.monotonic()
        body = _Body(receive, self.limits, self._under_way)
        began = False
        caller = NOBODY
        checked = since

        async def answer(message: Message) -> None:
            nonlocal began, checked, status
            if body.problem is not None and not began:
                return  # the framework's error for a broken body
            if message["type"] == "http.response.start":
                began, status = True, message["status"]
                message["headers"] = [
                    *message["headers"],
                    *_HEADERS,
                    (b"x-request-id", request_id.encode()),
                ]
            elif message.get("more_body") and time.monotonic() - checked > AGAIN_SECONDS:
                checked = time.monotonic()
                await self._check_again(scope, caller)
            await send(message)

        try:
            caller = await self._admit(scope)
            PREFIX.set(caller.prefix)
            self.enter(caller, reads=scope["method"] in _READING)
            body.expect(scope, caller)
            scope.setdefault("state", {})["caller"] = caller
            await self.app(scope, body.receive if body.is_expected else receive, answer)
        except _WithdrawnError:
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:
            if began:
                raise
            body.problem = body.problem or problem_in(scope, error)
        finally:
            body.release()
        refusal, body.problem = body.problem, None
        if refusal is not None and not began:
            await refusal.response(scope)(scope, receive, answer)
        for told in self.answered:
            told(scope, status, time.monotonic() - since)

    async def _admit(self, scope: Scope) -> Caller:
        """Check the headers and find the caller. Raises Problem 400, 401 and 403."""
        headers = {}
        for name, value in scope["headers"]:
            if name in headers and name in (
                b"host",
                b"authorization",
                b"content-type",
                b"idempotency-key",
            ):
                raise Problem("bad-request", f"the header {name.decode('latin-1')} comes twice")
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1").lower()
        self._check_host(host)
        if scope["method"] not in _READING:
            self._check_origin(headers.get(b"origin", b"").decode("latin-1").lower(), host)
        path = path_of(scope)
        is_open = path in OPEN or path.startswith((CHANNELS, "/assets/"))
        if is_open or scope["method"] == "OPTIONS":
            return NOBODY
        if self.tokens is None:
            return self.anonymous or _without_token(scope, host, headers)
        return await self._caller(self.tokens, headers.get(b"authorization", b""))

    async def _caller(self, tokens: Tokens, header: bytes) -> Caller:
        scheme, _, given = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise Problem("unauthorized", "send a token of this server as Authorization: Bearer …")
        caller = await tokens.authenticate(given.strip())
        if caller is None:
            raise Problem("unauthorized", "this token is not known here, or has ended")
        return caller

    async def _check_again(self, scope: Scope, caller: Caller) -> None:
        """Raise _WithdrawnError if the token of a request is not what it was."""
        if self.tokens is None or caller is NOBODY:
            return
        try:
            now = await self._caller(self.tokens, dict(scope["headers"]).get(b"authorization", b""))
        except Problem as error:
            raise _WithdrawnError from error
        if now != caller:
            raise _WithdrawnError

    def _check_host(self, host: str) -> None:
        name = _name(host)
        if name is None:
            raise Problem("bad-request", "the Host header cannot be read")
        if (
            self.hosts is None
            or name in self.hosts
            or name == "localhost"
            or name.endswith(".localhost")
        ):
            return
        try:
            ipaddress.ip_address(name)
        except ValueError as error:
            raise Problem(
                "forbidden",
                f"the Host {name!r:.100} is none of this server's; --allow-host names further ones",
            ) from error

    def _check_origin(self, origin: str, host: str) -> None:
        if not origin or origin in self.origins:
            return
        _, found, place = origin.partition("://")
        if not found or place != host:
            raise Problem(
                "forbidden", f"pages of the origin {origin!r:.100} may not call this server"
            )


def _without_token(scope: Scope, host: str, headers: Mapping[bytes, bytes]) -> Caller:
    """Return the caller of a server without tokens."""
    client = scope.get("client")
    return Caller(rights=local_rights(client[0] if client else None, _name(host) or "", headers))


def _name(host: str) -> str | None:
    """Return the name of a Host header without its port; None if it is none."""
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, closed, port = *host.partition(":")[:1], "]", host.partition(":")[2]
    if not name or not closed or (port and not port.isdecimal()):
        return None
    return name if all(letter.isalnum() or letter in "-.:_%" for letter in name) else None


class _Body:
    """The body of a request, with limits of time and size.

    `under_way`: the bytes of all bodies whose requests are not answered yet, by the name of the
    caller. They are counted as they arrive: what a client only announces takes no memory.
    """

    def __init__(self, receive: Receive, limits: Limits, under_way: Counter[str]) -> None:
        self._receive = receive
        self._limits = limits
        self._under_way = under_way
        self._owner = ""
        self._deadline = time.monotonic() + limits.body_seconds
        self._size = 0
        self.is_expected = False
        self.problem: Problem | None = None

    def expect(self, scope: Scope, caller: Caller) -> None:
        """Raise Problem 413 if the headers of a caller announce too large a body."""
        self._owner = caller.name
        for name, value in scope["headers"]:
            if name == b"content-length":
                self.is_expected = value != b"0"
                if value.isdigit() and int(value) > self._limits.body_bytes:
                    self._too_large()
            elif name == b"transfer-encoding":
                self.is_expected = True

    async def receive(self) -> Message:
        """Return the next part. Raises Problem 408, 413, 429."""
        if not self.is_expected:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            self.problem = Problem(
                "timeout",
                f"the body did not arrive within {self._limits.body_seconds:g} seconds",
                headers={"Connection": "close"},
            )
            raise self.problem from error
        size = len(message.get("body", b""))
        self._size += size
        self._under_way[self._owner] += size
        if self._size > self._limits.body_bytes:
            self._too_large()
        self._check_all()
        if not message.get("more_body", False):
            self.is_expected = False  # only the end of the connection can follow
        return message

    def release(self) -> None:
        """Count the bytes of this body no longer: its request was answered."""
        self._under_way[self._owner] -= self._size
        if not self._under_way[self._owner]:
            del self._under_way[self._owner]

    def _check_all(self) -> None:
        """Raise Problem 429 if the bodies under way are too large together, or those of one token
        take more than half. So do those without a token, which anybody may send to a channel.
        """
        one = self._limits.body_bytes
        most = max(self._limits.bodies_bytes, one)
        own = self._under_way[self._owner]
        if self._under_way.total() <= most and own <= max(most // 2, one):
            return
        said = f"the requests under way have {most:,} bytes together, which is the limit"
        self.problem = Problem("too-many-requests", said, retry_after=BUSY_SECONDS)
        raise self.problem

    def _too_large(self) -> None:
        said = f"a body has at most {self._limits.body_bytes:,} bytes here"
        self.problem = Problem("too-large", said, headers={"Connection": "close"})
        raise self.problem
