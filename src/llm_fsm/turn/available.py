"""The options of a reply: what it may do here, whether that is open, and where it may arrive.

A move may arrive behind its target, through states that decide and transitions that are taken by
themselves. Nothing here is text of a prompt: `prompt/options.py` writes the options down, and the
`offline` model reads the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from llm_fsm._json import JsonMap
from llm_fsm.session.session import Session
from llm_fsm.turn.agreement import withheld
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import HANDOVER, Move, lacks_answer, may_hold, surely_holds
from llm_fsm.turn.next_step import Enter, NextStep, Rest, Return, lacking, next_steps
from llm_fsm.turn.turn_state import TurnState

_FORESEEN = 100
"""The most moves in a row that a menu looks ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDigression:
    """A digression that a definition offers in what it calls, or a place that it left open."""

    move: Move
    program: CompiledMachine

    def data_in(self, session: Session) -> JsonMap:
        """Return the values that its conditions read: those of the definition that offers it."""
        return {} if self.move.caller is None else session.of_caller(self.move.caller).data()

    def is_open(self, session: Session) -> bool:
        """Return True when its conditions hold. No reply of this definition can change what they
        read.
        """
        return may_hold(self.move, self.data_in(session), lambda _: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that a reply may name, beside the current state and the patterns.

    Attributes:
        kind: `own`: a transition of the state. `left_open`: a state of this definition that a
            digression left open.
            `beside`: a digression or an open place of another definition.
        move: The move.
        target: The state that it leads to.
        is_open: True if its conditions hold, or could hold after a reply.
        back_to: The state that an end comes back to, in a digression; None if an end is one.
        arrivals: The states in which it may arrive.
    """

    kind: Literal["own", "left_open", "beside"]
    move: Move
    target: CompiledState
    is_open: bool
    back_to: CompiledState | None = None
    arrivals: frozenset[str] = frozenset()

    @property
    def is_offered(self) -> bool:
        """True if a reply can pick it: it is open, and the program does not take it by itself."""
        return self.is_open and not self.goes_on

    @property
    def goes_on(self) -> bool:
        """True if the program takes it by itself, once its conditions hold."""
        return self.kind == "own" and self.move.auto and not self.move.agrees


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableMoves:
    """The menu of one call.

    Attributes:
        options: All options, closed ones included, in the order of priority.
        valid: The states that are offered now, the current one last.
        open: The pointers of the open transitions of the state.
        arrivals: A state that may be named, and the states whose words a reply may speak. The
            current one has those to which the program goes on by itself, too.
        further: States that may be named although no transition of this state leads there.
        patterns: The patterns that may be named.
        asides: What other definitions offer, by state.
    """

    options: tuple[Option, ...] = ()
    valid: tuple[str, ...] = ()
    open: frozenset[str] = frozenset()
    arrivals: Mapping[str, frozenset[str]]
    further: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    asides: Mapping[str, OfferedDigression]


def no_moves(state: CompiledState) -> AvailableMoves:
    """Return the menu of a call that may not move."""
    return AvailableMoves(valid=(state.id,), arrivals={}, asides={})


def asides(root: CompiledMachine, session: Session) -> dict[str, OfferedDigression]:
    """Return what other definitions offer here, by state.

    They offer the places that they left open, and the digressions of those that wait.
    A state of the definition at work hides one of the same name, and so does one of a nearer
    caller.
    """
    offered: dict[str, OfferedDigression] = {}
    if not session.stack:
        return offered
    here = root.of(session)
    # Open places first: naming one means going back there.
    for state, number in session.places_beyond().items():
        if state not in here.states:
            move = Move(pointer="", target=state, place=number)
            offered[state] = OfferedDigression(
                move=move, program=root.named(session.flow_at(number))
            )
    for place in session.callers():
        machine = root.of(session.of_caller(place))
        for move in machine.asides:
            # The nearest caller comes first, so its name hides that of a farther one.
            if move.target not in here.states and move.target not in offered:
                offered[move.target] = OfferedDigression(
                    move=replace(move, caller=place), program=machine
                )
    return offered


def available_here(turn: TurnState) -> AvailableMoves:
    """Return what a reply may do where a turn is."""
    return available_moves(turn.machine, turn.session, asides(turn.root, turn.session))


def available_moves(
    machine: CompiledMachine,
    session: Session,
    beside: Mapping[str, OfferedDigression] | None = None,
) -> AvailableMoves:
    """Return what a reply in the current state may do.

    Args:
        machine: The machine at work.
        session: The session.
        beside: What other definitions offer here, as `asides` returns it; None for nothing.
    """
    beside = beside or {}
    state = machine.states[session.state]
    own = tuple(_own_options(machine, session, state, beside))
    further: tuple[Option, ...] = ()
    if session.stack:
        reached = {option.move.target for option in own if option.is_open}
        further = (
            *_left_open(machine, session, state, reached),
            *(_option_beside(session, state, aside) for aside in beside.values()),
        )

    names: dict[str, None] = {}
    arrivals = {state.id: frozenset((state.id,))}
    for option in (*own, *further):
        if not option.is_open:
            continue
        # The option of the highest priority is the one that naming the state takes.
        arrivals.setdefault(option.move.target, option.arrivals)
        if option.goes_on:
            # The program moves on by itself after the reply, so its words may speak for those
            # states, too.
            arrivals[state.id] |= option.arrivals
        else:
            names[option.move.target] = None
    return AvailableMoves(
        options=(*own, *further),
        valid=(*names, state.id),
        open=frozenset([option.move.pointer for option in own if option.is_open]),
        arrivals=arrivals,
        further=tuple([option.move.target for option in further]),
        patterns=tuple([name for name in machine.named_patterns if name not in names]),
        asides=beside,
    )


def _own_options(
    machine: CompiledMachine,
    session: Session,
    state: CompiledState,
    beside: Mapping[str, OfferedDigression],
) -> Iterator[Option]:
    """Yield the transitions of a state to others."""
    data = session.data()
    left: str | None = None
    outer: CompiledState | None = None
    if session.stack:
        left = next(iter(session.open_places()), None)
        outer = _left_beyond(session, beside) if left is None else machine.states[left]
    for move in state.moves:
        # The current state is always on the menu, as the last name.
        if move.target == state.id:
            continue
        target = machine.states[move.target]
        # What needs an answer or a yes is not offered: naming it could only be refused.
        unmet = withheld(machine, session, move) if move.agrees else None
        closed = unmet is not None or lacks_answer(session, move)
        if closed or not may_hold(move, data, machine.keys.is_free):
            yield Option(kind="own", move=move, target=target, is_open=False)
            continue
        # An end leads to where the innermost digression began.
        back_to = outer
        if move.returns:
            back_to = state
        elif move.pointer == HANDOVER and left is not None:
            back_to = None  # a person goes on there, and nobody comes back
        # An end beyond this definition is no arrival here: the definition that left a place open
        # speaks there.
        inside = back_to is not None and (move.returns or left is not None)
        back = back_to.id if back_to is not None and inside else None
        arrivals = _arrivals(machine, move.target, data, set(), back, left=state.id)
        yield Option(
            kind="own",
            move=move,
            target=target,
            is_open=True,
            back_to=back_to,
            arrivals=frozenset(arrivals),
        )


def _left_open(
    machine: CompiledMachine, session: Session, state: CompiledState, reached: set[str]
) -> Iterator[Option]:
    """Yield the states of this definition that a digression left open, and that no open transition
    leads to.
    """
    for name in session.open_places():
        if name not in reached and name != state.id:
            yield Option(
                kind="left_open",
                move=Move(pointer="", target=name),
                target=machine.states[name],
                is_open=True,
                arrivals=frozenset((name,)),
            )


def _option_beside(session: Session, state: CompiledState, aside: OfferedDigression) -> Option:
    """Return what another definition offers. Its end comes back to the current state."""
    target = aside.program.states[aside.move.target]
    ends = aside.move.place is None and target.kind == "final"
    return Option(
        kind="beside",
        move=aside.move,
        target=target,
        is_open=aside.is_open(session),
        back_to=state if ends else None,
        arrivals=frozenset((state.id if ends else target.id,)),
    )


def _left_beyond(session: Session, beside: Mapping[str, OfferedDigression]) -> CompiledState | None:
    """Return the state that an end comes back to after a digression out of another definition; else
    None.
    """
    frame = session.stack[-1]
    aside = beside.get(frame.saved["state"]) if frame.kind == "digression" else None
    if aside is None or aside.move.place is None:
        return None
    return aside.program.states[aside.move.target]


def _possible_steps(
    machine: CompiledMachine, state: CompiledState, data: JsonMap, left: str, *, called: bool
) -> Iterator[NextStep]:
    """Yield what may follow on arrival.

    Nothing comes after a step that follows in any case. No state counts as answered: a reply may
    ask in any.

    Args:
        machine: The machine at work.
        state: The state of arrival.
        data: The values that conditions read.
        left: The state that this one is reached from.
        called: True if an end comes back to another state.
    """
    there = {
        **data,
        "_current_state": state.id,
        "_previous_state": left,
        # On arrival these names begin anew, and conditions must be judged by that.
        "_turns_in_state": 0,
        "_misses": 0,
    }

    def is_free(key: str) -> bool:
        # may be set on the way
        return key.partition(".")[0] in machine.assigned or machine.keys.is_free(key)

    def opens(move: Move) -> bool:
        return may_hold(move, there, is_free)

    for step in next_steps(state, called=called, opens=opens, known=lambda: None):
        yield step
        # A step that surely comes hides all that would follow it.
        if not isinstance(step, Enter) or surely_holds(step.move, there, is_free):
            return


def _arrivals(
    machine: CompiledMachine,
    target: str,
    data: JsonMap,
    seen: set[tuple[str, str]],
    back: str | None,
    *,
    left: str,
    steps: int = 0,
) -> set[str]:
    """Return the states in which a move out of `left` may arrive; in a digression, an end comes
    back to `back`.

    `steps`: the moves before it. The machine makes no more of them by itself than its limit says.
    """
    # A definition may allow more moves than can be looked through.
    most = min(machine.limits.auto_steps, _FORESEEN)
    # Pairs, not states: a state that was reached from elsewhere may lead on otherwise.
    if (left, target) in seen or steps > most:
        return set()
    seen.add((left, target))
    reached: set[str] = set()
    for step in _possible_steps(
        machine, machine.states[target], data, left, called=back is not None
    ):
        match step:
            case Enter(Move(target=further)):
                steps_on = steps + 1
                reached |= _arrivals(
                    machine, further, data, seen, back, left=target, steps=steps_on
                )
            case Rest():
                reached.add(target)
            case Return() if back is not None:
                reached.add(back)
    return reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The contents of the next question to the model, where a conversation talks; all empty
    elsewhere.

    `open`: states and repair patterns that its reply may name, in the order of the menu, without
    the state itself. `missing`: keys that are collected here and not known yet. `shown`: keys whose
    values it is shown.
    """

    open: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def ahead(root: CompiledMachine, session: Session) -> Ahead:
    """Return what the next question of this conversation holds."""
    machine = root.of(session)
    state = machine.states[session.state]
    if state.kind != "converse" or session.ended or session.pause is not None:
        return Ahead()
    available = available_moves(machine, session, asides(root, session))
    scope = state.definition.context_scope
    return Ahead(
        open=tuple(name for name in (*available.valid, *available.patterns) if name != state.id),
        missing=lacking(session, state),
        shown=tuple(machine.keys.visible(session.context, None if scope is None else scope.read)),
    )
