"""One writer per conversation among several processes, on every store that they can share."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

import warm_parent
from llm_fsm import AsyncMachine
from llm_fsm.errors import StoreError
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.registry import resolve
from paths import SUPPORT
from store_talkers import ECHO, NAMES

pytestmark = pytest.mark.anyio
PROCESSES = str(SUPPORT.joinpath("store_processes.py"))
TALKERS = str(SUPPORT.joinpath("store_talkers.py"))
SHARED = ["sqlite", "file", "postgresql", "redis"]


@pytest.fixture(params=SHARED)
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'x.db'}"
    if request.param == "file":
        return f"file://{tmp_path / 'x'}"
    return request.getfixturevalue(f"{request.param}_url")


@contextmanager
def process(*args):
    command = [sys.executable, PROCESSES, *map(str, args)]
    with warm_parent.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


async def test_a_hundred_messages_of_four_processes_are_taken_one_by_one(url, tmp_path):
    ledger = tmp_path / "ledger"
    async with AsyncMachine.from_dict(ECHO, model="offline", store=url) as machine:
        await machine.start(conversation_id="c", greet=False)
        talkers = await asyncio.create_subprocess_exec(
            sys.executable, TALKERS, url, str(ledger), "25"
        )
        assert await talkers.wait() == 0
        records = [parse(text) for text in await machine.store.records("c")]
        loaded = await machine.store.load("c")
    said = [record.user_message.text for record in records if record.user_message]
    assert sorted(said) == sorted(f"{name} {number}" for name in NAMES for number in range(25))
    assert [record.turn for record in records] == list(range(101))
    assert loaded.version == 101
    assert len(ledger.read_text().splitlines()) == 100
    assert json.loads(loaded.session)["turn"] == 100


@pytest.mark.parametrize("role", ["hold", "fork_and_hold"])
async def test_a_lock_dies_with_its_process(url, role):
    store = resolve(url)
    with process(role, url) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(
            StoreError, match='conversation "c" is busy in another process'
        ) as caught:
            async with store.lock("c", timeout=0.02):
                pass
        assert caught.value.retryable
        async with store.lock("another", timeout=5):
            pass
        holder.send_signal(signal.SIGKILL)
        async with store.lock("c", timeout=30):
            pass
    await store.close()


async def test_a_forked_child_uses_a_store_of_its_own(url):
    with process("forked", url) as parent:
        assert parent.stdout.read().splitlines() == ["1", "2", "3"]
        assert parent.wait(60) == 0
