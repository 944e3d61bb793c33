"""The conversational part of a turn: the message is read without a model if it is certain, else the
model is asked.

`outcome.take_reply` applies the reply as far as the definition allows. A reply that cannot be taken
is asked for once more, with the reason.
"""

from __future__ import annotations

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply, uphold
from llm_fsm.turn import assignments, closing, handlers, model, response, tool_loop
from llm_fsm.turn.agreement import is_no, is_yes, said
from llm_fsm.turn.available import available_here
from llm_fsm.turn.choices import Choice, asked_key
from llm_fsm.turn.fast_path import certain_move, certain_value
from llm_fsm.turn.guards import Refusal
from llm_fsm.turn.named import named_by, possible_move
from llm_fsm.turn.outcome import Refused, Taken, Unreadable, forget, give_up, make_move, take_reply
from llm_fsm.turn.repair import verbs
from llm_fsm.turn.request import turn_request
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import LIMITED, Arrival, MoveRun, StoppableRun, TurnState


def ask(
    turn: TurnState, waiting: JsonMap | None = None, picked: Choice | None = None, told: str = ""
) -> StoppableRun:
    """Ask the model what to do with the message; once more if its reply cannot be taken.

    Args:
        turn: The turn.
        waiting: The loop in which the turn paused, with the answer put in; None where it did not
            pause.
        picked: The choice that the message is; None where it is none.
        told: What the user wrote to a person who has handed back; "" for a message of this turn.

    Returns:
        Why the run goes no further. None if it waits for the user or for an answer.
    """
    # The cheapest reading comes first; it does nothing where it is not certain.
    certain = yield from _without_model(turn, picked, asks=waiting is None)
    if certain is not None:
        return certain.stop
    available = available_here(turn)
    # Handlers and choices may have changed the session: a move is judged from what the model reads.
    turn.initial_session = turn.session
    heard = tool_loop.heard_by(turn.session)
    if told:
        heard = tool_loop.Heard(told, turn.session.window)
    request = turn_request(turn, available, words_only=False, heard=heard if told else None)
    loop = Loop("turn", request, available, heard)
    if waiting is not None:
        loop.take_up(waiting)
    last: Unreadable | Refused | None = None
    # A second refusal would hardly become a third try's success, and the user waits.
    while loop.tries < 2:
        turn.retried = loop.tries > 0
        reply = yield from tool_loop.run(turn, loop, _renew)
        if reply is None:
            break
        outcome = yield from take_reply(turn, reply, loop.look)
        if isinstance(outcome, Taken):
            return outcome.stop
        last = outcome
        _ask_once_more(turn, loop, reply.text, last)
    # The person who is asked has the word now; the turn goes on with the answer.
    if turn.paused:
        yield from closing.close(turn, written="nothing")
        return None
    # Nobody was asked about the message, so it is no miss.
    if turn.host.reached is not None:
        yield from closing.close(turn, Arrival(stop=LIMITED), written="nothing")
        return LIMITED
    return (yield from give_up(turn, last))


def _ask_once_more(turn: TurnState, loop: Loop, text: str, outcome: Unreadable | Refused) -> None:
    """Put the reason against a reply into the loop, with what the next one may do."""
    loop.tries += 1
    loop.refused = (*loop.refused, outcome.reason)
    again, stay = "", ""
    if isinstance(outcome, Refused):
        named = outcome.named
        is_unknown = not (named.moves or named.here or named.pattern)
        stay = "" if is_unknown and len(loop.look.valid) > 1 else outcome.onward or turn.state.id
        again = "" if outcome.onward or is_unknown else named.target
    is_listed = isinstance(outcome, Refused) and not stay
    loop.request = model.second_try(
        turn, loop.request, text, outcome.reason, again=again, stay=stay, listed=is_listed
    )


def _renew(turn: TurnState, loop: Loop) -> None:
    """Renew the available moves and the request, because values that tools wrote may open a move."""
    if loop.asked_for == "turn":
        available = available_here(turn)
        loop.reopen(turn_request(turn, available, words_only=False, heard=loop.heard), available)


