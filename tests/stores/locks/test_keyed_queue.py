"""One holder per key, in order of asking, whatever happens to those who wait."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.errors import StoreError
from llm_fsm.stores.locks.conversation_lock import KeyedQueue


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_a_free_key_is_taken_at_once_and_forgotten_after_use():
    queue = KeyedQueue()
    async with queue.lock("a"), queue.lock("b"):
        assert len(queue) == 2
    assert len(queue) == 0


def test_of_threads_that_take_a_free_key_at_once_one_has_it():
    for _ in range(50):
        queue, together, taken = KeyedQueue(), threading.Barrier(8), []

        def take(queue=queue, together=together, taken=taken):
            together.wait()
            taken.append(queue.take("a"))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == [False] * 7 + [True]


@pytest.mark.anyio
async def test_waiters_are_served_in_order_of_asking():
    queue = KeyedQueue()
    served = []

    async def enter(number):
        async with queue.lock("a"):
            served.append(number)
            await asyncio.sleep(0)

    async with queue.lock("a"):
        tasks = [asyncio.create_task(enter(number)) for number in range(20)]
        await settle()
        assert served == []
    await asyncio.gather(*tasks)
    assert served == list(range(20))
    assert len(queue) == 0


@pytest.mark.anyio
async def test_nobody_overtakes_between_release_and_waking():
    queue = KeyedQueue()
    served = []

    async def enter(name):
        async with queue.lock("a"):
            served.append(name)

    async with queue.lock("a"):
        first = asyncio.create_task(enter("waited"))
        await settle()
    await enter("came later")
    await first
    assert served == ["waited", "came later"]


@pytest.mark.anyio
async def test_a_timeout_says_who_is_busy_and_for_how_long_was_waited():
    queue = KeyedQueue()
    async with queue.lock('order "7"'):
        with pytest.raises(StoreError) as caught:
            await queue.acquire('order "7"', timeout=0)
    assert caught.value.retryable
    assert str(caught.value) == (
        'conversation "order "7"" is busy: an earlier message is still being answered after '
        "0.0 seconds of waiting; send it again later"
    )
    async with queue.lock('order "7"', timeout=0):
        pass
    assert len(queue) == 0


@pytest.mark.anyio
async def test_who_gives_up_leaves_the_queue_to_the_others():
    queue = KeyedQueue()
    served = []

    async def enter(name, timeout=None):
        async with queue.lock("a", timeout):
            served.append(name)

    async with queue.lock("a"):
        gives_up = asyncio.create_task(enter("timeout", 0.001))
        await settle()
        cancelled = asyncio.create_task(enter("cancelled"))
        await settle()
        stays = asyncio.create_task(enter("stays"))
        await settle()
        cancelled.cancel()
        await asyncio.wait([gives_up, cancelled])
        assert isinstance(gives_up.exception(), StoreError)
    await stays
    assert served == ["stays"]
    assert len(queue) == 0


@pytest.mark.anyio
async def test_a_waiter_cancelled_in_the_moment_of_its_turn_passes_it_on():
    queue = KeyedQueue()
    await queue.acquire("a")
    unlucky = asyncio.create_task(queue.acquire("a"))
    await settle()
    next_one = asyncio.create_task(queue.acquire("a"))
    await settle()
    queue.release("a")
    unlucky.cancel()
    await next_one
    assert unlucky.cancelled()
    queue.release("a")
    assert len(queue) == 0


@pytest.mark.anyio
async def test_a_coroutine_that_is_dropped_gives_its_key_back():
    queue = KeyedQueue()

    async def hold():
        async with queue.lock("a"):
            await asyncio.sleep(0)

    forgotten = hold()
    forgotten.send(None)
    assert len(queue) == 1
    del forgotten
    gc.collect()
    assert len(queue) == 0


def test_a_waiter_whose_event_loop_is_gone_is_passed_over():
    queue = KeyedQueue()
    gone = asyncio.new_event_loop()

    async def queue_up():
        await queue.acquire("a")
        return asyncio.ensure_future(queue.acquire("a"))

    waiting = [gone.run_until_complete(queue_up())]
    gone.run_until_complete(asyncio.sleep(0))
    gone.close()
    queue.release("a")
    assert len(queue) == 0
    waiting.pop()._log_destroy_pending = False
    gc.collect()
    assert len(queue) == 0


def test_event_loops_in_several_threads_take_turns():
    queue = KeyedQueue()
    total = 0

    async def add():
        nonlocal total
        async with queue.lock("a", timeout=60):
            before = total
            await asyncio.sleep(0)
            total = before + 1

    async def add_many():
        await asyncio.gather(*(add() for _ in range(50)))

    threads = [threading.Thread(target=asyncio.run, args=(add_many(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 200
    assert len(queue) == 0


WAITERS = st.lists(st.sampled_from(["waits", "cancelled", "timeout", "cancelled late"]), max_size=8)


@settings(deadline=None, max_examples=60)
@given(WAITERS)
def test_whoever_still_waits_is_served_in_order(kinds):
    async def scenario():
        queue = KeyedQueue()
        served = []

        async def enter(number, timeout):
            async with queue.lock("a", timeout):
                served.append(number)

        await queue.acquire("a")
        tasks = []
        for number, kind in enumerate(kinds):
            tasks.append(asyncio.create_task(enter(number, 0 if kind == "timeout" else None)))
            await settle()
        for task, kind in zip(tasks, kinds, strict=True):
            if kind == "cancelled":
                task.cancel()
        await asyncio.sleep(0.001)
        queue.release("a")
        for task, kind in zip(tasks, kinds, strict=True):
            if kind == "cancelled late":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert served == [number for number, kind in enumerate(kinds) if kind == "waits"]
        assert len(queue) == 0

    asyncio.run(scenario())
