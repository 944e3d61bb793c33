"""The MCP door: conversations as tools, and tools for assistants that write definitions.

Needs the extra `mcp`, whose import takes as long as the rest of the server. So `mcp_door.py` imports
this module with the first request.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import ValidationError
from starlette.types import ASGIApp

from llm_fsm import AsyncMachine, __version__
from llm_fsm._json import JsonDict
from llm_fsm.definition.schema import definition_schema
from llm_fsm.documents.discovery import travelling
from llm_fsm.server import views, workbench
from llm_fsm.server.feed import Feed
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import problem_of
from llm_fsm.server.rights import check
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import ANYBODY, Caller

ToolContext = Context[Any, Any]
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
LONGEST_WAIT = 60.0
"""Seconds that a tool waits for turns."""
_INSTRUCTIONS = (
    "Conversations with machines that are written as JSON files: list_definitions, then start_conversation, "
    "send_message, and answer where something is `paused`."
)
_INSTRUCTIONS_FOR_AUTHORS = (
    " To write such a file: read the resources llm-fsm://guide and llm-fsm://format, then validate_definition, "
    "play_test and draw. A test has its replies inside, and names no model."
)


def _tools(server: MCPServer[Any]) -> Callable[[F], F]:
    """Return the decorator for tools, which tell errors of the package in words."""

    def tool(function: F) -> F:
        @server.tool()
        @functools.wraps(function)
        async def told(*arguments: Any, **named: Any) -> Any:
            try:
                return await function(*arguments, **named)
            except Exception as error:
                problem = problem_of(error)
                raise ToolError(f"{problem.kind}: {problem.detail}") from error

        return function

    return tool


def _caller(context: ToolContext) -> Caller:
    """Return the caller of a tool. Over HTTP the guard knows it."""
    request = context.request_context.request
    caller: Caller = ANYBODY if request is None else request.state.caller
    return caller


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Keep the SDK from setting up the root logger: `logging.basicConfig` does nothing where there
    is a handler.
    """
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


class _Server(MCPServer[Any]):
    """The SDK's server, whose refusals of arguments say what is wrong and quote nothing."""

    async def call_tool(self, *given: Any, **named: Any) -> Any:
        """Call a tool. Raises ToolError."""
        try:
            return await super().call_tool(*given, **named)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            found = error.__cause__.errors(
                include_url=False, include_input=False, include_context=False
            )
            places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found]
            raise ToolError(f"invalid: {'; '.join(places)}") from error


def mcp_server(service: Service, *, workbench: bool = False) -> MCPServer[Any]:
    """Make the server over a service. `workbench`: also with the tools for authors."""
    instructions = _INSTRUCTIONS + _INSTRUCTIONS_FOR_AUTHORS if workbench else _INSTRUCTIONS
    with _root_logger_kept():
        server = _Server("llm-fsm", version=__version__, instructions=instructions)
    _add_conversations(server, service)
    if workbench:
        _add_workbench(server, service)
    _add_resources(server, service)
    return server


@asynccontextmanager
async def over_http(service: Service, *, workbench: bool) -> AsyncGenerator[ASGIApp]:
    """Run the server, and give its ASGI application. Every request is independent."""
    server = mcp_server(service, workbench=workbench)
    # the guard has checked it already
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(stateless_http=True, transport_security=unguarded)
    async with server.session_manager.run():
        yield app


