"""Run the handlers of one point in order. Each sees the changes of those before it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm._text import sha256_of
from llm_fsm.engine.handlers.registry import (
    ErrorMode,
    Handler,
    Occasion,
    failure,
    occasion_key,
    occasion_of,
    run,
)
from llm_fsm.engine.journal import Journal, entry_result, result_entry
from llm_fsm.errors import told
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.turn.effects import HandlerResult, HandlerResults, RunHandlers


async def run_point(
    handlers: Iterable[Handler],
    effect: RunHandlers,
    mode: ErrorMode,
    left: Callable[[], float | None] | None,
    journal: Journal | None,
    *,
    ahead: bool,
) -> HandlerResults:
    """Run the handlers of one point in order.

    Args:
        ahead: They run before the model's reply is complete. Their results are kept until their
            turn comes.
    """
    context: JsonDict = dict(effect.session.context)
    results: list[HandlerResult] = []
    # One occasion serves all conditions until a handler changes something.
    asked: Occasion | None = None
    for handler in handlers:
        if handler.name not in effect.only if effect.only else effect.point not in handler.points:
            continue
        if handler.predicates and not effect.only:
            asked = asked or occasion_of(effect, context)
            try:
                wanted = handler.wants(asked)
            except Exception as error:
                results.append(failure(handler, effect.point, error, mode))
                continue
            if not wanted:
                continue
        # Each handler has a copy of its own, so none can change what the next one reads.
        occasion = occasion_of(effect, context, occasion_key(effect, handler.name))

        async def perform(handler: Handler = handler, occasion: Any = occasion) -> JsonMap:
            timeout = None if left is None else left()
            began = time.monotonic()
            found = await run(handler, occasion, mode=mode, timeout=timeout)
            return result_entry(_plain(found, time.monotonic() - began))

        kind = f"{effect.point.value}:{handler.name}"
        if journal is None:
            entry = await perform()
        elif ahead:
            entry = await journal.ahead(_key(kind, effect, context), perform)
        else:
            key = _key(kind, effect, context) if journal.is_ahead else ""
            entry = await journal.once(kind, perform, key=key)
        result = entry_result(entry)
        results.append(result)
        if result.changes:
            _overlay(context, result.changes)
            asked = None
        if result.text is not None:
            effect, asked = replace(effect, text=result.text), None
        # The move is forbidden, so the later handlers have nothing to say about it.
        if result.veto is not None:
            break
    return HandlerResults(results=tuple(results))


def _key(kind: str, effect: RunHandlers, context: JsonMap) -> str:
    """Return the key of this run of a handler among others in the turn."""
    occasion = [kind, effect.session.state, effect.target, sorted(effect.updated), context]
    return sha256_of(json.dumps(occasion, sort_keys=True))


def _plain(result: HandlerResult, seconds: float) -> HandlerResult:
    """Convert the changes of a handler's result to JSON. If that fails, the result becomes an
    error."""
    changes: JsonDict = {}
    faults: list[str] = []
    for key, value in result.changes.items():
        try:
            changes[str(key)] = to_json_value(value)
        except ValueFault as fault:
            faults.append(f"key {key!r}: {fault}")
        except Exception as error:  # the object has no JSON form
            faults.append(f"key {key!r}: {told(error)}")
    return replace(
        result, changes=changes, error="; ".join(faults) or result.error, seconds=seconds
    )


def _overlay(context: JsonDict, changes: JsonMap) -> None:
    for key, value in changes.items():
        if value is None:
            context.pop(key, None)
        elif not key.startswith("_"):
            context[key] = value
