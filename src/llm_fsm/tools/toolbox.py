"""All tools of one machine behind one class: registered functions and tools of MCP servers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.definition.models import Definition, ToolRef
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.session import Agreement
from llm_fsm.tools.executor import Around, CallFault, run_batch, unknown_tool
from llm_fsm.tools.mcp.servers import McpServers, known_tool
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.schema import CallInfo
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import PlannedCall, ToolResults
from llm_fsm.turn.tool_policy import AvailableTools, ToolPolicy, planned
from llm_fsm.turn.tool_results import tool_result


def _fits(schema: JsonMap) -> Callable[[JsonMap], str | None] | None:
    """Return the check of arguments by a server's schema; None if the schema cannot be read, so
    that the server checks.
    """
    try:
        return compile_shape(schema).fault
    except ShapeError:
        return None


def _agreed_keys(program: CompiledMachine) -> frozenset[str]:
    """Return the keys to which users say yes in a definition and in those that it calls."""
    keys: set[str] = set()
    for flow in program.flows.values():
        keys.update(_agreed_keys(flow))
    for state in program.states.values():
        if any(move.agrees for move in state.moves):
            keys.update(state.definition.confirms)
    return frozenset(keys)


def _check_bound(policy: ToolPolicy, agreed: frozenset[str]) -> None:
    """Raise ConfigurationError if nobody agrees to an argument of a tool that acts."""
    if policy.approval:  # a person reads them all
        return
    arguments = _parts(policy.spec.parameters)
    for key, _ in policy.bound(arguments, agreed):
        if key in agreed:
            continue
        cure = 'Name it like a key of "confirms", or write it into "binds" or "free"'
        fault = f"it acts, and nobody agrees to its argument {key!r}"
        raise ConfigurationError(f"tool {policy.name!r} of the definition: {fault}. {cure}")


def _parts(schema: JsonMap) -> JsonMap:
    """Return the names of the arguments in a schema, with those of their parts."""
    parts = {}
    for name, part in schema.get("properties", {}).items():
        parts[name] = _parts(part)
    return parts


class Toolbox:
    """The tools of one machine.

    Args:
        registry: The host's functions.
        servers: The host's MCP servers.
    """

    def __init__(
        self, registry: ToolRegistry | None = None, servers: McpServers | None = None
    ) -> None:
        self.registry = ToolRegistry() if registry is None else registry
        self.servers = McpServers() if servers is None else servers

    async def policies(
        self, definition: Definition, limit: float = math.inf
    ) -> dict[str, ToolPolicy]:
        """Find every tool of a definition. It connects once to each server that the definition
        names.

        Args:
            definition: The definition.
            limit: Seconds for the lists of all servers together.

        Returns:
            Name of the tool in the definition to its policy.

        Raises:
            ConfigurationError: A tool is not registered, or its server is unknown, cannot be
                reached or lacks it.
        """
        now = asyncio.get_running_loop().time
        ends = now() + limit
        return {
            name: await self._policy(name, ref, ends - now())
            for name, ref in definition.tools.items()
        }

    @property
    def version(self) -> int:
        """A number that changes if tools of MCP servers may have changed; -1 until they were listed
        again.
        """
        return -1 if self.servers.is_stale else self.servers.listed

    async def available_tools(
        self,
        program: CompiledMachine,
        limit: float = math.inf,
        agreed: frozenset[str] = frozenset(),
    ) -> AvailableTools:
        """Return the tools of a machine and of the definitions that it calls.

        Args:
            program: The machine.
            limit: Seconds for the lists of all servers together.
            agreed: Keys to which users say yes in the definitions that call it.

        Raises:
            ConfigurationError: As `policies`; or nobody agrees to an argument of a tool that acts.
        """
        agreed |= _agreed_keys(program)
        now = asyncio.get_running_loop().time
        ends = now() + limit
        found = AvailableTools(
            policies=await self.policies(program.definition, limit),
            states={name: tuple(plan.definition.tools) for name, plan in program.states.items()},
            flows={
                name: await self.available_tools(called, ends - now(), agreed)
                for name, called in program.flows.items()
            },
        )
        for name, plan in program.states.items() if agreed else ():
            for tool in found.acting(name, acts=plan.definition.acts):
                _check_bound(found.policies[tool], agreed)
        return found

    async def _policy(self, name: str, ref: ToolRef, limit: float) -> ToolPolicy:
        if ref.mcp is None:
            return self.registered(name, ref)
        wanted = ref.tool or name
        try:
            tools = await self.servers.tools(ref.mcp, limit)
        except CallFault as fault:
            raise ConfigurationError(f"tool {name!r}: {fault}") from fault
        spec = tools.get(wanted)
        if spec is None:
            wrong = self.servers.fault(ref.mcp, wanted)
            said = f"the MCP server {ref.mcp!r} describes its tool {wanted!r} wrongly: {wrong}"
            raise ConfigurationError(
                f"tool {name!r}: {said if wrong else known_tool(ref.mcp, wanted, tools)}"
            )
        acts = self.servers.acts(ref.mcp, wanted)
        own = ToolPolicy(
            spec=spec, mcp=ref.mcp, tool=wanted, acts=acts, fits=_fits(spec.parameters)
        )
        return planned(name, ref, own)

    def registered(self, name: str, ref: ToolRef) -> ToolPolicy:
        """Return the policy of a tool that is a function.

        Args:
            name: Its name in the definition.
            ref: Its entry in the definition.

        Raises:
            ConfigurationError: No such function is registered.
        """
        wanted = ref.registered or name
        tool = self.registry.get(wanted)
        if tool is None:
            said = unknown_tool(wanted, (item.name for item in self.registry))
            raise ConfigurationError(
                f"tool {name!r} of the definition: {said} (functions are registered with @machine.tool or tools=[…])"
            )
        return planned(name, ref, tool.policy)

    async def run(
        self,
        calls: Sequence[PlannedCall],
        state: str,
        *,
        conversation_id: str = "",
        agreed: Agreement | None = None,
        timeout: float | None = None,
        around: Around | None = None,
    ) -> ToolResults:
        """Perform a batch of calls for a state.

        Args:
            calls: The calls.
            state: Id of the current state.
            conversation_id: Id of the conversation, for tools that use it.
            agreed: The user's last yes, for tools that use it.
            timeout: Seconds for the whole batch; None: no limit.
            around: See `llm_fsm.tools.executor.run_batch`.

        Returns:
            The results in the order of the calls.
        """

        async def perform(call: PlannedCall, limit: float) -> Any:
            if call.mcp is not None:
                return await self._remote(call, limit)
            info = CallInfo(
                key=call.key, conversation_id=conversation_id, state=state, agreed=agreed
            )
            return await self.registry.perform(call, info, limit)

        return await run_batch(
            calls,
            perform,
            state=state,
            timeout=timeout,
            around=around,
            function_of=self._function_of,
        )

    def _function_of(self, call: PlannedCall) -> object:
        """Return the host's function of a call; None if a server performs it."""
        tool = None if call.mcp is not None else self.registry.get(call.registered or call.name)
        return None if tool is None else tool.function

    async def _remote(self, call: PlannedCall, limit: float) -> Any:
        try:
            value = await self.servers.call(
                str(call.mcp), call.tool or call.name, call.arguments, limit
            )
        except ConfigurationError as error:
            raise CallFault(str(error), refused=True) from error
        return tool_result(value)

    async def aclose(self) -> None:
        """Close the sessions with servers of the running event loop."""
        await self.servers.aclose()
