"""The order in which a reply is taken, and what comes of it.

`apply_reply` is the only such order. A streamed reply is rehearsed by the same function: on a fork
of the turn, with a message that is still arriving. So a stream and its turn cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm._text import cut
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import CLEAR, NOT_TAKEN_BACK, has
from llm_fsm.session.list_items import key_of
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.quotes import NOT_SAID, QUOTES, YES, speaks_of
from llm_fsm.turn import assignments, breakdown, closing, handlers, model, response, transitions
from llm_fsm.turn.agreement import blanks, is_yes, said, touched
from llm_fsm.turn.available import AvailableMoves, available_here
from llm_fsm.turn.backtracking import divided
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.effects import AskedFor, Effect, Point, Result, RunHandlers
from llm_fsm.turn.guards import NOT_ASKED, Move, Refusal, reads
from llm_fsm.turn.named import Named, is_end, named_by, possible_move
from llm_fsm.turn.repair import corrections, verbs
from llm_fsm.turn.reply.parser import Reply, parse
from llm_fsm.turn.request import refusals
from llm_fsm.turn.response import UPDATE
from llm_fsm.turn.rest import opened_way, rest
from llm_fsm.turn.turn_state import (
    Arrival,
    Message,
    Offer,
    Run,
    StillArrivingError,
    Stop,
    TurnState,
)

_AHEAD = (Point.CONTEXT_UPDATE, Point.PRE_TRANSITION)
"""Handlers that run before a move is made. Their results hold for the rehearsal and for the turn.
"""


_THROWS_AWAY = ("skip", "cancel", "restart")
"""Patterns that give way to values that open a way."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The text is no reply. `reason` is for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The move to what the reply named is not possible.

    `reason` is for the model. `is_asked`: false if the question that the move answers could not be
    said, so that another reply would help no more.
    """

    reason: str
    named: Named
    is_asked: bool = True


@dataclass(frozen=True, slots=True)
class Taken:
    """The reply was taken: it moved, stayed, or was done by a pattern. `stop`: why the run goes no
    further.
    """

    stop: Stop | None = None


Outcome = Unreadable | Refused | Taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of a reply, once its values for the definition at work are kept.

    Attributes:
        named: The thing that it names.
        message: Its words.
        theirs: Its values for the definition that it leads into.
        foreseen: The states for which the words may have been written.
    """

    named: Named
    message: Message
    theirs: JsonMap
    foreseen: frozenset[str]


def take_reply(
    turn: TurnState, raw: ModelReply, available: AvailableMoves
) -> Generator[Effect, Result, Outcome]:
    """Read a reply, and do what it says as far as the definition allows.

    Args:
        turn: The turn.
        raw: The reply of the model.
        available: The menu that the model read.

    Returns:
        What came of it. Nothing was said, and only values were kept, unless it is `Taken`.
    """
    try:
        cut_off = model.unreadable(raw)
        if cut_off is not None:
            raise cut_off
        reply = parse(raw.text, stay=_only_state(available))
    except ReplyError as error:
        turn.emit(ev.ReplyRejected(fault=error.fault, reason=str(error)))
        return Unreadable(str(error))
    return (yield from apply_reply(turn, reply, reply.message, available))


def _only_state(available: AvailableMoves) -> str:
    """Return the current state if a reply can name nothing else; else ""."""
    is_only = len(available.valid) == 1 and not available.patterns
    return available.valid[0] if is_only else ""


def apply_reply(
    turn: TurnState, reply: Reply, message: Message, available: AvailableMoves
) -> Generator[Effect, Result, Outcome]:
    """Take a reply: keep its values, correct earlier answers, then make the move that it names, if
    that is possible.
    """
    named = named_by(turn.machine, turn.session, reply.target, available)
    turn.emit(ev.MovePicked(target=cut(named.target, 200), reasoning=reply.reasoning))
    theirs = yield from _keep_values(turn, reply, named)
    if breakdown.tool_has_failed(turn):
        yield from _keep(turn, theirs)
        return Taken((yield from closing.after_failure(turn)))
    if named.here or named.target == "correct":
        lost = _not_taken_back(turn)
        if lost:
            return Refused(f"{', '.join(lost)} stays: {NOT_TAKEN_BACK}", named)
    arrivals = available.arrivals.get(named.target, frozenset())
    foreseen = frozenset((named.target,)) if named.behind else arrivals
    place = "" if named.pattern else named.target
    start, since = turn.session.state, len(turn.events)
    turn.offer = Offer(message, reply.question, named=place, start=start, since=since)
    reading = Reading(named=named, message=message, theirs=theirs, foreseen=foreseen)
    if turn.has("correct"):
        turned_back = yield from corrections.correct(turn, named, message)
        if turned_back is not None:
            return Taken(turned_back.stop)
    yield from assignments.remake(turn)  # tools may have changed what values are made of
    auto = yield from _onward(turn)
    if auto is not None:
        return (yield from _move(turn, auto, "auto", _for_another(turn, auto, reading)))
    refused = _is_unsaid(turn, reply, message) or _change_was_refused(turn, message)
    found = _said_move(turn, named, reply)
    onward = _go_where_it_leads(turn, reading, found, available, change_refused=refused)
    return (yield from onward)


