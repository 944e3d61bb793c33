"""A worker: the activities on the machines of one process, and the look for what is due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_fsm._async import cancel_all
from llm_fsm._json import JsonDict
from llm_fsm.durable.temporal.connection import PAUSE, PatientCalls, Report, connect
from llm_fsm.durable.temporal.flows import (
    BATCH_QUEUE,
    BEAT,
    QUEUE,
    Ask,
    BatchWorkflow,
    Chunk,
    ConversationWorkflow,
    Done,
    RunWorkflow,
    Watch,
    queue_of,
    start_options,
)
from llm_fsm.engine.batch import BatchLine, play_lines
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.upkeep import CurrentMachines
from llm_fsm.errors import ConversationConflict, ConversationNotFound, LLMFSMError, StoreError, told

T = TypeVar("T")

_AWAY = 60.0
"""Seconds for which a turn waits for a store, so that attempts count deaths and not outages."""
_POLLS = 2
"""Calls that wait for work on one queue. There are two queues for each definition."""
_COLUMNS = tuple(column.name for column in fields(BatchLine))


class Activities:
    """The work itself, on the machines of one process by name and SHA-256 of their definitions."""

    def __init__(self, machines: CurrentMachines) -> None:
        self._machines = machines

    def _machine(self, name: str, sha: str) -> AsyncMachine:
        for machine in self._machines():
            if machine.definition.name == name and sha in ("", machine.program.identity):
                return machine
        raise _left(f"this worker has no definition {name!r}, SHA-256 {sha or 'any'}")

    @activity.defn(name="llm-fsm.chunk")
    async def chunk(self, chunk: Chunk) -> int:
        """Play lines of a batch. Their results are in the store."""
        machine = self._machine(chunk.definition, chunk.sha)
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in chunk.lines]
        lines = [BatchLine(**row) for row in rows]
        results: list[JsonDict] = []
        await _beating(play_lines(machine, lines, results.append, limit=chunk.limit))
        return len(results)

    @activity.defn(name="llm-fsm.turn")
    async def turn(self, ask: Ask) -> Done:
        """Play one turn."""
        machine = self._machine(ask.definition, ask.sha)
        return await _beating(_patiently(lambda: _taken(machine, ask)))


def _left(said: str) -> ApplicationError:
    """Return the error that leaves work for another worker."""
    return ApplicationError(said, type="Left", category=ApplicationErrorCategory.BENIGN)


async def _taken(machine: AsyncMachine, ask: Ask) -> Done:
    name = ask.conversation_id
    if ask.what == "run":
        turn = await machine.run(ask.input, conversation_id=name)
        return Done(turn.text, turn.outcome)
    if ask.what == "due":
        return await _woken(machine, name)
    conversation = await machine.open(name)
    turn = await conversation.send(ask.text, request_id=ask.request_id)
    return Done(turn.text, turn.outcome, conversation.due)


async def _woken(machine: AsyncMachine, conversation_id: str) -> Done:
    now = machine._now()
    try:
        turn = await machine.take_up(conversation_id, now)
        conversation = await machine.resume(conversation_id)
    except ConversationNotFound:  # it was deleted meanwhile
        return Done("", "")
    except ConversationConflict as error:  # this machine refuses other versions
        raise _left(str(error)) from error
    if turn is None and conversation.due is not None and conversation.due <= now:
        raise _left(f"conversation {conversation_id!r} is busy, or this worker lacks its tools")
    return Done("", "", conversation.due)


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do it, again while the store is away; an error of ours becomes one of Temporal's."""
    began = time.monotonic()
    while True:
        try:
            return await work()
        except (LLMFSMError, ValueError) as error:
            retryable = bool(getattr(error, "retryable", False))
            waits = isinstance(error, StoreError) and retryable
            if not waits or time.monotonic() - began > _AWAY:
                kind = type(error).__name__
                raise ApplicationError(
                    str(error), type=kind, non_retryable=not retryable
                ) from error
        await asyncio.sleep(PAUSE)


