"""A machine of the command line, with the functions and servers that the host brings."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from llm_fsm._json import JsonMap
from llm_fsm.cli.options import turn_time
from llm_fsm.definition.models import Definition
from llm_fsm.engine.host_files import HostTools
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.stores.base import Store

Opened = TypeVar("Opened", bound=Store | AsyncMachine)


def closed_with(stack: ExitStack, runner: asyncio.Runner, opened: Opened) -> Opened:
    """Return a store or a machine, and close it at the end of a stack."""
    stack.callback(lambda: runner.run(opened.close()))
    return opened


def machine_of(
    definition: Definition,
    path: Path,
    host: HostTools,
    servers: JsonMap,
    timeout: float | None,
    **settings: Any,
) -> AsyncMachine:
    """Return the machine of a file.

    Args:
        definition: The definition in the file.
        path: The file.
        host: What `--tools` brings.
        servers: What `--mcp` brings.
        timeout: The value of `--timeout`.
        settings: Further settings of `AsyncMachine`.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    machine = AsyncMachine(
        definition,
        tools=host.tools,
        handlers=host.handlers,
        mcp=servers,
        file=path,
        **turn_time(timeout),
        **settings,
    )
    for name, function in host.functions.items():
        machine.function(function, name=name)
    return machine
