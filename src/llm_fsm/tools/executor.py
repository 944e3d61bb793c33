"""Performing a batch of tool calls: in what order, within what time, and errors as data."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from llm_fsm._async import in_thread, in_words, is_async, is_cancelled
from llm_fsm._text import nearest
from llm_fsm.errors import told
from llm_fsm.turn.effects import PlannedCall, ToolResult, ToolResults
from llm_fsm.turn.tool_arguments import ArgumentsFault

TIMEOUT = 60.0
"""Seconds that a call may take when nobody says otherwise."""

MAX_ERROR = 2000
"""Characters of an error that a model is told."""

GRACE = 1.0
"""Seconds that a coroutine has for stopping when it is cancelled."""

Perform: TypeAlias = Callable[[], Awaitable[ToolResult]]
Around: TypeAlias = Callable[[PlannedCall, Perform], Awaitable[ToolResult]]


class CallFault(Exception):
    """A call cannot be performed; the message tells the model why.

    `refused`: nothing was called. `lost`: whoever was called went away or did not end in time, and nobody knows
    whether it acted.
    """

    def __init__(self, message: str, *, refused: bool = False, lost: bool = False) -> None:
        self.refused = refused
        self.lost = lost
        super().__init__(message)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """That there is no such tool, with the one that was probably meant."""
    names = list(known)
    guess = nearest(name, names)
    hint = f"did you mean {guess!r}?" if guess else f"there are {', '.join(names) or 'none'}"
    return f"there is no tool {name!r}; {hint}"


def out_of_scope(name: str, state: str, scope: tuple[str, ...] | None) -> str:
    where = ", ".join(scope or ()) or "no state"
    return f"the tool {name!r} cannot be called in state {state!r}, only in {where}"


async def run_batch(
    calls: Sequence[PlannedCall],
    perform: Callable[[PlannedCall, float], Awaitable[Any]],
    *,
    state: str,
    timeout: float | None = None,
    around: Around | None = None,
) -> ToolResults:
    """Perform calls in order, neighbours that are all parallel at once, and give their results in that order.

    `perform` makes one call within so many seconds and raises what went wrong. `timeout`: seconds left for the
    whole batch. `around` is given each call and what performs it, and may keep the result or give one that was
    kept; what it raises stops the batch and is raised here.
    """
    began = time.monotonic()
    ends = math.inf if timeout is None else began + timeout

    async def one(call: PlannedCall) -> ToolResult:
        limit = min(TIMEOUT if call.timeout is None else call.timeout, ends - time.monotonic())

        async def outcome() -> ToolResult:
            return await _outcome(call, state, perform, limit)

        return await outcome() if around is None else await around(call, outcome)

    results: list[ToolResult] = []
    for group in _groups(calls):
        results += [await one(group[0])] if len(group) == 1 else await _at_once([one(call) for call in group])
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
    tasks: list[asyncio.Task[ToolResult]] = [asyncio.ensure_future(item) for item in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _outcome(
    call: PlannedCall,
    state: str,
    perform: Callable[[PlannedCall, float], Awaitable[Any]],
    limit: float,
) -> ToolResult:
    """What a call brought back, an error as data."""
    began = time.monotonic()
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
    except ArgumentsFault as fault:
        error = CallFault(str(fault), refused=True)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as raised:
        error = CallFault(told(raised))
    return ToolResult(
        id=call.id,
        name=call.name,
        error=readable(str(error)),
        seconds=time.monotonic() - began,
        unknown=error.lost and call.at_most_once,
        refused=error.refused,
    )


def readable(error: str) -> str:
    """An error as a model is told it: of bounded length, and text that can be stored."""
    text = error.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= MAX_ERROR:
        return text
    return f"{text[:MAX_ERROR]}… [{len(text) - MAX_ERROR} characters missing]"


async def called(limit: float, function: Callable[[], Any], name: str) -> Any:
    """What a function of the host gives within `limit` seconds; a plain one runs in a thread of this name.

    Raises what the function raises, and CallFault when the time is over.
    """
    if is_async(function):
        return await _bounded(limit, function())
    began = time.monotonic()
    try:
        async with asyncio.timeout(None if limit == math.inf else limit) as timer:  # a task costs more
            value = await in_thread(function, name)
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise _given_up(limit) from error
    if not inspect.isawaitable(value):
        return value
    return await _bounded(limit, _awaited(value), time.monotonic() - began)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _bounded(limit: float, waiting: Coroutine[Any, Any, Any], spent: float = 0.0) -> Any:
    """Await for at most `limit` seconds, of which some are spent; what does not stop when cancelled is left to itself.

    What it gives in the moment that it has for stopping counts.
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
        raise _given_up(limit)
    value, error = task.result()
    if error is None:
        return value
    raise error if in_time else _given_up(limit) from error


async def _ended(waiting: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """What a coroutine gives or raises; a task that raises SystemExit would end the loop."""
    try:
        return await waiting, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


def _given_up(limit: float) -> CallFault:
    return CallFault(f"it did not finish within {in_words(limit)} seconds, and was given up", lost=True)
