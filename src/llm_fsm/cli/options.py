"""Options of commands: on the fields of a class, or as decorators for a command that has few.

A class of options is a frozen dataclass whose fields are made by `option` and `argument`. `command`
gives them to the command, and calls its function with an object of the class. The help shows the
fields of the class itself first, and then those of its bases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, TypeAlias, TypedDict

import click

Function: TypeAlias = Callable[..., Any]
_CLICK = "click"
"""The key under which a field has its decorator."""


@dataclass(slots=True)
class GlobalOptions:
    """The settings of the whole command. `verbose`: how often `-v` was given, wherever it stands."""

    verbose: int = 0


def _more(context: click.Context, _: click.Parameter, value: int) -> None:
    context.ensure_object(GlobalOptions).verbose += value


VERBOSE = click.Option(
    ["-v", "--verbose"],
    count=True,
    expose_value=False,
    callback=_more,
    help="Say more about what happens; twice: even more.",
)
"""The group's and the command's are counted together."""


def example(*commands: str) -> str:
    """Return the end of a help text: commands to copy, each on a line of its own."""
    return "\n".join(
        (
            "\b",
            "Example:" if len(commands) == 1 else "Examples:",
            *(f"  {line}" for line in commands),
        )
    )


def taken(decorator: Function) -> Any:
    """Return a field that the option or argument of a decorator of click fills."""
    return field(metadata={_CLICK: decorator})


def option(*names: str, **settings: Any) -> Any:
    """Return a field that an option fills. Names and settings are those of `click.option`."""
    return taken(click.option(*names, **settings))


def argument(name: str, **settings: Any) -> Any:
    """Return a field that an argument fills. The settings are those of `click.argument`."""
    return taken(click.argument(name, **settings))


def command(
    *examples: str, options: type | None = None, **settings: Any
) -> Callable[[Function], click.Command]:
    """Make a command of a function that may return an exit code.

    Args:
        examples: Commands to copy, for the end of the help.
        options: A class of options. The function is called with the context and an object of it.
        settings: Those of `click.command`.
    """

    def made(function: Function) -> click.Command:
        run = function if options is None else _filled(function, options)
        decorate: Callable[[Function], click.Command]
        decorate = click.command(epilog=example(*examples), **settings)
        found = decorate(run)
        found.params.append(VERBOSE)
        return found

    return made


def _filled(function: Function, options: Any) -> Function:
    @click.pass_context
    @wraps(function)
    def run(ctx: click.Context, /, **given: Any) -> Any:
        return function(ctx, options(**given))

    own_first = sorted(fields(options), key=lambda one: one.name not in options.__annotations__)
    for one in reversed(own_first):  # as decorators are applied, the lowest first
        if one.metadata:
            run = one.metadata[_CLICK](run)
    return run


base_url_option = click.option(
    "--base-url", metavar="URL", help="An OpenAI-compatible server; its key is LLM_FSM_API_KEY."
)
timeout_option = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Seconds for a turn, from the last sign of life of a reply that arrives; 0: no limit.  [default: 120]",
)
tools_option = click.option(
    "--tools",
    metavar="FILE.py",
    type=click.Path(),  # splits the variable as PATH is split
    multiple=True,
    envvar="LLM_FSM_TOOLS",
    help="Run this Python file for its TOOLS, FUNCTIONS and HANDLERS; else LLM_FSM_TOOLS.",
)
db_option = click.option(
    "--db",
    metavar="URL",
    help="Where conversations are kept, e.g. sqlite:///bots.db or memory; else LLM_FSM_STORE, or LLM_FSM_STORE_FILE.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class TurnTime(TypedDict, total=False):
    """The setting of a machine that `--timeout` gives, if it was given."""

    timeout: float | None


def turn_time(timeout: float | None) -> TurnTime:
    """Return the setting for `--timeout`: 0 is no limit, and without the option a machine has its
    own time.
    """
    return {} if timeout is None else {"timeout": timeout or None}
