"""The ways of a run into another flow and back: subflows with a context of their own, and
digressions.

What it comes back to is the session's stack. A subflow ends in a final state of its definition, or
with a task that leads nowhere. A digression ends in any state that leads nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm.session import events as ev
from llm_fsm.session.context import EXTRA, MAX_EXTRA_KEYS, Keys, uphold
from llm_fsm.session.session import Origins, Session
from llm_fsm.session.values import reserved_fault
from llm_fsm.turn import assignments, handlers, tasks
from llm_fsm.turn.backtracking import handed_on
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move, labelled, reads
from llm_fsm.turn.output_mapping import mapped
from llm_fsm.turn.rest import rest
from llm_fsm.turn.turn_state import Run, RunTo, Stop, TurnState


def count_step(turn: TurnState) -> Stop | None:
    """Count one move without the user. Return a Stop when the limit of such moves is reached."""
    most = turn.root.limits.auto_steps
    # Without this limit two automatic transitions could lead to each other for ever.
    if turn.auto_steps + turn.spent_before.get("auto_steps", 0) >= most:
        turn.emit(ev.LimitReached(limit="auto_steps", value=most))
        return Stop("limited")
    turn.auto_steps += 1
    return None


def begin(turn: TurnState) -> Run:
    """Begin the definition that the current state calls, with what it is given."""
    state, name = turn.state, turn.state.calls
    called = turn.root.flows[name]
    values, refused = mapped(called.keys, turn.keys, turn.session, state.definition.input)
    kept, broken = _upheld(called.keys, values, turn.session)
    origins = turn.session.origins
    sources = {
        key: _writer(origins, source)
        for key, source in state.definition.input.items()
        if key in kept
    }
    # The session of the caller goes onto the stack, where a redaction would no longer find its
    # secrets.
    keep_secrets(turn)
    turn.emit(
        ev.FlowPushed(
            kind="subflow",
            state=state.id,
            flow=name,
            entered=called.definition.initial_state,
            context=kept,
            sources=sources,
            history=True,
        )
    )
    turn.emit_all((*refused, *broken))
    yield from assignments.run(turn, turn.state.assignment)
    yield from handlers.run(turn, Point.POST_TRANSITION)


def _upheld(keys: Keys, values: JsonMap, session: Session) -> tuple[JsonMap, tuple[ev.Event, ...]]:
    """Return the values that a flow may begin with by the rules of its keys, and the refusals of
    the others.
    """
    given = ev.ContextSet(source="flow", values=values)
    kept: JsonMap = {}
    refused: list[ev.Event] = []
    for event in uphold(keys, {}, given, session.system_names()):
        match event:
            case ev.ContextSet():
                kept = event.values
            case ev.ContextRefused():
                refused.append(replace(event, told=True))
    return kept, tuple(refused)


def come_back(turn: TurnState, how: str) -> RunTo[Move | Stop | None]:
    """Come back to the topmost place. A flow that was cancelled gives nothing back.

    Returns:
        The move that follows a subflow, or a Stop if none does. None after a digression.
    """
    frame, ended = turn.session.stack[-1], turn.session.state
    # A cancelled flow has no result: its values may be half of an answer.
    if frame.kind == "digression" or how == "cancelled":
        leave(turn, how)
    else:
        give_back(turn, how)
    yield from assignments.remake(turn)
    if frame.kind == "digression":
        return None
    return (yield from tasks.follow(turn, ended) if how != "cancelled" else _after_cancelling(turn))


def give_back(turn: TurnState, how: str = "final") -> None:
    """Come back to the topmost place, with what the flow gives back."""
    session, left = turn.session, turn.machine
    # The place is left first, so that the values are judged by the keys of the caller.
    leave(turn, how)
    values, refused = mapped(turn.keys, left.keys, session, turn.state.definition.output)
    _write(turn, values, session.origins)
    _carry_facts(turn, session)
    turn.emit_all(refused)


def _after_cancelling(turn: TurnState) -> RunTo[Move | Stop]:
    """Find the move that follows a cancelled flow, by its label or by a condition on what it gives
    back.

    Nothing is begun by a way on that says neither: the run is stuck.
    """
    state = turn.state
    moves = labelled(state.moves, "cancelled")
    # If no move has a label or a condition, the one way on is that of a flow that was not
    # cancelled.
    chooses = any(move.on or move.guards for move in moves)
    possible: list[Move] = []
    for move in moves:
        if move.on == "cancelled":
            possible.append(move)
        elif chooses and (not move.guards or reads(move, state.definition.output)):
            begins_work = rest(turn.root, turn.session, move).kind == "task"
            if not begins_work:  # nobody asked for it, but for an end
                possible.append(move)
    found = yield from handlers.first_allowed(turn, possible)
    return found or Stop("stuck")


def leave(turn: TurnState, how: str) -> None:
    """Come back to the topmost place, and take nothing along."""
    session, frame = turn.session, turn.session.stack[-1]
    keep_secrets(turn)
    turn.emit(
        ev.FlowReturned(
            kind=frame.kind,
            state=frame.saved["state"],
            ended=session.state,
            flow=session.flow if frame.kind == "subflow" else "",
            how=how,
            history=True,
        )
    )


def leave_down_to(turn: TurnState, place: int, how: str) -> None:
    """Leave everything from a place on the stack upwards, so that its definition is at work."""
    while len(turn.session.stack) > place:
        leave(turn, how)


def _write(turn: TurnState, values: JsonMap, origins: Origins) -> None:
    """Write what a flow gives back. Each value counts as written by whoever wrote it there."""
    written: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        source = _writer(origins, turn.state.definition.output[key])
        keys = turn.keys
        owner = keys.sources.get(key, "model")
        reason = reserved_fault(keys.reserved, key, value) if source == "model" else None
        if owner not in ("model", source):
            reason = f"only {owner} may write this key, and the value came from {source}"
        if reason is None:
            written.setdefault(source, {})[key] = value
        else:
            turn.emit(ev.ContextRefused(key=key, reason=reason, source="flow"))
    for source, found in written.items():
        turn.emit(ev.ContextSet(source=source, values=found))


def _carry_facts(turn: TurnState, left: Session) -> None:
    """Keep the facts without a key that the user told in a flow. Older ones give way where there
    are too many.
    """
    told = left.context.get(EXTRA)
    if not isinstance(told, Mapping) or not told:
        return
    known = turn.session.context.get(EXTRA) or {}
    # The newest facts stand last, so that the cut drops the oldest.
    whole = {**{name: known[name] for name in known if name not in told}, **told}
    kept = dict(list(whole.items())[-MAX_EXTRA_KEYS:])
    if kept != known:
        turn.emit(ev.ContextSet(source="model", values={EXTRA: kept}))


def hand_on(turn: TurnState, before: Session) -> None:
    """Give the flows that were called what has changed of the answers that they were given, through
    all of them.
    """
    places = turn.session.callers()
    for place in reversed(places):
        values = handed_on(turn.root, before, turn.session, place)
        # The nearest caller's values belong to the definition at work; those of others are on the
        # stack.
        if values and place == places[0]:
            turn.emit(ev.ContextSet(source="model", values=values))
        elif values:
            inner = places[places.index(place) - 1]
            turn.emit(ev.AnswersChanged(frame=inner, values=values))


def keep_secrets(turn: TurnState) -> None:
    """Remember the secrets of the flow that is about to be left. No history of this turn shows
    them.
    """
    turn.left_secrets |= {*turn.keys.secret_values(turn.session.context)}


def _writer(origins: Origins, name: str) -> str:
    """Return who wrote what a name refers to; the unknown counts as a model's, which may write
    least.
    """
    _, source = origins.get(name) or origins.get(name.split(".", 1)[0]) or (0, "model")
    return source
