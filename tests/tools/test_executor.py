from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llm_fsm.tools.executor import CallFault, run_batch
from llm_fsm.turn.effects import PlannedCall, ToolResult

pytestmark = pytest.mark.anyio


def call(name: str, **changes: Any) -> PlannedCall:
    return PlannedCall(**{"id": name, "name": name, "arguments": {}, "key": name, **changes})


class Log:
    """Performs calls and notes when each begins and ends; a call waits once for each of its
    letters.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def perform(self, call: PlannedCall, limit: float) -> Any:
        self.lines.append(f"+{call.name}")
        for _ in call.name:
            await asyncio.sleep(0)
        self.lines.append(f"-{call.name}")
        return call.name


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        ("a b", "+a -a +b -b"),
        ("A* B*", "+A +B -A -B"),
        ("a B* C* d", "+a -a +B +C -B -C +d -d"),
        ("A* b C*", "+A -A +b -b +C -C"),
        ("", ""),
    ],
)
async def test_neighbours_that_are_parallel_run_at_once_and_all_else_in_order(names, lines):
    log = Log()
    calls = [call(name.rstrip("*"), parallel="*" in name) for name in names.split()]
    results = await run_batch(calls, log.perform, state="s")
    assert log.lines == lines.split()
    assert [result.value for result in results.results] == [item.name for item in calls]


async def test_results_stand_in_the_order_of_the_calls_whoever_ends_first():
    calls = [call("slowest", parallel=True), call("ok", parallel=True)]
    results = await run_batch(calls, Log().perform, state="s")
    assert [result.name for result in results.results] == ["slowest", "ok"]


@pytest.mark.parametrize(
    ("own", "left", "limit"),
    [(None, None, 60.0), (5.0, None, 5.0), (90.0, 30.0, 30.0), (None, 2.0, 2.0)],
)
async def test_a_call_may_take_what_is_said_of_it_and_never_more_than_is_left(own, left, limit):
    seen = []

    async def perform(call: PlannedCall, limit: float) -> None:
        seen.append(limit)

    await run_batch([call("a", timeout=own)], perform, state="s", timeout=left)
    assert seen == [pytest.approx(limit, abs=0.5)]


async def test_results_can_be_kept_and_given_again():
    kept: dict[str, ToolResult] = {}
    log = Log()

    async def around(call, perform):
        if call.key not in kept:
            kept[call.key] = await perform()
        return kept[call.key]

    calls = [call("a"), call("b", parallel=True), call("c", parallel=True)]
    first = await run_batch(calls, log.perform, state="s", around=around)
    again = await run_batch(calls, log.perform, state="s", around=around)
    assert first.results == again.results
    assert log.lines == ["+a", "-a", "+b", "+c", "-b", "-c"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_what_keeps_results_may_stop_the_batch(parallel):
    async def around(call, perform):
        if call.name == "b":
            raise OSError("the disk is full")
        return await perform()

    log = Log()
    calls = [call(name, parallel=parallel) for name in ("aaaaaaaa", "b", "cccccccc")]
    with pytest.raises(OSError, match="disk is full"):
        await run_batch(calls, log.perform, state="s", around=around)
    assert "-cccccccc" not in log.lines


@pytest.mark.parametrize(("at_most_once", "unknown"), [(True, True), (False, False)])
async def test_a_call_that_was_lost_is_of_unknown_outcome_where_it_must_not_be_repeated(
    at_most_once, unknown
):
    async def perform(call: PlannedCall, limit: float) -> None:
        raise CallFault("it went away", lost=True)

    results = await run_batch([call("a", at_most_once=at_most_once)], perform, state="s")
    assert results.results[0].unknown is unknown
    assert results.results[0].error == "it went away"
