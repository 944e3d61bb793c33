"""The closing of a turn: what is still to be said where it stops.

Every turn ends here. `close` decides from four facts: what stopped the run, which state it rests
in, what the words so far were written for, and what they say already.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm.errors import ReplyError
from llm_fsm.languages import certain_sentence, ends_in_question
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply
from llm_fsm.turn import breakdown, model, response, tool_loop, transitions
from llm_fsm.turn.reply.parser import ReplyWords, parse_words
from llm_fsm.turn.request import turn_request
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import ORDINARY, Arrival, Part, Run, Stop, StoppableRun, TurnState

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


def written_in(turn: TurnState, flow: str) -> Written:
    """Return what words of a pattern in the definition `flow` were written for, where it led.

    The model has not seen the questions of another definition.
    """
    return "no_call" if turn.session.flow == flow else "nothing"


def close(turn: TurnState, arrival: Arrival = ORDINARY, *, written: Written) -> Run:
    """Say what is still to be said.

    Args:
        turn: The turn, where it stops.
        arrival: How it came there.
        written: The purpose for which the words so far were written.
    """
    # The order matters: an end hides a pause, and a pause hides what is missing.
    if arrival.stop is not None:
        _apologise(turn, arrival.stop)
    elif turn.paused:
        _name_the_pause(turn)
    elif written != "update" and not turn.machine.alone:
        yield from _complete(turn, arrival, written)


def _complete(turn: TurnState, arrival: Arrival, written: Written) -> Run:
    """Say what is missing where a user reads it. The turn of a state that asks ends in one
    question.
    """
    state = turn.state
    talks = state.kind == "converse"
    if state.fixed is not None:
        _note_question(turn)  # the fixed reply has been said, and asks by itself
    elif state.definition.tools_first and talks and turn.session.turns_in_state == 0:
        yield from speak_with_tools(turn)
    elif written == "opening" or (not talks and (written != "here" or arrival.passed)):
        yield from _ask_for_words(turn, greeting=written == "opening")
    elif talks:
        yield from _ask_one_question(turn, arrival, written)
    if not turn.words:
        turn.say("question", response.plain_question(turn))


def _ask_one_question(turn: TurnState, arrival: Arrival, written: Written) -> Run:
    """End the turn in one question, chosen by facts: nothing looks into the words.

    The question of the reply comes first if the turn rests where it was written for, then the
    state's own, then the one that was asked here before. Where the machine made one more move, the
    question of the reply comes last.
    """
    # How far the turn went since the reply decides whether its question still fits.
    offer = turn.offer
    moves = None if offer is None else turn.moves_since(offer)
    offered = "" if offer is None else offer.question or ""
    is_older = offer is None or offer.question is None
    open_again = written == "no_call" or arrival.back
    # The one text of an older form was written for each state that the model foresaw.
    is_meant = moves == 0 or (written == "here" and not arrival.passed)
    if is_older and is_meant and _note_question(turn):
        return
    if moves == 0 and offered:
        ask(turn, "model", offered)
    # The state's own question would hide the result of work that only the model can tell.
    elif (own := response.asks_itself(turn)) and not _has_worked(turn):
        ask(turn, "question", own)
    elif again := response.asked_before(turn, arrival.frame):
        if open_again or response.missing_keys(turn):
            ask(turn, "question", again)
    elif moves == 1 and offered:
        ask(turn, "model", offered)
    elif is_older and open_again:
        _ask_for_what_is_missing(turn)
    elif is_older and is_meant:
        pass  # nothing else would come of another call
    elif moves != 0 or not turn.words or response.missing_keys(turn):
        # Nothing known asks here, so a call for words is the last way.
        yield from _ask_for_words(turn, greeting=False)


def _has_worked(turn: TurnState) -> bool:
    """Return true if work or an answer came in, of which only the model can tell the user."""
    return any(isinstance(event, ev.TaskPassed | ev.Answered) for event in turn.events)


def _note_question(turn: TurnState) -> bool:
    """Return true if the message of a reply without a question ends in a question mark."""
    offer = turn.offer
    if offer is None or offer.question is not None:
        return False
    return _note_words(turn, offer.message or "")


def _note_words(turn: TurnState, words: str) -> bool:
    """Return true if words without a question beside them count as one."""
    asks = ends_in_question(words)
    if asks:
        turn.question = words
    return asks


def ask(turn: TurnState, kind: Literal["model", "question"], question: str) -> None:
    """Say the question of this turn."""
    turn.say(kind, question)
    turn.question = question


def _ask_for_what_is_missing(turn: TurnState) -> None:
    """Say a sentence of the machine that asks, unless it has no words in the language."""
    question = response.missing_question(turn)
    if turn.machine.speaks or ends_in_question(question):
        ask(turn, "question", question)


def _say_words(turn: TurnState, words: ReplyWords) -> None:
    """Say the words of a call for words alone. The state's own question follows if they ask
    nothing.
    """
    turn.say("model", words.message)
    talks = turn.state.kind == "converse" and turn.state.fixed is None
    if words.question:
        ask(turn, "model", words.question)
    elif talks and not (words.question is None and _note_words(turn, words.message)):
        own = response.asks_itself(turn)
        if own:
            ask(turn, "question", own)


def _apologise(turn: TurnState, stop: Stop) -> None:
    """Say nothing where a run has done its work, and apologise where it cannot go on."""
    if stop.reason in _SPOKEN or turn.machine.alone:
        return
    turn.fallback = True
    words = response.apology(turn)
    if stop.reason == "open":
        words = breakdown.words(turn)
    # Words so far announced what did not happen, so the notice replaces them.
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
        turn.say("question", response.plain_question(turn))
    else:
        turn.say("notice", certain_sentence(turn.machine.definition.language, "somebody_answers"))


def _ask_for_words(turn: TurnState, *, greeting: bool) -> Run:
    """Ask the model for words alone: nothing else in its reply counts."""
    available = model.no_moves(turn)
    request = turn_request(turn, available, words_only=True, greeting=greeting)
    purpose: Literal["greeting", "words"] = "greeting" if greeting else "words"
    words = yield from model.ask(turn, purpose, request, available, parse_words)
    if isinstance(words, ReplyWords):
        _say_words(turn, words)
        return
    turn.fallback = True
    told = response.words_at_limit(turn) or turn.state.model.on_failure
    turn.say("question", told or response.plain_question(turn))


def speak_with_tools(turn: TurnState, waiting: JsonMap | None = None) -> Run:
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
    # A pause comes first: the answer may bring the result that failed.
    if not turn.paused and breakdown.tool_has_failed(turn):
        yield from after_failure(turn)
        return
    words = ReplyWords("") if reply is None else _words_in(turn, reply)
    if turn.paused:
        turn.say("model", words.message)
        _name_the_pause(turn)
    else:
        _say_words(turn, words)


def _words_in(turn: TurnState, reply: ModelReply) -> ReplyWords:
    """Return the words of a reply; none if it cannot be read, which is recorded."""
    try:
        model.check_whole(reply)
        return parse_words(reply.text)
    except ReplyError as error:
        turn.emit(ev.ReplyRejected(fault=error.fault, reason=str(error)))
        return ReplyWords("")


def last_resort(turn: TurnState, *, sorry: bool = True) -> None:
    """Ask the state's own question where no reply could be taken. `sorry`: after an apology."""
    turn.fallback = True
    if sorry:
        words = response.own(turn, "not_understood")
        turn.say("notice", turn.state.model.on_failure or words)
    if turn.state.fixed is not None:
        response.say_here(turn)
    else:
        known = response.asks_itself(turn) or response.asked_before(turn)
        ask(turn, "question", known or response.plain_question(turn))
