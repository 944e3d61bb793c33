"""Options of commands that play definitions: the model, the store, the tools, the first values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from llm_fsm._json import JsonMap
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.options import (
    argument,
    base_url_option,
    db_option,
    option,
    taken,
    timeout_option,
    tools_option,
)
from llm_fsm.definition import json_source as source

_MAX_CONTEXT = 1_000_000
"""Characters of `--context`."""


def _object(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    """Return the object of `--context`. Raises Failure that says where it is no JSON."""
    if text is None:
        return None
    with failing(source.SourceError, place="--context is not JSON: "):
        value = source.parse(text, limit=_MAX_CONTEXT)
    if not isinstance(value, dict):
        raise Failure('--context is one JSON object such as {"tier": "gold"}')
    return value


context_option = click.option(
    "-c",
    "--context",
    metavar="JSON",
    callback=_object,
    help="What is known from the start, as a JSON object.",
)


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """The model, the time, the store and the tools of machines."""

    model: str | None = option(
        "-m",
        "--model",
        metavar="M",
        help="offline, provider/model, scripted:FILE or replay:FILE; else LLM_FSM_MODEL.",
    )
    base_url: str | None = taken(base_url_option)
    timeout: float | None = taken(timeout_option)
    db: str | None = taken(db_option)
    tools: tuple[str, ...] = taken(tools_option)
    mcp: str | None = option(
        "--mcp", metavar="FILE", help='JSON file of MCP servers: {"alias": {"command": […]}}.'
    )

    def again(self) -> list[str]:
        """Return the options of the command that goes on with the same machine. An address with a
        password is left out.
        """
        base_url = None if self.base_url and "@" in self.base_url else self.base_url
        timeout = None if self.timeout is None else f"{self.timeout:g}"
        given = [("--db", self.db), ("--model", self.model)]
        given += [("--base-url", base_url), ("--timeout", timeout)]
        given += [*(("--tools", name) for name in self.tools), ("--mcp", self.mcp)]
        parts: list[str] = []
        for name, value in given:
            if value is not None:
                parts += (name, value)
        return parts


@dataclass(frozen=True, kw_only=True)
class OneMachineOptions(MachineOptions):
    """The definition of one conversation, and what is known from its start."""

    file: str | None = argument("file", required=False)
    fsm: str | None = option("--fsm", metavar="FILE", help="The same as FILE.")
    context: JsonMap | None = taken(context_option)


def stored_option(resume: str | None, *, last: bool) -> str | None:
    """Return the option that names a stored conversation; None if neither is given."""
    if resume is not None:
        return "--resume"
    return "--last" if last else None
