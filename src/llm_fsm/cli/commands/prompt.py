"""`llm-fsm prompt`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm._text import estimate
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import pick as choice
from llm_fsm.cli.machine_options import context_option
from llm_fsm.cli.options import command
from llm_fsm.cli.terminal import console
from llm_fsm.definition import json_source as source
from llm_fsm.documents.loader import load
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.session.messages import LLMRequest
from llm_fsm.session.session import Exchange
from llm_fsm.tools.formats import to_openai
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.prompt.render import call_sizes, sections
from llm_fsm.turn.steps import request_for
from llm_fsm.turn.tool_policy import NO_TOOLS, AvailableTools
from llm_fsm.turn.turn_state import HostCapabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class _PromptContent:
    """The content of the conversation that the prompt is made for."""

    context: JsonMap
    window: tuple[Exchange, ...]
    message: str


@command("llm-fsm prompt flow.json --state pay --context '{\"total\": 12}'")
@click.argument("file")
@click.option(
    "--state", metavar="ID", help="The state to show; without it all that talk, by their sizes."
)
@context_option
@click.option(
    "--history", metavar="JSON", help='What was said: [{"user": "…"}, {"system": "…"}, …].'
)
@click.option(
    "--message", metavar="TEXT", default="Hello!", show_default=True, help="What the user says."
)
@click.option(
    "--tools",
    metavar="FILE.py",
    multiple=True,
    help="Run this Python file for its TOOLS, to count them.",
)
@click.option("--mcp", metavar="FILE", help="MCP servers, to count their tools: {alias: {…}}.")
@click.option(
    "--budget", metavar="N", type=click.IntRange(min=1), help="Tokens that no prompt may exceed."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print; JSON also has the reply's schema.",
)
def prompt(
    *,
    file: str,
    state: str | None,
    context: JsonMap | None,
    history: str | None,
    message: str,
    tools: tuple[str, ...],
    mcp: str | None,
    budget: int | None,
    form: str,
) -> int:
    """Show what the model reads in a state, and what it takes.

    FILE is a definition file, or the name of a shipped definition. A definition that FILE calls is
    not shown: give its own file. Tokens are estimated: messages, reply schema and the tools that
    --tools and --mcp bring. With --budget, standard error names each prompt that takes more.
    Prompts of tasks depend on their input, and are not shown.

    Exit codes: 0 fine. 1 over the budget, or the definition is at fault. 2 usage. 3 an MCP server
    cannot be used.
    """
    path = choice.located(file)
    program = _program(path)
    states = _states(program, state)
    window = () if history is None else _exchanges(history)
    kit = _kit(program, tools, mcp)
    said = _PromptContent(context=context or {}, window=window, message=message)
    requests = [_request(program, name, said, HostCapabilities(tools=kit)) for name in states]
    sizes = {request.state: _total(request) for request in requests}
    if not requests:
        console.note(
            f"{path}: no state talks with a user, so there are no prompts to show or to measure"
        )
    if form == "json":
        console.json([_document(request, budget) for request in requests])
    elif requests:
        console.text("\n".join(_one(requests[0]) if state is not None else _table(requests)))
    named_tools = chain.from_iterable(program.states[name].definition.tools for name in states)
    unseen = sorted(set(named_tools) - kit.policies.keys())
    if unseen:
        named = ", ".join(unseen)
        console.note(
            f"not counted: the tools {named}; --tools FILE.py or --mcp FILE brings what is read of them"
        )
    over = [name for name, tokens in sizes.items() if budget is not None and tokens > budget]
    for name in over:
        console.error(
            f"{path}: state {name!r} takes about {sizes[name]:,} tokens; the budget is {budget:,}"
        )
    return exits.AT_FAULT if over else exits.OK


def _program(path: Path) -> CompiledMachine:
    called = gather(load(path), file=path, registered={})
    return compile_flows(called, shipped_prompts(), pattern_piece)


def _kit(program: CompiledMachine, tools: Sequence[str], mcp: str | None) -> AvailableTools:
    """Return the tools that the command line brings; import their module only then, as it takes
    long.
    """
    if not tools and mcp is None:
        return NO_TOOLS
    from llm_fsm.cli.host_code import brought

    return brought(program, tools, mcp)


def _states(program: CompiledMachine, state: str | None) -> Sequence[str]:
    """The states to show. Raises UsageError for one that does not talk."""
    talking = [name for name, plan in program.states.items() if plan.kind == "converse"]
    if state is None:
        return talking
    if state not in talking:
        known = ", ".join(talking) or "none"
        raise click.UsageError(f"state {state!r} {_silence(program, state)}; these talk: {known}")
    return [state]


def _silence(program: CompiledMachine, state: str) -> str:
    """Return why a state has no prompt for a user."""
    plan = program.states.get(state)
    if plan is None:
        return "is not there"
    flow = plan.definition.flow
    return "talks with no user" if flow is None else f"calls {flow!r}, which is looked at by itself"


def _exchanges(text: str) -> tuple[Exchange, ...]:
    """The messages of `--history` as exchanges. Raises UsageError."""
    try:
        value = source.parse(text, limit=1_000_000)
    except source.SourceError as error:
        raise click.UsageError(f"--history is not JSON: {error}") from error
    found = []
    user = None
    for item in value if isinstance(value, list) else [None]:
        pair = list(item.items()) if isinstance(item, dict) else []
        if (
            len(pair) != 1
            or pair[0][0] not in ("user", "system")
            or not isinstance(pair[0][1], str)
        ):
            raise click.UsageError(
                '--history is a list such as [{"system": "Your name?"}, {"user": "Ada"}]'
            )
        role, words = pair[0]
        if role == "user":
            user = words if user is None else f"{user}\n{words}"
        else:
            found.append((user, words))
            user = None
    return (*found, *([(user, "")] if user is not None else []))


def _request(
    program: CompiledMachine, state: str, said: _PromptContent, capabilities: HostCapabilities
) -> LLMRequest:
    try:
        return request_for(
            program,
            state,
            said.context,
            said.message,
            time=time.time(),
            window=said.window,
            capabilities=capabilities,
        )
    except ValueError as error:
        raise click.UsageError(f"--context: {error}") from error


def _sizes(request: LLMRequest) -> dict[str, dict[str, int]]:
    """Message to its sections, section to tokens."""
    found = {
        message.role: {section.name: section.tokens for section in sections(message.content)}
        for message in request.messages
    }
    schema, tools = _beside(request)
    return found | {
        part: {part: size} for part, size in (("schema", schema), ("tools", tools)) if size
    }


def _beside(request: LLMRequest) -> tuple[int, int]:
    """The tokens of the reply's schema and of the tools."""
    return 0 if request.schema is None else estimate(request.schema.text), call_sizes(request).get(
        "tools", 0
    )


