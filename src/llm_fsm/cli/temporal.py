"""The option `--temporal`, and the room of the package that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import click

from llm_fsm.cli.exit_codes import Failure

F = TypeVar("F", bound=Callable[..., Any])
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):[0-9]{1,5}(/[\w.-]+)?")


def temporal_option(function: F) -> F:
    """`--temporal HOST:PORT`: the server that gives work without a caller to workers."""
    text = "The Temporal server for work without a caller, perhaps with /NAMESPACE."
    option = click.option("--temporal", metavar="HOST:PORT", callback=_checked, help=text)
    return option(function)


def _checked(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and _ADDRESS.fullmatch(given) is None:
        said = f"{given!r} is no HOST:PORT or HOST:PORT/NAMESPACE, such as localhost:7233"
        raise click.BadParameter(said)
    return given


def temporal_module() -> Any:
    """Return `llm_fsm.durable.temporal`. Raises Failure if its package is not installed."""
    if find_spec("temporalio") is None:
        said = "--temporal needs temporalio: pip install 'llm-fsm-runtime[temporal]'"
        raise Failure(said)
    from llm_fsm.durable import temporal

    return temporal
