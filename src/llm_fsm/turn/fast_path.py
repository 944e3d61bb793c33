"""When a turn needs no model: the message is certainly a value, and certainly leads on.

The value must be that of the one key that the state still wants (see `llm_fsm.turn.recognize`), and wanted before the
message came. The move must be one that the value opens by conditions alone, to a state whose words are fixed, and
nothing else that could be meant may stand open beside it. Everything else is for the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llm_fsm._text import TRUNCATED
from llm_fsm.session.context import missing
from llm_fsm.session.session import Session
from llm_fsm.turn.available import asides
from llm_fsm.turn.compiled import Program, StatePlan
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.recognize import Heard, folded

_STEPS = 16
_FORMS = frozenset(("enum", "format", "pattern"))


def certain_value(root: Program, session: Session, lacking: tuple[str, ...], outset: Session) -> tuple[str, Any] | None:
    """The key and the value that the message is, where that and the move it leads to are certain.

    `outset`: the session before the message; `root`: the definition that was started.
    """
    program = root.of(session)
    plan = program.states[session.state]
    if len(lacking) != 1 or lacking[0] not in program.fast or plan.state.tools or plan.state.memory:
        return None
    [key] = lacking
    asked = session.window[-1][1] if session.window else ""
    heard = Heard(
        text=(session.user_input or "").strip(),
        first=session.turns_in_state <= 1 and not _reminded(program, session),
        asked=asked,
        whole=not asked.endswith(TRUNCATED),
    )
    value = program.fast[key](heard)
    if value is None or not _was_asked(session, outset, plan) or not _is_of(program, session, heard, key, value):
        return None
    before, after = session.data(), {**session.data(), key: value}
    move = next((move for move in plan.autos if verdict(move, after).holds), None)
    move = move or certain_move(plan, before, after)
    if move is None or not _speaks(program, move.target, after):
        return None
    return None if _means_another(root, session, move, heard, key=key, value=value) else (key, value)


def _reminded(program: Program, session: Session) -> bool:
    """True where what was said last came by itself, after silence: it asks whether anybody is there."""
    if "silence" not in program.patterns and "silence" not in program.own_patterns:
        return False
    by_itself = bool(session.window) and session.window[-1][0] is None
    return by_itself and (session.turn > 1 or len(session.window) > 1)


def _was_asked(session: Session, outset: Session, plan: StatePlan) -> bool:
    """False where the message answers another question: what came with it has moved on, or set what was asked for."""
    return (outset.flow, outset.state) == (session.flow, session.state) and missing(
        outset.context, plan.collects
    ) == missing(session.context, plan.collects)


def _is_of(program: Program, session: Session, heard: Heard, key: str, value: Any) -> bool:
    """False where the value may be that of another key, one that was set before."""
    if heard.first:
        return True
    keys = program.keys
    others = [other for other in keys.offered if other != key and other in session.context]
    return not session.stack and not any(
        _FORMS & keys.offered[other].keys() and keys.fault(other, value) is None for other in others
    )


def certain_move(plan: StatePlan, before: Mapping[str, Any], after: Mapping[str, Any]) -> Move | None:
    """The move to the one state that a value opened by conditions alone; None where there is none, or a choice.

    Of several moves there it is the one that would be taken if a model named the state.
    """
    unheard = {**before, "_user_input": None}
    opened = [
        move
        for move in plan.moves
        if move.target != plan.id and move.guards and verdict(move, after).holds and not verdict(move, unheard).holds
    ]
    if len({move.target for move in opened}) != 1 or all(map(_asks_model, opened)):
        return None
    return next(move for move in plan.moves if move.target == opened[0].target and verdict(move, after).holds)


def _asks_model(move: Move) -> bool:
    return any(guard.judged for guard in move.guards)


def _means_another(root: Program, session: Session, move: Move, heard: Heard, *, key: str, value: Any) -> bool:
    """True where the words may ask for another way: they name it, or words alone say when it is to be taken."""
    program, after = root.of(session), {**session.data(), key: value}
    plan = program.states[session.state]
    words = {folded(heard.text), folded(value) if isinstance(value, str) else ""} - {""}
    if not words.isdisjoint(map(folded, (*program.patterns, *program.own_patterns))):
        return True
    either = isinstance(value, bool) and verdict(move, {**after, key: not value}).holds
    beside = [(aside.move, aside.data) for aside in asides(root, session).values()]
    for other, data in (*((other, after) for other in plan.moves), *beside):
        if other.target in (plan.id, move.target) or not verdict(other, data).holds:
            continue
        if either and other.judged and other.pointer.startswith("/states/"):
            return True
        told = folded(" ".join((other.target, other.description, *(guard.description for guard in other.guards))))
        if any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", told) for word in words):
            return True
    return False


def _speaks(program: Program, target: str, data: Mapping[str, Any]) -> bool:
    """True when the way from here ends in a state with a fixed reply, through states that decide by conditions."""
    for _ in range(_STEPS):
        plan = program.states[target]
        moves = plan.moves if plan.kind == "decide" else plan.autos
        following = next((move for move in moves if verdict(move, data).holds), None)
        if following is None:
            return plan.kind in ("converse", "final") and plan.fixed is not None
        target = following.target
    return False