def _go_where_it_leads(
    turn: TurnState,
    reading: Reading,
    found: Move | Refusal,
    available: AvailableMoves,
    *,
    change_refused: bool,
) -> Generator[Effect, Result, Outcome]:
    """Make the move that the values opened or the reply names, do its pattern, or stay.

    `change_refused`: see `_is_unsaid` and `_change_was_refused`.
    """
    named, message, theirs = reading.named, reading.message, reading.theirs
    way = yield from _opened_way(turn, named, found)
    if way is not None and change_refused:
        return (yield from _move_after_refusal(turn, way))
    if way is not None:
        return (yield from _move(turn, way, "known", _for_another(turn, way, reading)))
    if named.pattern:
        yield from _keep(turn, theirs)
        return Taken((yield from verbs.repair(turn, named.target, message, available)))
    if named.here:
        yield from _keep(turn, theirs)
        yield from _stay_after_refusal(turn) if change_refused else _stay(turn, message)
        return Taken()
    if _wants_another_read_back(turn, named, found):
        yield from _keep(turn, theirs)
        yield from _stay_after_refusal(turn)
        return Taken()
    move = yield from _checked(turn, named, found)
    if isinstance(move, Refused):
        return move if move.is_asked else (yield from _ask_again(turn, theirs))
    if change_refused and move.is_own:
        return (yield from _move_after_refusal(turn, move))
    return (yield from _move(turn, move, "model", reading))


def _not_taken_back(turn: TurnState) -> tuple[str, ...]:
    """Return the known keys that the reply wanted to take back without words of the user.

    Its message may announce that, so another one is asked for.
    """
    lost: list[str] = []
    for event in turn.events:
        if isinstance(event, ev.ModelReplied):
            lost.clear()
        elif isinstance(event, ev.ContextRefused) and event.reason == NOT_TAKEN_BACK:
            lost.append(event.key)
    return tuple(name for name in lost if has(turn.session.context, name))


def _wants_another_read_back(turn: TurnState, named: Named, found: Move | Refusal) -> bool:
    """Return true, and note it, if values must be read back anew before anything else happens.

    So it is if this message changed, took back, or was refused one of them. A way of the whole
    machine and a digression hold beside that, and the state that collects the value may ask for it.
    The message of the reply is not said, because it announces what nobody agreed to.
    """
    reason, sentence = "", "unchanged"
    if isinstance(found, Refusal) and found.by == "agrees":
        reason, sentence = found.reason, found.sentence
    keys = touched(turn) & turn.state.reads_back
    leads_elsewhere = any(
        not move.is_own or not keys.isdisjoint(turn.machine.states[move.target].collects)
        for move in named.moves
    )
    if not reason and keys and not leads_elsewhere:
        reason = f"{', '.join(sorted(keys))} must be read back anew, and the user must agree"
    if reason:
        target = cut(named.target, 200)
        turn.emit(ev.MoveRefused(target=target, reason=reason, by="agrees", sentence=sentence))
    return reason != ""


def _said_move(turn: TurnState, named: Named, reply: Reply) -> Move | Refusal:
    """Return the move to what a reply named, or why it is not possible: a yes needs words."""
    found = possible_move(turn.machine, turn.session, named)
    if isinstance(found, Refusal):
        return found
    quotes = reply.update.get(QUOTES)
    unmet = said(turn, found, quotes.get(YES) if isinstance(quotes, Mapping) else None)
    if unmet is None:
        return found
    return Refusal(by="agrees", reason=unmet.reason, sentence=unmet.sentence)


