"""Turns without a model: the message is certainly a value, and the value certainly leads on.

The definition's own fixed words must have asked for it, and the state must lack no other key. The
value must open one move by conditions alone, to a state with a fixed reply. Nothing else that could
be meant may stand open beside it. Everything else is for the model.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm.languages import QUESTION_MARKS
from llm_fsm.session.context import missing
from llm_fsm.session.session import Session
from llm_fsm.turn.agreement import withheld
from llm_fsm.turn.available import asides
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Move, newly_open, open_moves, verdict
from llm_fsm.turn.recognize import folded
from llm_fsm.turn.response import own_words
from llm_fsm.turn.rest import rest


def certain_value(
    root: CompiledMachine, session: Session, lacking: tuple[str, ...], outset: Session
) -> tuple[str, Any] | None:
    """Return the key and the value that the message is, if that and the move it leads to are
    certain.

    Args:
        root: The definition that was started.
        session: The session with the message.
        lacking: Keys that the state still wants.
        outset: The session before the message.
    """
    program = root.of(session)
    plan = program.states[session.state]
    if (
        # A model may call tools or note things in the same reply, so such a state always asks it.
        len(lacking) != 1
        or lacking[0] not in program.fast
        or plan.definition.tools
        or plan.definition.memory
    ):
        return None
    [key] = lacking
    asked, said = _asked(program, plan, session), (session.user_input or "").strip()
    value = program.fast[key](said, asked) if asked and _was_asked(session, outset, plan) else None
    if value is None:
        return None
    before, after = session.data(), {**session.data(), key: value}
    told = replace(session, context={**session.context, key: value})
    # The program's own moves come first, as they do after a reply.
    move = next(open_moves(plan.autos, after), None) or certain_move(program, told, before)
    if move is None:
        return None
    there = rest(root, told, move)
    # Only a fixed reply can be said without a model.
    speaks = there.kind in ("converse", "final") and there.flow == session.flow
    if not speaks or program.states[there.state].fixed is None:
        return None
    return None if _means_another(root, session, move, said, key=key, value=value) else (key, value)


def _asked(program: CompiledMachine, plan: CompiledState, session: Session) -> str:
    """Return the state's fixed reply if it was said last, asks no two questions, and no question
    stands before it.
    """
    words = own_words(program, plan, session) if plan.fixed is not None else ""
    said = session.window[-1][1] if session.window else ""
    # Words that answer no message are a reminder or the program's, and may ask something else.
    reminded = said != words and bool(session.window) and session.window[-1][0] is None
    if session.question or reminded or not said.endswith(words):
        return ""
    # Of two questions, nobody knows which one a "yes" answers.
    return words if sum(words.count(mark) for mark in QUESTION_MARKS) < 2 else ""


def _was_asked(session: Session, outset: Session, plan: CompiledState) -> bool:
    """Return false if this turn has already moved on, or has set what was asked for."""
    return (outset.flow, outset.state) == (session.flow, session.state) and missing(
        outset.context, plan.collects
    ) == missing(session.context, plan.collects)


def certain_move(program: CompiledMachine, session: Session, before: JsonMap) -> Move | None:
    """Return the move to the one state that a value opened by conditions alone; None if there is
    none, or several.

    Of several moves to that state it is the one that a model would take by naming the state. A yes
    that does not count is no move.

    Args:
        program: The definition at work.
        session: The session with the value.
        before: What conditions read before the message.
    """
    after = session.data()
    plan = program.states[session.state]
    moves = [move for move in plan.moves if withheld(program, session, move) is None]
    opened = [move for move in newly_open(moves, before, after) if move.target != plan.id]
    if len({move.target for move in opened}) != 1 or all(move.asks_model for move in opened):
        return None
    return next(move for move in open_moves(moves, after) if move.target == opened[0].target)


def _means_another(
    root: CompiledMachine, session: Session, move: Move, said: str, *, key: str, value: Any
) -> bool:
    """Return true if the words may ask for another way: they name it, or words alone say when to
    take it.
    """
    program, after = root.of(session), {**session.data(), key: value}
    plan = program.states[session.state]
    # Both: the words of a choice may name one way, and its value another.
    words = {folded(said), folded(value) if isinstance(value, str) else ""} - {""}
    if not words.isdisjoint(map(folded, (*program.patterns, *program.own_patterns))):
        return True
    # A way that a yes and a no open alike says nothing about which other way is meant.
    either = isinstance(value, bool) and verdict(move, {**after, key: not value}).holds
    beside = [(aside.move, aside.data_in(session)) for aside in asides(root, session).values()]
    for other, data in (*((other, after) for other in plan.moves), *beside):
        if other.target in (plan.id, move.target) or not verdict(other, data).holds:
            continue
        # Where the value decides nothing, the model has to judge the words.
        if either and other.judged and other.is_own:
            return True
        told = folded(
            " ".join(
                (other.target, other.description, *(guard.description for guard in other.guards))
            )
        )
        if any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", told) for word in words):
            return True
    return False
