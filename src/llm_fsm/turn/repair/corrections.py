"""What follows in a turn from answers that were changed: where the way depends on them, it is decided again."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply
from llm_fsm.session.session import Session
from llm_fsm.turn import handlers, response, subflows, transitions
from llm_fsm.turn.backtracking import Correction, apart, correction, onward, outside, own_moves
from llm_fsm.turn.effects import Effect, Result
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.repair.questions import is_nearer, question_in, told_in
from llm_fsm.turn.reply.parser import Reply
from llm_fsm.turn.turn_state import Part, Run, TurnState

_ENDS = ("cancel", "restart", "handover")
"""Patterns after which it does not matter what was corrected."""


def correct(turn: TurnState, reply: Reply, before: Session) -> Generator[Effect, Result, bool]:
    """Note which earlier answers a reply changed, and go back where the way depends on them.

    True when that was all; False where what the reply picks is to be looked at still.
    """
    if (yield from _correct_outside(turn, reply, before)):
        return True
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
        return False
    found = None
    if not session.in_digression():
        leads = {turn.state.id, *(move.target for move in turn.state.moves)}
        picked = "" if reply.target in leads else reply.target
        found = correction(turn.machine, before, session, changed, picked)
    if found is None or reply.target in found.past:
        turn.emit(ev.Corrected(keys=changed, named=named))
        return False
    return (yield from _go_back(turn, found, reply, changed))


def change_answers(turn: TurnState, update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change answers of the definitions that wait for this one; the rest of the update.

    What this one was given of them changes with them.
    """
    session = turn.session
    rest, found = apart(turn.root, session, update)
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
    return rest


def _correct_outside(turn: TurnState, reply: Reply, before: Session) -> Generator[Effect, Result, bool]:
    """Note which answers of waiting definitions a reply changed; True when that led back to one of them."""
    named = reply.target == "correct"
    for place, changed, found in () if reply.target in _ENDS else outside(turn.root, before, turn.session):
        if found is None:
            turn.emit(ev.Corrected(keys=changed, named=named))
            continue
        while len(turn.session.stack) > place:
            subflows.leave(turn, "corrected")
        return (yield from _go_back(turn, found, reply, changed))
    return False


def _go_back(
    turn: TurnState, found: Correction, reply: Reply, changed: tuple[str, ...]
) -> Generator[Effect, Result, bool]:
    """Turn back in the midst of a reply: say what of it still holds, and ask what is open there.

    False, and nothing said, where the new way leads to the same place, and the reply picks a way on from there.
    """
    named, here, earlier = reply.target == "correct", turn.session.state, turn.said
    asked = response.open_question(turn, response.last_question(turn))
    taken = {state: pointer for state, pointer in turn.session.path if state != here}
    yield from transitions.turn_back(turn, found, changed, named=named)
    flow = turn.session.flow
    if found.on is not None and (yield from handlers.vetoed(turn, found.on)) is None:
        yield from transitions.enter(turn, found.on, "correct")
    yield from transitions.settle(turn)
    yield from _pass_by(turn, taken, flow)
    if not (named or turn.stopped or turn.paused) and turn.here == (flow, here) != (flow, reply.target):
        turn.said = earlier
        return False
    spoken = reply.message if named or reply.target in (here, turn.state.id) or _is_aside(turn, reply.target) else ""
    if (
        turn.here != (flow, here)
        and reply.target != turn.state.id
        and (not named or is_nearer(question_in(spoken), asked, response.open_question(turn)))
    ):
        spoken = told_in(spoken)  # it asks what was open before
    say_first(turn, earlier, "correct", spoken)
    if turn.state.id == found.state:
        response.say_fixed(turn)
    if turn.session.flow != flow or turn.stopped or turn.paused or turn.state.kind == "final":
        yield from response.complete_words(turn)
    elif named:
        response.ask_again(turn, "")
    elif turn.state.fixed is None and not (reply.target == turn.state.id and reply.message):
        turn.say("question", response.plain_question(turn, sorry=False))
    return True


def _is_aside(turn: TurnState, target: str) -> bool:
    """True for the name of a digression, whose words hold wherever it was begun."""
    return any(move.returns and move.target == target for move in turn.state.moves)


def say_first(turn: TurnState, earlier: tuple[Part, ...], pattern: str, message: str) -> None:
    """Words of a pattern before what was said since; before a fixed reply only those of the model."""
    piece = turn.machine.patterns.get(pattern)
    if piece is not None and (message or turn.state.fixed is None):
        message = response.pattern_words(turn, piece, pattern, {"words": message})
    turn.say_after(earlier, Part("pattern", message))


def _pass_by(turn: TurnState, taken: dict[str, str], flow: str) -> Run:
    """Pass by the questions that are answered: by this message, or before, where `taken` says how it went on."""
    while (move := _passing(turn, taken if turn.session.flow == flow else {})) is not None:
        steps, again = turn.auto_steps, taken.pop(turn.state.id, None) is not None
        if (yield from handlers.vetoed(turn, move)) is not None or not (
            yield from transitions.step(turn, move, "correct")
        ):
            return
        yield from transitions.settle(turn)
        if again and not turn.stopped:
            turn.auto_steps = steps  # a long way, taken before and each state of it once, is no endless one


def _passing(turn: TurnState, taken: Mapping[str, str]) -> Move | None:
    """The way on from a state whose questions are answered: the one of before, or the one that conditions leave."""
    session, state = turn.session, turn.state
    if not state.collects or response.missing_keys(turn):
        return None
    if all(session.origins.get(key, (0, ""))[0] == session.turn for key in state.collects):
        return only_way(turn)
    move = next((move for move in state.moves if move.pointer == taken.get(state.id)), None)
    holds = move is not None and not move.returns and verdict(move, session.data()).holds
    return move if holds else None


def only_way(turn: TurnState) -> Move | None:
    """The one move of a state in which all is known, where conditions say it and no words."""
    data = turn.session.data()
    return onward(turn.state, [move for move in own_moves(turn.state) if verdict(move, data).holds], data)