def _opened_way(
    turn: TurnState, named: Named, found: Move | Refusal
) -> Generator[Effect, Result, Move | None]:
    """Return the way that the values of this message opened; None if what the reply names is done.

    A reply that names the current state, or what is closed, says nothing against that way. Neither
    does a pattern that would throw the values away.
    """
    if isinstance(found, Move) or found.by == "agrees" or found.reason == NOT_ASKED:
        return None
    if named.pattern and named.target not in _THROWS_AWAY:
        return None
    way = opened_way(turn.root, turn.initial_session, turn.session)
    if way is None or reads(way, _refused_keys(turn)):
        return None
    return way if (yield from handlers.vetoed(turn, way)) is None else None


def _refused_keys(turn: TurnState) -> set[str]:
    """Return the keys of which this turn refused a value, and was given no better one since."""
    session = turn.session
    return {key for key, (_, number) in session.refusals.items() if number == session.turn}


def _refused_answers(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that this state collects, and of which a rule of `x-valid` refused a value.

    The old answer that is kept opens nothing while a new one was refused.
    """
    keys, refused = turn.machine.keys, _refused_keys(turn).intersection(turn.state.collects)
    ruled: dict[str, None] = {}
    for event in turn.events if refused else ():
        if isinstance(event, ev.ContextRefused) and keys.is_rule(event.reason):
            ruled[event.key] = None
    return tuple(key for key in ruled if key in refused)


def _for_another(turn: TurnState, move: Move, reading: Reading) -> Reading:
    """Return a reading whose words announce nothing but the move that the machine makes."""
    named = reading.named
    missed_end = is_end(turn.machine, named) and named.target != move.target
    if missed_end or (named.pattern and named.target in _THROWS_AWAY):
        return replace(reading, message="")  # it says that what was not done is done
    return reading


def _onward(turn: TurnState) -> Generator[Effect, Result, Move | None]:
    """Return the move that the machine makes by itself after an update; None if there is none."""
    if not turn.state.autos:
        return None
    unanswered = _refused_answers(turn)
    autos = [move for move in turn.state.autos if not reads(move, unanswered)]
    return (yield from handlers.first_allowed(turn, autos))


def _checked(
    turn: TurnState, named: Named, move: Move | Refusal
) -> Generator[Effect, Result, Move | Refused]:
    """Return the move to what a reply named, or why it is not possible."""
    if isinstance(move, Refusal):
        turn.emit(ev.MoveRefused(target=cut(named.target, 200), reason=move.reason, by=move.by))
        refused = _refusal(turn, named, move.reason)
        return replace(refused, is_asked=move.reason != NOT_ASKED)
    unanswered = _refused_answers(turn)
    if move.is_own and reads(move, unanswered):
        reason = f"the new value of {', '.join(unanswered)} was refused"
        turn.emit(ev.MoveRefused(target=cut(named.target, 200), reason=reason, by="closed"))
        return _refusal(turn, named, reason)
    changed = _changed_answers(turn, move) if move.is_own else ()
    if changed and rest(turn.root, turn.session, move).kind == "final":
        reason = f"this message changed {', '.join(changed)}; stay, and say what changed"
        turn.emit(ev.MoveRefused(target=cut(named.target, 200), reason=reason, by="closed"))
        return _refusal(turn, named, reason)
    veto = yield from handlers.vetoed(turn, move)
    if veto is not None:
        return _refusal(turn, named, veto)
    return move


def _changed_answers(turn: TurnState, move: Move) -> tuple[str, ...]:
    """Return the known answers to which this message gave another value, so that nothing ends yet.

    Answers that open the move or belong to the state do not count. Neither does a list to which the
    message only added.
    """
    before, now = turn.initial_session.context, turn.session.context
    return tuple(
        key
        for key in before.keys() & now.keys()
        if corrections.is_corrected(turn, key)
        and key not in turn.state.collects
        and not reads(move, (key,))
        and not _is_begun_by(before[key], now[key])
    )


def _is_begun_by(old: Any, new: Any) -> bool:
    """Return true if a list begins with all items of an older one."""
    return isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old


def rehearse(turn: TurnState, head: str, asked_for: AskedFor) -> Run:
    """Take a reply whose message is still arriving, in a fork of the turn.

    `turn.promise` then has the text before the message, if the turn says it. The rehearsal ends
    there. It also ends without a promise where more is needed than handlers that run before a move.

    Args:
        turn: The fork.
        head: The beginning of the reply, with its transition.
        asked_for: The purpose of the request that is replied to.
    """
    if asked_for != "turn":
        turn.say("model", None)
        return
    turn.emit(ev.ModelReplied(asked_for=asked_for, text=head))
    try:
        available = available_here(turn)
        reply = parse(head, stay=_only_state(available))
    except ReplyError:
        return
    run = apply_reply(turn, reply, None, available)
    result: Result | None = None
    while True:
        try:
            effect = next(run) if result is None else run.send(result)
        except (StopIteration, StillArrivingError):
            return
        ahead = isinstance(effect, RunHandlers) and effect.point in _AHEAD
        if turn.promise is not None or not ahead:
            run.close()
            return
        result = yield effect


def _keep_values(turn: TurnState, reply: Reply, named: Named) -> Generator[Effect, Result, JsonMap]:
    """Keep the values of a reply for the definition at work; return those for the one that it leads
    into.
    """
    if reply.update_fault is not None:
        refused = ev.ContextRefused(
            key=UPDATE, reason=reply.update_fault, source="model", told=True
        )
        turn.emit(refused)
    mine: JsonMap = reply.update
    theirs: JsonMap = {}
    if named.aside is not None:
        mine, theirs = divided(turn.machine.keys, named.aside.program.keys, reply.update)
    mine = _without_harm(turn, mine, named)
    if mine:
        if turn.session.flow:
            mine = corrections.change_answers(turn, mine)
        yield from transitions.apply_update(turn, mine)
    return theirs


def _without_harm(turn: TurnState, update: JsonMap, named: Named) -> JsonMap:
    """Return an update that takes nothing back, if the message is nothing but a yes that leads on.

    Small models empty a form with the "yes" that sends it.
    """
    names = update.get(CLEAR)
    message = turn.session.user_input or ""
    if (
        not isinstance(names, list)
        or named.here
        or not is_yes(turn.machine.definition.language, message)
    ):
        return update
    for name in names:
        reason = "the user says yes, and takes nothing back"
        turn.emit(ev.ContextRefused(key=cut(str(name), 200), reason=reason, source="model"))
    return {**update, CLEAR: []}


def _keep(turn: TurnState, theirs: JsonMap) -> Run:
    """Keep values here that belong to a definition to which no move is made."""
    if theirs:
        yield from transitions.apply_update(turn, theirs)


def _change_was_refused(turn: TurnState, message: Message) -> bool:
    """Return true if a value was refused that the message may speak of as known. Then the message
    is not said.

    That is a new value for an earlier answer where corrections are switched on, and any value that
    breaks a rule of `x-valid`: the user reads the rule's description instead.
    """
    session = turn.session
    if response.is_untold(turn, message):
        return True
    earlier = [
        key
        for key, _ in session.notes
        if session.origins.get(key, (session.turn, ""))[0] < session.turn
    ]
    return bool(earlier) and turn.has("correct")


def _is_unsaid(turn: TurnState, reply: Reply, message: Message) -> bool:
    """Return true if a value was refused that the user never said, and the reply cannot be done
    without it.

    So it is for a new value of an earlier answer, and for a message that speaks of the value as
    known.
    """
    unsaid = [key for key, reason in turn.session.notes if reason.startswith(NOT_SAID)]
    if any(key in turn.session.context for key in unsaid):
        return True
    values = [
        value for name, value in reply.update.items() if key_of(name).partition(".")[0] in unsaid
    ]
    return bool(values) and speaks_of(response.read(message), values)


def _stay(turn: TurnState, message: Message) -> Run:
    """Say the message of a reply that stays."""
    turn.say("model", message)
    if turn.state.fixed is not None:
        response.complain(turn)
    if blanks(turn.machine, turn.session):
        yield from _collect_again(turn)
        return
    response.say_fixed(turn)
    yield from closing.close(turn, written="here")


def _ask_again(turn: TurnState, theirs: JsonMap) -> Generator[Effect, Result, Taken]:
    """Say a question once more that could not be said before. No model can answer it."""
    yield from _keep(turn, theirs)
    yield from _stay_after_refusal(turn)
    return Taken()


def _stay_after_refusal(turn: TurnState) -> Run:
    """Say which change was refused, and why, before the question that is open.

    A state that confirms reads its values back anew.
    """
    response.complain(turn)
    if blanks(turn.machine, turn.session):
        yield from _collect_again(turn)
        return
    response.say_fixed(turn)
    yield from closing.close(turn, written="no_call")


def _collect_again(turn: TurnState) -> Run:
    """Go where a value is collected that the read-back of this state lacks."""
    arrival = yield from transitions.settle(turn, asked=frozenset({turn.here}))
    yield from closing.close(turn, arrival, written="no_call")


def _move_after_refusal(turn: TurnState, move: Move) -> Generator[Effect, Result, Taken]:
    """Move although a change was refused. The old answer ends nothing, begins no work and enters no
    other flow.
    """
    session = turn.session
    there = rest(turn.root, session, move)
    if not there.talks or there.flow != session.flow:
        reasons = "; ".join(f"{key}: {why}" for key, why in session.notes)
        reason = f"a changed answer was refused: {reasons}"
        turn.emit(ev.MoveRefused(target=move.target, reason=reason, by="closed"))
        yield from _stay_after_refusal(turn)
        return Taken()
    response.complain(turn)
    arrival = yield from transitions.follow(turn, move, "model")
    yield from closing.close(turn, arrival, written="no_call")
    return Taken(arrival.stop)


def _move(
    turn: TurnState, move: Move, by: str, reading: Reading
) -> Generator[Effect, Result, Taken]:
    """Make the move of a reply, say its message, and close the turn where it arrives."""
    theirs = reading.theirs if reading.named.target == move.target else {}
    if not theirs:
        yield from _keep(turn, reading.theirs)
    _note_declined(turn, move)
    before, flow = turn.session, flow_of(turn, move)
    turn.say("model", reading.message if _is_said(turn, move) else "")
    arrival = yield from transitions.follow(turn, move, by, theirs)
    arrival = arrival._replace(passed=arrival.passed or by == "known")
    foreseen = turn.session.flow in (before.flow, flow) and turn.session.state in reading.foreseen
    yield from closing.close(turn, arrival, written="here" if foreseen else "nothing")
    return Taken(arrival.stop)


def _is_said(turn: TurnState, move: Move) -> bool:
    """Return true if the message of a move is shown.

    It is, unless the move comes to rest in a state whose fixed reply is alone.
    """
    if not turn.root.replies_alone:
        return True
    there = rest(turn.root, turn.session, move)
    return not turn.root.named(there.flow).states[there.state].definition.reply_alone


def _note_declined(turn: TurnState, move: Move) -> None:
    """Note the keys that the user declines: another way needs them, and the one taken leads on
    without them.
    """
    past = {state for state, _ in turn.session.path}
    if not move.is_own or move.target in past:
        return
    others = [other for other in turn.state.own if other is not move]
    collected = _state_of(turn, move, flow_of(turn, move)).collects

    def is_declined(key: str) -> bool:
        needed = any(reads(other, (key,)) for other in others)
        return needed and key not in collected and not reads(move, (key,))

    declined = tuple(key for key in response.missing_keys(turn) if is_declined(key))
    if declined:
        turn.emit(ev.KeysSkipped(keys=declined))


def flow_of(turn: TurnState, move: Move) -> str:
    """Return the name of the definition that a move leads into."""
    if move.place is not None:
        return turn.session.flow_at(move.place)
    return turn.session.flow if move.caller is None else turn.session.of_caller(move.caller).flow


def _state_of(turn: TurnState, move: Move, flow: str) -> CompiledState:
    """Return the state of the definition `flow` that a move leads to."""
    return turn.root.named(flow).states[move.target]


def _refusal(turn: TurnState, named: Named, reason: str) -> Refused:
    """Return why a move is refused, in words for the model, with the values that were refused
    besides.
    """
    shown = json.dumps(cut(named.target, 100))
    text = f"the move to {shown} is not possible: {reason}"
    values = "; ".join(f"{key}: {why}" for key, why in refusals(turn))
    return Refused(f"{text}. Refused values: {values}" if values else text, named)


def make_move(turn: TurnState, move: Move, by: str) -> Generator[Effect, Result, Arrival]:
    """Make a move that no message of a model goes with, and close the turn."""
    arrival = yield from transitions.follow(turn, move, by)
    yield from closing.close(turn, arrival, written="nothing")
    return arrival
