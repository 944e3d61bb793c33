"""The verbs of repair patterns: what one does to the place and the answers of a conversation.

A pattern is a definition (`patterns/*.json`). Its conditions choose the state in which it ends.
That state has the words, and its `outcome` names the verb. None of them needs a further model call,
unless it comes back into another definition. The model has not seen the questions of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llm_fsm._json import JsonMap, without
from llm_fsm._text import TRUNCATED
from llm_fsm.definition.names import label
from llm_fsm.languages import LANGUAGE
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.session import Origins, Session
from llm_fsm.turn import assignments, closing, handlers, response, subflows, transitions
from llm_fsm.turn.available import AvailableMoves
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move, open_moves, reads
from llm_fsm.turn.repair import corrections
from llm_fsm.turn.repair.patterns import end_of
from llm_fsm.turn.rest import rest, way_on
from llm_fsm.turn.turn_state import ORDINARY, Message, Run, Stop, StoppableRun, TurnState

_FROM_THE_USER = ("model", "user", "answer")
"""Sources of values that somebody gave in the conversation."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A pattern that a reply names.

    Attributes:
        name: The pattern.
        end: The state of the pattern in which it ends. Its `outcome` is the verb.
        message: The words of the reply; "" if there are none.
        data: Values of the keys that the pattern decides and speaks by.
        foreseen: The states whose purpose the model has read, by the target that leads there.
    """

    name: str
    end: str
    message: Message
    data: JsonMap
    foreseen: Mapping[str, frozenset[str]] = field(default_factory=dict)


def repair(turn: TurnState, name: str, message: Message, available: AvailableMoves) -> StoppableRun:
    """Do the verb of a pattern that a reply names.

    Args:
        turn: The turn.
        name: The pattern.
        message: The words of the reply.
        available: The menu that the model read.
    """
    if name == "cannot_handle":
        return (yield from miss(turn, message))
    data = {
        "said": _says_something(turn, message),
        "fixed": turn.state.fixed is not None,
        "inside": turn.session.in_digression() or None,
        "first": True if name == "back" and not _question_before(turn)[0] else None,
        "onward": True if name == "skip" and _ways_without_answer(turn) else None,
    }
    end = end_of(turn.machine.patterns[name], data)
    return (yield from _do(turn, Repair(name, end, message, data, available.arrivals)))


def _do(turn: TurnState, it: Repair) -> StoppableRun:
    verb = turn.machine.patterns[it.name].states[it.end].definition.outcome
    return (yield from _VERBS[verb](turn, it))


def _says_something(turn: TurnState, message: Message) -> bool:
    """Return true if the reply has words, so that the pattern needs none of its own."""
    return message != "" or bool(turn.offer is not None and turn.offer.question)


def _say(turn: TurnState, it: Repair, message: Message) -> None:
    """Say the message of a reply, and what the pattern adds to it."""
    piece = turn.machine.patterns[it.name]
    turn.say("model", message)
    turn.say("pattern", response.pattern_words(turn, piece, it.end, it.data))


def _apply(turn: TurnState, it: Repair, how: str, message: Message) -> None:
    """Record how a pattern is applied, and say what goes with it."""
    turn.emit(ev.Repaired(pattern=it.name, how=how))
    _say(turn, it, message)


def _arrive(turn: TurnState, move: Move, by: str, written: closing.Written) -> StoppableRun:
    """Make the move of a pattern, and close the turn where it arrives."""
    arrival = yield from transitions.arrive(turn, move, by)
    yield from closing.close(turn, arrival, written=written)
    return arrival.stop


def _ask_again(turn: TurnState, it: Repair) -> StoppableRun:
    """Say the words, and ask what is open again. Go on where the message has answered it besides."""
    # The same message may have asked something and answered what was open.
    move = way_on(turn.root, turn.session) if response.keys_asked_for(turn) else None
    if move is not None and (yield from handlers.vetoed(turn, move)) is None:
        return (yield from _go_on(turn, it, move))
    # A pattern with one end has no variants, so the record names none.
    is_only = it.end == turn.machine.patterns[it.name].definition.initial_state
    _apply(turn, it, "" if is_only else it.end, it.message)
    yield from go_on(turn)
    return None


def _go_on(turn: TurnState, it: Repair, move: Move) -> StoppableRun:
    """Make the move that the message has opened, and say its words for the pattern first."""
    turn.emit(ev.Repaired(pattern=it.name, how="moved"))
    flow, earlier = turn.session.flow, turn.said
    # The place counts as asked, so that the way cannot lead straight back.
    arrival = yield from transitions.arrive(turn, move, it.name, asked=frozenset({turn.here}))
    corrections.say_first(turn, earlier, it.name, it.message)
    yield from closing.close(turn, arrival, written=closing.written_in(turn, flow))
    return arrival.stop


def _refuse(turn: TurnState, it: Repair) -> StoppableRun:
    """Say that it cannot be done, and ask again. The model's words may have promised it."""
    _apply(turn, it, it.end, "")
    yield from go_on(turn)
    return None


