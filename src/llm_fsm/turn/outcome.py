"""The order in which a reply is taken, and what comes of it.

`apply_reply` is the only such order. A streamed reply is rehearsed by the same function: on a fork
of the turn, with a message that is still arriving. So a stream and its turn cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm._json import JsonMap, TextMap, member, without
from llm_fsm._text import cut
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import CLEAR, NOT_TAKEN_BACK, has, is_said_back
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.proof import MISREAD
from llm_fsm.session.quotes import NOT_SAID, QUOTES, YES
from llm_fsm.turn import assignments, breakdown, closing, handlers, model, response, transitions
from llm_fsm.turn.agreement import blanks, is_yes, said, touched
from llm_fsm.turn.available import AvailableMoves, available_here
from llm_fsm.turn.backtracking import divided
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.effects import AskedFor, Point, Result, RunHandlers
from llm_fsm.turn.guards import NOT_ASKED, Move, Refusal, reads
from llm_fsm.turn.named import Named, is_end, named_by, possible_move
from llm_fsm.turn.prompt.render import is_whole
from llm_fsm.turn.repair import corrections, verbs
from llm_fsm.turn.reply.parser import Reply, parse
from llm_fsm.turn.response import UPDATE
from llm_fsm.turn.rest import opened_way, rest
from llm_fsm.turn.turn_state import (
    ORDINARY,
    ArrivalRun,
    Message,
    Offer,
    Run,
    RunTo,
    StillArrivingError,
    Stop,
    StoppableRun,
    TurnState,
)

_AHEAD = (Point.CONTEXT_UPDATE, Point.PRE_TRANSITION)
"""Handlers that run before a move is made. Their results hold for the rehearsal and for the turn.
"""


_THROWS_AWAY = ("skip", "cancel", "restart")
"""Patterns that give way to values that open a way."""
_MANY = 2
"""Keys that a reply may take back without a question before it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The text is no reply. `reason` is for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A value was refused, or what the reply names is not possible.

    `reason` is for the model. `onward`: the state to name instead; "" where the same name is
    possible as soon as the reply has what it lacks.
    """

    reason: str
    named: Named
    onward: str = ""


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


def take_reply(turn: TurnState, raw: ModelReply, available: AvailableMoves) -> RunTo[Outcome]:
    """Read a reply, and do what it says as far as the definition allows.

    Args:
        turn: The turn.
        raw: The reply of the model.
        available: The menu that the model read.

    Returns:
        What came of it. Nothing was said, and only values were kept, unless it is `Taken`.
    """
    try:
        model.check_whole(raw)
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
) -> RunTo[Outcome]:
    """Take a reply: keep its values, correct earlier answers, then make the move that it names, if
    that is possible.
    """
    # The name is looked up in the menu that the model read. Values that follow may change the menu.
    named = named_by(turn.machine, turn.session, reply.target, available)
    turn.emit(ev.MovePicked(target=cut(named.target, 200), reasoning=reply.reasoning))
    update, names = _before_a_loss(turn, _without_harm(turn, reply.update, named))
    before = len(turn.events)
    # Values come before the move: its conditions read them.
    theirs = yield from _keep_values(turn, reply._replace(update=update), named)
    # Whatever the reply says, it was written without the result that is missing.
    if breakdown.tool_has_failed(turn):
        yield from _keep(turn, theirs)
        return Taken((yield from closing.after_failure(turn)))
    reason = _refused_values(turn, named, before)
    if reason and not (named.here or named.pattern):
        found = possible_move(turn.machine, turn.session, named)
        if isinstance(found, Refusal):
            _note_refusal(turn, named, found)
            return _refusal(turn, named, found.reason)
    if reason:
        return Refused(reason, named)
    if names:
        verbs.ask_first(turn, message, names)
        return Taken()
    arrivals = available.arrivals.get(named.target, frozenset())
    foreseen = frozenset((named.target,)) if named.behind else arrivals
    place = "" if named.pattern else named.target
    # Where the reply was written, for the count of moves that followed it.
    start, since = turn.session.state, len(turn.events)
    turn.offer = Offer(message, reply.question, named=place, start=start, since=since)
    reading = Reading(named=named, message=message, theirs=theirs, foreseen=foreseen)
    # A correction of an earlier answer comes before every way on, because it may end that way.
    if turn.has("correct"):
        turned_back = yield from corrections.correct(turn, named, message)
        if turned_back is not None:
            return Taken(turned_back.stop)
    yield from assignments.remake(turn)  # tools may have changed what values are made of
    auto = yield from _onward(turn)
    if auto is not None:
        return (yield from _move(turn, auto, "auto", reading))
    found = _said_move(turn, named, reply)
    return (yield from _go_where_it_leads(turn, reading, found, available))


def _go_where_it_leads(
    turn: TurnState, reading: Reading, found: Move | Refusal, available: AvailableMoves
) -> RunTo[Outcome]:
    """Make the move that the values opened or the reply names, do its pattern, or stay."""
    named, message, theirs = reading.named, reading.message, reading.theirs
    # Values that open a way say more than a name that is closed.
    way = yield from _opened_way(turn, named, found)
    if way is not None:
        return (yield from _move(turn, way, "known", reading))
    if named.pattern:
        yield from _keep(turn, theirs)
        return Taken((yield from verbs.repair(turn, named.target, message, available)))
    if named.here:
        yield from _keep(turn, theirs)
        yield from _stay(turn, message)
        return Taken()
    held = _held(turn, named, found)
    if held is not None:
        _note_refusal(turn, named, held)
        yield from _keep(turn, theirs)
        response.complain(turn)
        yield from _stay(turn, "", written="no_call")
        return Taken()
    move = yield from _checked(turn, named, found)
    if isinstance(move, Refused):
        return move
    return (yield from _move(turn, move, "model", reading))


def _refused_values(turn: TurnState, named: Named, since: int) -> str:
    """Return what was refused of a reply, and why, in words for the model; "" if nothing was.

    What nobody said is no value. It counts only where it would replace one, or where the author
    asks for proof. A `correct` that changes nothing is refused, too. `since`: the number of events
    before the reply.
    """
    before, now = turn.initial_session, turn.session
    every = response.refused_values(turn, since)
    harmless = () if named.here or named.target == "correct" else (NOT_TAKEN_BACK,)
    counted: dict[str, str] = {}
    for key, why in every.items():
        is_value = key in turn.keys.said or has(before.context, key)
        is_value = is_value or not why.startswith(NOT_SAID) or why.startswith(MISREAD)
        if is_value and why not in harmless:
            counted[key] = why
    is_same = (now.context, now.begun, now.stack) == (before.context, before.begun, before.stack)
    if named.pattern and named.target == "correct" and is_same:
        counted = {**every, "correct": "nothing is changed"}
    return _reasons(turn, counted)


def _reasons(turn: TurnState, refused: TextMap) -> str:
    """Return refused values with the reasons, in words for the model."""
    told: list[str] = []
    for key, why in refused.items():
        rest = ""
        if key in turn.session.begun:
            rest = "; its other parts are kept"
        elif is_whole(turn.keys.schema(key)):
            rest = "; nothing of it was kept"
        told.append(f"{key}: {why}{rest}")
    return "; ".join(told)


def _held(turn: TurnState, named: Named, found: Move | Refusal) -> Refusal | None:
    """Return why the question of the state is said anew before anything else happens; None if
    nothing stands against what the reply names.

    So it is if this message changed, took back, or was refused a value that was read back. A way of
    the whole machine and a digression hold beside that, and the state that collects the value may
    ask for it.
    """
    if isinstance(found, Refusal) and (found.by == "agrees" or found.reason == NOT_ASKED):
        return found
    keys = touched(turn) & turn.state.reads_back
    leads_elsewhere = any(
        not move.is_own or not keys.isdisjoint(turn.machine.states[move.target].collects)
        for move in named.moves
    )
    if not keys or leads_elsewhere:
        return None
    reason = f"{', '.join(sorted(keys))} must be read back anew, and the user must agree"
    return Refusal(by="agrees", reason=reason, sentence="unchanged")


def _note_refusal(turn: TurnState, named: Named, refusal: Refusal) -> None:
    target = cut(named.target, 200)
    turn.emit(
        ev.MoveRefused(
            target=target, reason=refusal.reason, by=refusal.by, sentence=refusal.sentence
        )
    )


def _said_move(turn: TurnState, named: Named, reply: Reply) -> Move | Refusal:
    """Return the move to what a reply named, or why it is not possible: a yes needs words."""
    found = possible_move(turn.machine, turn.session, named)
    if isinstance(found, Refusal):
        return found
    unmet = said(turn, found, member(reply.update.get(QUOTES), YES))
    if unmet is None:
        return found
    return Refusal(by="agrees", reason=unmet.reason, sentence=unmet.sentence)


def _opened_way(turn: TurnState, named: Named, found: Move | Refusal) -> RunTo[Move | None]:
    """Return the way that the values of this message opened; None if what the reply names is done.

    A reply that names the current state, or what is closed, says nothing against that way. Neither
    does a pattern that would throw the values away.
    """
    if isinstance(found, Move) or found.by == "agrees" or found.reason == NOT_ASKED:
        return None
    if named.pattern and named.target not in _THROWS_AWAY:
        return None
    return (yield from _way_of_values(turn))


def _way_of_values(turn: TurnState) -> RunTo[Move | None]:
    """Return the way that the values of this message opened, if none of them was refused."""
    way = opened_way(turn.root, turn.initial_session, turn.session)
    if way is None or reads(way, response.refused_values(turn)):
        return None
    return way if (yield from handlers.vetoed(turn, way)) is None else None


def _refused_answers(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that this state collects, and of which a rule of `x-valid` refused a value.

    The old answer that is kept opens nothing while a new one was refused.
    """
    keys, collected = turn.keys, turn.state.collects
    refused = response.refused_values(turn).items()
    return tuple(key for key, why in refused if key in collected and keys.is_rule(why))


