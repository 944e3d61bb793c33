"""The keys that a definition writes itself: `set` and `clear`, when a transition is taken or a state is entered.

All rules of one `set` read the context as it was before. Then keys are cleared, and then the values are written. A
rule that gives null clears its key.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from llm_fsm.conditions.compiler import ConditionError
from llm_fsm.session import events as ev
from llm_fsm.session.context import MAX_KEYS, Keys
from llm_fsm.turn import handlers
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Assignment
from llm_fsm.turn.output_mapping import value_fault
from llm_fsm.turn.turn_state import Run, TurnState


def run(turn: TurnState, *assignments: Assignment | None, kept: Container[str] = ()) -> Run:
    """Set and clear keys, one assignment after the other, and tell handlers what changed.

    Args:
        turn: The turn, in the state that was entered.
        assignments: What is set and cleared; None: nothing.
        kept: Keys that stay as they are.
    """
    updated: set[str] = set()
    for assignment in assignments:
        if assignment is None:
            continue
        for event in changes(turn.machine.keys, turn.session.context, turn.session.data(), assignment, kept):
            turn.emit(event)
            if isinstance(event, ev.ContextSet):
                updated.update(event.values, event.removed)
    if updated and turn.points:
        yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=updated)


def changes(
    keys: Keys,
    context: Mapping[str, Any],
    data: Mapping[str, Any],
    assignment: Assignment,
    kept: Container[str] = (),
) -> Iterable[ev.Event]:
    """Return what an assignment writes: at most one ContextSet, and a ContextRefused for each value that is refused."""
    values: dict[str, Any] = {}
    removed = [key for key in assignment.clear if key in context and key not in kept]
    refused: list[ev.Event] = []
    for key, rule in assignment.rules.items():
        if key in kept:
            continue
        try:
            value = rule(data)
        except ConditionError as error:
            refused.append(ev.ContextRefused(key=key, reason=f"its rule fails: {error.reason}", source="definition"))
            continue
        if value is None:
            removed += [key] if key in context and key not in removed else []
            continue
        reason = value_fault(keys, key, value)
        if keys.is_secret(key):
            reason = reason and "its schema refuses the value"
        elif not isinstance(value, bool) and any(keys.is_secret(name) for name in rule.reads):
            reason = "its rule reads a secret key, and this key is not secret"
        if reason is None and key not in context and len(context) + len(values) >= MAX_KEYS:
            reason = f"the context holds {MAX_KEYS} keys already"
        if reason is not None:
            refused.append(ev.ContextRefused(key=key, reason=reason, source="definition"))
        elif key not in context or context[key] != value or type(context[key]) is not type(value):
            values[key] = value
        elif key in removed:
            removed.remove(key)
    removed = [key for key in removed if key not in values]
    if values or removed:
        yield ev.ContextSet(source="definition", values=values, removed=tuple(removed))
    yield from refused