async def _beating(work: Coroutine[Any, Any, T]) -> T:
    """Do it, and say all the while that this process lives: an activity does not do so by itself."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            activity.heartbeat()
            await asyncio.wait([task], timeout=BEAT.total_seconds() / 5)
        return await task
    finally:
        task.cancel()


async def work(
    address: str, machines: CurrentMachines, told_away: Report, chunks: int = 2, every: float = 60.0
) -> None:
    """Work for Temporal until cancelled. Now and then it asks the store what is due soon.

    Args:
        address: HOST:PORT of the server, perhaps with /NAMESPACE.
        machines: Gives the machines.
        told_away: Hears in a sentence that the server is away, or cannot be used.
        chunks: Chunks of batches at a time.
        every: Seconds between two questions to the store. Each looks twice as far ahead.

    Raises:
        ConfigurationError: There is no such namespace, or the server refuses to give work.
    """
    calls = PatientCalls(address, told_away)
    try:
        while True:
            client = await calls(partial(connect, address))
            try:
                await _work(client, machines, chunks, every)
            except RuntimeError as error:  # a poll failed for good, as after a loss of all data
                told_away(f"the connection to Temporal is made anew: {told(error)}")
            await asyncio.sleep(PAUSE)
    except Exception as error:
        told_away(f"nothing is taken from Temporal any more: {told(error)}")
        raise


async def _work(client: Client, machines: CurrentMachines, chunks: int, every: float) -> None:
    """Work until cancelled. Raises RuntimeError if the connection must be made anew."""
    activities = Activities(machines)

    def working(sha: str, flows: Sequence[type] = (), batches: Sequence[type] = ()) -> list[Worker]:
        turns = _worker(client, queue_of(QUEUE, sha), flows, activities.turn, 100)
        return [
            turns,
            _worker(client, queue_of(BATCH_QUEUE, sha), batches, activities.chunk, chunks),
        ]

    workers = {"": working("", [ConversationWorkflow, RunWorkflow], [BatchWorkflow])}
    running = [asyncio.create_task(worker.run()) for worker in workers[""]]
    try:
        while True:
            for machine in machines():  # there may be new ones
                sha = machine.program.identity
                if sha not in workers:
                    workers[sha] = working(sha)
                    running += [asyncio.create_task(worker.run()) for worker in workers[sha]]
            is_there = await _watch(client, machines, 2 * every)
            pause = every if is_there else min(PAUSE, every)
            ended, _ = await asyncio.wait(
                running, timeout=pause, return_when=asyncio.FIRST_COMPLETED
            )
            for task in ended:
                task.result()
    finally:
        await cancel_all(running)


def _worker(
    client: Client, queue: str, flows: Sequence[type], doing: Callable[..., Any], at_once: int
) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        workflows=flows,
        activities=[doing],
        max_concurrent_activities=at_once,
        max_concurrent_activity_task_polls=_POLLS,
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


async def _watch(client: Client, machines: CurrentMachines, ahead: float) -> bool:
    """Open workflows for what is due; return False while Temporal or the store is away."""
    try:
        for machine in machines():
            await watch_due(client, machine, ahead)
    except (RPCError, StoreError):
        return False
    return True


async def watch_due(client: Client, machine: AsyncMachine, ahead: float = 120.0) -> int:
    """Open a workflow for each conversation with something due soon, and return their number.

    Args:
        client: The client.
        machine: The machine.
        ahead: Seconds to look ahead.
    """
    name = machine.definition.name
    rows = await machine.store.due(machine._now() + ahead, limit=10_000, definition=name)
    first: dict[str, float] = {}
    for row in rows:
        first.setdefault(row.conversation_id, row.time)
    for conversation_id, due in first.items():
        watch = Watch(name, conversation_id, due)
        options = start_options(f"{QUEUE}/{conversation_id}", QUEUE)
        await client.start_workflow(ConversationWorkflow.run, watch, **options)
    return len(first)