def _add_conversations(server: MCPServer[Any], service: Service) -> None:
    machines, tool, feed = service.machines, _tools(server), Feed(service.machines, service.secrecy)

    async def found(ctx: ToolContext, conversation_id: str) -> Served:
        return await service.find(_caller(ctx), conversation_id, fresh=True)

    @tool
    async def list_definitions(ctx: ToolContext) -> JsonDict:
        """List the machines, each with its description and states."""
        return {"definitions": [views.head_of(machine) for machine in machines.all(_caller(ctx))]}

    @tool
    async def start_conversation(
        ctx: ToolContext,
        definition: str,
        context: JsonDict | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
    ) -> JsonDict:
        """Begin a conversation with a definition. Returns its id, state and greeting."""
        caller = _caller(ctx)
        begun = await service.start(
            caller,
            machines.named(caller, definition),
            context=context,
            conversation_id=views.checked_new_id(conversation_id),
            greet=greet,
        )
        return await service.document(begun.served, views.started_of(begun))

    @tool
    async def send_message(
        ctx: ToolContext,
        conversation_id: str,
        text: str,
        request_id: str | None = None,
        picked: bool = False,
    ) -> JsonDict:
        """Send a message of the user. The same request_id returns the recorded answer.

        `picked`: the text is the label of one of the `choices`.
        """
        served = await found(ctx, conversation_id)
        turn = await service.send(served, text, request_id, picked=picked)
        return await service.document(served, views.turn_of(served, turn))

    @tool
    async def answer(
        ctx: ToolContext,
        conversation_id: str,
        value: Any,
        pause: str | None = None,
        request_id: str | None = None,
    ) -> JsonDict:
        """Answer the pause of a conversation or run. `value` fits `paused.schema`."""
        served = await found(ctx, conversation_id)
        turn = await service.answer(served, value, pause, request_id)
        return await service.document(served, views.turn_of(served, turn))

    @tool
    async def read_conversation(
        ctx: ToolContext, conversation_id: str, after: views.After = 0, limit: views.Limit = 100
    ) -> JsonDict:
        """Read the state of a conversation, and a page of its messages.

        `after`: pass `next` of the page before; it is null at the end.
        """
        served = await found(ctx, conversation_id)
        page = views.PageRequest(after=after, limit=limit)
        history = page.of("history", await served.chat.history(), views.message_of)
        return await service.document(served, {**views.conversation_of(served), **history})

    @tool
    async def wait_for_turns(
        ctx: ToolContext, conversation_id: str, after: int | None = None, seconds: float = 20.0
    ) -> JsonDict:
        """Wait for what happens between messages: reminders, time-outs, words of the program or an
        operator, the end.

        Returns new turns at once, or none after so many seconds (at most 60). `after`: pass `next`
        of the last call; without it, only what happens from now on counts.
        """
        served = await found(ctx, conversation_id)
        position = None if after is None else (after + 1, 0)
        turns = []
        last = after or 0
        with service.gauge.stream(served.caller):
            async for happened in feed.follow(
                served, position, seconds=max(0.0, min(seconds, LONGEST_WAIT))
            ):
                last = (
                    happened.position[0]
                    if happened.turn is not None
                    else max(last, happened.position[0] - 1)
                )
                if happened.turn is not None:
                    turns.append(dict(happened.data))
        return {"turns": turns, "next": last}

    @tool
    async def run_machine(
        ctx: ToolContext,
        definition: str,
        given: Any = None,
        context: JsonDict | None = None,
        run_id: str | None = None,
    ) -> JsonDict:
        """Run a machine without a user as far as possible. `given` is its input; the same run_id
        resumes it.
        """
        caller = _caller(ctx)
        machine = machines.named(caller, definition)
        wanted = views.checked_new_id(run_id)
        name, live = await service.run(
            caller, machine, given=given, context=context, background=None, run_id=wanted, key=None
        )
        turn = await live.result()
        served = await service.find(caller, name, fresh=True)
        return await service.document(served, views.turn_of(served, turn))


def _add_workbench(server: MCPServer[Any], service: Service) -> None:
    tool = _tools(server)

    async def work(ctx: ToolContext, job: str, *arguments: Any) -> Any:
        check(_caller(ctx), "author", "use the tools for authors")
        return await service.pool.run(_caller(ctx), job, *arguments)

    def served(ctx: ToolContext, definition: str) -> AsyncMachine | None:
        """Return the machine of a served name; None for JSON text."""
        if definition.lstrip()[:1] in ("{", "/"):
            return None
        return service.machines.named(_caller(ctx), definition)

    @tool
    async def validate_definition(ctx: ToolContext, definition: str) -> JsonDict:
        """Check a definition, given as JSON text. Returns every finding with line, column and hint."""
        found = await work(ctx, "findings", definition)
        return {"ok": not any(one["level"] == "error" for one in found), "findings": found}

    @tool
    async def explain_rule(ctx: ToolContext, rule: str) -> str:
        """Explain a rule of the checker by its code or name: why it is bad, an example, the fix."""
        check(_caller(ctx), "author", "use the tools for authors")
        return workbench.rule_page(rule)

    @tool
    async def render_prompt(
        ctx: ToolContext,
        definition: str,
        state: str | None = None,
        context: JsonDict | None = None,
        message: str = "Hello!",
    ) -> JsonDict:
        """Show the prompt of a state. `definition`: JSON text, or the name of a served one."""
        machine = served(ctx, definition)
        text = definition if machine is None else machine.program.document
        found: JsonDict = await work(
            ctx, "prompt", text, state, context or {}, message, machine is not None
        )
        return found

    @tool
    async def play_test(ctx: ToolContext, definition: str, test: str) -> JsonDict:
        """Play conversation tests, as JSON text, on a definition, as JSON text, with the replies of
        the tests.
        """
        results = await work(ctx, "played", definition, test)
        return {"passed": all(result["passed"] for result in results), "results": results}

    @tool
    async def draw(
        ctx: ToolContext, definition: str, form: Literal["mermaid", "text", "dot"] = "mermaid"
    ) -> str:
        """Draw a definition, given as JSON text or as the name of a served one."""
        machine = served(ctx, definition)
        if machine is None:
            return str(await work(ctx, "drawn", definition, form))
        return str(await work(ctx, "picture", dict(machine.definition.document), form))


def _add_resources(server: MCPServer[Any], service: Service) -> None:
    @server.resource(
        "llm-fsm://format",
        title="The format of definitions, as JSON Schema",
        mime_type="application/schema+json",
    )
    def format_reference() -> str:
        return json.dumps(definition_schema(), indent=2, ensure_ascii=False)

    @server.resource(
        "llm-fsm://guide", title="How to write a definition", mime_type="text/markdown"
    )
    def guide() -> str:
        return (travelling("docs") / "LLM_GUIDE.md").read_text(encoding="utf-8")

    @server.resource(
        "definition://{name}", title="A definition that is served", mime_type="application/json"
    )
    async def definition(name: str, ctx: ToolContext) -> str:
        machine = service.machines.inspected(_caller(ctx), name)
        return json.dumps(machine.definition.document, indent=2, ensure_ascii=False)
