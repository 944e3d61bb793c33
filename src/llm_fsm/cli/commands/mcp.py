"""`llm-fsm mcp`."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.failures import show_failures
from llm_fsm.cli.fleet import Brought, Fleet
from llm_fsm.cli.options import (
    GlobalOptions,
    base_url_option,
    db_option,
    example,
    mcp_option,
    model_option,
    timeout_option,
    tools_option,
    verbose_option,
)
from llm_fsm.cli.stores import open_store


@click.command(epilog=example("llm-fsm mcp order --model openai/gpt-4o-mini"))
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@db_option
@model_option
@base_url_option
@timeout_option
@tools_option
@mcp_option
@verbose_option
@click.pass_context
def mcp(
    ctx: click.Context,
    /,
    *,
    paths: tuple[str, ...],
    db: str | None,
    model: str | None,
    base_url: str | None,
    timeout: float | None,
    tools: tuple[str, ...],
    mcp: str | None,
) -> None:
    """Serve definitions to an assistant over MCP, on standard input and output.

    PATH is a definition file, a folder of them, or the name of a shipped definition. Without it all
    shipped ones are served. An assistant also gets tools to check, explain, play and draw
    definitions. `serve` does the same over HTTP.

    Exit codes: 0 ended. 1 a definition is at fault. 2 usage. 3 model or provider. 4 store. 130
    interrupted.
    """
    missing = [name for name in ("mcp", "fastapi", "sse_starlette") if find_spec(name) is None]
    if missing:
        raise Failure(
            f"this needs {', '.join(missing)}: pip install 'llm-fsm-runtime[mcp,server]'",
            exits.USAGE,
        )
    brought = Brought(
        paths=paths, model=model, base_url=base_url, timeout=timeout, tools=tools, mcp=mcp
    )
    verbose = ctx.ensure_object(GlobalOptions).verbose > 0
    ctx.call_on_close(show_failures(verbose=verbose))
    asyncio.run(_serve(Fleet(brought, open_store(db))))
    ctx.exit(exits.OK)


async def _serve(fleet: Fleet) -> None:
    from llm_fsm.server import limits, machines, service, upkeep

    made = service.Service(machines.Machines(fleet.machines()), limits.Limits())
    try:
        async with upkeep.upkeep(made, 1.0, fleet.changed):
            from llm_fsm.server.mcp_server import mcp_server

            await mcp_server(made, workbench=True).run_stdio_async()
            await made.drain()
    finally:
        await made.pool.close()
        for machine in made.machines.every():
            await machine.close()
