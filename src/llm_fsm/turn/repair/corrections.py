"""The effects of changed answers in a turn: where the way depends on them, it is decided again."""

from __future__ import annotations

from llm_fsm._json import JsonMap
from llm_fsm.languages import LANGUAGE
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply
from llm_fsm.session.quotes import QUOTES
from llm_fsm.turn import closing, handlers, response, subflows, transitions
from llm_fsm.turn.backtracking import Correction, apart, correction, outside
from llm_fsm.turn.guards import Move, judge, labelled, open_moves
from llm_fsm.turn.named import Named, is_end
from llm_fsm.turn.rest import rest
from llm_fsm.turn.turn_state import TURNED_BACK, Message, MoveRun, Part, RunTo, TurnState

_ENDS = ("cancel", "restart", "handover")
"""Patterns after which it does not matter what was corrected."""


def correct(turn: TurnState, named: Named, message: Message) -> MoveRun:
    """Note which earlier answers a reply changed, and go back if the way depends on them.

    Args:
        turn: The turn, after the values of the reply.
        named: The thing that the reply names.
        message: The words of the reply.

    Returns:
        How it went back, if that was all. None if what the reply names is still to be done.
    """
    if named.target in _ENDS:
        return None
    # A definition that waits comes first: going back there ends the one at work.
    arrival = yield from _correct_outside(turn, named, message)
    if arrival is not None:
        return arrival
    session, before = turn.session, turn.initial_session
    changed = tuple(key for key in before.context if is_corrected(turn, key))
    if not changed:
        return None
    back: Correction | None = None
    if not session.in_digression():
        picked = "" if named.is_own else named.target
        back = correction(turn.root, before, session, changed, picked)
    if back is not None and named.target not in back.past:
        return (yield from _go_back(turn, back, named, message, changed=changed))
    turn.emit(ev.Corrected(keys=changed, named=named.target == "correct"))
    declined = tuple(
        key for key in changed if key not in session.context and key not in turn.state.collects
    )
    if declined and back is None and not session.in_digression():
        turn.emit(ev.KeysSkipped(keys=declined))
    return None


def is_corrected(turn: TurnState, key: str) -> bool:
    """Return true for an answer of an earlier turn that this reply changed or took back."""
    before, after = turn.initial_session, turn.session
    if key == LANGUAGE and turn.root.speaking is not None:
        return False  # it changes how everything is said, and nothing that was said
    if key.startswith("_") or after.context.get(key) == before.context[key]:
        return False
    written, _ = before.origins.get(key, (after.turn, ""))
    # What this message gave for the first time is no correction.
    if written >= after.turn:
        return False
    by_model = key not in after.context or after.origins[key] == (after.turn, "model")
    return by_model or key in turn.keys.made_of


def change_answers(turn: TurnState, update: JsonMap) -> JsonMap:
    """Change answers of the definitions that wait for this one; return the rest of the update.

    What this one was given of them changes with them.
    """
    session = turn.session
    mine, found = apart(turn.root, session, update)
    for place, values in found.items():
        caller = session.of_caller(place)
        machine = turn.root.of(caller)
        for event in accept_reply(
            machine.keys,
            caller.context,
            {**values, QUOTES: update.get(QUOTES)},
            names=session.system_names(),
            words=caller.user_words(),
        ):
            if isinstance(event, ev.ContextSet):
                changes = ev.AnswersChanged(frame=place, values=event.values, removed=event.removed)
                turn.emit(changes)
            else:
                turn.emit(event)
    # The flow was given these values when it began, so it must not go on with the old ones.
    if found:
        subflows.hand_on(turn, session)
    return mine


def _correct_outside(turn: TurnState, named: Named, message: Message) -> MoveRun:
    """Note which answers of waiting definitions a reply changed; return None unless that led back
    to one of them.
    """
    for place, changed, back in outside(turn.root, turn.initial_session, turn.session):
        if back is None:
            turn.emit(ev.Corrected(keys=changed, named=named.target == "correct"))
            continue
        innermost = place == len(turn.session.stack) - 1
        last = (yield from _last_answers(turn, named)) if innermost else ""
        # What lies above belongs to the answer that is not true any more.
        subflows.leave_down_to(turn, place, "corrected")
        return (yield from _go_back(turn, back, named, message, changed=changed, last=last))
    return None


def _last_answers(turn: TurnState, named: Named) -> RunTo[str]:
    """End the flow at work if the reply names its end; return the transition that follows then,
    else "".
    """
    own = [move for move in turn.state.own if move.target == named.target and not move.agrees]
    move = judge(own, turn.session.data())
    if not isinstance(move, Move) or rest(turn.root, turn.session, move).flow == turn.session.flow:
        return ""
    yield from transitions.enter(turn, move, "model")
    # Without the user, the way to the end leads through states that decide only.
    while turn.state.kind == "decide" and (
        following := (yield from handlers.first_allowed(turn, turn.state.moves))
    ):
        yield from transitions.enter(turn, following, "decide")
    if turn.state.kind != "final":
        return ""
    ended = turn.session.state
    subflows.give_back(turn)
    onward = next(open_moves(labelled(turn.state.moves, ended), turn.session.data()), None)
    return "" if onward is None else onward.pointer


def _go_back(
    turn: TurnState,
    back: Correction,
    named: Named,
    message: Message,
    *,
    changed: tuple[str, ...],
    last: str = "",
) -> MoveRun:
    """Go back while a reply is applied. Say its message, then ask the open question.

    Return None and say nothing if the new way leads back here, and the reply names a way on.
    """
    by_name = named.target == "correct"
    here, earlier, ends = turn.session.state, turn.said, is_end(turn.machine, named)
    yield from transitions.turn_back(turn, back, changed, named=by_name, last=last)
    start = (turn.session.flow, here)
    if back.on is not None and (yield from handlers.vetoed(turn, back.on)) is None:
        yield from transitions.enter(turn, back.on, "correct")
    arrival = yield from transitions.settle(turn, TURNED_BACK)
    came_back_here = turn.here == start
    # The correction changes nothing for the user, so the move that the reply names goes on.
    if came_back_here and not by_name and arrival.stop is None and named.target != here:
        turn.said = earlier
        return None
    if ends and named.target != turn.state.id:
        message = ""  # it says that what was not done is done
    say_first(turn, earlier, "correct", message)
    yield from closing.close(turn, arrival, written=closing.written_in(turn, start[0]))
    return arrival


def say_first(turn: TurnState, earlier: tuple[Part, ...], pattern: str, message: Message) -> None:
    """Say the words of a pattern before what was said since `earlier`.

    Without a message the pattern has words of its own. Before a fixed reply it needs none.
    """
    parts: tuple[Part, ...] = (Part("model", message),)
    piece = turn.machine.patterns.get(pattern)
    if message == "" and piece is not None and turn.state.fixed is None:
        parts = (Part("pattern", response.pattern_words(turn, piece, pattern, {})),)
    turn.said = (*earlier, *parts, *turn.said[len(earlier) :])
