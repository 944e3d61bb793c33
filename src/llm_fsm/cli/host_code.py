"""The parts that a host brings to a run from the command line: its functions, its MCP servers, the
input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.definition.validation import describe
from llm_fsm.documents.subflows import gather
from llm_fsm.engine import host_files
from llm_fsm.engine.host_files import HostTools
from llm_fsm.errors import os_reason
from llm_fsm.tools.mcp.servers import McpServers, unwrapped
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.tool_policy import AvailableTools

MAX_INPUT_BYTES = 4_000_000
MAX_CONFIG_CHARS = 1_000_000
Equipment: TypeAlias = tuple[HostTools, JsonDict]


def host_of(files: Iterable[str]) -> HostTools:
    """Run the host's own Python files, and take what they list. Raises Failure."""
    with failing(host_files.HostFileError):
        return host_files.host_of(files)


def _imported(path: Path, name: str, option: str) -> ModuleType:
    with failing(host_files.HostFileError):
        return host_files.imported(path, name, option)


def sinks_in(files: Iterable[str]) -> list[Any]:
    """Run the host's own Python files, and return what they list as SINKS. Raises Failure."""
    found: list[Any] = []
    for number, name in enumerate(files):
        listed = getattr(_imported(Path(name), f"llm_fsm_sinks_{number}", "--sink"), "SINKS", None)
        if not isinstance(listed, list | tuple) or not listed:
            raise Failure(f"{name}: it has no SINKS; write SINKS = [function, …]")
        found += listed
    return found


