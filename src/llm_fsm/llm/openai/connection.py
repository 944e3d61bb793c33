"""POST requests to one URL, over connections that are reused.

aiohttp's `TCPConnector` resolves names, connects and does TLS, and its parser reads the answers.
The head of all requests is written once. An aiohttp session would write it for each request, and
handle cookies, redirects and traces. That takes a quarter of the time of a turn.

A proxy is read from the environment once. `trust_env` of an aiohttp session would read it in a
thread for each request. It would also refuse a request with a key to a host that `.netrc` names.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from llm_fsm._text import is_local
from llm_fsm.errors import ConfigurationError

_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
_IDLE = 15.0
"""Seconds after which an unused connection is closed."""
_GONE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError)
"""The errors of a request whose connection ended before the head of an answer arrived."""
_OURS = frozenset({"content-length", "transfer-encoding"})


class Closed(aiohttp.ClientConnectionError):
    """This side closed the connection before the answer was complete."""


class HttpAnswer:
    """The answer to one request: `status`, `headers`, and `content` as it arrives. `close` it."""

    __slots__ = ("_connection", "_over", "content", "headers", "status")

    def __init__(
        self,
        connection: Connection,
        over: Callable[[HttpAnswer, Connection], None],
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
    ) -> None:
        self._connection: Connection | None = connection
        self._over = over
        self.status = status
        self.headers = headers
        self.content = content

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters; "" if there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    async def read(self, limit: int) -> bytes:
        """Return the body, or its beginning of at least `limit` bytes if it is longer."""
        body = await self.content.readany()
        if self.content.at_eof():
            return body
        parts, size = [body], len(body)
        while size < limit and not self.content.at_eof():
            parts.append(await self.content.readany())
            size += len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Return the connection, or close it if the answer was not read to its end. May be called
        twice.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            self._over(self, connection)


class Post:
    """Requests to `url` with these headers, for one event loop, through `proxy` if given.

    Raises ConfigurationError for an impossible header.
    """

    def __init__(self, url: URL, headers: Mapping[str, str], proxy: URL | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._kept: deque[tuple[float, Connection]] = deque()
        self._connecting: set[asyncio.Timeout] = set()
        self._arriving: set[HttpAnswer] = set()
        self._closed = False
        named = CIMultiDict(checked_headers(headers))
        self._connector = aiohttp.TCPConnector(limit=0)
        place = url.raw_path_qs
        # the proxy reads the request, and passes it on
        if proxy is not None and url.scheme == "http":
            place = str(url)
            if proxy.user is not None:
                who = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
                named["Proxy-Authorization"] = f"Basic {who}"
        self._target = aiohttp.ClientRequest("POST", url, headers=named, loop=loop, proxy=proxy)
        lines = [f"POST {place} HTTP/1.1"]
        lines += [
            f"{name}: {value}"
            for name, value in self._target.headers.items()
            if name.lower() not in _OURS
        ]
        self._head = "\r\n".join((*lines, "Content-Length: ")).encode()

    async def send(self, body: bytes) -> HttpAnswer:
        """Send a request and wait for the head of its answer. Raises aiohttp's ClientError, and
        OSError.

        A server may close a kept connection just as it is reused. Then the request is sent once
        more, over a new connection and without a wait, because the server did not fail.
        """
        connection = self._taken()
        while True:
            is_kept = connection is not None
            try:
                if connection is None:
                    connection = await self._connected()
                protocol, transport = _ends(connection)
                protocol.set_response_params(read_until_eof=True)
                transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
                message, content = await protocol.read()
                while 100 <= message.code < 200:
                    message, content = await protocol.read()
                break
            except BaseException as error:
                # a cancelled caller leaves a connection that cannot be reused
                if connection is not None:
                    connection.close()
                    connection = None
                if isinstance(error, HttpProcessingError):
                    raise aiohttp.ClientPayloadError(f"{error.code}, {error.message}") from error
                if self._closed and isinstance(error, aiohttp.ClientError | OSError):
                    raise Closed from error
                if not (is_kept and isinstance(error, _GONE)):
                    raise
        if self._closed:  # after the head, because aiohttp would raise RuntimeError for the rest
            connection.close()
            raise Closed
        answer = HttpAnswer(connection, self._end, message.code, message.headers, content)
        self._arriving.add(answer)
        return answer

    async def close(self) -> None:
        """Close all connections. Callers that wait for a connection or an answer get `Closed`,
        which aiohttp does not do.
        """
        self._closed = True
        self._drop(len(self._kept))
        for waiting in self._connecting:
            waiting.reschedule(0)
        for answer in self._arriving:
            answer.content.set_exception(Closed())
        await self._connector.close()

    async def _connected(self) -> Connection:
        """Return a new connection."""
        async with asyncio.timeout(None) as waiting:
            self._connecting.add(waiting)
            try:
                return await self._connector.connect(self._target, [], _NO_TIMEOUT)
            finally:
                self._connecting.discard(waiting)

    def _end(self, answer: HttpAnswer, connection: Connection) -> None:
        """Release an answer, and keep its connection if the answer was read to its end."""
        self._arriving.discard(answer)
        if answer.content.at_eof():
            self._keep(connection)
        else:
            connection.close()

    def _taken(self) -> Connection | None:
        """Return the last used connection, if it can be reused. Older ones are likely closed."""
        while self._kept:
            since, connection = self._kept.pop()
            if _is_good(connection) and self._time() - since < _IDLE:
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        """Keep a connection for the next request, and close those that were unused for too long."""
        if not _is_good(connection):
            connection.close()
            return
        now = self._time()
        self._kept.append((now, connection))
        while self._kept[0][0] < now - _IDLE:
            self._drop(1)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._kept.popleft()[1].close()


def _is_good(connection: Connection) -> bool:
    protocol = connection.protocol
    return protocol is not None and protocol.is_connected() and not protocol.should_close


def _ends(connection: Connection) -> tuple[ResponseHandler, asyncio.Transport]:
    """Return the protocol that reads and the transport that writes. Raises ServerDisconnectedError."""
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None:
        raise aiohttp.ServerDisconnectedError
    return protocol, transport


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


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
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
