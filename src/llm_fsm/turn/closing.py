"""The closing of a turn: what is still to be said where it stops.

Every turn ends here. `close` decides from four facts: what stopped the run, which state it rests
in, what the words so far were written for, and what they say already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply
from llm_fsm.turn import breakdown, model, response, tool_loop, transitions
from llm_fsm.turn.fixed_replies import sentence
from llm_fsm.turn.repair.questions import asks
from llm_fsm.turn.reply.parser import parse_words
from llm_fsm.turn.request import turn_request
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import (
    ORDINARY,
    Arrival,
    Offer,
    Part,
    Run,
    Stop,
    StoppableRun,
    TurnState,
)

_SPOKEN = ("passed", "cancelled", "handover", "given_up", "silent")
"""Ends that need no apology: the definition or a pattern has said what happened."""

Written = Literal["here", "no_call", "opening", "nothing", "update"]
"""The purpose for which the words so far were written.

- `here`: a message for the state in which the turn rests.
- `no_call`: words of a pattern, a notice or a time-out. The machine asks the open question itself.
- `opening`: nothing yet, and the conversation begins.
- `nothing`: nothing for this state.
- `update`: the program acts between messages, and nobody expects an answer.
"""


SOMEBODY_ANSWERS = "Before I can go on, somebody has to answer a question about this."
"""The words at a pause if nothing else was said."""


def close(
    turn: TurnState, arrival: Arrival = ORDINARY, *, written: Written, asked: str | None = None
) -> Run:
    """Say what is still to be said.

    Args:
        turn: The turn, where it stops.
        arrival: How it came there.
        written: The purpose for which the words so far were written.
        asked: The question that was asked last and is open again; None if none is.
    """
    if arrival.stop is not None:
        _apologise(turn, arrival.stop)
    elif turn.paused:
        _name_the_pause(turn)
    elif written != "update" and not turn.machine.alone:
        yield from _complete(turn, arrival, written, asked)


def _complete(turn: TurnState, arrival: Arrival, written: Written, asked: str | None) -> Run:
    """Say what is missing where a user reads it. The turn of a state that asks ends in one
    question.
    """
    state = turn.state
    talks = state.kind == "converse"
    if state.fixed is not None:
        pass  # the fixed reply has been said, and asks by itself
    elif state.definition.tools_first and talks and turn.session.turns_in_state == 0:
        yield from speak_with_tools(turn)
    elif talks and turn.offer is not None:
        yield from _ask_one_question(turn, turn.offer)
    elif talks and (asked is not None or _asks_itself(turn, arrival, written)):
        came_back = arrival.frame.asked if arrival.frame is not None else ""
        ask(turn, came_back if asked is None else asked)
    elif written == "here" and not arrival.passed:
        ask(turn)
    else:
        yield from _ask_for_words(turn, greeting=written == "opening")
        ask(turn)
    if not turn.words:
        turn.say("question", response.plain_question(turn, sorry=False))


def _ask_one_question(turn: TurnState, offer: Offer) -> Run:
    """End the turn in one question, chosen by facts: nothing looks into the words.

    The question of the reply comes first if the turn rests where it was written for, then the
    state's own. Where the machine made one more move, the question of the reply comes last.
    """
    moves, own = turn.moves_since(offer), response.asks_itself(turn)
    if offer.question and moves == 0:
        turn.say("model", offer.question)
    elif own:
        turn.say("question", own)
    elif offer.question and moves == 1:
        turn.say("model", offer.question)
    elif moves != 0 or response.missing_keys(turn) or not turn.words:
        yield from _ask_for_words(turn, greeting=False)


def _asks_itself(turn: TurnState, arrival: Arrival, written: Written) -> bool:
    """Return true where the open question needs no call: it is known from before, or the purpose
    asks it.
    """
    if arrival.back or written == "no_call":
        return True
    return arrival.passed and (asks(turn.state.definition.purpose) or any(map(asks, turn.words)))


def ask(turn: TurnState, asked: str | None = None) -> None:
    """Say the open question of a state that talks, unless the words of this turn ask something
    already.

    A fixed reply asks by itself.

    Args:
        turn: The turn.
        asked: The question that was asked last; "" if it is not known. None: the state asks for the
            first time, and only a purpose that is a question is added.
    """
    if turn.state.kind != "converse" or turn.state.fixed is not None or any(map(asks, turn.words)):
        return
    if asked is None:
        question = sentence(turn.state.definition.purpose)
        certain = asks(question)
    else:
        question = response.open_question(turn, asked)
        # else it may be an instruction to the model
        certain = turn.machine.english or asks(question)
    if certain and not any(response.ends_in(turn, question, words) for words in turn.words):
        turn.say("question", question)


def _apologise(turn: TurnState, stop: Stop) -> None:
    """Say nothing where a run has done its work, and apologise where it cannot go on."""
    if stop.reason in _SPOKEN or turn.machine.alone:
        return
    turn.fallback = True
    words = turn.state.model.on_failure or response.CANNOT_GO_ON
    if stop.reason == "open":
        words = breakdown.words(turn)
    turn.said = (Part("notice", words),)


def after_failure(turn: TurnState) -> StoppableRun:
    """Close a turn in which a tool failed for good, as `on_function_error` says."""
    move = breakdown.way_out(turn)
    if move is None:
        turn.fallback = True
        turn.said = (Part("notice", breakdown.words(turn)),)
        return None
    arrival = yield from transitions.arrive(turn, move, breakdown.BY)
    yield from close(turn, arrival, written="nothing")
    return arrival.stop


def _name_the_pause(turn: TurnState) -> None:
    """Tell a user who waits with the run what it waits for, if nothing was said yet."""
    pause = turn.session.pause
    if pause is None or turn.machine.alone or turn.words:
        return
    if pause.kind == "wait":
        turn.say("question", response.plain_question(turn, sorry=False))
    else:
        turn.say("notice", SOMEBODY_ANSWERS)


def _ask_for_words(turn: TurnState, *, greeting: bool) -> Run:
    """Ask the model for words alone: nothing else in its reply counts."""
    available = model.no_moves(turn)
    request = turn_request(turn, available, words_only=True, greeting=greeting)
    purpose: Literal["greeting", "words"] = "greeting" if greeting else "words"
    words = yield from model.ask(turn, purpose, request, available, parse_words)
    if isinstance(words, str):
        turn.say("model", words)
        return
    turn.fallback = True
    turn.say("question", turn.state.model.on_failure or response.plain_question(turn, sorry=False))


def speak_with_tools(turn: TurnState, waiting: Mapping[str, Any] | None = None) -> Run:
    """Let the model call the state's tools on arrival, and speak with what they found.

    Args:
        turn: The turn, in a state with `tools_first`.
        waiting: The loop in which the turn paused, with the answer put in; None if it did not
            pause.
    """
    menu = model.no_moves(turn)
    request = replace(turn_request(turn, menu, words_only=True), tools=tool_loop.offered(turn))
    loop = Loop("words", request, menu)
    if waiting is not None:
        loop.take_up(waiting)
    reply = yield from tool_loop.run(turn, loop)
    if not turn.paused and breakdown.tool_has_failed(turn):
        yield from after_failure(turn)
        return
    if reply is not None:
        turn.say("model", _words_in(turn, reply))
    if turn.paused:
        _name_the_pause(turn)
    else:
        ask(turn, "" if reply is None else None)


def _words_in(turn: TurnState, reply: ModelReply) -> str:
    """Return the words of a reply; "" if it cannot be read, which is recorded."""
    try:
        cut_off = model.unreadable(reply)
        if cut_off is not None:
            raise cut_off
        return parse_words(reply.text)
    except ReplyError as error:
        turn.emit(ev.ReplyRejected(fault=error.fault, reason=str(error)))
        return ""


def last_resort(turn: TurnState) -> None:
    """Say what the definition says when nothing was understood, or its own question."""
    turn.fallback = True
    response.complain(turn)
    words = turn.state.model.on_failure
    if words is None and turn.state.fixed is not None:
        words = response.words_here(turn)
    turn.say("question", words or response.plain_question(turn, sorry=True))