def _onward(turn: TurnState) -> RunTo[Move | None]:
    """Return the move that the machine makes by itself after an update; None if there is none."""
    if not turn.state.autos:
        return None
    unanswered = _refused_answers(turn)
    autos = [move for move in turn.state.autos if not reads(move, unanswered)]
    return (yield from handlers.first_allowed(turn, autos))


def _checked(turn: TurnState, named: Named, move: Move | Refusal) -> RunTo[Move | Refused]:
    """Return the move to what a reply named, or why it is not possible."""
    onward = ""
    if isinstance(move, Move) and (objection := _objection(turn, move)) is not None:
        move, onward = objection, turn.state.id
    if isinstance(move, Refusal):
        _note_refusal(turn, named, move)
        return _refusal(turn, named, move.reason, onward=onward)
    veto = yield from handlers.vetoed(turn, move)
    if veto is not None:
        return _refusal(turn, named, veto)
    return move


def _objection(turn: TurnState, move: Move) -> Refusal | None:
    """Return what of this message stands against a move that its values allow; None for nothing."""
    if not move.is_own:
        return None
    unanswered = _refused_answers(turn)
    if reads(move, unanswered):
        reason = f"the new value of {', '.join(unanswered)} was refused"
        return Refusal(by="closed", reason=reason)
    # An end would hide from the user what has just changed.
    changed = _changed_answers(turn, move)
    if changed and rest(turn.root, turn.session, move).kind == "final":
        reason = f"this message changed {', '.join(changed)}; stay, and say what changed"
        return Refusal(by="closed", reason=reason)
    return None


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
        # The text may be shown now, or more is needed than a rehearsal may do.
        if turn.promise is not None or not ahead:
            run.close()
            return
        result = yield effect


