"""A process that stands still keeps its conversations for a while only, and writes nothing when it
wakes up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from llm_fsm.stores.base import Commit
from llm_fsm.stores.postgresql import store as postgresql
from llm_fsm.stores.postgresql.store import PostgreSQLStore

pytestmark = pytest.mark.anyio
ZOMBIE = """
import asyncio, sys
from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit
from llm_fsm.stores.postgresql import store as postgresql
postgresql.BEAT_SECONDS = 0.3

async def main(url, name):
    store = postgresql.PostgreSQLStore(url)
    async with store.lock(name, 30):
        await store.journal(name, 0, '{"kind": "message"}')
        print("locked", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for write in (
            store.journal(name, 1, '{"kind": "late"}'),
            store.save(Commit(conversation_id=name, expected=0, session='"late"', record='"late"')),
            store.forget_journal(name),
        ):
            try:
                await write
            except StoreError:
                print("refused", flush=True)
            else:
                print("written", flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("again", range(int(os.environ.get("LLM_FSM_ZOMBIES", "2"))))
async def test_a_process_that_stands_still_loses_its_conversation_and_writes_nothing(
    again, postgresql_url, monkeypatch
):
    monkeypatch.setattr(postgresql, "FROZEN_SECONDS", 1.0)
    name = f"frozen-{again}"
    arguments = [sys.executable, "-c", ZOMBIE, postgresql_url, name]
    store = PostgreSQLStore(postgresql_url)
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zombie:
        assert zombie.stdout.readline() == "locked\n"
        zombie.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        async with store.lock(name, 20):
            assert time.monotonic() - began < 20
            await store.save(
                Commit(conversation_id=name, expected=0, session='"mine"', record='"mine"')
            )
            zombie.send_signal(signal.SIGCONT)
            said, _ = await asyncio.to_thread(zombie.communicate, "go on\n", 60)
        assert said.split() == ["refused"] * 3
    loaded = await store.load(name)
    assert (loaded.session, loaded.version, await store.journalled(name)) == ('"mine"', 1, ())
    await store.delete(name)
    await store.close()


async def test_a_process_that_lives_keeps_its_conversation_however_long_others_wait(
    postgresql_url, monkeypatch
):
    monkeypatch.setattr(postgresql, "FROZEN_SECONDS", 1.0)
    monkeypatch.setattr(postgresql, "BEAT_SECONDS", 0.2)
    store, other = PostgreSQLStore(postgresql_url), PostgreSQLStore(postgresql_url)
    async with store.lock("held", 5):
        await store.journal("held", 0, "{}")
        with pytest.raises(Exception, match="held") as caught:
            async with other.lock("held", 2.5):
                pass
        assert caught.value.retryable
        assert await other.unfinished() == ()
        await store.save(Commit(conversation_id="held", expected=0, session="{}", record="{}"))
    assert (await other.load("held")).version == 1
    await store.delete("held")
    await store.close()
    await other.close()
