"""Batches, runs, timers and messages without a caller, as workflows of Temporal.

The store stays the truth: a workflow holds ids, inputs and the next due time, and never a session.
So a Temporal server that lost everything loses nothing of ours: a worker asks the store when it
starts. Live turns do not come here; they stay in the process that got them.

The names of workflows, activities, updates and queues are protocol: a running workflow knows them.
They never change. Workflows stay so small that they need no versions; all logic is in activities.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    DescribeNamespaceRequest,
)
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowFailureError
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_fsm.engine.batch import BatchLine, failure, play_lines, result_of
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConfigurationError, ConversationNotFound, LLMFSMError, StoreError, told
from llm_fsm.stores.base import Store

T = TypeVar("T")

QUEUE = "llm-fsm"
BATCH_QUEUE = "llm-fsm-batch"
CHUNK = 25
"""Lines of a chunk. What protects live turns is to give Temporal few and large things."""
_UNDER_WAY = 20
"""Chunks that one command has queued at a time."""
_QUIET = timedelta(minutes=5)
"""A conversation with nothing due ends its workflow. The next message begins it again."""
_TURNS = 200
_BEAT = timedelta(seconds=3)
_AWAY = 60.0
"""Seconds for which a turn waits for a store, so that attempts count deaths and not outages."""
_PAUSE = 1.0
_TASK = timedelta(seconds=3)
_HORIZON = 366 * 86_400.0
_ATTEMPTS = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)


@dataclass(frozen=True)
class Chunk:
    """Lines of a batch: (number, conversation id, input, messages, context) of each."""

    definition: str
    limit: int
    lines: list[tuple[int, str, Any, list[str] | None, dict[str, Any] | None]]


@dataclass(frozen=True)
class Ask:
    """One turn: `what` is `send`, `run` or `due`."""

    definition: str
    conversation_id: str
    what: str
    text: str = ""
    request_id: str = ""
    input: Any = None


@dataclass(frozen=True)
class Done:
    """The end of a turn: its words, its outcome, and when something is due next."""

    text: str
    outcome: str
    due: float | None = None


@dataclass(frozen=True)
class Watch:
    """A conversation that is looked after, and when something is due in it."""

    definition: str
    conversation_id: str
    due: float | None = None


# -- workflows


@workflow.defn(name="llm-fsm.batch")
class BatchWorkflow:
    """Plays one chunk of a batch."""

    @workflow.run
    async def run(self, chunk: Chunk) -> int:
        """Return the number of lines with a result."""
        count: int = await workflow.execute_activity(
            "llm-fsm.chunk",
            chunk,
            result_type=int,
            start_to_close_timeout=timedelta(hours=6),
            heartbeat_timeout=_BEAT,
            retry_policy=_ATTEMPTS,
        )
        return count


@workflow.defn(name="llm-fsm.run")
class RunWorkflow:
    """Plays one run as far as it goes."""

    @workflow.run
    async def run(self, ask: Ask) -> Done:
        """Return how it ended."""
        return await _turn(ask)


@workflow.defn(name="llm-fsm.conversation")
class ConversationWorkflow:
    """Wakes a conversation when something is due, and takes messages in order."""

    @workflow.init
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._due = watch.due
        self._one = asyncio.Lock()
        self._turns = self._heard = 0

    @workflow.run
    async def run(self, watch: Watch) -> None:
        """Wait for messages and due times until the conversation is quiet."""
        del watch
        while not workflow.info().is_continue_as_new_suggested() and self._turns < _TURNS:
            heard, left = self._heard, _QUIET
            if self._due is not None:
                left = timedelta(seconds=max(0.0, self._due - workflow.now().timestamp()))
            try:
                await workflow.wait_condition(partial(self._is_new, heard), timeout=left)
            except TimeoutError:
                if self._due is not None:
                    await self._wake()
                elif workflow.all_handlers_finished():
                    return
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(replace(self._watch, due=self._due))

    def _is_new(self, heard: int) -> bool:
        return self._heard != heard

    async def _wake(self) -> None:
        watch = self._watch
        try:
            await self._play(Ask(watch.definition, watch.conversation_id, "due"))
        except ActivityError:  # it stays due in the store
            self._due = workflow.now().timestamp() + 60

    @workflow.update(name="send")
    async def send(self, ask: Ask) -> Done:
        """Answer a message."""
        self._heard += 1
        return await self._play(ask)

    async def _play(self, ask: Ask) -> Done:
        async with self._one:
            done = await _turn(ask)
            self._turns += 1
            self._due = done.due
            self._heard += 1
            return done


async def _turn(ask: Ask) -> Done:
    done: Done = await workflow.execute_activity(
        "llm-fsm.turn",
        ask,
        result_type=Done,
        start_to_close_timeout=timedelta(hours=6),
        heartbeat_timeout=_BEAT,
        retry_policy=_ATTEMPTS,
    )
    return done


# -- activities


class Activities:
    """The work itself, on the machines of one process by the names of their definitions."""

    def __init__(self, machines: Callable[[], Iterable[AsyncMachine]]) -> None:
        self._machines = machines

    def _machine(self, name: str) -> AsyncMachine:
        for machine in self._machines():
            if machine.definition.name == name:
                return machine
        raise ApplicationError(f"this worker has no definition {name!r}", type="NoDefinition")

    @activity.defn(name="llm-fsm.chunk")
    async def chunk(self, chunk: Chunk) -> int:
        """Play lines of a batch. Their results are in the store."""
        machine = self._machine(chunk.definition)
        results: list[dict[str, Any]] = []
        lines = [_line(*line) for line in chunk.lines]
        await _beating(play_lines(machine, lines, results.append, limit=chunk.limit))
        return len(results)

    @activity.defn(name="llm-fsm.turn")
    async def turn(self, ask: Ask) -> Done:
        """Play one turn."""
        machine = self._machine(ask.definition)
        return await _beating(_patiently(lambda: _taken(machine, ask)))


def _line(
    number: int,
    conversation_id: str,
    given: Any,
    messages: list[str] | None,
    context: dict[str, Any] | None,
) -> BatchLine:
    return BatchLine(
        number=number,
        conversation_id=conversation_id,
        input=given,
        messages=None if messages is None else tuple(messages),
        context=context,
    )


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
    try:
        await machine._engine.run_due(conversation_id, time.time())
        conversation = await machine.resume(conversation_id)
    except ConversationNotFound:  # it was deleted meanwhile
        return Done("", "")
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
                raise ApplicationError(str(error), type=kind, non_retryable=not retryable) from error
        await asyncio.sleep(_PAUSE)


async def _beating(work: Coroutine[Any, Any, T]) -> T:
    """Do it, and say all the while that this process lives: an activity does not do so by itself."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            activity.heartbeat()
            await asyncio.wait([task], timeout=_BEAT.total_seconds() / 5)
        return await task
    finally:
        task.cancel()


