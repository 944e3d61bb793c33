"""Tools of MCP servers that the host configured, over stdio and streamable HTTP.

    servers = McpServers({"files": {"command": ["uvx", "mcp-server-files"], "env": {"ROOT":
    "/srv"}},
                          "shop": {"url": "https://shop.example/mcp", "headers": {"Authorization":
                          "…"}}})

There is one session per event loop and server, opened when it is needed. If a server dies, the
running calls become errors and the next call connects again. The tools of a server are listed with
each new session, and again after the server reports a change.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from llm_fsm._json import JsonDict, JsonMap, TextMap, without
from llm_fsm._text import is_address, suggestion
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.messages import ToolSpec
from llm_fsm.tools.executor import CallFault
from llm_fsm.tools.mcp.client import CONNECT, Link, McpServer, load_sdk

_KEYS = {
    "command": ("command", "args", "env", "cwd", "type", "disabled", "enabled"),
    "url": ("url", "headers", "type", "disabled", "enabled"),
}
_TYPES = {
    "command": ("stdio", "local"),
    "url": ("http", "remote", "streamable-http", "streamable_http", "streamableHttp"),
}
_WRAPPERS = ("mcpServers", "servers", "context_servers", "mcp")
"""Keys under which other programs configure their servers."""
_OUR_NAMES = {"httpUrl": "url", "serverUrl": "url", "environment": "env"}
"""Names that other programs give to our settings."""
_REFRESH = 5.0
"""Seconds that a turn waits for a server whose session has ended, before it continues with the
known tools.
"""


def read_server(alias: str, given: object) -> McpServer:
    """Read one server of the host's configuration, in our form or in that of other programs.

    Args:
        alias: Its name.
        given: Its settings.

    Returns:
        The server. An unknown setting is a warning.

    Raises:
        ConfigurationError: It cannot be used. The message says what would be right.
    """
    where = f"mcp server {alias!r}"
    right = (
        '{"command": ["program", "argument"], "env": {…}} or {"url": "https://…", "headers": {…}}'
    )
    given = _in_our_names(given)
    if ("command" in given) == ("url" in given):
        raise ConfigurationError(f"{where}: give {right}")
    way = "command" if "command" in given else "url"
    known = _KEYS[way]
    for key in given:
        if key not in known:
            said = f"{where}: the setting {key!r} is unknown and has no effect; {suggestion(str(key), known)}"
            warnings.warn(said, RuntimeWarning, stacklevel=2)
    kind = given.get("type")
    if kind is not None and kind not in _TYPES[way]:
        hint = (
            "; servers over SSE alone are not supported, streamable HTTP is"
            if kind == "sse"
            else ""
        )
        raise ConfigurationError(
            f"{where}: type {kind!r} does not fit {way!r}, which is {_TYPES[way][0]!r}{hint}"
        )
    if "url" in given:
        url = given["url"]
        if not is_address(url):
            raise ConfigurationError(f"{where}: url {url!r} is no http:// or https:// address")
        return McpServer(
            alias=alias, url=url.strip(), headers=_texts(where, "headers", given.get("headers"))
        )
    command, further = given["command"], given.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list | tuple) or not isinstance(further, list | tuple):
        raise ConfigurationError(f"{where}: command is a list of texts, such as {right}")
    words = [*words, *further]
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ConfigurationError(f"{where}: command is a list of texts, such as {right}")
    cwd = given.get("cwd")
    return McpServer(
        alias=alias,
        command=tuple(words),
        env=_texts(where, "env", given.get("env")),
        cwd=None if cwd is None else os.fspath(cwd),
    )


def _in_our_names(given: object) -> JsonDict:
    """Return the settings that are not null under our names; none if they are no object."""
    if not isinstance(given, Mapping):
        return {}
    return {
        _OUR_NAMES.get(str(key), str(key)): value
        for key, value in given.items()
        if value is not None
    }


def _is_off(given: JsonMap) -> bool:
    return given.get("disabled") is True or given.get("enabled") is False


def _texts(where: str, name: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(item, str) for item in (*given, *given.values())
    ):
        raise ConfigurationError(f"{where}: {name} is an object of texts")
    return dict(given)


class McpServers:
    """The MCP servers of one host. None is started before it is needed.

    Args:
        config: Alias to settings, also below the key of another program, such as `mcpServers`.

    Raises:
        ConfigurationError: A server cannot be used.
    """

    def __init__(self, config: JsonMap | None = None) -> None:
        if not isinstance(config, Mapping | None):
            known = '{"alias": {"command": ["program"]}}'
            raise ConfigurationError(
                f"mcp servers are an object such as {known}, not a {type(config).__name__}"
            )
        found = unwrapped(config or {})
        read = {alias: read_server(alias, given) for alias, given in found.items()}
        self._off = {alias for alias in read if _is_off(found[alias])}
        self._servers = without(read, self._off)
        self._specs: dict[str, dict[str, ToolSpec]] = {}
        self._faults: dict[str, TextMap] = {}
        self._acting: dict[str, frozenset[str]] = {}
        self.listed = 0
        """The number of requests for a list of tools."""
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Slot]] = (
            WeakKeyDictionary()
        )

    async def tools(self, alias: str, limit: float = CONNECT) -> Mapping[str, ToolSpec]:
        """Return the tools of a server by name, and list them again if they may have changed.

        Args:
            alias: The server.
            limit: Seconds that connecting and the list may take together.

        Raises:
            ConfigurationError: The alias is not configured.
            CallFault: The server cannot be reached, and its tools are not known yet.
        """
        known = self._specs.get(alias)
        if known is not None and not self._is_stale(alias):
            return known
        try:
            now = asyncio.get_running_loop().time
            ends = now() + min(limit, CONNECT)
            link = await self._link(
                self._server(alias), min(limit, CONNECT if known is None else _REFRESH)
            )
            self._specs[alias] = await link.tools(ends - now())
            self._faults[alias] = link.faults
            self._acting[alias] = frozenset(link.acting)
            self.listed += 1
        except CallFault:
            if known is None:
                raise
            self._slots()[alias].is_left_alone = True
        return self._specs[alias]

    def fault(self, alias: str, tool: str) -> str | None:
        """Return the reason why a tool that a server lists cannot be called.

        Args:
            alias: The server.
            tool: Name of the tool.

        Returns:
            The reason; None if the tool is in order or not listed.
        """
        return self._faults.get(alias, {}).get(tool)

    def acts(self, alias: str, tool: str) -> bool:
        """Return true if a server says by its hints that a tool changes the world outside.

        Args:
            alias: The server.
            tool: Name of the tool.
        """
        return tool in self._acting.get(alias, ())

    @property
    def is_stale(self) -> bool:
        """Return true if the tools of a server are known and may have changed: its session is new,
        over, or reported it.
        """
        return any(map(self._is_stale, self._specs))

    def _is_stale(self, alias: str) -> bool:
        slot = self._slots().get(alias)
        if slot is None or slot.link is None:
            return False
        return not slot.is_left_alone if slot.link.closed else not slot.link.is_listed

    async def call(self, alias: str, tool: str, arguments: JsonMap, limit: float) -> Any:
        """Call a tool.

        Args:
            alias: The server.
            tool: Name of the tool on the server.
            arguments: Name to value.
            limit: Seconds that connecting and the call may take together.

        Returns:
            The structured content of the answer, or its text. A text that is a JSON object or list
            is read as one.

        Raises:
            CallFault: The server or the connection failed. The message says how.
            ConfigurationError: The alias is not configured.
        """
        server = self._server(alias)
        loop = asyncio.get_running_loop()
        began = loop.time()
        link = await self._link(server, min(limit, CONNECT))
        return await link.call(tool, arguments, limit - (loop.time() - began))

    async def aclose(self) -> None:
        """Close the sessions of the running event loop, and end the processes of its stdio servers."""
        slots = self._links.pop(asyncio.get_running_loop(), {})
        links: list[Any] = []
        for slot in slots.values():
            links += (slot.link, *slot.left)
        await asyncio.gather(*(link.close() for link in links if link is not None))

    def _server(self, alias: str) -> McpServer:
        server = self._servers.get(alias)
        if server is None:
            if alias in self._off:
                raise ConfigurationError(
                    f"the MCP server {alias!r} is disabled in its configuration"
                )
            hint = suggestion(alias, self._servers, "configured are")
            raise ConfigurationError(
                f'no MCP server {alias!r} is configured; {hint} (servers are given as mcp={{"{alias}": {{…}}}})'
            )
        return server

    def _slots(self) -> dict[str, _Slot]:
        return self._links.setdefault(asyncio.get_running_loop(), {})

    async def _link(self, server: McpServer, timeout: float) -> Link:
        slot = self._slots().setdefault(server.alias, _Slot())
        if slot.link is not None and slot.link.closed:
            slot.leave()
        if slot.link is None:
            sdk = await asyncio.to_thread(load_sdk)
            slot.link = slot.link or Link(server, sdk)  # another task may have been faster
            slot.is_left_alone = False
        link = slot.link
        await link.opened(timeout)
        return link


class _Slot:
    """Holds the session with one server. All callers wait for it together."""

    __slots__ = ("is_left_alone", "left", "link")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.is_left_alone = False
        """The session has ended and could not be reopened for the list of tools. The next call
        tries again.
        """
        self.left: list[Link] = []
        """Ended sessions whose processes are still stopping."""

    def leave(self) -> None:
        """Drop the session, without waiting until it is closed."""
        if self.link is not None:
            self.link.stop()
            self.left = [link for link in (*self.left, self.link) if not link.over]
            self.link = None


def unwrapped(config: JsonMap) -> JsonMap:
    """Return the servers by alias, also from a file that has them under its own key."""
    for name in _WRAPPERS:
        inner = config.get(name)
        if isinstance(inner, Mapping) and not {"command", "url"} & _in_our_names(inner).keys():
            return inner
    return config


def known_tool(alias: str, name: str, tools: Iterable[str]) -> str:
    """Say that a server has no such tool, with the most similar name.

    Args:
        alias: The server.
        name: The name that was asked for.
        tools: The names that it has.

    Returns:
        A sentence without a full stop.
    """
    return f"the MCP server {alias!r} has no tool {name!r}; {suggestion(name, tools, 'it has')}"
