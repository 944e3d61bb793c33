"""`llm-fsm mcp`."""

from __future__ import annotations

import asyncio

import click

from llm_fsm.cli.exit_codes import need
from llm_fsm.cli.failures import show_failures
from llm_fsm.cli.fleet import Brought, Fleet
from llm_fsm.cli.options import command
from llm_fsm.cli.stores import open_store


@command("llm-fsm mcp order --model openai/gpt-4o-mini", options=Brought)
def mcp(ctx: click.Context, wanted: Brought) -> None:
    """Serve definitions to an assistant over MCP, on standard input and output.

    PATH is a definition file, a folder of them, or the name of a shipped definition. Without it all
    shipped ones are served. An assistant also gets tools to check, explain, play and draw
    definitions. `serve` does the same over HTTP.

    Exit codes: 0 ended. 1 a definition is at fault. 2 usage. 3 model or provider. 4 store. 130
    interrupted.
    """
    need("this", ("mcp", "fastapi", "sse_starlette"), "mcp,server")
    ctx.call_on_close(show_failures(verbose=ctx.obj.verbose > 0))
    asyncio.run(_serve(Fleet(wanted, open_store(wanted.db))))


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
