"""The keys that a definition writes itself: `set` and `clear`, when a transition is taken or a state is entered.

A key with `x-from` that was cleared is made again by whoever made it: the same handler, or the same rule of a `set`.

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
            turn.emit(handlers.made_by(turn, event, assignment.pointer))
            if isinstance(event, ev.ContextSet):
                updated.update(event.values, event.removed)
    if updated:
        yield from update(turn, updated)


def update(turn: TurnState, updated: Iterable[str]) -> Run:
    """Tell handlers which keys changed, and have those made again that are made of them."""
    if turn.host.points:
        yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=(*updated, *turn.outdated))
    yield from remake(turn)


def remake(turn: TurnState) -> Run:
    """Have the keys made again that were cleared because one that they are made of changed; each at most once."""
    done: set[str] = set()
    while keys := turn.outdated - turn.session.context.keys() - done:
        done |= keys
        turn.outdated -= keys
        own = turn.state.assignment
        made = dict.fromkeys(() if own is None else own.rules, ("definition", "" if own is None else own.pointer))
        makers = {key: {**made, **turn.session.made}.get(key, ("", "")) for key in sorted(keys)}
        set_again: set[str] = set()
        for place in dict.fromkeys(by for source, by in makers.values() if source == "definition"):
            for event in _again(turn, place, keys):
                turn.emit(handlers.made_by(turn, event, place))
                set_again.update(event.values if isinstance(event, ev.ContextSet) else ())
        if set_again:
            yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=set_again)
        names = frozenset(by for source, by in makers.values() if source == "host")
        if names:
            yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=keys, only=names)


def _again(turn: TurnState, place: str, keys: Container[str]) -> Iterable[ev.Event]:
    """Return what the `set` at a place of the definition gives for these keys now."""
    states = turn.machine.states.values()
    assignments = (one for state in states for one in (state.assignment, *(move.assignment for move in state.moves)))
    found = next((one for one in assignments if one is not None and one.pointer == place), None)
    if found is None:
        return ()
    rules = {key: rule for key, rule in found.rules.items() if key in keys}
    return changes(turn.machine.keys, turn.session.context, turn.session.data(), Assignment(rules=rules))


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

