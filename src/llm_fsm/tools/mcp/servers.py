"""Tools of MCP servers that the host configured, over stdio and streamable HTTP.

    servers = McpServers({"files": {"command": ["uvx", "mcp-server-files"], "env": {"ROOT": "/srv"}},
                          "shop": {"url": "https://shop.example/mcp", "headers": {"Authorization": "…"}}})

There is one session per event loop and server, opened when it is needed. When a server dies, the calls under
way become errors and the next call connects once more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from llm_fsm._text import is_address, nearest
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.messages import ToolSpec
from llm_fsm.tools.mcp.client import CONNECT, Link, Server, load_sdk

_KEYS = {"command": ("command", "args", "env", "cwd"), "url": ("url", "headers")}


def read_server(alias: str, given: object) -> Server:
    """A server of the host's configuration. Raises ConfigurationError that says what is wrong and what is right."""
    where = f"mcp server {alias!r}"
    right = '{"command": ["program", "argument"], "env": {…}} or {"url": "https://…", "headers": {…}}'
    if not isinstance(given, Mapping) or ("command" in given) == ("url" in given):
        raise ConfigurationError(f"{where}: give {right}")
    known = _KEYS["command" if "command" in given else "url"]
    for key in given:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean {guess!r}?" if guess else f"there are {', '.join(known)}"
            raise ConfigurationError(f"{where}: unknown setting {key!r}; {hint}")
    if "url" in given:
        url = given["url"]
        if not is_address(url):
            raise ConfigurationError(f"{where}: url {url!r} is no http:// or https:// address")
        return Server(alias=alias, url=url.strip(), headers=_texts(where, "headers", given.get("headers")))
    command, further = given["command"], given.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list | tuple) or not isinstance(further, list | tuple):
        raise ConfigurationError(f"{where}: command is a list of texts, such as {right}")
    words = [*words, *further]
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ConfigurationError(f"{where}: command is a list of texts, such as {right}")
    cwd = given.get("cwd")
    return Server(
        alias=alias,
        command=tuple(words),
        env=_texts(where, "env", given.get("env")),
        cwd=None if cwd is None else os.fspath(cwd),
    )


def _texts(where: str, name: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(item, str) for pair in given.items() for item in pair
    ):
        raise ConfigurationError(f"{where}: {name} is an object of texts")
    return dict(given)


class McpServers:
    """The MCP servers of one host, by alias.

    Raises ConfigurationError for a configuration that cannot be used; nothing is started before it is needed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        if not isinstance(config, Mapping | None):
            known = '{"alias": {"command": ["program"]}}'
            raise ConfigurationError(f"mcp servers are an object such as {known}, not a {type(config).__name__}")
        self._servers = {alias: read_server(alias, given) for alias, given in (config or {}).items()}
        self._specs: dict[str, dict[str, ToolSpec]] = {}
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Slot]] = WeakKeyDictionary()

    async def tools(self, alias: str) -> Mapping[str, ToolSpec]:
        """The tools of a server by name, asked for once.

        Raises ConfigurationError for an alias that is not configured, and CallFault when the server cannot be
        reached.
        """
        known = self._specs.get(alias)
        if known is None:
            link = await self._link(self._server(alias), CONNECT)
            known = self._specs[alias] = await link.tools(CONNECT)
        return known

    async def call(self, alias: str, tool: str, arguments: Mapping[str, Any], limit: float) -> Any:
        """Call a tool within `limit` seconds: what it answered as a JSON value.

        That is its structured content, else its text, which is read as JSON where it is a JSON object or list.
        Raises CallFault with what the server or the connection said.
        """
        server = self._server(alias)
        loop = asyncio.get_running_loop()
        began = loop.time()
        link = await self._link(server, min(limit, CONNECT))
        return await link.call(tool, arguments, limit - (loop.time() - began))

    async def aclose(self) -> None:
        """Close the sessions of the running event loop, and end the processes of its stdio servers."""
        slots = self._links.pop(asyncio.get_running_loop(), {})
        links = [link for slot in slots.values() for link in (slot.link, *slot.left) if link is not None]
        await asyncio.gather(*(link.close() for link in links))

    def _server(self, alias: str) -> Server:
        server = self._servers.get(alias)
        if server is None:
            guess = nearest(alias, self._servers)
            known = ", ".join(self._servers) or "none"
            hint = f"did you mean {guess!r}?" if guess else f"configured are {known}"
            raise ConfigurationError(
                f'no MCP server {alias!r} is configured; {hint} (servers are given as mcp={{"{alias}": {{…}}}})'
            )
        return server

    async def _link(self, server: Server, timeout: float) -> Link:
        slots = self._links.setdefault(asyncio.get_running_loop(), {})
        slot = slots.setdefault(server.alias, _Slot())
        if slot.link is not None and slot.link.closed:
            slot.leave()
        if slot.link is None:
            sdk = await asyncio.to_thread(load_sdk)
            slot.link = slot.link or Link(server, sdk)  # somebody else may have been quicker
        link = slot.link
        await link.opened(timeout)
        return link


class _Slot:
    """Where the session with one server is kept, for which all callers wait together."""

    __slots__ = ("left", "link")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.left: list[Link] = []
        """Sessions that are over, while their processes are being ended."""

    def leave(self) -> None:
        """Give up the session; nobody waits until it is closed."""
        if self.link is not None:
            self.link.stop()
            self.left = [link for link in (*self.left, self.link) if not link.over]
            self.link = None


def known_tool(alias: str, name: str, tools: Iterable[str]) -> str:
    """That a server has no such tool, with the one that was probably meant."""
    names = list(tools)
    guess = nearest(name, names)
    hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(names) or 'none'}"
    return f"the MCP server {alias!r} has no tool {name!r}; {hint}"
