"""The place where a move comes to rest.

A transition names a state. The machine may go on from there by itself: through states that decide,
automatic transitions and answered states. The ends of digressions and subflows lead on, too. `rest`
repeats `next_step.next_steps` with the values of a session, without asking anybody. Every rule
about ends, tasks and ways back uses its result instead of the named target. It needs the values
that decide: before a reply has given them, `available` says where a move may arrive.
"""

from __future__ import annotations

from typing import NamedTuple

from llm_fsm.definition.names import Kind
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Session
from llm_fsm.turn.assignments import changes
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Assignment, Move, labelled, newly_open, open_moves, verdict
from llm_fsm.turn.next_step import Call, Enter, NextStep, Return, Work, lacking, next_steps
from llm_fsm.turn.output_mapping import mapped

_HORIZON = 25
"""Answered states that are looked through at once.

An end beyond them makes no difference to the next step, because the last answered state before it
asks. Without a horizon each of a thousand steps would look through all that follow.
"""
Places = frozenset[tuple[str, str]]
"""Flows and states."""


class RestingPlace(NamedTuple):
    """The place in which a move comes to rest. A task rests until its output is known."""

    flow: str
    state: str
    kind: Kind

    @property
    def talks(self) -> bool:
        """True if the user is asked there before anything else happens."""
        return self.kind == "converse"


def rest(root: CompiledMachine, session: Session, move: Move) -> RestingPlace:
    """Return where a move comes to rest. Every rule about ends, tasks and ways back asks this
    function.

    Args:
        root: The machine that was started.
        session: The session before the move. It has the values that decide.
        move: A move of the current state.
    """
    place = session.open_places().get(move.target) if move.place is None else move.place
    if place is not None:  # a state that was left open talks, whatever is known
        flow = session.flow_at(place)
        return RestingPlace(flow, move.target, root.named(flow).states[move.target].kind)
    return _come_to_rest(root, _entered(root, session, move), frozenset())


def way_on(root: CompiledMachine, session: Session, asked: Places = frozenset()) -> Move | None:
    """Return the move that goes on from a state on arrival, because all that it asks for is known.

    It is the way taken before, or else the one guarded transition that holds. It must come to rest
    where the user is asked. Tasks that only compute may lie on the way. A state that collects
    nothing, or says `"ask": "always"`, is always asked. A subflow is passed only by the way taken
    before.

    Args:
        root: The machine that was started.
        session: The session on arrival.
        asked: Places that ask in any case. No way leads on to them.
    """
    if (session.flow, session.state) in asked:
        return None
    move = _known_way(root, session)
    return move if move is not None and _leads_to_talk(root, session, move, asked) else None


def opened_way(root: CompiledMachine, before: Session, after: Session) -> Move | None:
    """Return the one way out of a state that the values of a message opened.

    It was closed before them. All that the state collects is known, and nobody has to judge the
    way or to say yes to it. As in `way_on`, it comes to rest where the user is asked.

    Args:
        root: The machine that was started.
        before: The session before the values.
        after: The session after them, in the same state.
    """
    state = root.of(after).states[after.state]
    # While something is missing, the state asks on, whatever is open.
    if lacking(after, state):
        return None
    opened = newly_open(state.own, before.data(), after.data())
    # The first of several moves to one state: it is the one of the highest priority.
    if len({move.target for move in opened}) != 1 or opened[0].asks_model or opened[0].agrees:
        return None
    return opened[0] if _leads_to_talk(root, after, opened[0], frozenset()) else None


def _leads_to_talk(root: CompiledMachine, session: Session, move: Move, asked: Places) -> bool:
    """Return true if a move comes to rest where the user is asked: in none of these places, and not
    where it began.
    """
    # A way back to where it began would ask the same question again.
    passed = asked | {(session.flow, session.state)}
    there = _come_to_rest(root, _entered(root, session, move), passed, computing=True)
    return there.talks and there[:2] not in passed


def _known_way(root: CompiledMachine, session: Session) -> Move | None:
    """Return the way on from a state whose answers are known, wherever it leads."""
    state = root.of(session).states[session.state]
    answered = (
        _is_answered(session, state) if state.kind == "converse" else _has_given(session, state)
    )
    if not answered:
        return None
    data = session.data()
    taken = (
        move for move in state.moves if (session.flow, state.id, move.pointer) in session.taken
    )
    # The way that was taken before comes first: a correction elsewhere should not change it.
    again = next(taken, None)
    if again is not None and not (again.returns or again.agrees) and verdict(again, data).holds:
        return again
    # The way on from a subflow was picked by its end, which is not known any more.
    if state.kind != "converse":
        return None
    certain = [move for move in open_moves(state.own, data) if move.guards and not move.asks_model]
    if len({move.target for move in certain}) != 1 or certain[0].agrees:
        return None
    return certain[0]


def _is_answered(session: Session, state: CompiledState) -> bool:
    return bool(state.collects) and state.definition.ask != "always" and not lacking(session, state)