def _keep_values(turn: TurnState, reply: Reply, named: Named) -> RunTo[JsonMap]:
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
        mine, theirs = divided(turn.keys, named.aside.program.keys, reply.update)
    if mine:
        if turn.session.flow:
            # A flow may be told answers of the definitions that wait for it.
            mine = corrections.change_answers(turn, mine)
        yield from transitions.apply_update(turn, mine)
    return theirs


def _without_harm(turn: TurnState, update: JsonMap, named: Named) -> JsonMap:
    """Return an update that takes nothing back, if the message is nothing but a yes that leads on.

    Small models empty a form with the "yes" that sends it.
    """
    message, quotes = turn.session.user_input or "", update.get(QUOTES)
    leads_on = not named.here and is_yes(turn.machine.definition.language, message)
    if not leads_on or not isinstance(quotes, Mapping):
        return update
    return {**update, QUOTES: without(quotes, (CLEAR,))}


def _keep(turn: TurnState, theirs: JsonMap) -> Run:
    """Keep values here that belong to a definition to which no move is made."""
    if theirs:
        yield from transitions.apply_update(turn, theirs)


def _before_a_loss(turn: TurnState, update: JsonMap) -> tuple[JsonMap, tuple[str, ...]]:
    """Part an update from what it takes back, if the user is asked first because it is much."""
    given = update.get(CLEAR)
    listed = given if isinstance(given, list) else []
    names = tuple(
        name
        for name in dict.fromkeys(map(str, listed))
        if has(turn.session.context, name) and name not in update
    )
    asks = len(names) > _MANY and is_said_back(update, turn.session.user_words())
    if not asks or not verbs.question_before(turn, names):
        return update, ()
    return {**update, CLEAR: []}, names


def forget(turn: TurnState, names: tuple[str, ...]) -> ArrivalRun:
    """Clear keys, because the user has said yes to that, and ask what is open then."""
    said = turn.session.user_input or ""
    yield from transitions.apply_update(turn, {CLEAR: list(names), QUOTES: {CLEAR: said}})
    here = Named(target=turn.state.id, here=True)
    turned_back = (yield from corrections.correct(turn, here, "")) if turn.has("correct") else None
    if turned_back is not None:
        return turned_back
    yield from _stay(turn, "", written="nothing")
    return ORDINARY


