"""Handlers of the host, at the points of a turn."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.redaction import redacted
from llm_fsm.turn import failures
from llm_fsm.turn.agreement import withheld
from llm_fsm.turn.effects import HandlerResult, HandlerResults, Point, RunHandlers
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.turn_state import RunTo, TurnState, result_of


def run(
    turn: TurnState,
    point: Point,
    *,
    target: str | None = None,
    updated: Iterable[str] = (),
    text: str | None = None,
    only: frozenset[str] = frozenset(),
) -> RunTo[tuple[HandlerResult, ...]]:
    if not turn.host.points or not (only or point in turn.host.points):
        return ()
    effect = RunHandlers(
        point=point,
        session=turn.session,
        number=len(turn.events),
        target=target,
        updated=frozenset(updated),
        text=text,
        only=only,
    )
    found = yield from result_of(effect, HandlerResults)
    for result in found.results:
        turn.elapsed += result.seconds
        if result.error is not None:
            failures.record(turn, result.failed)
            error = redacted(turn.secrets(), result.error)
            turn.emit(ev.HandlerFailed(handler=result.handler, point=point.value, error=error))
        # Taken one after the other: each handler has seen the changes of those before it.
        session = turn.session
        names = session.system_names()
        for event in accept_host(turn.keys, session.context, result.changes, names=names):
            turn.emit(made_by(turn, event, result.handler, point.value))
    return found.results


def made_by(turn: TurnState, event: ev.Event, name: str, at: str = "") -> ev.Event:
    """Note in an event who makes keys that are made of others, and the point of a handler."""
    if not isinstance(event, ev.ContextSet):
        return event
    makes = not turn.keys.made_of.keys().isdisjoint(event.values)
    return structs.replace(event, by=name if makes else event.by, at=at)


def vetoed(turn: TurnState, move: Move) -> RunTo[str | None]:
    """The reason of the first handler that forbids a move, or that changed what a yes is to; the
    refusal is noted.
    """
    for result in (yield from run(turn, Point.PRE_TRANSITION, target=move.target)):
        if result.veto is not None:
            turn.emit(ev.MoveRefused(target=move.target, reason=result.veto, by="veto"))
            return result.veto
    # A handler may have changed what was read back, so the yes is judged again.
    unmet = withheld(turn.machine, turn.session, move)
    if unmet is None:
        return None
    sentence, reason = unmet
    turn.emit(ev.MoveRefused(target=move.target, reason=reason, by="agrees", sentence=sentence))
    return reason


def holds(turn: TurnState, move: Move) -> bool:
    """Return true if the conditions of a move hold. The error of one goes on record."""
    found = verdict(move, turn.session.data())
    if found.error is not None:
        turn.emit(ev.ConditionFailed(transition=move.pointer, reason=found.error))
    return found.holds


def first_allowed(turn: TurnState, moves: Iterable[Move]) -> RunTo[Move | None]:
    """The first move whose conditions hold and that no handler forbids."""
    for move in moves:
        if holds(turn, move) and (yield from vetoed(turn, move)) is None:
            return move
    return None
