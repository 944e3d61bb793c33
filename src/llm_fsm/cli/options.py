"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """What holds for the whole command. `verbose`: how often `-v` was given, wherever."""

    verbose: int = 0


def _more(context: click.Context, _: click.Parameter, value: int) -> None:
    context.ensure_object(Settings).verbose += value


def verbose_option(function: F) -> F:
    """`-v`; the group's and the command's are counted together."""
    text = "Say more about what happens; twice: even more."
    return click.option("-v", "--verbose", count=True, expose_value=False, callback=_more, help=text)(
        function
    )


def db_option(function: F) -> F:
    """`--db URL`: where conversations are kept."""
    return click.option(
        "--db", metavar="URL", help="Where conversations are kept, e.g. sqlite:///bots.db or memory."
    )(function)
