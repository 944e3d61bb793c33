"""The place where a move comes to rest.

A transition names a state. The machine may go on from there by itself: through states that decide, automatic
transitions and answered states. The ends of digressions and subflows lead on, too. `rest` follows
all of it without asking anybody. Every rule about ends, tasks and ways back uses its result instead of the named
target. It needs the values that decide: before a reply has given them, `available` says where a move may arrive.
"""

from __future__ import annotations

from typing import NamedTuple

from llm_fsm.definition.names import Kind
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Session
from llm_fsm.turn.assignments import changes
from llm_fsm.turn.available import lacking
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Assignment, Move, labelled, open_moves, verdict
from llm_fsm.turn.output_mapping import mapped

Places = frozenset[tuple[str, str]]
"""Flows and states."""


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
    return _followed(root, _entered(root, session, move), frozenset())


def way_on(root: CompiledMachine, session: Session, asked: Places = frozenset()) -> Move | None:
    """Return the move that goes on from a state on arrival, because all that it asks for is known.

    It is the way taken before, or else the one guarded transition that holds. It must come to rest where the user is
    asked. A state that collects nothing, or says `"ask": "always"`, is always asked. A subflow is passed only by the
    way taken before.

    Args:
        root: The machine that was started.
        session: The session on arrival.
        asked: Places that ask in any case. No way leads on to them.
    """
    here = (session.flow, session.state)
    move = None if here in asked else _known_way(root, session)
    if move is None:
        return None
    there = _followed(root, _entered(root, session, move), asked | {here})
    return move if there.talks and there[:2] not in asked | {here} else None


def _known_way(root: CompiledMachine, session: Session) -> Move | None:
    """Return the way on from a state whose answers are known, wherever it leads."""
    state = root.of(session).states[session.state]
    if not (_is_answered(session, state) if state.kind == "converse" else _has_given(session, state)):
        return None
    data = session.data()
    again = next((move for move in state.moves if (session.flow, state.id, move.pointer) in session.taken), None)
    if again is not None and not again.returns and verdict(again, data).holds:
        return again
    if state.kind != "converse":
        return None
    certain = [move for move in open_moves(state.own, data) if move.guards and not move.asks_model]
    return certain[0] if len({move.target for move in certain}) == 1 else None


def _is_answered(session: Session, state: CompiledState) -> bool:
    return bool(state.collects) and state.definition.ask != "always" and not lacking(session, state)


def _has_given(session: Session, state: CompiledState) -> bool:
    """Return true for a subflow whose output is known, and not older than what it was given."""
    output, given = state.definition.output, state.definition.input.values()
    if state.kind != "subflow" or not output or not all(has(session.context, key) for key in output):
        return False
    turns = {key: number for key, (number, _) in session.origins.items()}
    changed = max((turns.get(name.split(".", 1)[0], 0) for name in given), default=0)
    return changed <= min(turns.get(key.split(".", 1)[0], 0) for key in output)


def _followed(root: CompiledMachine, session: Session, asked: Places) -> Rest:
    """Return where the machine comes to rest that goes on from here by itself."""
    following: Session | None = session
    for _ in range(root.limits.auto_steps):
        following = _next(root, session)
        if following is None:
            break
        session = following
    here = Rest(session.flow, session.state, root.of(session).states[session.state].kind)
    move = _known_way(root, session) if here.talks and here[:2] not in asked else None
    if move is None:
        return here
    there = _followed(root, _entered(root, session, move), asked | {here[:2]})
    return there if there.talks else here


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
    """Return the session one step on; None if it rests, or a question is asked."""
    state = root.of(session).states[session.state]
    if state.kind == "final":
        return _returned(root, session) if session.stack else None
    if state.kind == "subflow":
        again = _known_way(root, session)
        return _called(root, session) if again is None else _entered(root, session, again)
    moves = () if state.kind == "task" else state.onward
    move = next(open_moves(moves, session.data()), None)
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
    move = next(open_moves(labelled(state.moves, ended), session.data()), None)
    return None if move is None else _entered(root, session, move)