def _without_model(turn: TurnState, picked: Choice | None, *, asks: bool) -> MoveRun:
    """Do what a message says for certain; None if the model is to be asked. `asks`: no call has
    been made for it.
    """
    # The machine asked this question itself, so a yes or no to it is never a value.
    at_stake = turn.session.at_stake() if asks else None
    if at_stake is not None:
        return (yield from _answer_before_loss(turn, at_stake))
    if picked is not None:
        arrival = yield from _take_choice(turn, picked)
        if arrival is not None:
            return arrival
    if not asks or not turn.machine.fast:
        return None
    certain = certain_value(
        turn.root, turn.session, response.missing_keys(turn), turn.initial_session
    )
    if certain is None:
        return None
    key, value = certain
    keys, session = turn.keys, turn.session
    proved = keys.unsaid(keys.claim(key, value), session.user_words())
    if isinstance(proved, str):
        return None
    quotes = {key: proved[-1]} if proved else {}
    given = ev.ContextSet(source="user", values={key: value}, quotes=quotes)
    accepted = uphold(keys, session.context, given, session.system_names())
    # A rule of `x-valid` changed or refused a part.
    if accepted != (given,):
        return None  # the model is told which rule the value breaks
    return (yield from _take_value(turn, key, accepted))


def _answer_before_loss(turn: TurnState, keys: tuple[str, ...]) -> MoveRun:
    """Lose what was asked about at a plain yes, and go on at a plain no; None if the model is to
    read the message.

    `keys`: what would be lost; without a key, the user was asked whether to stop.
    """
    language, message = turn.machine.definition.language, turn.session.user_input or ""
    if is_yes(language, message):
        turn.emit(ev.Recognised(key=""))
        if keys:
            return (yield from forget(turn, keys))
        return Arrival(stop=(yield from verbs.stop(turn)))
    if is_no(language, message):
        turn.emit(ev.Recognised(key=""))
        yield from verbs.go_on(turn)
        return Arrival()
    return None


def _take_choice(turn: TurnState, picked: Choice) -> MoveRun:
    """Do what the user chose, as far as that is certain; None if the model is to be asked."""
    targets = {move.target for move in turn.state.moves}
    if isinstance(picked.value, str) and picked.value in targets:
        named = named_by(turn.machine, turn.session, picked.value, available_here(turn))
        move = possible_move(turn.machine, turn.session, named)
        if isinstance(move, Refusal) or move.asks_model or said(turn, move, None) is not None:
            return None
        # After a veto the model is asked: it can say to the user what is not possible.
        if (yield from handlers.vetoed(turn, move)) is not None:
            return None
        turn.emit(ev.Recognised(key=""))
        return (yield from make_move(turn, move, "user"))
    key = asked_key(turn.session, turn.state)
    if not key:
        return None
    session = turn.session
    accepted = accept_reply(
        turn.keys, session.context, {key: picked.value}, session.begun, names=session.system_names()
    )
    if not all(isinstance(event, ev.ContextSet) for event in accepted):
        return None
    return (yield from _take_value(turn, key, accepted))


def _take_value(turn: TurnState, key: str, accepted: ev.Events) -> MoveRun:
    """Keep the value that the message gives for certain, and follow it; None if the model is to say
    where.
    """
    here, before = turn.state, turn.session.data()
    turn.emit(ev.Recognised(key=key))
    for event in accepted:
        turn.emit(replace(event, source="user") if isinstance(event, ev.ContextSet) else event)
    yield from assignments.update(turn, (key.partition(".")[0],))
    # Automatic transitions come before those that the value opens, as after a reply.
    auto = yield from handlers.first_allowed(turn, here.autos)
    if auto is not None:
        return (yield from make_move(turn, auto, "auto"))
    move = certain_move(turn.machine, turn.session, before)
    if move is None or said(turn, move, None) is not None:
        return None
    if (yield from handlers.vetoed(turn, move)) is not None:
        return None
    return (yield from make_move(turn, move, "user"))