def _say_again(turn: TurnState, it: Repair) -> StoppableRun:
    """Say the last words again, or the open question if they are not there whole or not true any
    more.
    """
    turn.emit(ev.Repaired(pattern=it.name))
    last = response.last_words(turn.session)
    # they may show values, which are other ones now
    stale = not last or last.endswith(TRUNCATED) or response.has_changed(turn)
    words = response.open_question(turn) if stale else last
    _say(turn, replace(it, data={**it.data, "question": words}), "")
    yield from ()
    return None


def _hand_over(turn: TurnState, it: Repair) -> StoppableRun:
    """End the conversation for a person, or enter the state that the nearest calling definition has
    for it.
    """
    session = turn.session
    places = (
        n
        for n in session.callers()
        if "handover" in turn.root.of(session.of_caller(n)).own_patterns
    )
    place = next(places, None)
    if place is None:
        _apply(turn, it, "", it.message)
        return Stop("handover")
    turn.emit(ev.Repaired(pattern="handover", how="moved"))
    # The state for a person belongs to the definition that waits, so all above it is left.
    subflows.leave_down_to(turn, place, "handover")
    turn.say("model", it.message)
    move = Move(pointer="/patterns", target="handover")
    written: closing.Written = "nothing" if it.message == "" else "here"
    return (yield from _arrive(turn, move, "handover", written))


def _end(turn: TurnState, it: Repair) -> StoppableRun:
    """End what is going on: a digression, a subflow, or the conversation. Ask first if that loses
    answers.
    """
    may_stop = turn.session.at_stake() == ()
    if _would_lose(turn) and not may_stop and question_before(turn):
        ask_first(turn, it.message)
        return None
    _apply(turn, it, turn.session.stack[-1].kind if turn.session.stack else "", it.message)
    # One level after the other, until one of them has a way on that the user can take.
    while turn.session.stack:
        frame = turn.session.stack[-1]
        arrival = yield from transitions.return_from(turn, "cancelled")
        # The limit of moves ends this loop, too: it counts each return.
        if arrival.stop == Stop("limited"):
            return arrival.stop
        before = frame.saved["previous_state"]
        if arrival.stop is not None and before is not None and _leads_back(turn, before):
            turn.emit(ev.StateEntered(state=before, previous=turn.session.state, by="cancel"))
            yield from assignments.run(turn, turn.state.assignment)
            arrival = ORDINARY
        if arrival.stop is None:
            # else it may lead into the same flow again
            left = {turn.here} if frame.kind == "subflow" else ()
            arrival = yield from transitions.settle(turn, arrival, asked=frozenset(left))
            yield from closing.close(turn, arrival, written="nothing")
            return arrival.stop
    if "cancelled" not in turn.machine.states:
        return Stop("cancelled")
    move = Move(pointer="/patterns", target="cancelled")
    return (yield from _arrive(turn, move, "cancel", "here"))


def question_before(turn: TurnState, names: Sequence[str] = ()) -> str:
    """Return the question before something is lost: these keys, or without a key all.

    It is "" where the language has no such sentence. Then nobody is asked.
    """
    if not names:
        return response.own(turn, "stop")
    schemas = turn.keys.offered
    *others, last = [label(name, schemas.get(name, {})) for name in names]
    return response.own(turn, "forget", ", ".join(others), last)


def ask_first(turn: TurnState, message: Message, names: tuple[str, ...] = ()) -> None:
    """Say a message, and ask whether to lose something. The next message answers it."""
    pattern = "correct" if names else "cancel"
    turn.emit(ev.Repaired(pattern=pattern, how="asked", keys=names))
    turn.say("model", message)
    turn.say("pattern", question_before(turn, names))


def _would_lose(turn: TurnState) -> bool:
    """Return true if an end loses something that is known here; a digression loses nothing."""
    session = turn.session
    if session.in_digression():
        return False
    return any(
        source in _FROM_THE_USER and not key.startswith("_") and has(session.context, key)
        for key, (_, source) in session.origins.items()
    )


