"""`llm-fsm prompt`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from llm_fsm import source
from llm_fsm.assembly import compile_flows
from llm_fsm.cli import choice, exits, printing
from llm_fsm.cli.chat import context_of
from llm_fsm.cli.verbosity import verbose_option
from llm_fsm.context import initial_context
from llm_fsm.flows import gather
from llm_fsm.loader import load
from llm_fsm.messages import LLMRequest
from llm_fsm.program import Program
from llm_fsm.prompts import sections
from llm_fsm.session import Session
from llm_fsm.shipped import definition_paths, pattern_piece, shipped_prompts
from llm_fsm.tokens import estimate
from llm_fsm.turn import request_for

Exchanges = tuple[tuple[str | None, str], ...]


@click.command()
@click.argument("file")
@click.option("--state", metavar="ID", help="The state to show; without it all that talk, by their sizes.")
@click.option("--context", metavar="JSON", help="What is known, as a JSON object.")
@click.option("--history", metavar="JSON", help='What was said: [{"user": "…"}, {"system": "…"}, …].')
@click.option("--message", metavar="TEXT", default="Hello!", show_default=True, help="What the user says.")
@click.option(
    "--whole", is_flag=True, help="With every state in the system message: Machine(prompt='whole')."
)
@click.option("--budget", metavar="N", type=click.IntRange(min=1), help="Tokens that no prompt may exceed.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print; JSON also has the reply's schema.",
)
@verbose_option
@click.pass_context
def prompt(
    ctx: click.Context,
    *,
    file: str,
    state: str | None,
    context: str | None,
    history: str | None,
    message: str,
    whole: bool,
    budget: int | None,
    form: str,
) -> None:
    """Show what the model reads in a state, and what it takes.

    FILE is a definition file, or the name of a shipped definition; one that it calls is looked at by itself. Tokens
    are estimated, messages and reply schema together; with --budget a prompt that takes more is said on standard
    error.

    Exit codes: 0 fine, 1 over the budget or the definition is at fault, 2 usage.
    """
    path = choice.located(file, definition_paths())
    program = _program(path, whole=whole)
    states = _states(program, state)
    known = {} if context is None else context_of(context)
    window = () if history is None else _exchanges(history)
    requests = [_request(program, name, known, window, message) for name in states]
    sizes = {request.state: _total(request) for request in requests}
    if form == "json":
        printing.out(printing.as_json([_document(request, budget) for request in requests]))
    else:
        printing.out("\n".join(_one(requests[0]) if state is not None else _table(requests)))
    over = [name for name, tokens in sizes.items() if budget is not None and tokens > budget]
    for name in over:
        printing.error(f"{path}: state {name!r} takes about {sizes[name]:,} tokens; the budget is {budget:,}")
    ctx.exit(exits.AT_FAULT if over else exits.OK)


def _program(path: Path, *, whole: bool) -> Program:
    called = gather(load(path), file=path, registered={})
    return compile_flows(called, shipped_prompts(whole=whole), pattern_piece)


def _states(program: Program, state: str | None) -> Sequence[str]:
    """The states to show. Raises UsageError for one that does not talk."""
    talking = [name for name, plan in program.states.items() if plan.kind == "converse"]
    if state is None:
        if talking:
            return talking
        raise click.UsageError("no state of this machine talks with a user")
    if state not in talking:
        known = ", ".join(talking) or "none"
        raise click.UsageError(f"state {state!r} {_silence(program, state)}; these talk: {known}")
    return [state]


def _silence(program: Program, state: str) -> str:
    """Why a state has no prompt for a user."""
    plan = program.states.get(state)
    if plan is None:
        return "is not there"
    flow = plan.state.flow
    return "talks with no user" if flow is None else f"calls {flow!r}, which is looked at by itself"


def _exchanges(text: str) -> Exchanges:
    """The messages of `--history` as exchanges. Raises UsageError."""
    try:
        value = source.parse(text, limit=1_000_000)
    except source.SourceError as error:
        raise click.UsageError(f"--history is not JSON: {error}") from error
    found: list[tuple[str | None, str]] = []
    user: str | None = None
    for item in value if isinstance(value, list) else [None]:
        pair = list(item.items()) if isinstance(item, dict) else []
        if len(pair) != 1 or pair[0][0] not in ("user", "system") or not isinstance(pair[0][1], str):
            raise click.UsageError('--history is a list such as [{"system": "Your name?"}, {"user": "Ada"}]')
        role, words = pair[0]
        if role == "user":
            user = words if user is None else f"{user}\n{words}"
        else:
            found.append((user, words))
            user = None
    return (*found, *([(user, "")] if user is not None else []))


def _request(
    program: Program, state: str, known: Mapping[str, Any], window: Exchanges, message: str
) -> LLMRequest:
    try:
        context = initial_context(program.keys, known)
    except ValueError as error:
        raise click.UsageError(f"--context: {error}") from error
    session = Session(
        conversation_id="prompt",
        definition=program.identity,
        state=state,
        turn=1,
        context=context,
        origins=dict.fromkeys(context, (0, "host")),
        window=window,
        user_input=message,
        time=time.time(),
    )
    return request_for(program, session)


def _sizes(request: LLMRequest) -> dict[str, dict[str, int]]:
    """Message to its sections, section to tokens."""
    found = {
        message.role: {section.name: section.tokens for section in sections(message.content)}
        for message in request.messages
    }
    return found | ({} if request.schema is None else {"schema": {"schema": estimate(request.schema.text)}})


def _total(request: LLMRequest) -> int:
    schema = 0 if request.schema is None else estimate(request.schema.text)
    return schema + sum(estimate(message.content) for message in request.messages)


def _one(request: LLMRequest) -> Iterator[str]:
    for part, sizes in _sizes(request).items():
        for name, tokens in sizes.items():
            yield f"{part:8} {name:24} about {tokens:6,} tokens"
    yield f"{'whole':33} about {_total(request):6,} tokens"
    for message in request.messages:
        yield f"── {message.role} ──"
        yield printing.words(message.content).rstrip("\n")


def _table(requests: Sequence[LLMRequest]) -> Iterator[str]:
    width = max(len(request.state) for request in requests)
    yield f"{'state':{width}}  system    user  schema   whole  (tokens, estimated)"
    for request in sorted(requests, key=_total, reverse=True):
        system, user = (estimate(message.content) for message in request.messages[:2])
        whole = _total(request)
        yield (f"{request.state:{width}}  {system:6,}  {user:6,}  {whole - system - user:6,}  {whole:6,}")


def _document(request: LLMRequest, budget: int | None) -> dict[str, Any]:
    return {
        "state": request.state,
        "tokens": _total(request),
        "budget": budget,
        "sections": _sizes(request),
        "messages": [message.to_dict() for message in request.messages],
        "schema": None if request.schema is None else json.loads(request.schema.text),
    }
