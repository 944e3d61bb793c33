"""Perform a batch of tool calls: their order, their time limits, and errors as data."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from llm_fsm._async import cancel_all, in_thread, in_words, is_async, is_cancelled
from llm_fsm._text import suggestion
from llm_fsm.errors import told
from llm_fsm.tools.failures import failure_of
from llm_fsm.turn.effects import PlannedCall, ToolResult, ToolResults
from llm_fsm.turn.tool_arguments import ArgumentsFault

TIMEOUT = 60.0
"""Seconds for a call by default."""

MAX_ERROR = 2000
"""The most characters of an error that a model reads."""

GRACE = 1.0
"""Seconds for a cancelled coroutine to stop."""

Perform: TypeAlias = Callable[[], Awaitable[ToolResult]]
Around: TypeAlias = Callable[[PlannedCall, Perform], Awaitable[ToolResult]]


class CallFault(Exception):
    """A call cannot be performed. The message tells the model why.

    Attributes:
        refused: Nothing was called.
        lost: The callee disappeared, or did not end in time. It is unknown if it acted.
    """

    def __init__(self, message: str, *, refused: bool = False, lost: bool = False) -> None:
        self.refused = refused
        self.lost = lost
        super().__init__(message)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Say that there is no such tool, with the most similar name.

    Args:
        name: The name that was asked for.
        known: The names that exist.

    Returns:
        A sentence without a full stop.
    """
    return f"there is no tool {name!r}; {suggestion(name, known)}"


def out_of_scope(name: str, state: str, scope: tuple[str, ...] | None) -> str:
    """Say that a tool cannot be called in a state, and where it can.

    Args:
        name: The tool.
        state: Id of the current state.
        scope: Ids of the states in which it can be called.

    Returns:
        A sentence without a full stop.
    """
    where = ", ".join(scope or ()) or "no state"
    return f"the tool {name!r} cannot be called in state {state!r}, only in {where}"


async def run_batch(
    calls: Sequence[PlannedCall],
    perform: Callable[[PlannedCall, float], Awaitable[Any]],
    *,
    state: str,
    timeout: float | None = None,
    around: Around | None = None,
    function_of: Callable[[PlannedCall], object] = lambda _: None,
) -> ToolResults:
    """Perform calls in order. Neighbours that are all parallel run at once.

    Args:
        calls: The calls.
        perform: Makes one call within a number of seconds. It raises any error.
        state: Id of the current state; a call with a scope must include it.
        timeout: Seconds for the whole batch; None: no limit.
        around: Receives each call with the function that performs it. It may keep the result, or
            return a kept one.
        function_of: Returns the host's function of a call, whose place is named if it fails.

    Returns:
        The results in the order of the calls; errors are results.

    Raises:
        Exception: `around` raised this error. It stops the batch.
    """
    began = time.monotonic()
    ends = math.inf if timeout is None else began + timeout

    async def one(call: PlannedCall) -> ToolResult:
        limit = min(TIMEOUT if call.timeout is None else call.timeout, ends - time.monotonic())

        async def outcome() -> ToolResult:
            return await _outcome(call, state, perform, limit, function_of)

        return await outcome() if around is None else await around(call, outcome)

    results = []
    for group in _groups(calls):
        results += (
            [await one(group[0])]
            if len(group) == 1
            else await _at_once([one(call) for call in group])
        )
    return ToolResults(results=tuple(results), elapsed=time.monotonic() - began)


def _groups(calls: Sequence[PlannedCall]) -> Iterator[list[PlannedCall]]:
    group: list[PlannedCall] = []
    for call in calls:
        if group and not (call.parallel and group[-1].parallel):
            yield group
            group = []
        group.append(call)
    if group:
        yield group


async def _at_once(waiting: Iterable[Any]) -> list[ToolResult]:
    tasks = [asyncio.ensure_future(item) for item in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancel_all(tasks)


async def _outcome(
    call: PlannedCall,
    state: str,
    perform: Callable[[PlannedCall, float], Awaitable[Any]],
    limit: float,
    function_of: Callable[[PlannedCall], object],
) -> ToolResult:
    """Perform a call, and return an error as data."""
    began = time.monotonic()
    failed = None
    try:
        if call.scope is not None and state not in call.scope:
            raise CallFault(out_of_scope(call.name, state, call.scope), refused=True)  # noqa: TRY301
        if limit <= 0:
            raise CallFault("no time was left for this call; it was not made", refused=True)  # noqa: TRY301
        value = await perform(call, limit)
        return ToolResult(id=call.id, name=call.name, value=value, seconds=time.monotonic() - began)
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        error = CallFault("the call was cancelled")
    except CallFault as fault:
        error = fault
        if fault.lost:
            failed = failure_of("tool", call.name, fault, function_of(call))
    except ArgumentsFault as fault:
        error = CallFault(str(fault), refused=True)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as raised:
        error = CallFault(told(raised))
        failed = failure_of("tool", call.name, raised, function_of(call))
    return ToolResult(
        id=call.id,
        name=call.name,
        error=readable(str(error)),
        seconds=time.monotonic() - began,
        unknown=error.lost and call.at_most_once,
        refused=error.refused,
        failed=failed,
    )


def readable(error: str) -> str:
    """Return an error as a model reads it: of bounded length, and storable as UTF-8."""
    text = error.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= MAX_ERROR:
        return text
    return f"{text[:MAX_ERROR]}… [{len(text) - MAX_ERROR} characters missing]"


async def called(limit: float, function: Callable[[], Any], name: str) -> Any:
    """Call a function of the host and wait for its value.

    Args:
        limit: Seconds that it may take; infinity: no limit.
        function: A function without arguments. An async one runs on the loop, a plain one in a
            thread.
        name: Name of that thread.

    Returns:
        The value, unchanged.

    Raises:
        CallFault: The time is over.
        Exception: The function raised this error.
    """
    if is_async(function):
        return await _bounded(limit, function())
    began = time.monotonic()
    try:
        # a task costs more
        async with asyncio.timeout(None if limit == math.inf else limit) as timer:
            value = await in_thread(function, name)
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise given_up(limit) from error
    if not inspect.isawaitable(value):
        return value
    return await _bounded(limit, _awaited(value), time.monotonic() - began)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _bounded(limit: float, waiting: Coroutine[Any, Any, Any], spent: float = 0.0) -> Any:
    """Await for at most `limit` seconds, some of which are spent. A coroutine that does not stop
    after cancelling is left alone.

    A result while it stops still counts.
    """
    if limit == math.inf:
        return await waiting
    task = asyncio.create_task(_ended(waiting))
    try:
        await asyncio.wait({task}, timeout=limit - spent)
        in_time = task.done()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE)
    if not task.done() or (task.cancelled() and not in_time):
        raise given_up(limit)
    value, error = task.result()
    if error is None:
        return value
    raise error if in_time else given_up(limit) from error


async def _ended(waiting: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Return the value or the error of a coroutine, because a task that raises SystemExit would end
    the loop.
    """
    try:
        return await waiting, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


def given_up(limit: float) -> CallFault:
    """Return the fault of a call that took too long."""
    return CallFault(
        f"it did not finish within {in_words(limit)} seconds, and was given up", lost=True
    )