def _total(request: LLMRequest) -> int:
    return sum(_beside(request)) + sum(estimate(message.content) for message in request.messages)


def _one(request: LLMRequest) -> Iterator[str]:
    for part, sizes in _sizes(request).items():
        for name, tokens in sizes.items():
            yield f"{part:8} {name:24} about {tokens:6,} tokens"
    yield f"{'whole':33} about {_total(request):6,} tokens"
    for message in request.messages:
        yield f"── {message.role} ──"
        yield message.content.rstrip("\n")


def _table(requests: Sequence[LLMRequest]) -> Iterator[str]:
    width = max(len(request.state) for request in requests)
    yield f"{'state':{width}}  system    user  schema   tools   whole  (tokens, estimated)"
    for request in sorted(requests, key=_total, reverse=True):
        system, user = (estimate(message.content) for message in request.messages[:2])
        schema, tools = _beside(request)
        yield f"{request.state:{width}}  {system:6,}  {user:6,}  {schema:6,}  {tools:6,}  {_total(request):6,}"


def _document(request: LLMRequest, budget: int | None) -> JsonDict:
    return {
        "state": request.state,
        "tokens": _total(request),
        "budget": budget,
        "sections": _sizes(request),
        "messages": [message.to_dict() for message in request.messages],
        "schema": None if request.schema is None else json.loads(request.schema.text),
        "tools": [to_openai(spec) for spec in request.tools],
    }
