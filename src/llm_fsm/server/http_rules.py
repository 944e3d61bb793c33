"""The rules of HTTP that hold at every address (RFC 9110): HEAD, OPTIONS, Allow, and the types of
bodies and answers.

The addresses themselves say which methods they take. This module asks them, so that no table can
differ from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_fsm.server.problems import Problem

MAX_NAME = 10_000
"""Characters of the name of a definition in a request. The loader takes a name of any length."""
PathText = Annotated[str, AfterValidator(unquote)]
"""A parameter in a path: see `segments`."""
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_BODIES = frozenset({"POST", "PUT", "PATCH"})
_GIVEN = ("application/json", "text/event-stream")
"""The types of answers to requests that act. Which of them it is, must be known before they act."""


class HttpRules:
    """An ASGI application in front of the routes.

    `foreign`: the beginning of paths whose bodies are none of the server's.
    """

    def __init__(self, app: ASGIApp, *, routes: Iterable[BaseRoute], foreign: str) -> None:
        self.app = app
        self._routes = routes
        self._foreign = foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises Problem 406, 415."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = segments(scope, self._foreign)
        method, headers = scope["method"], Headers(scope=scope)
        if method == "OPTIONS":
            allowed = self._allow(scope)
            if allowed:
                start = {
                    "type": "http.response.start",
                    "status": 204,
                    "headers": [(b"allow", allowed.encode())],
                }
                await send(start)
                await send({"type": "http.response.body", "body": b""})
                return
        if (
            method in _BODIES
            and not scope["path"].startswith(self._foreign)
            and self._takes(scope, method)
        ):
            _check_body(headers)
            if not any(accepts(headers.getlist("accept"), kind) for kind in _GIVEN):
                raise _not_acceptable(", ".join(_GIVEN))
        await self._answered(scope, receive, send, headers)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """Let the routes answer: HEAD as GET without the body, 405 with every method of the
        address.
        """
        refused = ""
        is_head = scope["method"] == "HEAD"

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                message = self._completed(scope, message)
                kind = Headers(raw=message["headers"]).get("content-type", "")
                reads = scope["method"] in ("GET", "HEAD") and message["status"] == 200
                if reads and kind and not accepts(headers.getlist("accept"), kind):
                    refused = kind
                    raise _RefusedError
                await send(message)
                if is_head:
                    await send({"type": "http.response.body", "body": b""})
            elif not is_head:
                await send(message)

        asked = {**scope, "method": "GET"} if is_head else scope
        try:
            await self.app(asked, receive, answer)
        except BaseException:  # a stream reports it in a group
            if not refused:
                raise
        if refused:
            raise _not_acceptable(refused.partition(";")[0])

    def _completed(self, scope: Scope, message: Message) -> Message:
        """Name every method of the address in a 405: the routes of one address know only their own."""
        allowed = self._allow(scope) if message["status"] == 405 else ""
        if not allowed:
            return message
        others = [(name, value) for name, value in message["headers"] if name.lower() != b"allow"]
        return {**message, "headers": [*others, (b"allow", allowed.encode())]}

    def _allow(self, scope: Scope) -> str:
        """Return the methods of an address as `Allow` names them; "" if there is no such address."""
        found = [method for method in _METHODS if self._takes(scope, method)]
        if "GET" in found:
            found.insert(1, "HEAD")
        return ", ".join([*found, "OPTIONS"]) if found else ""

    def _takes(self, scope: Scope, method: str) -> bool:
        asked = {**scope, "method": method}
        return any(route.matches(asked)[0] == Match.FULL for route in self._routes)


def segments(scope: Scope, foreign: str) -> Scope:
    """Return a request whose path keeps the borders of its segments.

    Servers decode the whole path, so that the name `a/b` in `/definitions/a%2Fb` would be two
    segments. Here `%` and `/` inside a segment stay encoded, and parameters of the type `PathText`
    decode them.
    """
    raw = scope.get("raw_path") or b""
    if b"%" not in raw or scope["path"].startswith(foreign):
        return scope
    whole = raw.partition(b"?")[0].decode("latin-1")
    if unquote(whole) != scope["path"]:  # somebody in front of us has rewritten it
        return scope
    kept = [unquote(part).replace("%", "%25").replace("/", "%2F") for part in whole.split("/")]
    return {**scope, "path": "/".join(kept)}


class _RefusedError(Exception):
    """Ends an answer of a type that the client does not accept."""


def accepts(accepted: Iterable[str], kind: str) -> bool:
    """Return true if a client accepts a type (RFC 9110, 12.5.1). Without a header it accepts all.

    Args:
        accepted: The values of its `Accept` headers.
        kind: The type of the answer; parameters do not matter.

    Example:
        >>> accepts(["text/*, application/json;q=0"], "application/json")
        False
    """
    wanted = kind.partition(";")[0].strip().lower()
    ranges = list(_ranges(accepted))
    if not ranges:
        return True
    main = wanted.partition("/")[0]
    weights = dict(ranges)  # the most specific range counts
    for known in (wanted, f"{main}/*", "*/*"):
        if known in weights:
            return weights[known] > 0
    return False


def _ranges(accepted: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield each range of types and its weight."""
    for part in ",".join(accepted).split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if not name:
            continue
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                weight = _number(value)
        yield name, weight


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _check_body(headers: Headers) -> None:
    """Raise Problem 415 for a body that is not JSON, or is encoded."""
    if "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise Problem(
            "unsupported-media-type",
            "send the body as Content-Type: application/json",
            headers={"Accept": "application/json"},
        )
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Problem(
            "unsupported-media-type",
            f"send the body as it is, without Content-Encoding: {encoding!r:.40}",
            headers={"Accept-Encoding": "identity"},
        )


def _not_acceptable(kind: str) -> Problem:
    return Problem(
        "not-acceptable", f"the answer is of the type {kind}, which the Accept header excludes"
    )
