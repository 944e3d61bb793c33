"""The keys that a definition writes itself: `set` and `clear`, when a transition is taken or a
state is entered.

A key with `x-from` that was cleared is computed again by the same handler or `set`.

All rules of one `set` read the context as it was before. Then keys are cleared, and then the values
are written. A rule that gives null clears its key.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, is_same, only
from llm_fsm.conditions.compiler import CompiledRule, ConditionError
from llm_fsm.session import events as ev
from llm_fsm.session.context import MAX_KEYS, Keys, uphold
from llm_fsm.turn import handlers
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Assignment
from llm_fsm.turn.output_mapping import read_value
from llm_fsm.turn.turn_state import Run, TurnState


def run(turn: TurnState, *assignments: Assignment | None, kept: Container[str] = ()) -> Run:
    """Set and clear keys, one assignment after the other, and run handlers with the changed keys.

    Args:
        turn: The turn, in the state that was entered.
        assignments: The assignments; None does nothing.
        kept: Keys that stay as they are.
    """
    keys = turn.keys
    updated: set[str] = set()
    for assignment in assignments:
        if assignment is None:
            continue
        context, data = turn.session.context, turn.session.data()
        for event in changes(keys, context, data, assignment, kept):
            turn.emit(handlers.made_by(turn, event, assignment.pointer))
            if isinstance(event, ev.ContextSet):
                updated.update(event.values, event.removed)
    if updated:
        yield from update(turn, updated)


def update(turn: TurnState, updated: Iterable[str]) -> Run:
    """Run handlers with the changed keys, and compute the keys that are made of them again."""
    if turn.host.points:
        yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=(*updated, *turn.outdated))
    yield from remake(turn)


def remake(turn: TurnState) -> Run:
    """Compute the keys again that were cleared because a key that they are made of changed.

    Each is computed at most once. A computed key may clear others, which are then computed as well.
    """
    done: set[str] = set()
    # Each round only takes keys that no round had, so a circle of keys ends.
    while keys := turn.outdated - turn.session.context.keys() - done:
        done |= keys
        # Taken off first: a key that is cleared again meanwhile is for the next round.
        turn.outdated -= keys
        places, names = _makers(turn, sorted(keys))
        written: set[str] = set()
        for place in places:
            for event in _again(turn, place, keys):
                turn.emit(handlers.made_by(turn, event, place))
                if isinstance(event, ev.ContextSet):
                    written.update(event.values)
        if written:
            yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=written)
        if names:
            yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=keys, only=names)


def _makers(turn: TurnState, keys: Iterable[str]) -> tuple[list[str], frozenset[str]]:
    """Return the places of each `set` that made one of these keys, in order, and the names of
    handlers that did.

    The `set` of the state makes a key that nothing has made before.
    """
    makers: dict[str, tuple[str, str]] = {}
    own = turn.state.assignment
    if own is not None:
        makers = dict.fromkeys(own.rules, ("definition", own.pointer))
    # Whoever made the key before makes it again, before the state's own rule.
    makers.update(turn.session.made)
    places: list[str] = []
    names: set[str] = set()
    for key in keys:
        source, by = makers.get(key, ("", ""))
        if source == "definition" and by not in places:
            places.append(by)
        elif source == "host":
            names.add(by)
    return places, frozenset(names)


def _again(turn: TurnState, place: str, keys: Container[str]) -> ev.Events:
    """Return the changes that the `set` at a place of the definition makes to these keys now."""
    for assignment in _assignments(turn):
        if assignment.pointer == place:
            rules = only(assignment.rules, keys)
            data = turn.session.data()
            return changes(turn.keys, turn.session.context, data, Assignment(rules=rules))
    return ()


def _assignments(turn: TurnState) -> Iterator[Assignment]:
    """Yield the assignments of all states and transitions."""
    for state in turn.machine.states.values():
        if state.assignment is not None:
            yield state.assignment
        for move in state.moves:
            if move.assignment is not None:
                yield move.assignment


def changes(
    keys: Keys, context: JsonMap, data: JsonMap, assignment: Assignment, kept: Container[str] = ()
) -> ev.Events:
    """Return the changes of an assignment: at most one ContextSet, and a ContextRefused for each
    refused value.
    """
    values: JsonDict = {}
    present = (key for key in assignment.clear if key in context)
    removed = [key for key in present if key not in kept]
    refused: list[ev.Event] = []
    for key, rule in assignment.rules.items():
        if key in kept:
            continue
        try:
            value = rule(data)
        except ConditionError as error:
            refused.append(_refused(key, f"its rule fails: {error.reason}"))
            continue
        if value is None:
            if key in context and key not in removed:
                removed.append(key)
            continue
        value, reason = _read(keys, key, rule, value)
        # A loop that invents keys must not fill the session.
        if reason is None and key not in context and len(context) + len(values) >= MAX_KEYS:
            reason = f"the context holds {MAX_KEYS} keys already"
        if reason is not None:
            refused.append(_refused(key, reason))
        elif key not in context or not is_same(context[key], value):
            values[key] = value
        elif key in removed:
            removed.remove(key)  # it is cleared and set to the value that it has
    # A key that is cleared and set in one assignment is set.
    removed = [key for key in removed if key not in values]
    if values or removed:
        change = ev.ContextSet(source="definition", values=values, removed=tuple(removed))
        yield from uphold(keys, context, change, data)
    yield from refused


def _refused(key: str, reason: str) -> ev.ContextRefused:
    return ev.ContextRefused(key=key, reason=reason, source="definition")


def _read(keys: Keys, key: str, rule: CompiledRule, value: Any) -> tuple[Any, str | None]:
    """Return the value that a key gets from its rule, and why it cannot have it; None if it can."""
    found, reason = read_value(keys, key, value)
    if keys.is_secret(key):  # the reason may quote the value
        return found, None if reason is None else "its schema refuses the value"
    reads_secret = any(keys.is_secret(name) for name in rule.reads)
    if reads_secret and not isinstance(value, bool):
        return None, "its rule reads a secret key, and this key is not secret"
    return found, reason
