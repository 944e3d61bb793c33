"""The moves that a run makes by itself: through autos, deciding states and tasks, to the first
state that waits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Sequence
from functools import partial
from itertools import dropwhile
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm._text import sha256_of
from llm_fsm.session import events as ev
from llm_fsm.session.context import CLEAR, EXTRA, accept_reply
from llm_fsm.session.quotes import QUOTES
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn import assignments, breakdown, handlers, response, subflows, summaries, tasks
from llm_fsm.turn.agreement import blanks, collector, note_yes
from llm_fsm.turn.backtracking import Correction, correction, outside
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import HANDOVER, Assignment, Move
from llm_fsm.turn.next_step import Call, Enter, NextStep, Rest, Return, Work, next_steps
from llm_fsm.turn.rest import Places, way_on
from llm_fsm.turn.turn_state import (
    LIMITED,
    ORDINARY,
    TURNED_BACK,
    Arrival,
    ArrivalRun,
    MoveRun,
    Run,
    RunTo,
    Stop,
    TurnState,
)


def arrive(turn: TurnState, move: Move, by: str, *, asked: Places = frozenset()) -> ArrivalRun:
    """Make a move, and go on to where it comes to rest; see `enter` and `settle`."""
    arrival = yield from enter(turn, move, by)
    return (yield from settle(turn, arrival, asked=asked))


def follow(turn: TurnState, move: Move, by: str, given: JsonMap | None = None) -> ArrivalRun:
    """Make a move that the user wants, and go on to where it comes to rest.

    It does not lead straight back to the question that it left, unless the message answers the new
    one.
    """
    left = turn.here
    arrival = yield from enter(turn, move, by, given)
    told = {key for key, (number, _) in turn.session.origins.items() if number == turn.session.turn}
    asked = (
        frozenset()
        if arrival.back or not told.isdisjoint(turn.state.collects) or move.returns
        else {left}
    )
    return (yield from settle(turn, arrival, asked=frozenset(asked)))


def settle(
    turn: TurnState, arrival: Arrival = ORDINARY, *, step: bool = False, asked: Places = frozenset()
) -> ArrivalRun:
    """Go on to the first state that waits, for the user or for an answer, and say its fixed reply.

    Every way of arriving in a state that talks ends here: `rest.way_on` decides whether the state
    asks.

    Args:
        turn: The turn, after a move.
        arrival: How it came to the current state. It goes no further if this says so.
        step: Go no further than past one task.
        asked: Places that ask in any case.

    Returns:
        How it came to the state where it rests, with the Stop if the run goes no further.
    """
    # The loop ends: every step without the user counts against `auto_steps`, and a known form is
    # passed once, because its place is in `asked` after that.
    while arrival.stop is None:
        yield from assignments.remake(turn)
        if arrival.frame is not None and not arrival.frame.wanted:
            asked |= {turn.here}  # no value answers the question there
        at_task = turn.state.kind == "task"
        following = yield from _allowed_step(turn, asked)
        if isinstance(following, Rest):
            missing = blanks(turn.machine, turn.session)
            collected = (yield from _collect(turn, missing)) if missing else None
            if collected is None:
                _rest(turn)
                return arrival
            asked |= {turn.here}
            arrival = collected
            continue
        if isinstance(following, Enter) and following.known:
            asked |= {turn.here}
        arrived = yield from _perform(turn, following)
        if arrived is None:  # the work waits for an answer
            return arrival
        # A return or a passed form counts for the whole way, also if later steps are plain moves.
        back, passed = arrived.back or arrival.back, arrived.passed or arrival.passed
        arrival = arrived._replace(back=back, passed=passed)
        if step and at_task:
            return arrival
    return arrival


def _allowed_step(turn: TurnState, asked: Places) -> RunTo[NextStep]:
    """Return the step that follows here. A move that a handler forbids counts as closed."""

    opens = partial(handlers.holds, turn)

    def known() -> Move | None:
        return way_on(turn.root, turn.session, asked)

    for following in next_steps(
        turn.state, called=bool(turn.session.stack), opens=opens, known=known
    ):
        if (
            not isinstance(following, Enter)
            or (yield from handlers.vetoed(turn, following.move)) is None
        ):
            return following
    return Rest()


def _collect(turn: TurnState, missing: tuple[str, ...]) -> MoveRun:
    """Go where a value is collected that would be read back as a blank.

    What only the program can give is a failure of the program. None: it is collected here.
    """
    where = collector(turn.machine, turn.session, missing)
    if where == turn.state.id:
        return None
    if where is None:
        out = tasks.way_out(turn) or Stop("stuck")
        return (yield from move_or_stop(turn, out, breakdown.BY))
    _ask_again(turn, missing)
    return (yield from enter_counted(turn, Move(pointer="", target=where), "missing"))


def _ask_again(turn: TurnState, keys: Sequence[str]) -> None:
    """Let those of these keys be asked for again that the user has skipped."""
    skipped = tuple(key for key in keys if key in turn.session.skipped)
    if skipped:
        turn.emit(ev.ContextSet(source="user", removed=skipped))


def _perform(turn: TurnState, following: NextStep) -> MoveRun:
    """Perform a step and return how the run came to the next state; None if its work waits for an
    answer.
    """
    state = turn.state
    match following:
        case Enter(move, known=True):
            # Known answers are no work: a form of any length may be passed, so only subflows count.
            if state.kind == "subflow":
                return (yield from enter_counted(turn, move, "known"))
            yield from enter(turn, move, "known")
            return Arrival(passed=True)
        case Enter(move):
            by = "decide" if state.kind == "decide" else "auto"
            return (yield from enter_counted(turn, move, by))
        case Return():
            return (yield from return_from(turn))
        case Call():
            return (yield from _call(turn))
        case Work():
            given = turn.session.input
            outcome = yield from tasks.work(turn)
            # A cycle of tasks that changes nothing would use up the limits without a result.
            if isinstance(outcome, Move) and _repeats(turn, state.id, given):
                outcome = LIMITED
            if outcome is None:
                return None
            return (yield from move_or_stop(turn, outcome, "task"))
    return Arrival(stop=Stop("stuck"))


def _rest(turn: TurnState) -> None:
    """Begin to wait: for an answer, or for the user, who reads the state's fixed reply."""
    if turn.state.kind == "wait":
        _wait(turn)
    elif turn.state.kind == "converse":
        response.say_here(turn)


