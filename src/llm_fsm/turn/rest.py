"""Where a move comes to rest.

A transition names a state. The machine may go on from there by itself: through states that decide, automatic
transitions, the ends of digressions, and subflows. `rest` follows all of it without asking anybody. Every rule
about ends, tasks and ways back uses its result instead of the target that a transition names.
"""

from __future__ import annotations

from typing import NamedTuple

from llm_fsm.definition.names import Kind
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Session
from llm_fsm.turn.assignments import changes
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import Assignment, Move, labelled, verdict
from llm_fsm.turn.output_mapping import mapped


class Rest(NamedTuple):
    """The place in which a move comes to rest. A task rests until its output is known."""

    flow: str
    state: str
    kind: Kind

    @property
    def talks(self) -> bool:
        """True if the user is asked there before anything else happens."""
        return self.kind == "converse"


def rest(root: CompiledMachine, session: Session, move: Move) -> Rest:
    """Return where a move comes to rest.

    Args:
        root: The machine that was started.
        session: The session before the move.
        move: A move of the current state.
    """
    place = session.open_places().get(move.target) if move.place is None else move.place
    if place is not None:  # what was left open talks
        flow = session.flow_at(place)
        return Rest(flow, move.target, root.named(flow).states[move.target].kind)
    following: Session | None = _entered(root, session, move)
    for _ in range(root.limits.auto_steps):
        if following is None:
            break
        session = following
        following = _next(root, session)
    return Rest(session.flow, session.state, root.of(session).states[session.state].kind)


def _entered(root: CompiledMachine, session: Session, move: Move) -> Session:
    if move.returns and not session.is_in(move.target):
        begun = ev.FlowPushed(kind="digression", state=session.state, entered=move.target, caller=move.caller)
        session = apply(session, begun)
    session = apply(session, ev.StateEntered(state=move.target, previous=session.state, by="auto", transition=""))
    return _set(root, _set(root, session, move.assignment), root.of(session).states[session.state].assignment)


def _set(root: CompiledMachine, session: Session, assignment: Assignment | None) -> Session:
    """Return the session after keys were set and cleared."""
    if assignment is None:
        return session
    return fold(session, changes(root.of(session).keys, session.context, session.data(), assignment))


def _next(root: CompiledMachine, session: Session) -> Session | None:
    """Return the session one step on; None if it rests."""
    machine = root.of(session)
    state = machine.states[session.state]
    if state.kind == "final":
        return _returned(root, session) if session.stack else None
    if state.kind == "subflow":
        return _called(root, session)
    moves = () if state.kind == "task" else state.moves if state.kind == "decide" else state.autos
    data = session.data()
    move = next((move for move in moves if verdict(move, data).holds), None)
    return None if move is None else _entered(root, session, move)


def _called(root: CompiledMachine, session: Session) -> Session:
    machine = root.of(session)
    state = machine.states[session.state]
    called = root.flows[state.calls]
    values, _ = mapped(called.keys, machine.keys, session.context, state.definition.input)
    initial = called.definition.initial_state
    begun = ev.FlowPushed(kind="subflow", state=state.id, flow=state.calls, entered=initial, context=values)
    return _set(root, apply(session, begun), called.states[initial].assignment)


def _returned(root: CompiledMachine, session: Session) -> Session | None:
    """Return the session at the topmost place, and past it if a subflow ended."""
    frame, ended, context = session.stack[-1], session.state, session.context
    left = root.of(session)
    place = frame.saved["state"]
    session = apply(session, ev.FlowReturned(kind=frame.kind, state=place, ended=ended))
    if frame.kind == "digression":
        return session
    machine = root.of(session)
    state = machine.states[place]
    values, _ = mapped(machine.keys, left.keys, context, state.definition.output)
    session = apply(session, ev.ContextSet(source="model", values=values))
    data = session.data()
    move = next((move for move in labelled(state.moves, ended) if verdict(move, data).holds), None)
    return None if move is None else _entered(root, session, move)
