"""The conversational part of a turn: the model is asked what to do with a message, and for words.

Its reply is applied to the session only as far as the definition allows. A reply that does not stand is asked for
once more, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from llm_fsm._text import cut
from llm_fsm.definition.subflows import MAX_DEPTH
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.normalize import letters
from llm_fsm.session.session import Session
from llm_fsm.turn import assignments, handlers, model, response, tool_loop, transitions
from llm_fsm.turn.available import Choice, asides, asked_key, available_moves
from llm_fsm.turn.backtracking import divided
from llm_fsm.turn.compiled import AvailableMoves, CompiledState
from llm_fsm.turn.effects import AskedFor, Effect, Result
from llm_fsm.turn.fast_path import certain_move, certain_value
from llm_fsm.turn.guards import Move, Refusal, judge, reads
from llm_fsm.turn.repair import actions, corrections
from llm_fsm.turn.reply.parser import Reply, parse
from llm_fsm.turn.response import UPDATE
from llm_fsm.turn.rest import rest
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import TURNED_BACK, Arrival, Part, Run, Stop, StoppableRun, TurnState

T = TypeVar("T")
_AROUND = "`'\"*<>[](){}.:,"
"""Characters that may stand around a name, and that no name has."""
_NOWHERE = AvailableMoves(items=(), valid=(), open=frozenset(), arrivals={})


class Decision(NamedTuple):
    """The result of a reply. `by`: auto, pattern, model, or refused where a change of an answer was.

    `followed`: its words were written for where it leads.
    """

    move: Move | None
    by: str
    followed: bool


class Complaint(NamedTuple):
    """The reason against a reply. `target`: the state that it named; `unmet`: its conditions keep it closed."""

    reason: str
    target: str = ""
    unmet: bool = False


def ask(turn: TurnState, waiting: Mapping[str, Any] | None = None, picked: Choice | None = None) -> StoppableRun:
    """Ask the model what to do with the message; once more if its reply does not stand.

    Args:
        turn: The turn.
        waiting: The loop in which the turn paused, with the answer put in; None where it did not pause.
        picked: The choice that the message is; None where it is none.

    Returns:
        Why the run goes no further. None if it waits for the user or for an answer.
    """
    if picked is not None and (arrival := (yield from _take_choice(turn, picked))) is not None:
        return arrival.stop
    if waiting is None and turn.machine.fast and (arrival := (yield from _take_fast_path(turn))) is not None:
        return arrival.stop
    available = available_here(turn)
    turn.initial_session = turn.session
    heard = tool_loop.heard_by(turn.session)
    loop = Loop("turn", response.turn_request(turn, available, words_only=False), available, heard)
    if waiting is not None:
        loop.take_up(waiting)
    while loop.tries < 2:
        reply = yield from tool_loop.run(turn, loop, _renew)
        if reply is None:
            break
        complaint = yield from _take_reply(turn, reply, loop.look)
        if not isinstance(complaint, Complaint):
            return complaint
        loop.tries += 1
        loop.refused = (*loop.refused, complaint.reason)
        valid = tuple(name for name in (*loop.look.valid, *loop.look.patterns) if name != complaint.target)
        unmet = complaint.target if complaint.unmet and complaint.target in loop.look.valid else ""
        possible = valid if complaint.target else None  # else <transitions> and <open_patterns> say it all
        loop.request = model.second_try(turn, loop.request, reply.text, complaint.reason, valid=possible, unmet=unmet)
    if turn.paused:
        return None
    if turn.has("cannot_handle"):
        return (yield from actions.miss(turn, fallback=True))
    response.last_resort(turn)
    return None


def _renew(turn: TurnState, loop: Loop) -> None:
    """Renew the available moves and the request, because values that tools wrote may open a move."""
    if loop.asked_for == "turn":
        available = available_here(turn)
        loop.reopen(response.turn_request(turn, available, words_only=False, heard=loop.heard), available)


def available_here(turn: TurnState) -> AvailableMoves:
    """Return what a reply may do here."""
    return available_moves(turn.machine, turn.session, asides(turn.root, turn.session))


def _take_fast_path(turn: TurnState) -> Generator[Effect, Result, Arrival | None]:
    """Do without the model what a message says for certain; None where the model is to be asked."""
    found = certain_value(turn.root, turn.session, response.missing_keys(turn), turn.initial_session)
    if found is None:
        return None
    key, value = found
    return (yield from _take_value(turn, key, (ev.ContextSet(source="user", values={key: value}),)))


def _take_choice(turn: TurnState, picked: Choice) -> Generator[Effect, Result, Arrival | None]:
    """Do what the user chose, as far as that is certain; None where the model is to be asked."""
    here, key = turn.state, asked_key(turn.session, turn.state)
    if picked.value in {move.target for move in here.moves if isinstance(picked.value, str)}:
        move = _check_pick(turn, here, picked.value)
        if isinstance(move, Refusal) or move.asks_model:
            return None
        if (yield from handlers.vetoed(turn, move)) is not None:
            return None
        turn.emit(ev.Recognised(key=""))
        return (yield from _go(turn, move, "user"))
    if not key:
        return None
    found = accept_reply(turn.machine.keys, turn.session.context, {key: picked.value}, turn.session.begun)
    if not all(isinstance(event, ev.ContextSet) for event in found):
        return None
    return (yield from _take_value(turn, key, found))


def _take_value(turn: TurnState, key: str, found: Iterable[ev.Event]) -> Generator[Effect, Result, Arrival | None]:
    """Keep the value that the message gives for certain, and follow it; None where the model is to say."""
    here, before = turn.state, turn.session.data()
    turn.emit(ev.Recognised(key=key))
    for event in found:
        turn.emit(replace(event, source="user") if isinstance(event, ev.ContextSet) else event)
    yield from assignments.update(turn, (key.partition(".")[0],))
    by, move = "auto", (yield from handlers.first_allowed(turn, here.autos))
    if move is None:
        by, move = "user", certain_move(here, before, turn.session.data())
        if move is None or (yield from handlers.vetoed(turn, move)) is not None:
            return None
    return (yield from _go(turn, move, by))


def _go(turn: TurnState, move: Move, by: str) -> Generator[Effect, Result, Arrival]:
    """Make a move that no words of a model go with."""
    arrival = yield from transitions.follow(turn, move, by)
    yield from response.complete_words(turn, arrival)
    return arrival


def _take_reply(
    turn: TurnState, raw: ModelReply, available: AvailableMoves
) -> Generator[Effect, Result, Complaint | Stop | None]:
    """Do what a reply says, if it stands; return why not, or why the run goes no further then."""
    try:
        reply = parse(raw.text)
    except ReplyError as error:
        reason = f"{error}, at its limit of tokens" if raw.finish_reason == "length" else str(error)
        turn.emit(ev.ReplyRejected(fault=error.fault, reason=reason))
        return Complaint(reason)
    reply = _normalised(turn, reply, available)
    turn.emit(ev.MovePicked(target=cut(reply.target, 200), reasoning=reply.reasoning))
    theirs = yield from _apply_reply(turn, reply)
    if turn.has("correct"):
        arrival = yield from corrections.correct(turn, reply, turn.initial_session)
        if arrival is not None:
            return arrival.stop
    decision = yield from _decide(turn, reply)
    if isinstance(decision, Complaint):
        return decision
    if theirs and (decision.move is None or decision.move.target != reply.target):
        # no move leads to the definition that these belong to, so this one keeps them
        yield from transitions.apply_update(turn, theirs)
    decision = _without_refused(turn, decision)
    if decision.by == "pattern":
        return (yield from actions.repair(turn, reply, available))
    if decision.by == "refused":
        return (yield from _go_on_refused(turn, decision.move))
    return (yield from _make(turn, reply, decision, theirs, available))


def _stay(turn: TurnState, reply: Reply, *, followed: bool) -> None:
    """Say what a reply says that makes no move, and after a correction the open question."""
    if followed:
        turn.say("model", reply.message)
    if turn.state.fixed is not None:
        response.complain(turn)
    response.say_fixed(turn)
    if any(isinstance(event, ev.Corrected) for event in turn.events):
        response.ask_again(turn, response.last_question(turn.session))
    elif not turn.words:
        turn.say("question", response.plain_question(turn, sorry=False))


def _make(
    turn: TurnState, reply: Reply, decision: Decision, theirs: Mapping[str, Any], available: AvailableMoves
) -> StoppableRun:
    """Make the move of a reply, if any, and say its words where they were written for where it arrives."""
    move, here, earlier, before = decision.move, turn.state, turn.said, turn.session
    if move is None:
        _stay(turn, reply, followed=decision.followed)
        return None
    there, flows = _state_of(turn, move), {turn.session.flow, _flow_of(turn, move)}
    _note_declined(turn, move)
    arrival = yield from transitions.follow(turn, move, decision.by, theirs if move.target == reply.target else None)
    speaks_for = there if arrival.back else turn.state
    if decision.followed and (here.fixed is None or speaks_for.fixed is None):
        message = reply.message
        if arrival.passed:
            passed = there.definition.reply or there.definition.purpose
            message = response.not_answered(turn, message, response.last_question(before), passed)
        turn.say_after(earlier, Part("model", message))  # never words that announce a move that was not made
    foreseen = turn.session.state in available.arrivals.get(reply.target, ()) and turn.session.flow in flows
    yield from response.complete_words(turn, arrival, spoken_for=foreseen)
    return arrival.stop


def _note_declined(turn: TurnState, move: Move) -> None:
    """Note the keys that the user declines: another way needs them, and the one taken leads on without them."""
    past = {state for state, _ in turn.session.path}
    if not move.is_own or move.target in past:
        return
    others = [other for other in turn.state.own if other is not move]
    collected = _state_of(turn, move).collects
    declined = tuple(
        key
        for key in response.missing_keys(turn)
        if key not in collected and not reads(move, (key,)) and any(reads(other, (key,)) for other in others)
    )
    if declined:
        turn.emit(ev.KeysSkipped(keys=declined))


def _normalised(turn: TurnState, reply: Reply, available: AvailableMoves | None = None) -> Reply:
    """Return a reply with the one name that its target is in other letters (`Done` for `done`), if there is one."""
    states = turn.machine.states
    if reply.target in states or reply.target in turn.machine.patterns:
        return reply
    available, bare = available or available_here(turn), reply.target.strip(_AROUND)
    for names in ((*available.valid, *available.patterns), states) if reply.target not in available.valid else ():
        same = [bare] if bare in names else [name for name in names if letters(name) == letters(bare)]
        if same:
            return reply._replace(target=same[0]) if len(same) == 1 else reply
    return reply


def _state_of(turn: TurnState, move: Move) -> CompiledState:
    """Return the state that a move leads to, in whichever definition."""
    return turn.root.named(_flow_of(turn, move)).states[move.target]


def _flow_of(turn: TurnState, move: Move) -> str:
    """Return the name of the definition that a move leads into."""
    if move.place is not None:
        return turn.session.flow_at(move.place)
    return turn.session.flow if move.caller is None else turn.session.of_caller(move.caller).flow


def _decide(turn: TurnState, reply: Reply) -> Generator[Effect, Result, Decision | Complaint]:
    """Find what follows from a pick, now that its values are kept; or why it does not stand."""
    yield from assignments.remake(turn)  # what tools have changed, too
    here = turn.state
    move = (yield from handlers.first_allowed(turn, here.autos)) if here.autos else None
    if move is not None:
        return Decision(move, "auto", reply.target in (here.id, move.target))
    if reply.target in turn.machine.named_patterns:
        return Decision(None, "pattern", followed=False)
    if reply.target == here.id:
        return Decision(None, "model", followed=True)
    judged = _check_pick(turn, here, reply.target)
    if isinstance(judged, Refusal):
        turn.emit(ev.MoveRefused(target=cut(reply.target, 200), reason=judged.reason, by=judged.by))
        return _complaint(turn, reply.target, judged.reason, unmet=judged.by == "closed")
    veto = (yield from handlers.vetoed(turn, judged)) if turn.host.points else None
    if veto is not None:
        return _complaint(turn, reply.target, veto)
    return Decision(judged, "model", True)


def _without_refused(turn: TurnState, decision: Decision) -> Decision:
    """Change a decision where a new value for an earlier answer was refused.

    Words that name the new value are not said. The old answer ends nothing, begins no work and enters no other flow.
    """
    session, move = turn.session, decision.move
    refused = [key for key, _ in session.notes if session.origins.get(key, (session.turn, ""))[0] < session.turn]
    if not refused or not turn.has("correct") or decision.by == "pattern":
        return decision
    if move is None:
        return Decision(None, "refused", followed=False)
    if not move.is_own:
        return decision
    there = rest(turn.root, session, move)
    if there.talks and there.flow == session.flow:
        return Decision(move, "refused", followed=False)
    reasons = "; ".join(f"{key}: {why}" for key, why in session.notes)
    turn.emit(ev.MoveRefused(target=move.target, reason=f"a changed answer was refused: {reasons}", by="closed"))
    return Decision(None, "refused", followed=False)


def _go_on_refused(turn: TurnState, move: Move | None) -> StoppableRun:
    """Say which change was refused, and why, before the question that is open then."""
    response.complain(turn)
    if move is None:
        response.say_fixed(turn)
        response.ask_again(turn, response.last_question(turn.session))
        return None
    arrival = yield from transitions.follow(turn, move, "model")
    response.ask_again(turn, "")
    return arrival.stop


def rehearse(turn: TurnState, head: str, asked_for: AskedFor) -> Run:
    """Check the move of a reply whose words are not there yet, in a fork of the turn.

    `promise` of the turn then says whether the words count. Nothing is promised where that depends on what comes
    after the move from outside: handlers, tasks, replies.

    Args:
        turn: The fork.
        head: The beginning of the reply.
        asked_for: The purpose of the request that is replied to.
    """
    words = _stand_in(turn.session, head)
    if asked_for != "turn":
        turn.promise = _before(words, (*turn.words, words))
        return
    turn.emit(ev.ModelReplied(asked_for=asked_for, text=head))
    try:
        reply = _normalised(turn, parse(head)._replace(message=words))
    except ReplyError:
        return
    turn.emit(ev.MovePicked(target=cut(reply.target, 200)))  # handlers' keys count events, here as in `take`
    theirs = yield from _apply_reply(turn, reply)
    here, said = turn.state, turn.words
    place = turn.here
    if turn.has("correct") and _alone(corrections.correct(turn, reply, turn.initial_session), TURNED_BACK) is not None:
        if turn.here == place or reply.target == turn.state.id:  # else questions among the words may be left out
            turn.promise = _before(words, turn.words)
        return
    decision = yield from _decide(turn, reply)
    if isinstance(decision, Complaint):
        return
    decision = _without_refused(turn, decision)
    if decision.by == "pattern":
        _alone(actions.repair(turn, reply, _NOWHERE), None)
        moves = reply.target in ("correct", "digress") and turn.here != place  # as for corrections above
        if reply.target != "back" and not moves:  # questions among its words are always left out
            turn.promise = _before(words, turn.words)
    elif decision.followed:
        move = decision.move
        if move is not None and here.fixed is not None:
            there = _state_of(turn, move)
            given = theirs if move.target == reply.target else None
            arrival = _alone(transitions.follow(turn, move, decision.by, given), None)
            if arrival is None or arrival.passed or (there if arrival.back else turn.state).fixed is not None:
                return
        turn.promise = _before(words, (*said, words))


def _check_pick(turn: TurnState, here: CompiledState, target: str) -> Move | Refusal:
    """Return the move to a state that was named, or the refusal where it does not stand."""
    session = turn.session
    if target in session.open_places():
        return Move(pointer="", target=target)
    found = judge(here.moves, target, session.data())
    if isinstance(found, Refusal) and found.by == "unknown" and session.stack:
        aside = asides(turn.root, session).get(target)
        found = found if aside is None else judge((aside.move,), target, aside.data)
    if isinstance(found, Move) and found.returns and len(session.stack) >= MAX_DEPTH:
        return Refusal(by="closed", reason="too much is left open already; go back to one of the open states")
    return found


def _complaint(turn: TurnState, target: str, reason: str, *, unmet: bool = False) -> Complaint:
    shown = json.dumps(cut(target, 100))
    refused = "; ".join(f"{key}: {why}" for key, why in response.refusals(turn))
    told = f"the move to {shown} is not possible: {reason}" + (f". Refused values: {refused}" if refused else "")
    return Complaint(told, target, unmet)


def _apply_reply(turn: TurnState, reply: Reply) -> Generator[Effect, Result, Mapping[str, Any]]:
    """Keep the values of a reply for the definition at work; return those for the one that its pick leads into."""
    if reply.update_fault is not None:
        turn.emit(ev.ContextRefused(key=UPDATE, reason=reply.update_fault, source="model", told=True))
    mine, theirs = _split_update(turn, reply)
    if mine:
        if turn.session.flow and turn.has("correct"):
            mine = corrections.change_answers(turn, mine)
        yield from transitions.apply_update(turn, mine)
    return theirs


def _split_update(turn: TurnState, reply: Reply) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Split the values of a reply: those for the definition at work, and those for another that its pick leads into."""
    session, machine = turn.session, turn.machine
    if not session.stack or reply.target in machine.states:
        return reply.update, {}
    aside = asides(turn.root, session).get(reply.target)
    return (reply.update, {}) if aside is None else divided(machine.keys, aside.program.keys, reply.update)


def _alone(run: Generator[Effect, Result, T], otherwise: T) -> T:
    """Run a part of a turn and return its result, or `otherwise` if it wants something from outside."""
    try:
        next(run)
    except StopIteration as done:
        found: T = done.value
        return found
    run.close()
    return otherwise


def _stand_in(session: Session, head: str) -> str:
    """Make a text that stands for words that are not there yet.

    Wording that changes words (their case, say) changes it, too. Nobody can have written
    it before: it depends on the reply's own beginning and the time.
    """
    seed = f"{session.conversation_id}\n{session.time}\n{head}".encode("utf-8", "replace")
    return f"\ue000wOrDs{sha256(seed).hexdigest()}\ue001"


def _before(stand_in: str, said: Iterable[str]) -> str | None:
    """Return the text before the words of a reply in all that is said; None where they are not said."""
    text = "\n\n".join(words for words in said if words)
    place = text.find(stand_in)
    return None if place < 0 else text[:place]