def stop(turn: TurnState) -> StoppableRun:
    """End what is going on, after the user has said yes to that."""
    return (yield from _end(turn, Repair("cancel", "cancel", "", {})))


def go_on(turn: TurnState) -> Run:
    """Ask what is open again, where the conversation stays as it is."""
    response.say_fixed(turn)
    yield from closing.close(turn, written="no_call")


def _return(turn: TurnState, it: Repair) -> StoppableRun:
    """Leave a digression before its end."""
    _apply(turn, it, it.end, it.message)
    arrival = yield from transitions.return_from(turn, "cancelled")
    if arrival.stop is None:
        arrival = yield from transitions.settle(turn, arrival)
        yield from closing.close(turn, arrival, written="nothing")
    return arrival.stop


def _leads_back(turn: TurnState, state: str) -> bool:
    plan = turn.machine.states.get(state)
    return plan is not None and plan.kind == "converse"


def _clear(turn: TurnState, it: Repair) -> StoppableRun:
    """Begin again, with what the caller and the host have given, and what the same message says."""
    session = turn.session
    left, origins = session.state, _root_origins(session)
    kept = {
        key: value
        for key, value in session.root_context().items()
        if (origin := origins.get(key, (0, "")))[1] == "host"
        or origin == (session.turn, "model")
        or (key == LANGUAGE and turn.root.speaking is not None)
    }
    # A key that is made of a dropped one goes with it. The loop ends when nothing depends on what
    # is gone.
    while stale := kept.keys() & turn.root.keys.outdated(session.root_context(), kept, ()):
        kept = without(kept, stale)
    flow, initial = session.flow, turn.root.definition.initial_state
    piece = turn.machine.patterns["restart"]  # the restarted definition may have no such pattern
    # The values are dropped from the session here, and may still be quoted in this turn.
    subflows.keep_secrets(turn)
    turn.emit(ev.Repaired(pattern="restart"))
    turn.emit(ev.Restarted(state=initial, context=kept))
    turn.emit(ev.StateEntered(state=initial, previous=left, by="restart"))
    yield from assignments.run(turn, turn.state.assignment)
    yield from handlers.run(turn, Point.POST_TRANSITION)
    turn.say("model", it.message)
    turn.say("pattern", response.pattern_words(turn, piece, it.end, it.data))
    response.say_on_the_way(turn)
    arrival = yield from transitions.settle(turn)
    yield from closing.close(turn, arrival, written=closing.written_in(turn, flow))
    return arrival.stop


def _back(turn: TurnState, it: Repair) -> StoppableRun:
    """Ask the question before once more, its answer open again; what worked or waited since is not
    begun again.
    """
    state, keys = _question_before(turn)
    _apply(turn, it, "moved", it.message)
    yield from transitions.go_back(turn, state, keys)
    yield from go_on(turn)
    return None


def _question_before(turn: TurnState) -> tuple[str, tuple[str, ...]]:
    """Return the state that asked before, and the keys of its last answer; "" if there is none."""
    session, machine = turn.session, turn.machine
    if keys := _last_answer(session, turn.state):
        return turn.state.id, keys
    for name, pointer in reversed(session.path):
        state = machine.states.get(name)
        if state is None or all(move.pointer != pointer for move in state.moves):
            break  # of a definition that waits
        if state.kind == "converse":
            return name, _last_answer(session, state)
        if state.kind != "decide":
            break
    return "", ()


def _last_answer(session: Session, state: CompiledState) -> tuple[str, ...]:
    """Return the keys that a state collects and the user gave last, or would not give."""
    given = [key for key in state.collects if has(session.context, key)]
    turns = {key: session.origins.get(key.partition(".")[0], (0, ""))[0] for key in given}
    # A message may give several keys, and all of them are its answer.
    last = max(turns.values(), default=0)
    skipped = tuple(key for key in state.collects if key in session.skipped)
    return tuple(key for key, turn in turns.items() if turn == last) or skipped


def _ways_without_answer(turn: TurnState) -> list[Move]:
    """Return the moves that are open without the answers asked for here. None of them is a yes, or
    leads back.
    """
    if not response.missing_keys(turn) or _waits_for_yes(turn):
        return []
    moves = [move for move in open_moves(turn.state.own, turn.session.data()) if not move.agrees]
    if not all(rest(turn.root, turn.session, move).talks for move in moves):
        return []
    past = {state for state, _ in turn.session.path}
    return [move for move in moves if move.target not in past]