# -- workers


async def connect(address: str, namespace: str = "default") -> Client:
    """Connect to a server.

    Raises:
        ConfigurationError: There is no such namespace.
        RPCError: The server is away.
    """
    try:
        client = await Client.connect(address, namespace=namespace)
        request = DescribeNamespaceRequest(namespace=namespace)
        await client.workflow_service.describe_namespace(request)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            said = f"Temporal at {address} has no namespace {namespace!r}: make it, or name another"
            raise ConfigurationError(said) from error
        raise
    except RuntimeError as error:  # the connection itself was refused
        raise RPCError(str(error), RPCStatusCode.UNAVAILABLE, b"") from error
    return client


async def patiently_connected(address: str, told_away: Callable[[str], None]) -> Client:
    """Connect, and wait as long as the server is away. `told_away` hears of it once."""
    told_once = False
    while True:
        try:
            return await connect(address)
        except RPCError as error:
            if not told_once:
                told_once = True
                told_away(f"Temporal at {address} is away, and is waited for: {error}")
        await asyncio.sleep(_PAUSE)


async def work(
    address: str,
    machines: Callable[[], Iterable[AsyncMachine]],
    told_away: Callable[[str], None],
    chunks: int = 2,
) -> None:
    """Work for Temporal until cancelled. On its start it asks the store what is due.

    Args:
        address: HOST:PORT of the server.
        machines: Gives the machines.
        told_away: Hears in a sentence that the server is away, or cannot be used.
        chunks: Chunks of batches at a time.
    """
    try:
        await _work(address, machines, told_away, chunks)
    except Exception as error:
        told_away(f"nothing is taken from Temporal any more: {told(error)}")
        raise


async def _work(
    address: str,
    machines: Callable[[], Iterable[AsyncMachine]],
    told_away: Callable[[str], None],
    chunks: int,
) -> None:
    client = await patiently_connected(address, told_away)
    activities = Activities(machines)
    flows = [ConversationWorkflow, RunWorkflow]
    turns = _worker(client, QUEUE, flows, [activities.turn], 100)
    batches = _worker(client, BATCH_QUEUE, [BatchWorkflow], [activities.chunk], chunks)
    async with AsyncExitStack() as stack:
        for worker in (turns, batches):
            await stack.enter_async_context(worker)
        for machine in machines():
            await watch_due(client, machine)
        await asyncio.Event().wait()


