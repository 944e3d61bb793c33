"""Temporal: batches over kills of workers and of the server, timers, messages, deletion, and a
replayed history.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from llm_fsm.durable import temporal
from llm_fsm.engine.batch import read_lines
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.registry import resolve
from paths import ROOT
from temporal_server import TemporalServer
from temporal_worker import machines
from temporal_workers import begin, end

HISTORIES = ROOT / "tests" / "data" / "temporal"
LINES = int(os.environ.get("CRASH_LINES", "30"))


def size(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


async def wait_for(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while size(path) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@asynccontextmanager
async def working(
    server: TemporalServer, store: str, ledger: Path
) -> AsyncIterator[tuple[Client, list[Any]]]:
    """A worker in this process, and a client."""
    kept: Any = temporal.ForgettingStore(resolve(store), server.address)
    made = machines(kept, str(ledger))
    told: list[str] = []
    work = temporal.work(server.address, lambda: made, told.append, every=1.0)
    task = asyncio.create_task(work)
    try:
        yield await temporal.connect(server.address), made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for machine in made:
            await machine.close()


async def is_gone(handle: WorkflowHandle[Any, Any]) -> bool:
    for _ in range(100):
        try:
            await handle.describe()
        except RPCError:
            return True
        await asyncio.sleep(0.1)
    return False


def test_a_batch_outlives_a_worker_and_the_server_that_are_killed(
    server: TemporalServer, folder: Path
) -> None:
    store, ledger = f"sqlite:///{folder}/batch.db", folder / "batch.ledger"
    text = "\n".join(
        json.dumps({"messages": [f"{number} a", f"{number} b"]}) for number in range(LINES)
    )
    batch = read_lines(text.encode(), "b", talks=True)
    results: list[dict[str, Any]] = []

    async def played() -> None:
        machine, _ = machines(store, str(ledger))
        client = await temporal.connect(server.address)
        workers = [begin(server, store, ledger) for _ in range(2)]
        playing = temporal.play_chunks(client, machine, "b", batch.lines, results.append, limit=2)
        task = asyncio.create_task(playing)
        try:
            await wait_for(ledger, 10)
            workers[0].kill()
            await wait_for(ledger, 20)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await task
        finally:
            end(workers)
            await machine.close()

    asyncio.run(played())
    assert sorted(result["line"] for result in results) == list(range(1, LINES + 1))
    for result in results:
        said = [message["content"] for message in result["messages"] if message["role"] == "user"]
        assert said == [f"{result['line'] - 1} a", f"{result['line'] - 1} b"]
    calls = Counter(ledger.read_text().splitlines())
    assert sum(calls.values()) - len(calls) <= 4  # calls under way in the worker that was killed


def test_a_time_out_happens_without_a_caller(server: TemporalServer, folder: Path) -> None:
    store, ledger = f"sqlite:///{folder}/due.db", folder / "due.ledger"

    async def ended() -> str:
        *_, waiter = machines(store, str(ledger))
        await waiter.run(conversation_id="w")
        await waiter.close()
        async with working(server, store, ledger) as (_, made):
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                if "TimedOut" in "".join(await made[1].store.records("w")):
                    return "timed out"
                await asyncio.sleep(0.2)
        return "nothing"

    assert asyncio.run(ended()) == "timed out"


def test_a_message_is_answered_once_and_deletion_takes_its_workflow(
    server: TemporalServer, folder: Path
) -> None:
    store, ledger = f"sqlite:///{folder}/send.db", folder / "send.ledger"

    async def talk() -> tuple[temporal.Done, temporal.Done, int]:
        async with working(server, store, ledger) as (client, made):
            ask = temporal.Ask("echo", "c", "send", "hello", "r1")
            first, second = [await temporal.send(client, ask) for _ in range(2)]
            calls = size(ledger)
            handle = client.get_workflow_handle("llm-fsm/c")
            await handle.describe()
            await made[0].store.delete("c")
            assert await is_gone(handle)
            return first, second, calls

    first, second, calls = asyncio.run(talk())
    assert first == second
    assert (first.text, calls) == ("I hear.", size(ledger))


def test_two_definitions_of_one_name_never_play_each_others_turns(
    server: TemporalServer, folder: Path
) -> None:
    stores = {purpose: f"sqlite:///{folder}/{purpose}.db" for purpose in ("here", "there")}
    ledgers = {purpose: folder / f"{purpose}.ledger" for purpose in stores}

    async def talk() -> None:
        client = await temporal.connect(server.address)
        echoes = {purpose: machines(stores[purpose], os.devnull, purpose)[0] for purpose in stores}
        for purpose, echo in echoes.items():
            asks = [
                temporal.Ask(
                    "echo", f"{purpose}{number}", "send", "hello", "r1", sha=echo.program.identity
                )
                for number in range(4)
            ]
            await asyncio.gather(*(temporal.send(client, ask) for ask in asks))
            lines = read_lines(b'{"messages": ["hello"]}', purpose, talks=True).lines
            results: list[dict[str, Any]] = []
            await temporal.play_chunks(client, echo, purpose, lines, results.append, limit=1)
            assert results[0]["outcome"] == "talking"
        for echo in echoes.values():
            await echo.close()

    workers = [begin(server, stores[purpose], ledgers[purpose], purpose) for purpose in stores]
    try:
        asyncio.run(talk())
    finally:
        end(workers)
    for purpose, ledger in ledgers.items():
        asked = {json.loads(line)[0] for line in ledger.read_text().splitlines()}
        assert asked == {*(f"{purpose}{number}" for number in range(4)), f"{purpose}/1"}


def test_a_conversation_is_deleted_while_temporal_is_away_and_that_is_told_once() -> None:
    said: list[str] = []
    store: Any = temporal.ForgettingStore(MemoryStore(), "127.0.0.1:1", said.append)

    async def deleted() -> list[bool]:
        _, waiter = machines(store, os.devnull)
        for name in ("a", "b"):
            await waiter.run(conversation_id=name)
        return [await store.delete(name) for name in ("a", "b", "c")]

    assert asyncio.run(deleted()) == [True, True, False]
    (only,) = said
    assert "127.0.0.1:1" in only
    assert "llm-fsm/a" in only


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_history_is_replayed(path: Path) -> None:
    """A workflow that is under way during an upgrade goes on: change activities, never workflows."""
    flows = [temporal.BatchWorkflow, temporal.RunWorkflow, temporal.ConversationWorkflow]
    replayer = Replayer(workflows=flows, workflow_runner=UnsandboxedWorkflowRunner())
    history = WorkflowHistory.from_json(path.stem, path.read_text())
    asyncio.run(replayer.replay_workflow(history))


def test_there_is_a_history_of_each_workflow() -> None:
    stored = {path.stem for path in HISTORIES.glob("*.json")}
    assert stored == {"batch", "batch-sha", "run", "conversation", "conversation-sha"}
