"""One session with an MCP server, over the official SDK (package `mcp`), imported with the first
session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from llm_fsm._async import in_words
from llm_fsm._json import JsonMap, TextMap, as_text
from llm_fsm._text import is_local
from llm_fsm.definition.json_schema.inline import flattened
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.messages import ToolSpec
from llm_fsm.session.values import to_json_value
from llm_fsm.tools.executor import GRACE, CallFault, given_up
from llm_fsm.tools.mcp.messages import UNREADABLE, tidy_result, unread

CONNECT = 30.0
"""Seconds for a server to answer a new connection."""

CLOSE = 10.0
"""Seconds for a session to close."""

MAX_PAGES = 100
"""The most pages of a server's list of tools that are read. `Link.tools` also bounds their time."""

_TRANSPORT_ERRORS = (
    "SSE stream",
    "Failed to parse",
    "Server returned an error response",
    "Session terminated",
    "Not Found",
    "Unexpected content type",
    "server answered a request with 202",
)
"""The beginnings of the errors that the SDK's HTTP transport makes if no answer comes."""

_NOWHERE = logging.NullHandler()
_LAST_WORDS = 0.1  # seconds that a failed start waits for the rest of it
_SAID = 500  # characters of a server's stderr that an error repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """One configured server: a `command` that speaks over stdio, or a `url`.

    Attributes:
        alias: Its name in the configuration.
        command: Program and arguments.
        env: Variables beside the few that its process inherits (HOME, PATH, …). None of our keys is
            inherited.
        cwd: Working directory of its process.
        url: Address of a server over streamable HTTP.
        headers: Headers of each request.
    """

    alias: str
    command: tuple[str, ...] = ()
    env: TextMap = field(default_factory=dict)
    cwd: str | None = None
    url: str = ""
    headers: TextMap = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"the MCP server {self.alias!r}"


@dataclass(frozen=True, slots=True)
class _ServerData:
    """The data of an error that the server answered with, whatever its code."""

    data: Any

    @property
    def words(self) -> str:
        """The data in brackets; "" if there is none."""
        data = self.data
        if isinstance(data, Mapping) and len(data) == 1:
            data = next(iter(data.values()))
        if data is None or data in ("", {}, []):
            return ""
        return f" ({as_text(data)})"


@dataclass(frozen=True, slots=True)
class Sdk:
    """The modules of the SDK that are used."""

    mcp: Any
    stdio: Any
    http: Any
    httpx: Any


def load_sdk() -> Sdk:
    """Import the SDK.

    Raises:
        ConfigurationError: It is not installed. The message says how to install it.
    """
    try:
        sdk = Sdk(
            import_module("mcp"),
            import_module("mcp.client.stdio"),
            import_module("mcp.client.streamable_http"),
            import_module("httpx2"),
        )
    except ImportError as error:
        raise ConfigurationError(
            f"MCP servers need the package `mcp`, version 2.2 or later ({error}): pip install 'mcp>=2.2,<3'. "
            "Or install this package with its extra: pip install '.[mcp]'"
        ) from error
    # its loggers; without a handler, tracebacks would go to standard error
    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(_NOWHERE)
    return sdk


class Link:
    """One session. The SDK's connection must be entered and left by the same task, so it has its
    own.
    """

    def __init__(self, server: McpServer, sdk: Sdk) -> None:
        self.closed = False
        self.is_listed = False
        """True if its tools were listed since it began, and since it last reported a change."""
        self.faults: dict[str, str] = {}
        """Tools of its list that cannot be called, with their faults."""
        self.acting: set[str] = set()
        """Tools of its list that change the world outside, by their hints."""
        self._server = server
        self._sdk = sdk
        self._client: Any = None
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._fault = ""
        self._said = b""
        self._listening: threading.Thread | None = None
        self._task = asyncio.create_task(self._hold(), name=f"mcp {server.alias}")

    async def opened(self, timeout: float) -> None:
        """Wait until the session is open.

        Args:
            timeout: Seconds to wait. Others may still wait afterwards.

        Raises:
            CallFault: The server cannot be reached in that time.
        """
        fault = ""
        try:
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        except TimeoutError:
            fault = _late(timeout)
        if fault or self.closed:
            raise CallFault(
                f"{self._server.where} cannot be reached: {fault or self._fault}{self._last_words()}"
            )

    @property
    def over(self) -> bool:
        """True if the session has ended completely."""
        return self._task.done()

    def stop(self) -> None:
        """Tell the session to end."""
        self._stop.set()

    async def close(self) -> None:
        """End the session and its task."""
        self._stop.set()
        if not self._ready.is_set():
            self._task.cancel()
        _, pending = await asyncio.wait({self._task}, timeout=CLOSE)
        for task in pending:
            task.cancel()

    async def tools(self, limit: float) -> dict[str, ToolSpec]:
        """List all tools of the server. A page that fails, or the end of the time, ends the list.

        Args:
            limit: Seconds for the whole list.

        Returns:
            Name to tool, without those in `faults`.

        Raises:
            CallFault: The first page failed.
        """
        found = {}
        cursor = None
        read: set[str | None] = set()
        now = asyncio.get_running_loop().time
        ends = now() + limit
        self.is_listed = True
        # The server decides on the next page, so their number, their time and each cursor are
        # bounded.
        while cursor not in read and len(read) < MAX_PAGES:
            left = ends - now()
            if read and left <= 0:
                break
            try:
                page = await self._ask(self._client.list_tools(cursor=cursor), left)
            except CallFault:
                if not read:
                    self.is_listed = False
                    raise
                break
            for tool in page.tools:
                spec = self._spec(tool)
                if spec is not None:
                    found[tool.name] = spec
            read.add(cursor)
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    def _spec(self, tool: Any) -> ToolSpec | None:
        try:
            schema = {"type": "object", "properties": {}, **flattened(tool.input_schema)}
        except Exception as error:  # any error of a wrong schema
            self.faults[tool.name] = f"its inputSchema cannot be read: {_words(error)}"
            return None
        if _acts(tool.annotations):
            self.acting.add(tool.name)
        else:
            self.acting.discard(tool.name)
        return ToolSpec(
            name=tool.name, description=(tool.description or "").strip(), parameters=schema
        )

    def tidied(self, item: Any) -> list[Any]:
        """Return the items that the SDK gets for one of the server's stream; none if it is no
        message.
        """
        if not isinstance(item, Exception):
            return [self._tidied(item)]
        read = self._sdk.mcp.types.jsonrpc_message_adapter.validate_python
        wrapped = import_module("mcp.shared.message").SessionMessage
        return [self._tidied(wrapped(read(found, by_name=False))) for found in unread(item)]

    def _tidied(self, item: Any) -> Any:
        message = item.message
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.is_listed = False
        error = getattr(message, "error", None)
        if error is not None and self._ready.is_set() and not self._is_made_here(error.message):
            # The SDK raises the same error if no answer comes, so the mark tells both apart.
            marked = error.model_copy(update={"data": _ServerData(error.data)})
            item = replace(item, message=message.model_copy(update={"error": marked}))
        if isinstance(getattr(message, "result", None), dict):
            result = tidy_result(message.result, self.faults)
            item = replace(item, message=message.model_copy(update={"result": result}))
        return item

    async def call(self, tool: str, arguments: JsonMap, limit: float) -> Any:
        """Call a tool of the server.

        Args:
            tool: Its name on the server.
            arguments: Name to value.
            limit: Seconds that the call may take.

        Returns:
            The answer as a JSON value.

        Raises:
            CallFault: The tool or the connection failed. The message gives the reason.
        """
        if limit <= 0:
            raise CallFault("no time was left for this call; it was not made", refused=True)
        seconds = None if limit == math.inf else limit
        asked = self._client.call_tool(tool, dict(arguments), read_timeout_seconds=seconds)
        answer = await self._ask(asked, limit)
        value = _value(answer)
        if answer.is_error:
            said = as_text(value)
            raise CallFault(said.strip() or "it failed, and says nothing of why")
        return value

    async def _ask(self, asked: Any, limit: float) -> Any:
        """Await an answer for at most `limit` seconds, and no longer than the session lives."""
        waiting = asyncio.ensure_future(asked)
        try:
            await asyncio.wait(
                {waiting, self._task},
                timeout=None if limit == math.inf else limit,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not waiting.done() and not self._task.done():
                raise given_up(limit)
            if waiting.done() and not waiting.cancelled():
                return self._answer(waiting)
        finally:
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=GRACE)
        self.closed = True
        raise self._lost(self._fault)

    def _answer(self, done: asyncio.Future[Any]) -> Any:
        error = done.exception()
        if error is None:
            return done.result()
        types = self._sdk.mcp.types
        if not isinstance(error, self._sdk.mcp.MCPError) or str(error).startswith(
            (UNREADABLE, "Failed to parse")
        ):
            raise CallFault(f"{self._server.where}: {UNREADABLE}", lost=True) from error
        if isinstance(error.data, _ServerData):
            raise CallFault(f"{self._server.where} refused: {error}{error.data.words}") from error
        if error.code == types.REQUEST_TIMEOUT:
            raise CallFault(
                f"it did not finish in time, and was given up ({error})", lost=True
            ) from error
        if error.code == types.CONNECTION_CLOSED:
            self.closed = True
            raise self._lost(str(error)) from error
        self.closed = str(error) == "Session terminated"
        lost = error.code == types.INTERNAL_ERROR  # a gateway's status, such as 502 or 504
        raise CallFault(f"{self._server.where} refused: {error}", lost=lost) from error

    def _is_made_here(self, message: str) -> bool:
        """Return true for an error in place of an answer, from `unread` or the SDK's transport."""
        if message == UNREADABLE:
            return True
        return bool(self._server.url) and message.startswith(_TRANSPORT_ERRORS)

    def _lost(self, fault: str) -> CallFault:
        return CallFault(
            f"{self._server.where} went away during the call ({fault or 'connection closed'}). "
            "It is not known if the call was carried out. The next call connects again",
            lost=True,
        )

    async def _hold(self) -> None:
        """Connect, keep the session until it is closed, and note the reason for any other end."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT):
                    transport = _watched(await self._transport(stack), self)
                    self._client = await stack.enter_async_context(self._sdk.mcp.Client(transport))
                self._ready.set()
                await self._stop.wait()
        except asyncio.CancelledError as error:
            self._fault = self._fault or _words(error.__context__) or "the connection broke"
        except TimeoutError:
            self._fault = self._fault or _late(CONNECT)
        except BaseExceptionGroup as error:
            self._fault = self._fault or _words(error)
        except Exception as error:
            self._fault = self._fault or _words(error)
        finally:
            self.closed = True
            self._ready.set()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        server = self._server
        if server.url:
            timeout = self._sdk.httpx.Timeout(CONNECT, read=None)
            # through no proxy
            direct = self._sdk.httpx.AsyncHTTPTransport() if is_local(server.url) else None
            http = self._sdk.httpx.AsyncClient(
                headers=dict(server.headers), timeout=timeout, transport=direct
            )
            await stack.enter_async_context(http)
            return self._sdk.http.streamable_http_client(server.url, http_client=http)
        parameters = self._sdk.mcp.StdioServerParameters(
            command=server.command[0],
            args=list(server.command[1:]),
            env=dict(server.env),
            cwd=server.cwd,
        )
        # By default, one byte that is no UTF-8 ends the session. The SDK uses this handler, but its
        # check refuses it.
        parameters = parameters.model_copy(update={"encoding_error_handler": "surrogateescape"})
        read, write = os.pipe()
        errors = stack.enter_context(os.fdopen(write, "w", encoding="utf-8"))
        # A thread, because not every event loop can watch a pipe, for example on Windows.
        self._listening = threading.Thread(
            target=self._listen, args=(read,), name="llm_fsm mcp stderr", daemon=True
        )
        self._listening.start()
        return self._sdk.stdio.stdio_client(parameters, errlog=errors)

    def _listen(self, read: int) -> None:
        """Keep the end of the server's stderr, which has the reason if a server does not start."""
        with os.fdopen(read, "rb", buffering=0) as errors:
            while data := errors.read(65536):
                self._said = (self._said + data)[-_SAID:]

    def _last_words(self) -> str:
        if self._listening is not None:
            self._listening.join(_LAST_WORDS)  # an ended server has written all its output
        said = " ".join(self._said.decode("utf-8", "replace").split())
        return f"; it said: {said}" if said else ""