def _worker(
    client: Client, queue: str, flows: Sequence[type], activities: Sequence[Any], at_once: int
) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        workflows=flows,
        activities=activities,
        max_concurrent_activities=at_once,
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


async def watch_due(client: Client, machine: AsyncMachine) -> int:
    """Open a workflow for each conversation with something due, and return their number."""
    name = machine.definition.name
    rows = await machine.store.due(time.time() + _HORIZON, limit=10_000, definition=name)
    first: dict[str, float] = {}
    for row in rows:
        first.setdefault(row.conversation_id, row.time)
    for conversation_id, due in first.items():
        await client.start_workflow(
            ConversationWorkflow.run,
            Watch(name, conversation_id, due),
            id=f"{QUEUE}/{conversation_id}",
            task_queue=QUEUE,
            task_timeout=_TASK,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
    return len(first)


# -- batches and deletion


async def play_chunks(
    client: Client,
    machine: AsyncMachine,
    name: str,
    lines: Sequence[BatchLine],
    on_result: Callable[[dict[str, Any]], None],
    *,
    limit: int,
) -> None:
    """As `llm_fsm.engine.batch.play_lines`, by the workers of Temporal. Results come from the store."""
    places = asyncio.Semaphore(_UNDER_WAY)

    async def play(part: Sequence[BatchLine]) -> None:
        async with places:
            reason = await _played(client, machine, name, part, limit)
            await _forgotten(client, f"{BATCH_QUEUE}/{name}/{part[0].number}")
            for line in part:
                result = await result_of(machine, line)
                on_result(result or failure(line, reason or "its turn failed; see the worker"))

    left: list[BatchLine] = []
    for line in lines:
        known = await result_of(machine, line)
        if known is None:
            left.append(line)
        else:
            on_result(known)
    parts = [left[begin : begin + CHUNK] for begin in range(0, len(left), CHUNK)]
    await asyncio.gather(*(play(part) for part in parts))


async def _played(
    client: Client, machine: AsyncMachine, name: str, part: Sequence[BatchLine], limit: int
) -> str:
    """Let a chunk be played, also over restarts of the server; return why it failed, or ""."""
    rows = [_row(line) for line in part]
    chunk = Chunk(machine.definition.name, limit, rows)
    flow = f"{BATCH_QUEUE}/{name}/{part[0].number}"
    while True:
        try:
            handle = await client.start_workflow(
                BatchWorkflow.run,
                chunk,
                id=flow,
                task_queue=BATCH_QUEUE,
                task_timeout=_TASK,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            )
            await handle.result()
        except WorkflowFailureError as error:
            return told(error.cause)
        except RPCError:  # the server is away, or forgot the workflow: the store knows what is done
            await asyncio.sleep(_PAUSE)
        else:
            return ""


async def _forgotten(client: Client, workflow_id: str) -> None:
    while True:
        try:
            return await forget(client, workflow_id)
        except RPCError:  # the server is away
            await asyncio.sleep(_PAUSE)


def _row(
    line: BatchLine,
) -> tuple[int, str, Any, list[str] | None, dict[str, Any] | None]:
    messages = None if line.messages is None else list(line.messages)
    context = None if line.context is None else dict(line.context)
    return line.number, line.conversation_id, line.input, messages, context


async def send(client: Client, ask: Ask) -> Done:
    """Let a message be answered by a worker; the same request id gives the recorded turn."""
    start: Any = WithStartWorkflowOperation(
        ConversationWorkflow.run,
        Watch(ask.definition, ask.conversation_id),
        id=f"{QUEUE}/{ask.conversation_id}",
        task_queue=QUEUE,
        task_timeout=_TASK,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    done: Done = await client.execute_update_with_start_workflow(
        "send", ask, start_workflow_operation=start, id=ask.request_id, result_type=Done
    )
    return done


async def forget(client: Client, workflow_id: str) -> None:
    """Delete a workflow with its history, which holds messages in clear text."""
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id),
    )
    try:
        await client.workflow_service.delete_workflow_execution(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


class ForgettingStore:
    """A store that deletes the workflow of a conversation before the conversation itself."""

    def __init__(self, store: Store, address: str) -> None:
        self._store = store
        self._address = address

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, conversation_id: str) -> bool:
        """Delete both. Raises StoreError while Temporal is away, with nothing deleted."""
        try:
            client = await connect(self._address)
            await forget(client, f"{QUEUE}/{conversation_id}")
        except RPCError as error:
            said = f"Temporal at {self._address} is away, and has a workflow of the conversation"
            raise StoreError(f"{said}; nothing was deleted: try again later", retryable=True) from error
        return await self._store.delete(conversation_id)
