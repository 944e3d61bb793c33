"""The option `--temporal`, and the room of the package that it needs."""

from __future__ import annotations

import re
from typing import Any

import click

from llm_fsm.cli.exit_codes import need

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):[0-9]{1,5}(/[\w.-]+)?")


def _checked(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and _ADDRESS.fullmatch(given) is None:
        said = f"{given!r} is no HOST:PORT or HOST:PORT/NAMESPACE, such as localhost:7233"
        raise click.BadParameter(said)
    return given


temporal_option = click.option(
    "--temporal",
    metavar="HOST:PORT",
    callback=_checked,
    help="The Temporal server for work without a caller, perhaps with /NAMESPACE.",
)


def temporal_module() -> Any:
    """Return `llm_fsm.durable.temporal`. Raises Failure if its package is not installed."""
    need("--temporal", ["temporalio"], "temporal")
    from llm_fsm.durable import temporal

    return temporal
