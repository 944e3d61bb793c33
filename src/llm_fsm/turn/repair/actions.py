"""The acts of repair patterns on the place and the answers of a conversation, and the words that say so.

The words come from the pattern's definition (see `turn.repair.patterns`). None of them needs a further model call,
unless it comes back into another definition. The model has not seen the questions of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llm_fsm._text import TRUNCATED
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.session import Session
from llm_fsm.turn import assignments, closing, handlers, response, subflows, transitions
from llm_fsm.turn.available import AvailableMoves
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move, open_moves, reads
from llm_fsm.turn.repair import corrections
from llm_fsm.turn.repair.patterns import end_of
from llm_fsm.turn.repair.questions import asks, told_in
from llm_fsm.turn.rest import rest, way_on
from llm_fsm.turn.turn_state import ORDINARY, Arrival, Message, Run, Stop, StoppableRun, TurnState


def repair(turn: TurnState, name: str, message: Message, available: AvailableMoves) -> StoppableRun:
    """Do what a pattern is there for.

    Args:
        turn: The turn.
        name: The pattern that a reply names.
        message: The words of the reply.
        available: The menu that the model read.
    """
    if name == "skip":
        return (yield from _skip(turn, message, available))
    if name in _ACTS:
        return (yield from _ACTS[name](turn, message))
    move = _way_on(turn) if name in ("correct", "digress") else None
    if move is not None:
        return (yield from _answer_both(turn, name, message, move))
    yield from _answer_aside(turn, name, message)
    return None


def _way_on(turn: TurnState) -> Move | None:
    """Return the way on where the message has answered the open question."""
    return way_on(turn.root, turn.session) if response.keys_asked_for(turn) else None


def _answer_both(turn: TurnState, name: str, message: Message, move: Move) -> StoppableRun:
    """Go on where a message has answered the open question besides."""
    if (yield from handlers.vetoed(turn, move)) is not None:
        yield from _answer_aside(turn, name, message)
        return None
    turn.emit(ev.Repaired(pattern=name, how="moved"))
    flow, earlier = turn.session.flow, turn.said
    asked = response.open_question(turn, response.last_question(turn.session))
    untrue = _claims_too_much(turn, name)
    if untrue:
        response.complain(turn)
    arrival = yield from transitions.arrive(turn, move, name, asked=frozenset({turn.here}))
    if not untrue:
        corrections.say_first(turn, earlier, name, response.still_asked(turn, message, asked))
    yield from _close(turn, arrival, flow)
    return arrival.stop


def _close(turn: TurnState, arrival: Arrival, flow: str) -> Run:
    """Close a turn after a pattern led on. The model is asked for words only in another definition than `flow`."""
    if turn.session.flow == flow:
        yield from closing.close(turn, arrival, written="no_call", asked="")
    else:
        yield from closing.close(turn, arrival, written="nothing")


def _claims_too_much(turn: TurnState, name: str) -> bool:
    """Return true where the words of a correction would announce a change that was refused."""
    corrected = any(isinstance(event, ev.Corrected) for event in turn.events)
    return name == "correct" and bool(turn.session.notes) and not corrected


def _answer_aside(turn: TurnState, name: str, message: Message) -> Run:
    """Answer by a pattern that changes nothing: say its words, and what is open stays so."""
    turn.emit(ev.Repaired(pattern=name))
    if name == "repeat":
        last, asked = response.last_words(turn.session), response.open_question(turn)
        changed = turn.state.fixed is not None and asked not in last  # it shows a value that is another one now
        stale = not last or last.endswith(TRUNCATED) or changed
        _say(turn, name, question=asked if stale else last)
        return
    asked = response.last_question(turn.session)
    if _claims_too_much(turn, name):
        response.complain(turn)
    elif message != "" or name == "digress" or turn.state.fixed is None:  # a fixed reply shows the change, and asks
        _say(turn, name, message=message, question=response.open_question(turn, asked))
    response.say_fixed(turn)
    if name in ("correct", "digress"):
        yield from closing.close(turn, written="no_call", asked=asked)


def _say(
    turn: TurnState, name: str, state: str | None = None, *, message: Message = "", **data: Any
) -> None:
    """Say the message of a reply, and what a pattern adds to it.

    Args:
        turn: The turn.
        name: The pattern.
        state: The state of the pattern that speaks; None: the one in which it ends.
        message: The words of the reply; "" if there are none.
        data: Values of the pattern's keys.
    """
    piece = turn.machine.patterns[name]
    data.setdefault("said", message != "")
    turn.say("model", message)
    turn.say("pattern", response.pattern_words(turn, piece, state or end_of(piece, data), data))


def _hand_over(turn: TurnState, message: Message) -> StoppableRun:
    """End the conversation for a person, or do what the nearest calling definition has a state of its own for."""
    session = turn.session
    places = (n for n in session.callers() if "handover" in turn.root.of(session.of_caller(n)).own_patterns)
    place = next(places, None)
    if place is None:
        turn.emit(ev.Repaired(pattern="handover"))
        _say(turn, "handover", message=message)
        return Stop("handover")
    turn.emit(ev.Repaired(pattern="handover", how="moved"))
    while len(turn.session.stack) > place:
        subflows.leave(turn, "handover")
    turn.say("model", message)
    arrival = yield from transitions.arrive(turn, Move(pointer="/patterns", target="handover"), "handover")
    yield from closing.close(turn, arrival, written="nothing" if message == "" else "here")
    return arrival.stop


def _cancel(turn: TurnState, message: Message) -> StoppableRun:
    """End what is going on: a digression, a subflow, or the conversation."""
    turn.emit(ev.Repaired(pattern="cancel", how=turn.session.stack[-1].kind if turn.session.stack else ""))
    _say(turn, "cancel", message=message)
    while turn.session.stack:
        frame = turn.session.stack[-1]
        arrival = yield from transitions.return_from(turn, "cancelled")
        if arrival.stop == Stop("limited"):
            return arrival.stop
        before = frame.saved["previous_state"]
        if arrival.stop is not None and before is not None and _leads_back(turn, before):
            turn.emit(ev.StateEntered(state=before, previous=turn.session.state, by="cancel"))
            yield from assignments.run(turn, turn.state.assignment)
            arrival = ORDINARY
        if arrival.stop is None:
            left = {turn.here} if frame.kind == "subflow" else ()  # else it may lead into the same flow again
            arrival = yield from transitions.settle(turn, arrival, asked=frozenset(left))
            yield from closing.close(turn, arrival, written="nothing")
            return arrival.stop
    if "cancelled" not in turn.machine.states:
        return Stop("cancelled")
    arrival = yield from transitions.arrive(turn, Move(pointer="/patterns", target="cancelled"), "cancel")
    yield from closing.close(turn, arrival, written="here")
    return arrival.stop


def _step_back(turn: TurnState) -> StoppableRun:
    """Leave a digression before its end."""
    arrival = yield from transitions.return_from(turn, "cancelled")
    if arrival.stop is None:
        arrival = yield from transitions.settle(turn, arrival)
        yield from closing.close(turn, arrival, written="nothing")
    return arrival.stop


def _leads_back(turn: TurnState, state: str) -> bool:
    plan = turn.machine.states.get(state)
    return plan is not None and plan.kind == "converse"


def _restart(turn: TurnState, message: Message) -> StoppableRun:
    """Begin again, with what the caller and the host have given, and what the same message says."""
    session = turn.session
    left, origins = session.state, _root_origins(session)
    kept = {
        key: value
        for key, value in session.root_context().items()
        if (origin := origins.get(key, (0, "")))[1] == "host" or origin == (session.turn, "model")
    }
    while stale := kept.keys() & turn.root.keys.outdated(session.root_context(), kept, ()):
        kept = {key: value for key, value in kept.items() if key not in stale}
    flow, initial = session.flow, turn.root.definition.initial_state
    piece = turn.machine.patterns["restart"]  # the restarted definition may have no such pattern
    subflows.keep_secrets(turn)
    turn.emit(ev.Repaired(pattern="restart"))
    turn.emit(ev.Restarted(state=initial, context=kept))
    turn.emit(ev.StateEntered(state=initial, previous=left, by="restart"))
    yield from assignments.run(turn, turn.state.assignment)
    yield from handlers.run(turn, Point.POST_TRANSITION)
    turn.say("model", message)
    turn.say("pattern", response.pattern_words(turn, piece, "restart", {"said": message != ""}))
    response.say_on_the_way(turn)
    arrival = yield from transitions.settle(turn)
    yield from _close(turn, arrival, flow)
    return arrival.stop


def _back(turn: TurnState, message: Message) -> StoppableRun:
    """Ask the question before once more, its answer open again; what worked or waited since is not begun again."""
    if turn.session.in_digression():
        turn.emit(ev.Repaired(pattern="back", how="left"))
        _say(turn, "back", message=told_in(response.read(message)))
        return (yield from _step_back(turn))
    state, keys = _question_before(turn)
    if not state:
        turn.emit(ev.Repaired(pattern="back", how="first"))
        _say(turn, "back", first=True, question=response.open_question(turn, response.last_question(turn.session)))
        return None
    turn.emit(ev.Repaired(pattern="back", how="moved"))
    _say(turn, "back", message=told_in(response.read(message)))
    yield from transitions.go_back(turn, state, keys)
    response.say_fixed(turn)
    yield from closing.close(turn, written="no_call", asked="")
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
    last = max(turns.values(), default=0)
    skipped = tuple(key for key in state.collects if key in session.skipped)
    return tuple(key for key, turn in turns.items() if turn == last) or skipped


def _skip(turn: TurnState, message: Message, available: AvailableMoves) -> StoppableRun:
    """Leave out what is asked here, and go on where one way is open without it. It is never a yes."""
    keys, data, flow = response.missing_keys(turn), turn.session.data(), turn.session.flow
    ways = list(open_moves(turn.state.own, data))
    if not keys or _waits_for_yes(turn) or not all(rest(turn.root, turn.session, move).talks for move in ways):
        ways = []
    past = {state for state, _ in turn.session.path}
    targets = list(dict.fromkeys(move.target for move in ways if move.target not in past))
    if not targets and turn.session.in_digression():
        turn.emit(ev.Repaired(pattern="skip", how="left"))
        _say(turn, "skip", message=message)
        return (yield from _step_back(turn))
    if not targets:
        turn.emit(ev.Repaired(pattern="skip", how="needed"))
        asked = "" if asks(turn.state.definition.purpose) else response.last_question(turn.session)
        _say(turn, "skip", needed=", ".join(keys) or "it", question=response.open_question(turn, asked))
        return None
    if keys:
        turn.emit(ev.KeysSkipped(keys=keys))
    if len(targets) > 1:
        turn.emit(ev.Repaired(pattern="skip", how="stayed"))
        _say(turn, "skip", message=message)
        response.say_fixed(turn)
        yield from closing.close(turn, written="no_call", asked="")
        return None
    move = next(move for move in ways if move.target == targets[0])
    if (yield from handlers.vetoed(turn, move)) is not None:
        response.say_fixed(turn)
        yield from closing.close(turn, written="no_call", asked=response.last_question(turn.session))
        return None
    turn.emit(ev.Repaired(pattern="skip", how="moved"))
    _say(turn, "skip", message=message)
    arrival = yield from transitions.arrive(turn, move, "skip")
    foreseen = turn.session.flow == flow and turn.session.state in available.arrivals.get(targets[0], ())
    if foreseen:
        yield from closing.close(turn, arrival, written="no_call", asked="")
    else:
        yield from closing.close(turn, arrival, written="nothing")
    return arrival.stop


def _waits_for_yes(turn: TurnState) -> bool:
    """Return true where a way on depends on a yes or a no that nobody has said."""
    keys, context = turn.machine.keys, turn.session.context
    asked = [key for key in keys.offered if _yes_or_no(keys.schema(key)) and not has(context, key)]
    return any(reads(move, asked) for move in turn.state.own)


def _yes_or_no(schema: Mapping[str, Any]) -> bool:
    """Return true for the schema of a key that takes true or false."""
    kind = schema.get("type", ())
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "boolean" in ([kind] if isinstance(kind, str) else kind) or any(isinstance(one, bool) for one in values)


def miss(turn: TurnState, message: Message = "", *, fallback: bool = False) -> StoppableRun:
    """Answer a message that was not understood: rephrase, then offer what is possible, then give up."""
    session = turn.session
    in_row = session.misses is not None and session.misses[1] >= session.turn - 1
    count = session.misses[0] + 1 if session.misses is not None and in_row else 1
    turn.emit(ev.Missed(count=count))
    if "cannot_handle" in turn.machine.own_patterns:
        if count > 2:
            return (yield from _go_to(turn, "cannot_handle"))
        closing.last_resort(turn)
        return None
    data: dict[str, Any] = {"misses": count, "choices": _choices(turn)}
    end = end_of(turn.machine.patterns["cannot_handle"], data)
    turn.emit(ev.Repaired(pattern="cannot_handle", how=end))
    if end == "give_up":
        return (yield from _give_up(turn))
    if fallback and end == "rephrase":
        closing.last_resort(turn)
        return None
    turn.say("model", message)
    question = response.open_question(turn, response.last_question(turn.session))
    if response.ends_in(turn, question, message or ""):
        question = ""  # the message asks it
    _say(turn, "cannot_handle", end, said=message != "", question=question, **data)
    if end == "rephrase" and message != "":
        response.say_fixed(turn)
        yield from closing.close(turn, written="no_call", asked=response.last_question(turn.session))
    return None


def _give_up(turn: TurnState) -> StoppableRun:
    """Hand the conversation over to a person, or apologise and end it."""
    if "handover" in turn.machine.own_patterns:
        return (yield from _go_to(turn, "handover"))
    if "handover" in turn.machine.patterns:
        return (yield from _hand_over(turn, ""))
    _say_given_up(turn)
    return Stop("given_up")


def _say_given_up(turn: TurnState) -> None:
    """Say the apology of the definition, if it has one, else that of the pattern."""
    if (apology := turn.state.model.on_failure) is not None:
        turn.say("notice", apology)
    else:
        _say(turn, "cannot_handle", "give_up")


def _go_to(turn: TurnState, pattern: str) -> StoppableRun:
    """Enter the definition's own state of a pattern."""
    move = next((move for move in turn.state.moves if move.target == pattern), None)
    if move is None:
        closing.last_resort(turn)
        return None
    arrival = yield from transitions.arrive(turn, move, pattern)
    yield from closing.close(turn, arrival, written="nothing")
    return arrival.stop


def _choices(turn: TurnState) -> str:
    """Return what is possible here, in the definition's words; without words around them, each a point of a list."""
    states = turn.machine.states
    said = (
        move.description or states[move.target].definition.purpose or move.target
        for move in open_moves(turn.state.own, turn.session.data())
    )
    points = dict.fromkeys(" ".join(text.split()).rstrip(".") for text in said)
    return "; ".join(points) if turn.machine.english else "\n".join(f"• {point}" for point in points)


def _root_origins(session: Session) -> Mapping[str, tuple[int, str]]:
    root = session.root_frame()
    return session.origins if root is None else root.saved["origins"]


_ACTS: Mapping[str, Callable[[TurnState, Message], StoppableRun]] = {
    "back": _back,
    "cancel": _cancel,
    "cannot_handle": miss,
    "handover": _hand_over,
    "restart": _restart,
}
"""The acts of patterns, by their names. Each is given the words of the reply."""
