"""The connections of a server: how many there are, and how long each may do nothing.

Each connection takes a descriptor, and so does each call of a model and each open file. A process
that has none left can do nothing at all. So connections take at most half of them, and one that
waits for its client makes room for a new
one: for a request, for the rest of one, or until the client reads its answer.

uvicorn only has a time-out for idle connections. A client that slowly sends bytes of a header, or
that reads nothing, would keep its connection for ever. So the head of a request and every write
have a time limit, too.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llm_fsm._json import JsonDict
from llm_fsm.server.limits import Limits
from llm_fsm.server.problems import BUSY_SECONDS, MEDIA_TYPE, Problem

MAX_HEAD_BYTES = 65_536
ACCEPTED = 256
"""The most connections that the event loop accepts before it can close one."""
SLOWEST = 16_384
"""Bytes that a client must read within `send_seconds`, if so many wait for it."""
_OWN = 64
"""Descriptors for the program itself: its streams, its event loop, the files of its store."""
_WANTED = 65_536
"""Descriptors that are asked for where the system would give any number."""
_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger("llm_fsm.server")


def raise_descriptors() -> None:
    """Raise the process's soft limit of descriptors to its hard one. Does nothing where there are
    no such limits.
    """
    if find_spec("resource") is None:
        return
    resource = import_module("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a system may refuse what its own limits promise
        _log.warning("the limit of %d descriptors cannot be raised to %d", soft, wanted)


def most_connections(wanted: int) -> int:
    """Return how many connections this process may keep.

    Args:
        wanted: The limit that the operator chose.

    Returns:
        The limit, or less if there are too few descriptors: each turn may need one for its model,
        too.
    """
    if find_spec("resource") is None:
        return wanted
    resource: Any = import_module("resource")
    soft: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return wanted
    free = soft - ACCEPTED - _OWN
    return max(1, min(wanted, free // 2))


class LoopErrors:
    """Handles what no task of an event loop handles. A lack of descriptors is one line a second,
    and ends nothing.
    """

    def __init__(self) -> None:
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: JsonDict) -> None:
        """Handle an error; `context` is as of `loop.call_exception_handler`."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NONE_LEFT:
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + 1
            _log.error("%s: %s; raise the limit of open files", context["message"], error.strerror)


class OpenConnections:
    """The connections of one process, and those of them that wait for their client, in order of
    waiting.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.most = most_connections(limits.connections)
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: BoundedProtocol) -> bool:
        """Add a connection, and close the one that waits for longest if there are too many.

        Returns:
            False if all others are busy. The connection was not added then.
        """
        if len(self._open) >= self.most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.remove(longest)
            longest.transport.abort()
        self._open.add(connection)
        self._waiting[connection] = None
        return True

    def remove(self, connection: BoundedProtocol) -> None:
        """Remove a connection."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def busy(self, connection: BoundedProtocol) -> None:
        """Mark a connection as one that has a request to answer."""
        self._waiting.pop(connection, None)

    def waiting(self, connection: BoundedProtocol) -> None:
        """Mark a connection as one that waits for its client. One that waits already keeps its
        place.
        """
        if connection in self._open:
            self._waiting.setdefault(connection)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits: of connections, of the head of a request, and of what is not
    read.
    """

    config: Any
    """The settings, with `open`: the connections of this process."""
    _head: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _unread: asyncio.TimerHandle | None = None
    _unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or refuse it, and begin to wait for the first head."""
        super().connection_made(transport)
        if self.config.open.admit(self):
            self._wait()
            return
        transport.write(_too_many())
        self._close()

    def data_received(self, data: bytes) -> None:
        """Take the received bytes, and wait for the rest of a head. A head that is too long ends
        the connection.

        A client may send the next head while it gets an answer, so its bytes count then, too.
        """
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES or self.transport.is_closing():
            self._close()
        elif self._is_answering():
            self._stop()
            self._sort()
        elif self._head is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Take a request. What comes next is no part of its head, and it begins to wait for its
        body.
        """
        super().on_headers_complete()
        self._head_bytes = 0
        self.config.open.busy(self)
        self._sort()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, whose size the application limits as long as it answers."""
        super().on_body(body)
        if self._is_answering():
            self._head_bytes = 0

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()
        else:
            self._sort()

    def pause_writing(self) -> None:
        """Stop writing. A client that reads nothing for too long loses its connection."""
        super().pause_writing()
        self._limit_reading()
        self._sort()

    def resume_writing(self) -> None:
        """Go on with writing."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._forget_reading()
            self._sort()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, which had no request for long enough."""
        self._close()

    def shutdown(self) -> None:
        """Close the connection now, or after the answer."""
        super().shutdown()
        if self.transport.is_closing():
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self.config.open.remove(self)
        self._stop()
        self._forget_reading()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _sort(self) -> None:
        """Mark the connection as one that waits for its client, or as one that has a request to
        answer.
        """
        answers = self._is_answering() and not self.cycle.more_body
        if answers and not self.flow.write_paused:
            self.config.open.busy(self)
        else:
            self.config.open.waiting(self)

    def _wait(self) -> None:
        self._head = self.loop.call_later(self.config.open.limits.header_seconds, self._late)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _late(self) -> None:
        self._head = None
        if not self._is_answering():
            self._close()

    def _close(self) -> None:
        """Close the connection, after what is written was read, or after the time for that."""
        self._stop()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.config.open.waiting(self)
        else:  # one that closes at once is not the one to make room
            self.config.open.busy(self)
        self._limit_reading()

    def _limit_reading(self) -> None:
        if self._unread is None:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._unread = self.loop.call_later(
                self.config.open.limits.send_seconds, self._check_reading
            )

    def _check_reading(self) -> None:
        """Drop a client that has read too little since the last check."""
        self._unread = None
        if self.transport.get_write_buffer_size() > self._unread_bytes - SLOWEST:
            self.transport.abort()
        else:
            self._limit_reading()

    def _forget_reading(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _too_many() -> bytes:
    """Return the whole answer to a connection for which there is no room."""
    problem = Problem("unavailable", "too many connections are open; try again in a few seconds")
    body = json.dumps(problem.document()).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        f"retry-after: {BUSY_SECONDS}",
        "connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