def move_or_stop(turn: TurnState, outcome: Move | Stop, by: str) -> ArrivalRun:
    """Make the move that some work led to, or stop. A flow that has passed comes back instead."""
    if isinstance(outcome, Move):
        return (yield from enter_counted(turn, outcome, by))
    if outcome.reason == "passed" and turn.session.stack:
        return (yield from return_from(turn))
    return Arrival(stop=outcome)


def _call(turn: TurnState) -> ArrivalRun:
    """Begin the flow of the current state, unless the limit of such moves is reached."""
    if (stop := subflows.count_step(turn)) is not None:
        return Arrival(stop=stop)
    yield from subflows.begin(turn)
    response.say_on_the_way(turn)
    return ORDINARY


def return_from(turn: TurnState, how: str = "final") -> ArrivalRun:
    """Come back from a flow or a digression, unless the limit of such moves is reached."""
    if (stop := subflows.count_step(turn)) is not None:
        return Arrival(stop=stop)
    before, frame = turn.session, turn.session.stack[-1]
    move = yield from subflows.come_back(turn, how)
    if move is not None:
        return (yield from move_or_stop(turn, move, "flow"))
    if frame.caller is not None:
        subflows.hand_on(turn, before)
        if (yield from _reconsider_callers(turn, before)):
            return TURNED_BACK
    return (yield from _reconsider(turn, frame))


def enter_counted(turn: TurnState, move: Move, by: str) -> ArrivalRun:
    """Make one move without the user, unless the limit of such moves is reached."""
    if (stop := subflows.count_step(turn)) is not None:
        return Arrival(stop=stop)
    return (yield from enter(turn, move, by))


def enter(turn: TurnState, move: Move, by: str, given: JsonMap | None = None) -> ArrivalRun:
    """Make a move. `given`: what a reply says about the definition that it leads into."""
    if turn.state.definition.summarize and turn.host.summaries and not _answers_at_once(turn, move):
        yield from summaries.summarise_left(turn)
    # The rule for failures is the started definition's, so flows that have none of their own are
    # left.
    while move.pointer == breakdown.POINTER and breakdown.must_leave(turn):
        subflows.leave(turn, "host")
    # A state that was left open is resumed, not entered anew: its question is still open.
    place = turn.session.open_places().get(move.target) if move.place is None else move.place
    arrival = ORDINARY
    if place is not None:
        flow = turn.session.flow_at(place)
        arrival = yield from _resume(turn, place)
        if arrival.frame is None:  # an answer that was changed meanwhile leads another way
            if given and turn.session.flow == flow:
                yield from apply_update(turn, given)
            return arrival
    else:
        if move.returns and not turn.session.is_in(move.target):
            _leave_open(turn, move.target, move.caller)
        # a person goes on there: nobody comes back to what was left open
        if move.pointer == HANDOVER:
            while turn.session.stack and turn.session.stack[-1].in_place:
                subflows.leave(turn, "handover")
        note_yes(turn, move)
        turn.emit(
            ev.StateEntered(
                state=move.target,
                previous=turn.session.state,
                by=_by(move, by),
                transition=move.pointer,
                on_path=not move.returns and not turn.session.in_digression(),
            )
        )
    # Values of the reply belong to the definition that was entered, so they come after the entry.
    if given:
        yield from apply_update(turn, given)
    yield from _on_entering(
        turn, move.assignment, None if place is not None else turn.state.assignment
    )
    response.say_on_the_way(turn)
    return arrival


