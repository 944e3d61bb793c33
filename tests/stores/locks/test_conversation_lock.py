"""Stores in files keep a conversation's lock until what was written under it is over."""

from __future__ import annotations

import asyncio
import threading

import pytest

from llm_fsm.errors import StoreError
from llm_fsm.stores.file import FileStore
from llm_fsm.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_cancelled_write_holds_the_lock_until_its_thread_is_through(kind, tmp_path):
    store = SQLiteStore(tmp_path / "x.db") if kind == "sqlite" else FileStore(tmp_path / "x")
    begun, gate = threading.Event(), threading.Event()

    def slow(_):
        begun.set()
        assert gate.wait(60)

    async def write():
        async with store.lock("c"):
            await store._write(slow)

    writing = asyncio.create_task(write())
    while not begun.is_set():
        await asyncio.sleep(0.001)
    for _ in range(3):
        writing.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(StoreError, match="busy"):
        async with store.lock("c", timeout=0.0):
            pass
    assert not writing.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    async with store.lock("c", timeout=10):
        await store.journal("c", 0, "{}")
    assert list(await store.journalled("c")) == ["{}"]
    await store.close()
