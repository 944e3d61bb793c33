"""The workflows, and the values that they hold: ids, inputs and the next due time.

The names of workflows, activities, updates and queues are protocol: a running workflow knows them.
They never change. Workflows stay so small that they need no versions; all logic is in activities.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.exceptions import ActivityError

from llm_fsm._json import JsonDict

T = TypeVar("T")

QUEUE = "llm-fsm"
BATCH_QUEUE = "llm-fsm-batch"
BEAT = timedelta(seconds=3)
_QUIET = timedelta(minutes=5)
"""A conversation with nothing due ends its workflow. The next message begins it again."""
_TURNS = 200
_TASK = timedelta(seconds=3)
_ATTEMPTS = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)


@dataclass(frozen=True)
class Chunk:
    """Lines of a batch: each holds the values of a `BatchLine`, in their order."""

    definition: str
    limit: int
    lines: list[list[Any]]
    sha: str = ""


@dataclass(frozen=True)
class Ask:
    """One turn: `what` is `send`, `run` or `due`.

    `sha` is the SHA-256 of the definition: two definitions may have one name. Without it, any
    worker with the name may play the turn, on the version that the conversation was begun with.
    """

    definition: str
    conversation_id: str
    what: str
    text: str = ""
    request_id: str = ""
    input: Any = None
    sha: str = ""


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


@workflow.defn(name="llm-fsm.batch")
class BatchWorkflow:
    """Plays one chunk of a batch."""

    @workflow.run
    async def run(self, chunk: Chunk) -> int:
        """Return the number of lines with a result."""
        return await _done_by_worker("llm-fsm.chunk", chunk, BATCH_QUEUE, int)


@workflow.defn(name="llm-fsm.run")
class RunWorkflow:
    """Plays one run as far as it goes."""

    @workflow.run
    async def run(self, ask: Ask) -> Done:
        """Return how it ended."""
        return await _done_by_worker("llm-fsm.turn", ask, QUEUE, Done)


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
            done = await _done_by_worker("llm-fsm.turn", ask, QUEUE, Done)
            self._turns += 1
            self._due = done.due
            self._heard += 1
            return done


async def _done_by_worker(name: str, given: Chunk | Ask, queue: str, kind: type[T]) -> T:
    """Let a worker do it that has the definition."""
    done: T = await workflow.execute_activity(
        name,
        given,
        task_queue=queue_of(queue, given.sha),
        result_type=kind,
        start_to_close_timeout=timedelta(hours=6),
        heartbeat_timeout=BEAT,
        retry_policy=_ATTEMPTS,
    )
    return done


def queue_of(queue: str, sha: str) -> str:
    """Return the queue of the workers that have a definition, by its SHA-256; "": of all."""
    return f"{queue}/{sha}" if sha else queue


def start_options(workflow_id: str, queue: str) -> JsonDict:
    """Return the options with which a workflow is started, or found if it is under way."""
    return {
        "id": workflow_id,
        "task_queue": queue,
        "task_timeout": _TASK,
        "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
    }