def _by(move: Move, by: str) -> str:
    """Return who made a move: a rule of the definition for failures, or the given one."""
    if move.pointer == breakdown.POINTER:
        return breakdown.BY
    return "exhausted" if move.pointer.endswith("/on_exhausted") else by


def _on_entering(turn: TurnState, *assigned: Assignment | None, kept: Container[str] = ()) -> Run:
    """Set and clear keys, run the handlers of a move, and make again what is made of the keys."""
    yield from assignments.run(turn, *assigned, kept=kept)
    if turn.host.points:
        yield from handlers.run(turn, Point.POST_TRANSITION)
    yield from assignments.remake(turn)


def _answers_at_once(turn: TurnState, move: Move) -> bool:
    """Return true for a digression that is told of at once, which leaves its state for no further
    message.
    """
    there = turn.machine.states.get(move.target) if move.caller is None else None
    return move.returns and there is not None and there.kind == "final"


def apply_update(turn: TurnState, update: JsonMap) -> Run:
    """Keep what a reply says, as far as the definition at work lets it."""
    extra = update.get(EXTRA)
    turn.keep_secrets({**extra, **update} if isinstance(extra, dict) else update)
    changed: set[str] = set()
    session = turn.session
    words = dataclasses.replace(session.user_words(), answered=turn.tool_calls > 0)
    for event in accept_reply(
        turn.keys, session.context, update, session.begun, names=session.system_names(), words=words
    ):
        turn.emit(event)
        if isinstance(event, ev.ContextSet):
            changed.update(event.values, event.removed)
    if changed:
        yield from assignments.update(turn, changed)


def _reconsider(turn: TurnState, frame: Frame) -> ArrivalRun:
    """Go on the way, unless an answer that was changed meanwhile leads back to where it is decided
    again.
    """
    session, reopened = turn.session, Arrival(frame=frame, back=True)
    # Keys with an underscore are of the machine, so the user has corrected none of them.
    # Only answers from before the digression can have decided the way that it left.
    changed = tuple(
        key
        for key, value in frame.before.items()
        if session.context.get(key) != value and not key.startswith("_")
    )
    if not changed or not turn.has("correct"):
        return reopened
    found = correction(turn.root, replace(session, context=frame.before), session, changed)
    if found is None:
        return reopened
    yield from turn_back(turn, found, changed, named=False)
    return TURNED_BACK


def _reconsider_callers(turn: TurnState, before: Session) -> RunTo[bool]:
    """Reconsider the definitions that wait: where one of them is led another way, its flow is left."""
    for place, changed, found in (
        outside(turn.root, before, turn.session) if turn.has("correct") else ()
    ):
        if found is not None:
            # What waits above that definition belongs to the flow that the correction ends.
            subflows.leave_down_to(turn, place, "corrected")
            yield from turn_back(turn, found, changed, named=False)
            return True
    return False


def turn_back(
    turn: TurnState, found: Correction, changed: tuple[str, ...], *, named: bool, last: str = ""
) -> Run:
    """Go to where the way is decided again, without what was collected on the way no longer taken.

    `last`: the transition out of the current state, if that is done with.
    """
    here, context = turn.session.state, turn.session.context
    dropped = tuple(key for key in found.dropped if key in context)
    path = turn.session.path + (((here, last),) if last else ())
    # All steps from that state on are decided again, so they leave the path.
    cut = tuple(dropwhile(lambda step: step[0] != found.state, path))
    turn.emit(
        ev.Corrected(keys=changed, named=named, back_to=found.state, dropped=dropped, cut=cut)
    )
    if dropped:
        turn.emit(ev.ContextSet(source="model", removed=dropped))
    turn.emit(ev.StateEntered(state=found.state, previous=here, by="correct", on_path=True))
    yield from _on_entering(turn, turn.state.assignment, kept=changed)