def _stay(turn: TurnState, message: Message, *, written: closing.Written = "here") -> Run:
    """Say a message, and the question of the state. While its read-back lacks a value, go where
    that is collected.
    """
    turn.say("model", message)
    arrival = ORDINARY
    if blanks(turn.machine, turn.session):
        arrival = yield from transitions.settle(turn, asked=frozenset({turn.here}))
        written = "no_call"
    else:
        response.say_fixed(turn)
    yield from closing.close(turn, arrival, written=written)


def give_up(turn: TurnState, last: Unreadable | Refused | None) -> StoppableRun:
    """Do what can be done without the words of a reply, because none could be taken.

    The user reads what was kept, and why a value was refused. The machine goes the way that the
    kept values opened, else it asks the question of the state.

    Args:
        turn: The turn, with the values that were kept.
        last: What was wrong with the last reply; None if no reply came.
    """
    turn.offer = None
    is_told = response.account(turn)
    way = yield from _way_without_words(turn, last)
    if way is not None:
        turn.fallback = True
        arrival = yield from transitions.follow(turn, way, "known")
        yield from closing.close(turn, arrival, written="no_call")
        return arrival.stop
    if turn.has("cannot_handle") and not is_told:
        return (yield from verbs.miss(turn, fallback=True))
    closing.last_resort(turn, sorry=not is_told)
    return None


def _way_without_words(turn: TurnState, last: Unreadable | Refused | None) -> RunTo[Move | None]:
    """Return the way that the values opened, else the one that the reply names, if no value that
    was refused bears on it.
    """
    auto = yield from _onward(turn)
    if auto is not None or touched(turn) & turn.state.reads_back:
        return auto
    way = yield from _way_of_values(turn)
    refused = response.refused_values(turn)
    if way is not None or not refused or not isinstance(last, Refused):
        return way
    found = possible_move(turn.machine, turn.session, last.named)
    bears = {*turn.state.collects, *turn.initial_session.context}
    if isinstance(found, Refusal) or found.agrees or reads(found, refused) or bears & {*refused}:
        return None
    there = rest(turn.root, turn.session, found)
    is_near = there.talks and there.flow == turn.session.flow
    return (yield from handlers.first_allowed(turn, [found])) if is_near else None


def _move(turn: TurnState, move: Move, by: str, reading: Reading) -> RunTo[Taken]:
    """Make the move of a reply, say its message, and close the turn where it arrives."""
    theirs = reading.theirs if reading.named.target == move.target else {}
    # The move leads elsewhere than the reply named, so nobody else will take these values.
    if not theirs:
        yield from _keep(turn, reading.theirs)
    _note_declined(turn, move)
    # Read before the move, which may change the flow at work.
    before, flow = turn.session, flow_of(turn, move)
    turn.say("model", reading.message if _is_said(turn, move, reading.named) else "")
    arrival = yield from transitions.follow(turn, move, by, theirs)
    arrival = arrival._replace(passed=arrival.passed or by == "known")
    foreseen = turn.session.flow in (before.flow, flow) and turn.session.state in reading.foreseen
    yield from closing.close(turn, arrival, written="here" if foreseen else "nothing")
    return Taken(arrival.stop)


def _is_said(turn: TurnState, move: Move, named: Named) -> bool:
    """Return true if the message of a move is shown.

    It is, unless the move comes to rest in a state whose fixed reply is alone, or the message tells
    of an end that is not reached because an answer changed.
    """
    missed = is_end(turn.machine, named) and named.target != move.target
    known = turn.initial_session.context
    if missed and any(corrections.is_corrected(turn, key) for key in known):
        return False
    if not turn.root.replies_alone:
        return True
    there = rest(turn.root, turn.session, move)
    return not turn.root.named(there.flow).states[there.state].definition.reply_alone


def _note_declined(turn: TurnState, move: Move) -> None:
    """Note the keys that the user declines: another way needs them, and the one taken leads on
    without them.
    """
    past = {state for state, _ in turn.session.path}
    # A way back needs no key that was skipped on the way there.
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


def _refusal(turn: TurnState, named: Named, reason: str, *, onward: str = "") -> Refused:
    """Return why a move is refused, in words for the model, with the values that were refused
    besides.
    """
    shown = json.dumps(cut(named.target, 100))
    text = f"the move to {shown} is not possible: {reason}"
    values = _reasons(turn, response.refused_values(turn))
    return Refused(f"{text}. Refused values: {values}" if values else text, named, onward)


def make_move(turn: TurnState, move: Move, by: str) -> ArrivalRun:
    """Make a move that no message of a model goes with, and close the turn."""
    arrival = yield from transitions.follow(turn, move, by)
    yield from closing.close(turn, arrival, written="nothing")
    return arrival
