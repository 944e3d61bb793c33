"""The tools of a definition as far as the command line brings them, for commands that only look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from llm_fsm.cli import host_code as host
from llm_fsm.tools.mcp.servers import McpServers
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.available_tools import AvailableTools
from llm_fsm.turn.compiled import CompiledMachine


def brought(program: CompiledMachine, tools: Iterable[str], mcp: str | None) -> AvailableTools:
    """The tools that the files of `--tools` and the servers of `--mcp` have; others of the definition are left out.

    Called definitions are not looked at. Raises Failure, and ConfigurationError for a server that cannot be reached.
    """
    found, servers = host.host_of(tools), host.servers_of(mcp)
    definition = program.definition
    there = {
        name: ref
        for name, ref in definition.tools.items()
        if (ref.registered or name) in found.tools or ref.mcp in servers
    }
    looked_at = replace(program, definition=definition.model_copy(update={"tools": there}), flows={})

    async def look() -> AvailableTools:
        toolbox = Toolbox(found.tools, McpServers(servers))
        try:
            return await toolbox.kit(looked_at)
        finally:
            await toolbox.aclose()

    return asyncio.run(look())
