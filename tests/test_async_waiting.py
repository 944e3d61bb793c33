"""A coroutine is waited for within its time."""

from __future__ import annotations

import asyncio

import pytest

from llm_fsm._async import DeadlineExceeded, in_time, in_words, played

pytestmark = pytest.mark.anyio


async def later(value: str, seconds: float = 0.0) -> str:
    for _ in range(3):
        await asyncio.sleep(seconds)
    return value


async def failing(seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    raise TimeoutError("its own")


async def test_what_has_to_be_waited_for_comes_within_its_time() -> None:
    assert await in_time(later("here"), 5) == "here"


async def test_time_that_is_over_cancels_and_says_so() -> None:
    seen: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("let go")

    with pytest.raises(DeadlineExceeded):
        await in_time(endless(), 0.01)
    assert seen == ["let go"]


async def test_a_timeout_of_the_coroutine_itself_stays_one() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        await in_time(failing(), 5)


async def test_a_cancelled_task_cancels_what_it_waits_for() -> None:
    begun, seen = asyncio.Event(), []

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(in_time(endless(), 5))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_timers_within_hold_beside_it() -> None:
    async def hasty() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "went on"
        return "never"

    assert await in_time(hasty(), 5) == "went on"


def test_seconds_are_told_without_the_dust_of_clocks() -> None:
    assert [in_words(seconds) for seconds in (0.1, 1.49959, 119.9996, 120.0, 1200.0, 86400.5)] == [
        *("0.1", "1.5", "120", "120", "1200", "86400")
    ]


async def test_a_generator_of_values_gives_its_result_and_one_of_awaitables_an_awaitable_of_it() -> (
    None
):
    def steps(first, second):
        return f"{(yield first)} {(yield second)}"

    assert played(steps("a", "b")) == "a b"
    assert await played(steps("a", later("b"))) == "a b"
    assert await played(steps(later("a"), "b")) == "a b"
    with pytest.raises(TimeoutError, match="its own"):
        await played(steps(failing(), "b"))