def _leave_out(turn: TurnState, it: Repair) -> StoppableRun:
    """Leave out what is asked here, and go on where one way is open without it."""
    moves, flow = _ways_without_answer(turn), turn.session.flow
    turn.emit(ev.KeysSkipped(keys=response.missing_keys(turn)))
    move = moves[0]
    if any(other.target != move.target for other in moves):
        _apply(turn, it, "stayed", it.message)
        yield from go_on(turn)
        return None
    if (yield from handlers.vetoed(turn, move)) is not None:
        yield from go_on(turn)
        return None
    _apply(turn, it, "moved", it.message)
    arrival = yield from transitions.arrive(turn, move, "skip")
    # Words that were written for another state than this one do not ask its question.
    is_foreseen = turn.session.state in it.foreseen.get(move.target, ())
    written = closing.written_in(turn, flow) if is_foreseen else "nothing"
    yield from closing.close(turn, arrival, written=written)
    return arrival.stop


def _waits_for_yes(turn: TurnState) -> bool:
    """Return true where a way on depends on a yes or a no that nobody has said."""
    keys, context = turn.keys, turn.session.context
    asked = [key for key in keys.offered if _yes_or_no(keys.schema(key)) and not has(context, key)]
    return any(reads(move, asked) for move in turn.state.own)


def _yes_or_no(schema: JsonMap) -> bool:
    """Return true for the schema of a key that takes true or false."""
    kind = schema.get("type", ())
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "boolean" in ([kind] if isinstance(kind, str) else kind) or any(
        isinstance(one, bool) for one in values
    )


def miss(turn: TurnState, message: Message = "", *, fallback: bool = False) -> StoppableRun:
    """Answer a message that was not understood: rephrase, then offer what is possible, then give
    up.
    """
    session = turn.session
    # A turn in between was understood, so counting begins anew.
    in_row = session.misses is not None and session.misses[1] >= session.turn - 1
    count = session.misses[0] + 1 if session.misses is not None and in_row else 1
    turn.emit(ev.Missed(count=count))
    if "cannot_handle" in turn.machine.own_patterns:
        if count > 2:
            return (yield from _go_to(turn, "cannot_handle"))
        closing.last_resort(turn)
        return None
    data = {"misses": count, "choices": _choices(turn), "said": _says_something(turn, message)}
    end = end_of(turn.machine.patterns["cannot_handle"], data)
    if fallback and end == "rephrase":
        turn.emit(ev.Repaired(pattern="cannot_handle", how=end))
        closing.last_resort(turn)
        return None
    return (yield from _do(turn, Repair("cannot_handle", end, message, data)))


def _give_up(turn: TurnState, it: Repair) -> StoppableRun:
    """Hand the conversation over to a person, or apologise and end it."""
    # Recorded first: the handover that may follow is another pattern.
    turn.emit(ev.Repaired(pattern=it.name, how=it.end))
    if "handover" in turn.machine.own_patterns:
        return (yield from _go_to(turn, "handover"))
    if "handover" in turn.machine.patterns:
        return (yield from _hand_over(turn, Repair("handover", "handover", "", {})))
    apology = turn.state.model.on_failure
    if apology is not None:
        turn.say("notice", apology)
    else:
        _say(turn, it, "")
    return Stop("given_up")


def _go_to(turn: TurnState, pattern: str) -> StoppableRun:
    """Enter the definition's own state of a pattern."""
    move = next((move for move in turn.state.moves if move.target == pattern), None)
    if move is None:
        closing.last_resort(turn)
        return None
    return (yield from _arrive(turn, move, pattern, "nothing"))


def _choices(turn: TurnState) -> str:
    """Return what is possible here, in the definition's words; without words around them, each a
    point of a list.
    """
    states = turn.machine.states
    said = (
        turn.machine.said(move) or states[move.target].definition.purpose or move.target
        for move in open_moves(turn.state.own, turn.session.data())
    )
    points = dict.fromkeys(" ".join(text.split()).rstrip(".") for text in said)
    if turn.machine.speaks and points:
        return response.own(turn, "possible", "; ".join(points))
    return "\n".join(f"• {point}" for point in points)


def _root_origins(session: Session) -> Origins:
    root = session.root_frame()
    return session.origins if root is None else root.saved["origins"]


_VERBS: Mapping[str, Callable[[TurnState, Repair], StoppableRun]] = {
    "ask_again": _ask_again,
    "back": _back,
    "clear": _clear,
    "end": _end,
    "give_up": _give_up,
    "hand_over": _hand_over,
    "leave_out": _leave_out,
    "refuse": _refuse,
    "return": _return,
    "say_again": _say_again,
}
"""The verbs that a final state of `patterns/*.json` may name as its `outcome`."""