def _has_given(session: Session, state: CompiledState) -> bool:
    """Return true for a subflow whose output is known, and not older than what it was given."""
    output, given = state.definition.output, state.definition.input.values()
    if (
        state.kind != "subflow"
        or not output
        or not all(has(session.context, key) for key in output)
    ):
        return False
    turns = {key: number for key, (number, _) in session.origins.items()}
    # Turns tell the age of values. A key that was never set counts as the oldest.
    changed = max((turns.get(name.split(".", 1)[0], 0) for name in given), default=0)
    return changed <= min(turns.get(key.split(".", 1)[0], 0) for key in output)


def _come_to_rest(
    root: CompiledMachine, session: Session, asked: Places, *, computing: bool = False
) -> RestingPlace:
    """Return the place in which the machine stops without the user.

    Answered states are passed as long as the way ends where the user is asked. If it ends
    elsewhere, the last answered state asks. If `computing`, tasks that only compute may lie on the
    way.
    """
    answered: RestingPlace | None = None
    steps = passed = 0
    while True:
        here = _place(root, session)
        step = _foreseen_step(root, session, asked)
        following = _after(root, session, step, computing=computing)
        # The machine makes no more steps by itself, so looking further would promise too much.
        if following is None or steps == root.limits.auto_steps:
            break
        steps += 1
        if here.talks and isinstance(step, Enter) and step.known:
            # A form that is met again asks, so a round of known forms ends.
            asked |= {here[:2]}
            answered = here
            steps = 0  # the limit is for steps that nobody's answers led to
            passed += 1
            if passed == _HORIZON:
                break
        session = following
    return here if here.talks or answered is None else answered


def _place(root: CompiledMachine, session: Session) -> RestingPlace:
    return RestingPlace(session.flow, session.state, root.of(session).states[session.state].kind)


def _foreseen_step(root: CompiledMachine, session: Session, asked: Places) -> NextStep:
    """Return the step that follows by the values of a session; nobody is there who could forbid it."""
    state = root.of(session).states[session.state]

    def opens(move: Move) -> bool:
        return verdict(move, session.data()).holds

    def known() -> Move | None:
        if state.kind == "converse" and (session.flow, session.state) in asked:
            return None
        return _known_way(root, session)

    return next(next_steps(state, called=bool(session.stack), opens=opens, known=known))


def _after(
    root: CompiledMachine, session: Session, step: NextStep, *, computing: bool
) -> Session | None:
    """Return the session after a step; None if the run waits there, or nobody knows what follows."""
    match step:
        case Work(move) if move is not None and computing and verdict(move, session.data()).holds:
            return _entered(root, session, move)
        case Enter(move):
            return _entered(root, session, move)
        case Call():
            return _called(root, session)
        case Return():
            return _returned(root, session)
    return None


def _entered(root: CompiledMachine, session: Session, move: Move) -> Session:
    """Return the session after a move, and after what it sets and clears."""
    # In the digression already, its own move to its beginning is a plain one.
    if move.returns and not session.is_in(move.target):
        begun = ev.FlowPushed(
            kind="digression", state=session.state, entered=move.target, caller=move.caller
        )
        session = apply(session, begun)
    # Without a transition, the look ahead adds nothing to the path.
    entered = ev.StateEntered(state=move.target, previous=session.state, by="auto", transition="")
    session = _set(root, apply(session, entered), move.assignment)
    return _set(root, session, root.of(session).states[session.state].assignment)


def _set(root: CompiledMachine, session: Session, assignment: Assignment | None) -> Session:
    """Return the session after keys were set and cleared."""
    if assignment is None:
        return session
    return fold(
        session, changes(root.of(session).keys, session.context, session.data(), assignment)
    )


def _called(root: CompiledMachine, session: Session) -> Session:
    """Return the session at the beginning of the subflow that the state calls."""
    machine = root.of(session)
    state = machine.states[session.state]
    called = root.flows[state.calls]
    values, _ = mapped(called.keys, machine.keys, session, state.definition.input)
    initial = called.definition.initial_state
    begun = ev.FlowPushed(
        kind="subflow", state=state.id, flow=state.calls, entered=initial, context=values
    )
    return _set(root, apply(session, begun), called.states[initial].assignment)


def _returned(root: CompiledMachine, session: Session) -> Session | None:
    """Return the session at the topmost place, and past it if a subflow ended."""
    frame, ended, before = session.stack[-1], session.state, session
    left = root.of(session)
    place = frame.saved["state"]
    session = apply(session, ev.FlowReturned(kind=frame.kind, state=place, ended=ended))
    if frame.kind == "digression":
        return session
    machine = root.of(session)
    state = machine.states[place]
    values, _ = mapped(machine.keys, left.keys, before, state.definition.output)
    session = apply(session, ev.ContextSet(source="model", values=values))
    move = next(open_moves(labelled(state.moves, ended), session.data()), None)
    return None if move is None else _entered(root, session, move)