def _late(seconds: float) -> str:
    return f"it did not answer within {in_words(seconds)} seconds"


class _Watched:
    """The read side of a transport. It cleans messages, and tells the link when the server is gone."""

    def __init__(self, stream: Any, link: Link) -> None:
        self._stream = stream
        self._link = link

    @property
    def last_context(self) -> Any:
        """The context of the last message, which the SDK reads from its own streams."""
        return getattr(self._stream, "last_context", None)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self._stream:
            for tidied in self._link.tidied(item):
                yield tidied
        self._link.closed = True

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)


@asynccontextmanager
async def _watched(transport: Any, link: Link) -> AsyncIterator[tuple[_Watched, Any]]:
    async with transport as (read, write):
        yield _Watched(read, link), write


def _words(error: BaseException | None) -> str:
    """Return the message of an error, or those of all members of a group."""
    if error is None:
        return ""
    if isinstance(error, BaseExceptionGroup):
        said = [
            _words(member) for member in error.exceptions if not isinstance(member, GeneratorExit)
        ]
        return "; ".join(dict.fromkeys(words for words in said if words))
    return str(error) or type(error).__name__


def _acts(hints: Any) -> bool:
    """Return true if the hints of a tool say that it changes the world outside.

    A tool that is not read-only does, and a destructive one. Nothing is taken from hints that a
    server does not give: by the defaults of the protocol every tool would act.
    """
    if hints is None or hints.read_only_hint is True:
        return False
    return hints.read_only_hint is False or hints.destructive_hint is True


def _value(answer: Any) -> Any:
    """Return the JSON value of a tool's answer."""
    if answer.structured_content is not None:
        return answer.structured_content
    parts = [part.text for part in answer.content]
    text = "\n".join(parts)
    if len(parts) == 1 and text[:1] in {"{", "["} and not answer.is_error:
        try:
            return to_json_value(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text
