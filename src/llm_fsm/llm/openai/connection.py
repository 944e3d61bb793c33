"""POST requests to one URL, over connections that are reused.

A proxy is read from the environment once. `trust_env` of an aiohttp session would read it in a
thread for each request. It would also refuse a request with a key to a host that `.netrc` names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from llm_fsm._json import TextMap
from llm_fsm._text import is_local
from llm_fsm.errors import ConfigurationError

_NO_TIMEOUT = aiohttp.ClientTimeout()  # not the one of a session, which has limits
_IDLE = 15.0
"""Seconds after which an unused connection is closed."""
_GONE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError)
"""The errors of a request whose connection ended before the head of an answer arrived."""
_OURS = frozenset({"content-length", "transfer-encoding"})


class Closed(aiohttp.ClientConnectionError):
    """This side closed the connection before the answer was complete."""


class HttpAnswer:
    """The answer to one request: `status`, `headers`, and `content` as it arrives. `close` it."""

    __slots__ = ("_over", "_response", "content", "headers", "status")

    def __init__(
        self, response: aiohttp.ClientResponse, over: Callable[[HttpAnswer], None]
    ) -> None:
        self._response = response
        self._over = over
        self.status = response.status
        self.headers = response.headers
        self.content = response.content

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters; "" if there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    async def read(self, limit: int) -> bytes:
        """Return the body, or its beginning of at least `limit` bytes if it is longer."""
        body = bytearray()
        while len(body) < limit and not self.content.at_eof():
            body += await self.content.readany()
        return bytes(body)

    def close(self) -> None:
        """Return the connection, or close it if the answer was not read to its end. May be called
        twice.
        """
        self._over(self)
        self._response.close()  # nothing, if the connection was returned at the end of the answer


class Post:
    """Requests to `url` with these headers, for one event loop, through `proxy` if given.

    Raises ConfigurationError for an impossible header.
    """

    def __init__(self, url: URL, headers: TextMap, proxy: URL | None = None) -> None:
        self._url = url
        self._waiting: set[asyncio.Timeout] = set()
        self._arriving: set[HttpAnswer] = set()
        self._closed = False
        watched = aiohttp.TraceConfig()
        watched.on_connection_reuseconn.append(_reused)
        no_cookies = aiohttp.DummyCookieJar()
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE)
        checked = checked_headers(headers)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=no_cookies,
            headers=checked,
            skip_auto_headers=["Content-Type"],
            proxy=proxy,
            timeout=_NO_TIMEOUT,
            trace_configs=[watched],
        )

    async def send(self, body: bytes) -> HttpAnswer:
        """Send a request and wait for the head of its answer. Raises aiohttp's ClientError, and
        OSError.

        A server may close a kept connection just as it is reused. Then the request is sent once
        more, over another connection and without a wait, because the server did not fail.
        """
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting.add(waiting)
                response = await self._sent(body)
        except (aiohttp.ClientError, OSError) as error:  # a timeout among them
            if self._closed:
                raise Closed from error
            raise
        finally:
            self._waiting.discard(waiting)
        if self._closed:
            response.close()
            raise Closed
        answer = HttpAnswer(response, self._arriving.discard)
        self._arriving.add(answer)
        return answer

    async def _sent(self, body: bytes) -> aiohttp.ClientResponse:
        while True:
            used = SimpleNamespace(is_kept=False)
            try:
                return await self._session.post(
                    self._url,
                    data=BytesIO(body),  # aiohttp warns of large bytes
                    allow_redirects=False,
                    trace_request_ctx=used,
                )
            except _GONE:
                if self._closed or not used.is_kept:
                    raise

    async def close(self) -> None:
        """Close all connections. Callers that wait for a connection or an answer get `Closed`,
        which aiohttp does not do.
        """
        self._closed = True
        for waiting in self._waiting:
            waiting.reschedule(0)
        for answer in self._arriving:
            answer.content.set_exception(Closed())
        await self._session.close()


async def _reused(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    context.trace_request_ctx.is_kept = True


def proxy_for(url: URL) -> URL | None:
    """Return the proxy that the environment names for a URL; None if it is called directly.

    It reads `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, and the settings of macOS and
    Windows. Addresses of this machine are always called directly. Raises ConfigurationError for an
    unusable proxy.
    """
    host, named = (url.host or "").rstrip("."), getproxies()
    if is_local(str(url)) or proxy_bypass(host) or proxy_bypass(f"{host}:{url.port}"):
        return None
    text = named.get(url.scheme) or named.get("all")
    if not text:
        return None
    try:
        proxy = URL(text if "://" in text else f"http://{text}")
        shown = str(proxy.origin())
    except ValueError:
        proxy, shown = URL(), "in the environment"
    if proxy.scheme not in {"http", "https"} or not proxy.host:
        raise ConfigurationError(
            f"the proxy {shown} ({url.scheme}_proxy, all_proxy) cannot be used for {host}. "
            f"It must begin with http:// or https://; no_proxy={host} asks directly"
        )
    return proxy


def checked_headers(headers: TextMap) -> TextMap:
    """Check headers. Raises ConfigurationError."""
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and name) or any(
            sign in name for sign in " :"
        ):
            raise ConfigurationError(f"{name!r} is no name of a header")
        if any(sign in value for sign in "\r\n\0"):
            raise ConfigurationError(f"the header {name} holds characters that no header can carry")
        if name.lower() in _OURS:
            raise ConfigurationError(f"the header {name} says how long a request is; leave it out")
    return headers
