"""The effects of changed answers in a turn: where the way depends on them, it is decided again."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply
from llm_fsm.session.session import Session
from llm_fsm.turn import handlers, response, subflows, transitions
from llm_fsm.turn.backtracking import Correction, apart, correction, outside
from llm_fsm.turn.effects import Effect, Result
from llm_fsm.turn.guards import Move, judge, labelled, open_moves
from llm_fsm.turn.repair.questions import is_nearer, question_in, told_in
from llm_fsm.turn.reply.parser import Reply
from llm_fsm.turn.rest import rest
from llm_fsm.turn.turn_state import TURNED_BACK, Arrival, Part, TurnState

_ENDS = ("cancel", "restart", "handover")
"""Patterns after which it does not matter what was corrected."""


def correct(turn: TurnState, reply: Reply, before: Session) -> Generator[Effect, Result, Arrival | None]:
    """Note which earlier answers a reply changed, and go back where the way depends on them.

    Returns:
        How it went back, if that was all. None where what the reply picks is to be looked at still.
    """
    arrival = yield from _correct_outside(turn, reply, before)
    if arrival is not None:
        return arrival
    session, made_of = turn.session, turn.machine.keys.made_of
    changed = tuple(
        key
        for key, value in before.context.items()
        if session.context.get(key) != value
        and before.origins.get(key, (session.turn, ""))[0] < session.turn
        and (key not in session.context or session.origins[key] == (session.turn, "model") or key in made_of)
        and not key.startswith("_")
    )
    named = reply.target == "correct"
    if not changed or reply.target in _ENDS or not turn.has("correct"):
        return None
    found = None
    if not session.in_digression():
        leads = {turn.state.id, *(move.target for move in turn.state.moves)}
        picked = "" if reply.target in leads else reply.target
        found = correction(turn.root, before, session, changed, picked)
    if found is None or reply.target in found.past:
        turn.emit(ev.Corrected(keys=changed, named=named))
        declined = tuple(key for key in changed if key not in session.context and key not in turn.state.collects)
        if declined and found is None and not session.in_digression():
            turn.emit(ev.KeysSkipped(keys=declined))
        return None
    return (yield from _go_back(turn, found, reply, changed))


def change_answers(turn: TurnState, update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change answers of the definitions that wait for this one; return the rest of the update.

    What this one was given of them changes with them.
    """
    session = turn.session
    mine, found = apart(turn.root, session, update)
    for place, values in found.items():
        caller = session.of_caller(place)
        machine = turn.root.of(caller)
        for event in accept_reply(machine.keys, caller.context, values):
            if isinstance(event, ev.ContextSet):
                turn.emit(ev.AnswersChanged(frame=place, values=event.values))
            else:
                turn.emit(event)
    if found:
        subflows.hand_on(turn, session)
    return mine


def _correct_outside(turn: TurnState, reply: Reply, before: Session) -> Generator[Effect, Result, Arrival | None]:
    """Note which answers of waiting definitions a reply changed; return None unless that led back to one of them."""
    named = reply.target == "correct"
    for place, changed, found in () if reply.target in _ENDS else outside(turn.root, before, turn.session):
        if found is None:
            turn.emit(ev.Corrected(keys=changed, named=named))
            continue
        last = (yield from _last_answers(turn, reply)) if place == len(turn.session.stack) - 1 else ""
        while len(turn.session.stack) > place:
            subflows.leave(turn, "corrected")
        return (yield from _go_back(turn, found, reply, changed, last))
    return None


def _last_answers(turn: TurnState, reply: Reply) -> Generator[Effect, Result, str]:
    """End the flow at work if the reply picks its end; return the transition that follows then, else ""."""
    move = judge(turn.state.own, reply.target, turn.session.data())
    if not isinstance(move, Move) or rest(turn.root, turn.session, move).flow == turn.session.flow:
        return ""
    yield from transitions.enter(turn, move, "model")
    while turn.state.kind == "decide" and (following := (yield from handlers.first_allowed(turn, turn.state.moves))):
        yield from transitions.enter(turn, following, "decide")
    if turn.state.kind != "final":
        return ""
    ended = turn.session.state
    subflows.give_back(turn)
    onward = next(open_moves(labelled(turn.state.moves, ended), turn.session.data()), None)
    return "" if onward is None else onward.pointer


def _go_back(
    turn: TurnState, found: Correction, reply: Reply, changed: tuple[str, ...], last: str = ""
) -> Generator[Effect, Result, Arrival | None]:
    """Turn back in the midst of a reply: say what of it still holds, and ask what is open there.

    Return None and say nothing where the new way leads back here, and the reply picks a way on.
    """
    named, here, earlier = reply.target == "correct", turn.session.state, turn.said
    asked = response.open_question(turn, response.last_question(turn.session))
    yield from transitions.turn_back(turn, found, changed, named=named, last=last)
    flow = turn.session.flow
    if found.on is not None and (yield from handlers.vetoed(turn, found.on)) is None:
        yield from transitions.enter(turn, found.on, "correct")
    arrival = yield from transitions.settle(turn, TURNED_BACK)
    if not named and arrival.stop is None and turn.here == (flow, here) != (flow, reply.target):
        turn.said = earlier
        return None
    spoken = reply.message if named or reply.target in (here, turn.state.id) or _is_aside(turn, reply.target) else ""
    if (
        turn.here != (flow, here)
        and reply.target != turn.state.id
        and (not named or is_nearer(question_in(spoken), asked, response.open_question(turn)))
    ):
        spoken = told_in(spoken)  # it asks what was open before
    say_first(turn, earlier, "correct", spoken)
    yield from response.complete_pattern(turn, arrival, flow)
    return arrival


def _is_aside(turn: TurnState, target: str) -> bool:
    """Return true for the name of a digression, whose words hold wherever it was begun."""
    return any(move.returns and move.target == target for move in turn.state.moves)


def say_first(turn: TurnState, earlier: tuple[Part, ...], pattern: str, message: str) -> None:
    """Say words of a pattern before what was said since; before a fixed reply only those of the model."""
    piece = turn.machine.patterns.get(pattern)
    if piece is not None and (message or turn.state.fixed is None):
        message = response.pattern_words(turn, piece, pattern, {"words": message})
    turn.say_after(earlier, Part("pattern", message))
