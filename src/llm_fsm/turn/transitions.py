"""How a run goes on by itself: through autos, deciding states and tasks, to the first state that waits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from llm_fsm.session import events as ev
from llm_fsm.session.context import CLEAR, EXTRA, accept_reply
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn import assignments, handlers, response, subflows, summaries, tasks
from llm_fsm.turn.backtracking import Correction, correction, outside
from llm_fsm.turn.effects import Effect, Point, Result
from llm_fsm.turn.guards import HANDOVER, Move
from llm_fsm.turn.turn_state import Run, TurnState


def settle(turn: TurnState, *, step: bool = False) -> Run:
    """Go on to the first state that waits, for the user or for an answer. `step`: no further than past one task."""
    yield from assignments.remake(turn)
    while not turn.state.rests:
        was_task = turn.state.kind == "task"
        if not (yield from _step_on(turn)) or (step and was_task):
            return
        yield from assignments.remake(turn)


def _step_on(turn: TurnState) -> Generator[Effect, Result, bool]:
    """Go one step on without the user; False where the run waits or goes no further."""
    state = turn.state
    by = state.kind if state.kind in ("decide", "task") else "auto"
    if state.kind == "final":
        return bool(turn.session.stack) and (yield from return_from(turn))
    if state.kind == "subflow":
        return (yield from _call(turn))
    if state.kind == "task":
        given = turn.session.input
        move = yield from tasks.work(turn)
        if move is not None and _repeats(turn, state.id, given):
            return False
    else:
        move = yield from handlers.first_allowed(turn, state.moves if state.kind == "decide" else state.autos)
        if move is None and state.kind == "decide":
            turn.stopped = "stuck"
        elif move is None and state.kind == "wait":
            _wait(turn)
    return (yield from go(turn, move, by))


def go(turn: TurnState, move: Move | None, by: str) -> Generator[Effect, Result, bool]:
    """Make the move, if there is one. A flow that has passed comes back. False where the run goes no further."""
    if move is not None:
        return (yield from step(turn, move, by))
    if turn.stopped == "passed" and turn.session.stack:
        turn.stopped = ""
        return (yield from return_from(turn))
    return False


def _call(turn: TurnState) -> Generator[Effect, Result, bool]:
    """Begin the flow of the current state; False when the limit of such moves is reached."""
    if not subflows.count_step(turn):
        return False
    yield from subflows.begin(turn)
    response.say_fixed(turn)
    return True


def return_from(turn: TurnState, how: str = "final") -> Generator[Effect, Result, bool]:
    """Come back from a flow or a digression, and go on from there; False where the run goes no further."""
    if not subflows.count_step(turn):
        return False
    before, frame = turn.session, turn.session.stack[-1]
    move = yield from subflows.come_back(turn, how)
    if frame.kind == "subflow":
        return (yield from go(turn, move, "flow"))
    if frame.caller is not None:
        subflows.hand_on(turn, before)
        if (yield from _reconsider_callers(turn, before)):
            return True
    turn.reopened = frame
    if not (yield from _reconsider(turn, frame)):
        response.say_fixed(turn)
    return True


def step(turn: TurnState, move: Move, by: str) -> Generator[Effect, Result, bool]:
    """One move without the user; False when the limit of such moves is reached."""
    if not subflows.count_step(turn):
        return False
    yield from enter(turn, move, by)
    return True


def enter(turn: TurnState, move: Move, by: str, given: Mapping[str, Any] | None = None) -> Run:
    """Make a move. `given`: what a reply says about the definition that it leads into."""
    if turn.state.definition.summarize and turn.summaries and not _answers_at_once(turn, move):
        yield from summaries.summarise_left(turn)
    place = turn.session.open_places().get(move.target) if move.place is None else move.place
    if place is not None:
        flow = turn.session.flow_at(place)
        if (yield from _resume(turn, place)):
            if given and turn.session.flow == flow:
                yield from apply_update(turn, given)
            return
    else:
        if move.returns and not turn.session.is_in(move.target):
            _leave_open(turn, move.target, move.caller)
        if move.pointer == HANDOVER:  # a person goes on there: nobody comes back to what was left open
            while turn.session.stack and turn.session.stack[-1].in_place:
                subflows.leave(turn, "handover")
        exhausted = move.pointer.endswith("/on_exhausted")
        turn.emit(
            ev.StateEntered(
                state=move.target,
                previous=turn.session.state,
                by="exhausted" if exhausted else by,
                transition=move.pointer,
                on_path=(turn.has("correct") or turn.has("back"))
                and not move.returns
                and not turn.session.in_digression(),
            )
        )
    if given:
        yield from apply_update(turn, given)
    yield from assignments.run(turn, move.assignment, None if place is not None else turn.state.assignment)
    if turn.points:
        yield from handlers.run(turn, Point.POST_TRANSITION)
    yield from assignments.remake(turn)
    response.say_fixed(turn)


def _answers_at_once(turn: TurnState, move: Move) -> bool:
    """True for a digression that is told of at once, which leaves its state for no further message."""
    there = turn.machine.states.get(move.target) if move.caller is None else None
    return move.returns and there is not None and there.kind == "final"


def apply_update(turn: TurnState, update: Mapping[str, Any]) -> Run:
    """Keep what a reply says, as far as the definition at work lets it."""
    extra = update.get(EXTRA)
    turn.keep_secrets({**extra, **update} if isinstance(extra, dict) else update)
    changed: set[str] = set()
    for event in accept_reply(turn.machine.keys, turn.session.context, update, turn.session.begun):
        turn.emit(event)
        if isinstance(event, ev.ContextSet):
            changed.update(event.values, event.removed)
    if changed:
        yield from assignments.update(turn, changed)


def _reconsider(turn: TurnState, frame: Frame) -> Generator[Effect, Result, bool]:
    """Back on the way: True where an answer that was changed meanwhile leads back to where it is decided again."""
    session = turn.session
    changed = tuple(
        key for key, value in frame.before.items() if session.context.get(key) != value and not key.startswith("_")
    )
    if not changed or not turn.has("correct"):
        return False
    found = correction(turn.machine, replace(session, context=frame.before), session, changed)
    if found is None:
        return False
    yield from _turn_back_and_go_on(turn, found, changed)
    return True


def _reconsider_callers(turn: TurnState, before: Session) -> Generator[Effect, Result, bool]:
    """As `reconsider`, for the definitions that wait: where one of them is led another way, its flow is left."""
    for place, changed, found in outside(turn.root, before, turn.session) if turn.has("correct") else ():
        if found is not None:
            while len(turn.session.stack) > place:
                subflows.leave(turn, "corrected")
            yield from _turn_back_and_go_on(turn, found, changed)
            return True
    return False


def _turn_back_and_go_on(turn: TurnState, found: Correction, changed: tuple[str, ...]) -> Run:
    """Turn back where nothing was open, and go on from there where one way is left."""
    turn.reopened, turn.turned_back = None, True
    yield from turn_back(turn, found, changed, named=False)
    if found.on is not None:
        yield from enter(turn, found.on, "correct")
    else:
        response.say_fixed(turn)


def turn_back(turn: TurnState, found: Correction, changed: tuple[str, ...], *, named: bool) -> Run:
    """To where the way is decided again, without what was collected on the way that is no longer taken."""
    here, context = turn.session.state, turn.session.context
    dropped = tuple(key for key in found.dropped if key in context)
    turn.emit(ev.Corrected(keys=changed, named=named, back_to=found.state, dropped=dropped))
    if dropped:
        turn.emit(ev.ContextSet(source="model", removed=dropped))
    turn.emit(ev.StateEntered(state=found.state, previous=here, by="correct", on_path=True))
    yield from assignments.run(turn, turn.state.assignment, kept=changed)
    yield from handlers.run(turn, Point.POST_TRANSITION)
    yield from assignments.remake(turn)


def go_back(turn: TurnState, state: str, keys: Sequence[str]) -> Run:
    """To an earlier state, whose answers under these keys are open again."""
    yield from apply_update(turn, {CLEAR: list(keys)})
    skipped = tuple(key for key in keys if key in turn.session.skipped)
    if skipped:
        turn.emit(ev.ContextSet(source="user", removed=skipped))
    if state != turn.session.state:
        turn.emit(ev.StateEntered(state=state, previous=turn.session.state, by="back", on_path=True))
        yield from assignments.run(turn, turn.state.assignment)
        yield from handlers.run(turn, Point.POST_TRANSITION)
        yield from assignments.remake(turn)


def _resume(turn: TurnState, place: int) -> Generator[Effect, Result, bool]:
    """Come back to an open state that was named, on the way out of other definitions, too.

    A digression that is left for the way itself is done with, and so is a flow that is left. True where an
    answer that was changed meanwhile leads another way.
    """
    if not turn.session.stack[place].main:
        _leave_open(turn)
    while place not in turn.session.open_frames():
        session = turn.session
        border = len(session.stack) - len(session.open_frames()) - 1
        if session.stack[border].kind == "subflow":
            while len(turn.session.stack) > border:
                subflows.leave(turn, "resumed")
            continue
        subflows.keep_secrets(turn)
        _come_back_to(turn, border)
        before = session.lowered(border)
        subflows.hand_on(turn, before)
        if (yield from _reconsider_callers(turn, before)):
            return True
        if border == place:
            return (yield from _reconsider(turn, session.stack[border]))
        if place > (session.stack[border].caller or 0):
            place += len(session.stack) - border - 1
        if place in turn.session.open_frames():
            _leave_open(turn)
    return (yield from _reconsider(turn, _come_back_to(turn, place)))


def _come_back_to(turn: TurnState, place: int) -> Frame:
    """Be back at a place on the stack that a digression left open, whatever lies above it."""
    frame = turn.reopened = turn.session.stack[place]
    state, here = frame.saved["state"], turn.session.state
    turn.emit(ev.FlowReturned(kind="digression", state=state, ended=here, how="resumed", frame=place, history=True))
    return frame


def _leave_open(turn: TurnState, entered: str = "", caller: int | None = None) -> None:
    """Put the current state on the stack, to come back to. `entered`: the digression that begins; see `Frame`."""
    here, asked, wanted = turn.session.state, response.last_question(turn), response.keys_asked_for(turn)
    if caller is not None:
        subflows.keep_secrets(turn)
    turn.emit(
        ev.FlowPushed(
            kind="digression", state=here, entered=entered, asked=asked, wanted=wanted, caller=caller, history=True
        )
    )


def _repeats(turn: TurnState, state: str, given: Any) -> bool:
    """True, and noted, when this task made the same of the same before: no progress."""
    session = turn.session
    whole = [session.flow, state, session.context, given, session.input, session.memory, session.shared]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    if digest in turn.work_seen:
        turn.stopped = "limit"
        turn.emit(ev.LimitReached(limit="no_progress", value=1))
        return True
    turn.work_seen |= {digest}
    return False


def _wait(turn: TurnState) -> None:
    """Park the run in a state that waits."""
    state, now = turn.state.definition, turn.moment
    turn.pause(
        kind="wait",
        what=state.wait_for or state.purpose or state.description or turn.state.id,
        schema=state.answer_schema,
        expires=None if state.timeout is None else now + state.timeout,
        reminders=tuple(now + seconds for seconds in sorted(set(state.remind))),
    )
