"""`llm-fsm worker`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from llm_fsm._async import cancel_all
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.failures import show_failures
from llm_fsm.cli.fleet import Brought, Fleet, SinkOptions
from llm_fsm.cli.options import argument, command, option, taken
from llm_fsm.cli.stores import open_store
from llm_fsm.cli.temporal import temporal_module, temporal_option
from llm_fsm.cli.terminal import console
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.upkeep import DRAIN_SECONDS, Upkeep
from llm_fsm.errors import told


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Brought, SinkOptions):
    """The machines to work for, and how often."""

    paths: tuple[str, ...] = argument("paths", metavar="PATH...", nargs=-1, required=True)
    concurrency: int = option(
        "--concurrency",
        metavar="N",
        default=16,
        show_default=True,
        type=click.IntRange(1, 10_000),
        help="Conversations that are worked on at once.",
    )
    every: float = option(
        "--every",
        metavar="SECONDS",
        default=1.0,
        show_default=True,
        type=click.FloatRange(0.05, 3600),
        help="Seconds between two looks.",
    )
    temporal: str | None = taken(temporal_option)


@command("llm-fsm worker bots --db sqlite:///bots.db --tools tools.py", options=WorkerOptions)
def worker(ctx: click.Context, wanted: WorkerOptions) -> int:
    """Finish turns and fire time-outs of stored conversations, without a server.

    PATH is a definition file, a folder of them, or the name of a shipped definition. The worker
    finishes turns that a dead process left, and does what is due: time-outs, reminders, runs,
    sinks. Start as many as you like on one store. SIGTERM ends it: what runs has 20 seconds to
    finish, and other workers take the rest. --tools runs the Python file that it names: name only
    your own.

    With --temporal it also takes batches, runs and messages from Temporal. It waits for a server
    that is away.

    Exit codes: 0 ended. 1 a definition is at fault. 2 usage. 3 model, provider or Temporal. 4
    store. 130 interrupted.
    """
    if wanted.db == "memory":
        ctx.fail("nobody else sees --db memory: name the store of the conversations")
    ctx.call_on_close(show_failures(verbose=ctx.obj.verbose > 0))
    beside = None
    if wanted.temporal is not None:
        flows = temporal_module()
        asyncio.run(flows.check_namespace(wanted.temporal))
        beside = partial(flows.work, wanted.temporal, told_away=console.note)
    fleet = Fleet(wanted, open_store(wanted.db), wanted.all_sinks())
    return asyncio.run(_work(fleet, wanted.every, wanted.concurrency, beside))


async def _work(
    fleet: Fleet,
    every: float,
    concurrency: int,
    beside: Callable[..., Coroutine[Any, Any, None]] | None,
) -> int:
    """Work until a signal comes, and return the exit code.

    `beside` works on the same machines. It never returns; if it raises, it has said why.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, ended, number)
    machines = fleet.machines()
    keeper = Upkeep(lambda: machines, every=every, concurrency=concurrency, report=_report)
    working = [asyncio.create_task(keeper.run())]
    if beside is not None:
        working.append(asyncio.create_task(beside(lambda: machines)))
    names = ", ".join(machine.definition.name for machine in machines)
    console.note(f"works for {names}; looks every {every:g} s")
    try:
        first = [*working, ended]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        await cancel_all(working)
        await keeper.stop(DRAIN_SECONDS)
    finally:
        await _close(machines)
    if not ended.done():
        return exits.MODEL
    return exits.INTERRUPTED if ended.result() == signal.SIGINT else exits.OK


def _end(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


async def _close(machines: Sequence[AsyncMachine]) -> None:
    for machine in machines:
        await machine.close()


def _report(said: str, error: BaseException) -> None:
    console.note(f"{said}: {told(error)}")