def channels_in(names: Iterable[str], files: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Run the host's own Python files, and return their functions `routes` by the files' names,
    beside those of the messengers with these names. Raises Failure.
    """
    found = {}
    for name in names:
        found[name] = import_module(f"llm_fsm.channels.{name}").routes
    for number, file in enumerate(files):
        name = Path(file).stem
        routes = getattr(
            _imported(Path(file), f"llm_fsm_channel_{number}", "--mount"), "routes", None
        )
        if not callable(routes):
            raise Failure(f"{file}: it has no function routes(service), which returns an APIRouter")
        if not name.isidentifier() or name in found:
            raise Failure(
                f"{file}: the name of the file is part of an address: give it letters that no other one has"
            )
        found[name] = routes
    return found


def equipment(
    definition: Definition, path: Path, tools: Iterable[str], mcp: str | None
) -> Equipment:
    """Return what `--tools` and `--mcp` bring: functions, and servers by alias.

    Raises:
        Failure: Something that the definition needs is lacking.
    """
    host, servers = host_of(tools), servers_of(mcp)
    needed = lacking(definition, path, host, servers)
    if needed is not None:
        raise Failure(needed)
    return host, servers


def lacking(definition: Definition, path: Path, host: HostTools, servers: JsonMap) -> str | None:
    """Return in a sentence what a definition and those it calls need and the host lacks; None:
    nothing.
    """
    called = gather(definition, file=path).called.values()
    return missing(definition, (flow.definition for flow in called), host, servers)


def missing(
    definition: Definition, called: Iterable[Definition], host: HostTools, servers: JsonMap
) -> str | None:
    """Return in a sentence what a definition and the `called` ones name and the host lacks; None:
    nothing.
    """
    every = (definition, *called)
    refs = list(chain.from_iterable(item.tools.items() for item in every))
    tools = [ref.registered or name for name, ref in refs if ref.mcp is None]
    aliases = [ref.mcp for _, ref in refs if ref.mcp is not None]
    functions: list[str] = []
    for item in every:
        for state_id in item.states:
            functions += _functions(item, state_id)
    wanted = {
        "tool": [name for name in tools if name not in host.tools],
        "function": [name for name in functions if name not in host.functions],
        "MCP server": [alias for alias in aliases if alias not in servers],
    }
    said = [
        f"the {what}{'s' if len(names) > 1 else ''} {', '.join(dict.fromkeys(names))}"
        for what, names in wanted.items()
        if names
    ]
    if not said:
        return None
    ways = []
    if wanted["tool"] or wanted["function"]:
        ways.append("--tools FILE.py brings functions of your own, listed as TOOLS and FUNCTIONS")
    if wanted["MCP server"]:
        ways.append("--mcp FILE brings MCP servers")
    return f"the definition {definition.name!r} needs {', '.join(said)}; {'; '.join(ways)}"


def _functions(definition: Definition, state_id: str) -> Iterable[str]:
    state = definition.states[state_id]
    if definition.kind_of(state_id) != "task":
        return
    if state.execute is not None:
        yield state.execute
    for result in state.key_results:
        name = result.check.get("registered") if isinstance(result.check, dict) else None
        if isinstance(name, str):
            yield name


def servers_of(file: str | None) -> JsonDict:
    """The MCP servers of `--mcp FILE` by alias. Raises Failure."""
    if file is None:
        return {}
    found = json_of(text_of(Path(file)), file)
    if not isinstance(found, dict):
        raise Failure(
            f'{file}: --mcp names a JSON object such as {{"files": {{"command": ["program"]}}}}'
        )
    return dict(unwrapped(found))


def json_of(text: str, where: str) -> Any:
    """The JSON value of a text. Raises Failure that says where it is none, or where a key stands
    twice.
    """
    with failing(source.SourceError, place=f"{where} is not JSON: "):
        found = source.parse(text, limit=MAX_CONFIG_CHARS)
        twice = source.scan(text).duplicates
    for one in twice:
        line = one.position.line
        raise Failure(
            f"{where}: the key {one.key!r} stands in line {line} a second time; keep one of them"
        )
    return found


def object_of(text: str, where: str) -> JsonDict:
    """The JSON object of a text. Raises Failure."""
    found = json_of(text, where)
    if not isinstance(found, dict):
        raise Failure(f"{where}: one JSON object is needed, not {describe(found)}")
    return found


def input_of(given: str | None) -> Any:
    """The input of `--input`: TEXT, @FILE, or - for standard input; None without.

    A text that is one JSON object or list is that value, every other one is itself. Raises Failure.
    """
    if given is None:
        return None
    text = (
        _decoded(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), "standard input")
        if given == "-"
        else given
    )
    if given.startswith("@"):
        text = text_of(Path(given[1:]))
    if text.lstrip()[:1] in ("{", "["):
        try:
            return source.parse(text, limit=MAX_INPUT_BYTES)
        except source.SourceError:
            return text
    return text


def text_of(path: Path) -> str:
    """Return the text of a file. Raises Failure."""
    try:
        with path.open("rb") as file:
            return _decoded(file.read(MAX_INPUT_BYTES + 1), str(path))
    except OSError as error:
        raise Failure(f"{path}: {os_reason(error)}") from error


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_INPUT_BYTES:
        raise Failure(f"{name}: longer than {MAX_INPUT_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{name}: is not UTF-8 at byte {error.start + 1}") from error


def brought(program: CompiledMachine, tools: Iterable[str], mcp: str | None) -> AvailableTools:
    """The tools that the files of `--tools` and the servers of `--mcp` have; others of the
    definition are left out.

    Called definitions are not looked at. Raises Failure, and ConfigurationError for a server that
    cannot be reached.
    """
    found, servers = host_of(tools), servers_of(mcp)
    definition = program.definition
    there = {
        name: ref
        for name, ref in definition.tools.items()
        if (ref.registered or name) in found.tools or ref.mcp in servers
    }
    looked_at = replace(
        program, definition=definition.model_copy(update={"tools": there}), flows={}
    )

    async def look() -> AvailableTools:
        toolbox = Toolbox(found.tools, McpServers(servers))
        try:
            return await toolbox.available_tools(looked_at)
        finally:
            await toolbox.aclose()

    return asyncio.run(look())