def go_back(turn: TurnState, state: str, keys: Sequence[str]) -> Run:
    """Go to an earlier state, whose answers under these keys are open again."""
    said = {CLEAR: turn.session.user_input or ""}
    yield from apply_update(turn, {CLEAR: list(keys), QUOTES: said})
    _ask_again(turn, keys)
    if state != turn.session.state:
        turn.emit(
            ev.StateEntered(state=state, previous=turn.session.state, by="back", on_path=True)
        )
        yield from _on_entering(turn, turn.state.assignment)


def _resume(turn: TurnState, place: int) -> ArrivalRun:
    """Come back to an open state that was named, from other definitions, too.

    Subflows and digressions into other definitions may lie between here and there. They end one by
    one, from the top of the stack, until the place belongs to the current definition.
    """
    if not turn.session.stack[place].main:
        # The place is itself in a digression, so the current state stays open beside it.
        # A return to the main path ends everything that was left open on the way.
        _leave_open(turn)
    # Each round ends one flow or digression, so the place comes nearer to the top.
    while place not in turn.session.open_frames():
        session = turn.session
        entrance = len(session.stack) - len(session.open_frames()) - 1
        frame = session.stack[entrance]
        if frame.kind == "subflow":
            # The flow ends, with everything that it left open.
            subflows.leave_down_to(turn, entrance, "resumed")
            continue
        subflows.keep_secrets(turn)
        _come_back_to(turn, entrance)
        before = session.lowered(entrance)
        subflows.hand_on(turn, before)
        if (yield from _reconsider_callers(turn, before)):
            return TURNED_BACK
        if place == entrance:
            return (yield from _reconsider(turn, frame))
        place = _place_after_return(session.stack, entrance, place)
        if place in turn.session.open_frames():
            # The last return led to a state beside the place. It is left for the place, and stays
            # open.
            _leave_open(turn)
    return (yield from _reconsider(turn, _come_back_to(turn, place)))


def _place_after_return(stack: Sequence[Frame], returned: int, place: int) -> int:
    """Return the place of a frame after the return from the digression at place `returned`.

    The frames that the digression left open move beneath the call that it resumes; see
    `Session.lowered`. So frames above that call move up by their number.
    """
    left_open = len(stack) - returned - 1
    call = stack[returned].caller or 0
    return place + left_open if place > call else place


def _come_back_to(turn: TurnState, place: int) -> Frame:
    """Come back to a place on the stack that a digression left open, whatever lies above it."""
    frame = turn.session.stack[place]
    state, here = frame.saved["state"], turn.session.state
    turn.emit(
        ev.FlowReturned(
            kind="digression", state=state, ended=here, how="resumed", frame=place, history=True
        )
    )
    return frame


def _leave_open(turn: TurnState, entered: str = "", caller: int | None = None) -> None:
    """Put the current state on the stack, to come back to. `entered`: the digression that begins;
    see `Frame`.
    """
    here, wanted = turn.session.state, response.keys_asked_for(turn)
    if caller is not None:
        subflows.keep_secrets(turn)
    turn.emit(
        ev.FlowPushed(
            kind="digression",
            state=here,
            entered=entered,
            asked=turn.session.question,
            wanted=wanted,
            caller=caller,
            history=True,
        )
    )


def _repeats(turn: TurnState, state: str, given: Any) -> bool:
    """Return true, and note it, when this task made the same of the same before: no progress."""
    session = turn.session
    # Everything that a task reads and writes. If all is equal, another round cannot end otherwise.
    whole = [
        session.flow,
        state,
        session.context,
        given,
        session.input,
        session.memory,
        session.shared,
    ]
    digest = sha256_of(json.dumps(whole, sort_keys=True))
    if digest in turn.work_seen:
        turn.emit(ev.LimitReached(limit="no_progress", value=1))
        return True
    turn.work_seen |= {digest}
    return False


def _wait(turn: TurnState) -> None:
    """Park the run in a state that waits."""
    state, now = turn.state.definition, turn.moment
    # A person who takes over is the one to remind, and reads the list of what waits.
    reminders = [] if state.messages == "record" else sorted(set(state.remind))
    turn.pause(
        kind="wait",
        what=state.wait_for or state.purpose or state.description or turn.state.id,
        schema=state.answer_schema,
        expires=None if state.timeout is None else now + state.timeout,
        reminders=tuple(now + seconds for seconds in reminders),
        messages=state.messages,
    )
