"""The client: it gives messages and the chunks of a batch to the workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from llm_fsm._json import JsonDict
from llm_fsm.durable.temporal.connection import PatientCalls, Report, forget
from llm_fsm.durable.temporal.flows import (
    BATCH_QUEUE,
    QUEUE,
    Ask,
    BatchWorkflow,
    Chunk,
    ConversationWorkflow,
    Done,
    Watch,
    start_options,
)
from llm_fsm.engine.batch import BatchLine, failure, result_of
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConfigurationError, ConversationNotFound, told

CHUNK = 25
"""Lines of a chunk. What protects live turns is to give Temporal few and large things."""
CHUNK_BYTES = 2_000_000
"""Bytes of JSON of a chunk's lines. Temporal takes 2 MiB in one call, with names and lengths."""
_UNDER_WAY = 20
"""Chunks that one command has queued at a time."""


async def send(client: Client, ask: Ask, seconds: float = 120.0) -> Done:
    """Let a message be answered by a worker; the same request id gives the recorded turn.

    Args:
        client: The client.
        ask: The message with its request id.
        seconds: Time for the answer. An update that died with its worker is asked for again.

    Raises:
        ConversationNotFound: The conversation was deleted, or Temporal lost its data, meanwhile.
        TimeoutError: The time is over. The message may be answered later.
        WorkflowUpdateFailedError: The turn failed.
    """
    watch = Watch(ask.definition, ask.conversation_id)

    options = start_options(f"{QUEUE}/{ask.conversation_id}", QUEUE)

    async def asked() -> Done:
        start: Any = WithStartWorkflowOperation(ConversationWorkflow.run, watch, **options)
        try:
            done: Done = await client.execute_update_with_start_workflow(
                "send", ask, start_workflow_operation=start, id=ask.request_id, result_type=Done
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):  # the time is over
                raise error.__cause__ from None
            raise RPCError(str(error), RPCStatusCode.UNAVAILABLE, b"") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                said = f"the workflow of conversation {ask.conversation_id!r} is gone"
                raise ConversationNotFound(f"{said}: send again to begin a new one") from error
            raise
        return done

    patience = PatientCalls(client.service_client.config.target_host, lambda _: None)
    async with asyncio.timeout(seconds):
        return await patience(asked)


async def play_chunks(
    client: Client,
    machine: AsyncMachine,
    name: str,
    lines: Sequence[BatchLine],
    on_result: Callable[[JsonDict], None],
    *,
    limit: int,
    report: Report = lambda _: None,
) -> None:
    """As `llm_fsm.engine.batch.play_lines`, by the workers of Temporal. Results come from the
    store.
    """
    places = asyncio.Semaphore(_UNDER_WAY)
    patience = PatientCalls(client.service_client.config.target_host, report)

    async def play(part: Sequence[BatchLine]) -> None:
        flow = f"{BATCH_QUEUE}/{name}/{part[0].number}"
        rows = [list(astuple(line)) for line in part]
        chunk = Chunk(machine.definition.name, limit, rows, machine.program.identity)
        async with places:
            reason = _too_large(part) or await _played(client, chunk, flow, patience)
            await patience(partial(forget, client, flow))
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
    await asyncio.gather(*(play(part) for part in parts_of(left)))


def parts_of(lines: Sequence[BatchLine]) -> Iterator[Sequence[BatchLine]]:
    """Cut lines into chunks that Temporal takes. A line that is too large is in one of its own."""
    part: list[BatchLine] = []
    room = CHUNK_BYTES
    for line in lines:
        size = _bytes_of(line)
        if part and (size > room or len(part) == CHUNK):
            yield part
            part, room = [], CHUNK_BYTES
        part.append(line)
        room -= size
    if part:
        yield part


def _too_large(part: Sequence[BatchLine]) -> str:
    size = _bytes_of(part[0])
    if size <= CHUNK_BYTES:
        return ""
    return (
        f"it has {size:,} bytes as JSON, and Temporal takes {CHUNK_BYTES:,}: "
        "make it smaller, or run the batch without --temporal"
    )


def _bytes_of(line: BatchLine) -> int:
    return len(json.dumps(astuple(line)))  # ASCII alone, as in the calls of Temporal's library


async def _played(client: Client, chunk: Chunk, flow: str, patience: PatientCalls) -> str:
    """Let a chunk be played; return why it failed, or "".

    A server that forgot the workflow is given it again. The store knows what is done already.
    """
    options = start_options(flow, BATCH_QUEUE)

    async def played() -> None:
        handle = await client.start_workflow(BatchWorkflow.run, chunk, **options)
        await handle.result()

    try:
        await patience(played)
    except WorkflowFailureError as error:
        cause = getattr(error.cause, "cause", None) or error.cause
        return told(cause)
    except ConfigurationError as error:
        return told(error)
    return ""
