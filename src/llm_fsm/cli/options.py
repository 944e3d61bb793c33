"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class GlobalOptions:
    """The settings of the whole command. `verbose`: how often `-v` was given, wherever it stands."""

    verbose: int = 0


def _more(context: click.Context, _: click.Parameter, value: int) -> None:
    context.ensure_object(GlobalOptions).verbose += value


def verbose_option(function: F) -> F:
    """`-v`; the group's and the command's are counted together."""
    text = "Say more about what happens; twice: even more."
    return click.option(
        "-v", "--verbose", count=True, expose_value=False, callback=_more, help=text
    )(function)


def example(*commands: str) -> str:
    """Return the end of a help text: commands to copy, each on a line of its own."""
    return "\n".join(
        (
            "\b",
            "Example:" if len(commands) == 1 else "Examples:",
            *(f"  {line}" for line in commands),
        )
    )


def model_option(function: F) -> F:
    """`-m`, `--model M`: which model answers."""
    text = "offline, provider/model, scripted:FILE or replay:FILE; else LLM_FSM_MODEL."
    return click.option("-m", "--model", metavar="M", help=text)(function)


def base_url_option(function: F) -> F:
    """`--base-url URL`: an OpenAI-compatible server."""
    text = "An OpenAI-compatible server; its key is LLM_FSM_API_KEY."
    return click.option("--base-url", metavar="URL", help=text)(function)


def reply_option(function: F) -> F:
    """`--reply schema|prompt`: whether the form of a reply is forced."""
    text = "Force the form of replies by a schema, or ask for it in the prompt alone."
    kind = click.Choice(["schema", "prompt"])
    return click.option("--reply", type=kind, default="schema", show_default=True, help=text)(
        function
    )


def timeout_option(function: F) -> F:
    """`--timeout SECONDS`: the time of a turn."""
    text = "Seconds for a turn, from the last sign of life of a reply that arrives; 0: no limit.  [default: 120]"
    kind = click.FloatRange(min=0)
    return click.option("--timeout", metavar="SECONDS", type=kind, help=text)(function)


class TurnTime(TypedDict, total=False):
    """The setting of a machine that `--timeout` gives, if it was given."""

    timeout: float | None


def turn_time(timeout: float | None) -> TurnTime:
    """Return the setting for `--timeout`: 0 is no limit, and without the option a machine has its
    own time.
    """
    return {} if timeout is None else {"timeout": timeout or None}


def context_option(function: F) -> F:
    """`-c`, `--context JSON`: what is known from the start."""
    text = "What is known from the start, as a JSON object."
    return click.option("-c", "--context", metavar="JSON", help=text)(function)


def tools_option(function: F) -> F:
    """`--tools FILE.py`: Python files with tools, functions and handlers."""
    text = "Run this Python file for its TOOLS, FUNCTIONS and HANDLERS; else LLM_FSM_TOOLS."
    path = click.Path()  # splits the variable as PATH is split
    return click.option(
        "--tools", metavar="FILE.py", type=path, multiple=True, envvar="LLM_FSM_TOOLS", help=text
    )(function)


def mcp_option(function: F) -> F:
    """`--mcp FILE`: the MCP servers that bring tools."""
    text = 'JSON file of MCP servers: {"alias": {"command": […]}}.'
    return click.option("--mcp", metavar="FILE", help=text)(function)


def db_option(function: F) -> F:
    """`--db URL`: where conversations are kept."""
    text = "Where conversations are kept, e.g. sqlite:///bots.db or memory; else LLM_FSM_STORE, or LLM_FSM_STORE_FILE."
    return click.option("--db", metavar="URL", help=text)(function)


def stored_option(resume: str | None, *, last: bool) -> str | None:
    """Return the option that names a stored conversation; None if neither is given."""
    if resume is not None:
        return "--resume"
    return "--last" if last else None
