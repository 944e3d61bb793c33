"""The clauses about writers at the same time, one function each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import ListQuery, Loaded, Store
from llm_fsm.testing.store_contract.documents import (
    Checks,
    expect,
    expect_error,
    expect_loaded,
    expect_steps,
    turn,
)

Loser = Callable[[Store, str], Awaitable[None]]
"""Makes a store lose the lock of a conversation, like a broken connection or an expired lease."""
SETTLE = 0.05
"""Seconds after which a task has surely requested a lock."""


async def expect_busy(what: str, store: Store, name: str) -> None:
    """Raise AssertionError if a short wait for the lock does not end with a retryable StoreError."""
    try:
        await _enter(store, name, SETTLE)
    except StoreError as error:
        expect(f"{what}: retryable", error.retryable, True)
        return
    raise AssertionError(f"{what}: expected StoreError after the timeout, found the lock free")


async def expect_free(what: str, store: Store, name: str) -> None:
    """Raise AssertionError if the lock is not free within five seconds."""
    try:
        await _enter(store, name, 5)
    except StoreError as error:
        raise AssertionError(f"{what}: expected a free lock, found: {error}") from error


async def a_lock_has_one_holder(store: Store) -> None:
    """While one writer holds the lock, no other gets it."""
    inside = 0
    most = 0

    async def enter() -> None:
        nonlocal inside, most
        async with store.lock("c"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(enter() for _ in range(20)))
    expect("holders at the same time", most, 1)


async def conversations_do_not_wait_for_each_other(store: Store) -> None:
    """A lock is for one conversation."""
    async with store.lock("a"), store.lock("b", timeout=5), store.lock("A", timeout=5):
        await store.save(turn("a", 1))


async def a_lock_goes_to_who_asked_first(store: Store) -> None:
    """Waiting writers are served in the order in which they asked."""
    served = []

    async def enter(number: int) -> None:
        async with store.lock("c"):
            served.append(number)

    async with store.lock("c"):
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(enter(number)))
            await asyncio.sleep(SETTLE)
        expect("served before the release", served, [])
    await asyncio.gather(*tasks)
    expect("the order", served, list(range(5)))


async def waiting_for_a_lock_ends(store: Store) -> None:
    """After the timeout there is a retryable StoreError. A writer that gave up blocks nobody."""
    async with store.lock("c"):
        await expect_busy("held", store, "c")
        await expect_busy("held still", store, "c")
    await expect_free("after the release", store, "c")


async def an_error_gives_the_lock_back(store: Store) -> None:
    """The lock ends with its block, also by an exception."""
    found = None
    try:
        async with store.lock("c"):
            json.loads("not JSON")
    except json.JSONDecodeError as error:
        found = type(error)
    expect("the holder's error", found, json.JSONDecodeError)
    await expect_free("after the error", store, "c")


async def a_cancelled_holder_gives_the_lock_back(store: Store) -> None:
    """The lock ends with its block, also by cancellation."""
    entered = asyncio.Event()

    async def hold() -> None:
        async with store.lock("c"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await entered.wait()
    await _cancel(task)
    await expect_free("after the cancellation", store, "c")


async def a_cancelled_waiter_leaves_no_gap(store: Store) -> None:
    """A writer that is cancelled while it waits neither gets the lock nor keeps the next one from
    it.
    """
    served = []

    async def enter(name: str) -> None:
        async with store.lock("c"):
            served.append(name)

    async with store.lock("c"):
        first = asyncio.create_task(enter("cancelled"))
        await asyncio.sleep(SETTLE)
        second = asyncio.create_task(enter("next"))
        await asyncio.sleep(SETTLE)
        await _cancel(first)
    await asyncio.wait_for(second, 5)
    expect("served", served, ["next"])
    await expect_free("afterwards", store, "c")


async def many_writers_lose_nothing(store: Store) -> None:
    """A hundred tasks add one each, under the lock: the sum is a hundred."""

    async def add() -> None:
        async with store.lock("c", timeout=60):
            await _add_one(store)

    await asyncio.gather(*(add() for _ in range(100)))
    await expect_loaded("the sum", store, "c", "100", 100)
    expect("the records", len(await store.records("c")), 100)


async def many_conversations_at_once(store: Store) -> None:
    """Writers of different conversations neither mix nor block one another."""

    async def talk(name: str) -> None:
        for number in (1, 2, 3):
            async with store.lock(name):
                await store.save(turn(name, number, json.dumps([name, number]), f"r{number}"))

    names = [f"c{number:02}" for number in range(40)]
    await asyncio.gather(*(talk(name) for name in names))
    for name in names:
        wanted = Loaded(session=json.dumps([name, 3]), version=3, recorded=turn(name, 2).record)
        expect(f"load {name}", await store.load(name, "r2"), wanted)


async def a_closed_store_says_so(store: Store) -> None:
    """After `close`, every use raises StoreError. Closing again raises nothing."""
    await store.save(turn("c", 1))
    await store.close()
    await store.close()
    uses: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.load("c"),
        lambda: store.save(turn("c", 2)),
        lambda: store.records("c"),
        lambda: store.journal("c", 1, "{}"),
        lambda: store.journalled("c"),
        lambda: store.forget_journal("c"),
        lambda: store.list(ListQuery()),
        lambda: store.delete("c"),
        lambda: _enter(store, "c"),
    )
    for number, use in enumerate(uses):
        await expect_error(f"use {number} of a closed store", StoreError, use())


async def a_lock_holds_between_stores(store: Store, other: Store) -> None:
    """Two stores on one place have one lock for a conversation."""
    async with store.lock("c"):
        await expect_busy("the other store", other, "c")
        await expect_free("another conversation", other, "d")
    await expect_free("after the release", other, "c")


async def writers_in_two_stores_lose_nothing(store: Store, other: Store) -> None:
    """Forty tasks in two stores add one each, under the lock: the sum is forty."""

    async def add(mine: Store) -> None:
        async with mine.lock("c", timeout=60):
            await _add_one(mine)

    mine_and_other = [store, other] * 20
    await asyncio.gather(*map(add, mine_and_other))
    await expect_loaded("the sum", other, "c", "40", 40)


async def who_lost_the_lock_writes_nothing(store: Store, other: Store, lose: Loser) -> None:
    """The next holder is not disturbed by the one before, neither in the session nor in the
    journal.
    """
    async with store.lock("c", timeout=30):
        await store.save(turn("c", 1))
        await lose(store, "c")
        async with other.lock("c", timeout=30):
            await _expect_lost("save", store.save(turn("c", 2, '"late"')))
            await _expect_lost("journal", store.journal("c", 1, '"late"'))
            await expect_steps("the journal", other, "c", [])
            await other.journal("c", 1, '"mine"')
            await _expect_lost("forget_journal", store.forget_journal("c"))
            await expect_steps("the journal", other, "c", ['"mine"'])
            await other.save(turn("c", 2, '"new"'))
    async with store.lock("c", timeout=30):
        await expect_loaded("the session", store, "c", '"new"', 2)
        await store.save(turn("c", 3))


async def who_lost_another_lock_goes_on(store: Store, other: Store, lose: Loser) -> None:
    """A writer whose lost lock nobody took may write or be refused. With a later lock, it must be
    able to write.
    """
    async with store.lock("c", timeout=30):
        await lose(store, "c")
    async with other.lock("c", timeout=30):
        await other.save(turn("c", 1))
    async with store.lock("c", timeout=30):
        await store.save(turn("c", 2))


async def _expect_lost(what: str, attempt: Awaitable[None]) -> None:
    what = f"{what} without the lock"
    error = await expect_error(what, StoreError, attempt)
    expect(f"{what}: retryable", error.retryable, True)


async def _add_one(store: Store) -> None:
    loaded = await store.load("c")
    version, total = (0, 0) if loaded is None else (loaded.version, json.loads(loaded.session))
    await asyncio.sleep(0)  # lets the others run even if the store never suspends
    await store.save(turn("c", version + 1, json.dumps(total + 1)))


async def _enter(store: Store, name: str, timeout: float | None = None) -> None:
    async with store.lock(name, timeout):
        pass


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    expect("the task", task.cancelled(), True)


LOCK_CHECKS: Checks = (
    a_lock_has_one_holder,
    conversations_do_not_wait_for_each_other,
    a_lock_goes_to_who_asked_first,
    waiting_for_a_lock_ends,
    an_error_gives_the_lock_back,
    a_cancelled_holder_gives_the_lock_back,
    a_cancelled_waiter_leaves_no_gap,
    many_writers_lose_nothing,
    many_conversations_at_once,
    a_closed_store_says_so,
)
SHARED_LOCK_CHECKS: Checks = (a_lock_holds_between_stores, writers_in_two_stores_lose_nothing)
FENCED_LOCK_CHECKS: Checks = (who_lost_the_lock_writes_nothing, who_lost_another_lock_goes_on)
