"""When a turn needs no model: the message is certainly a value, and certainly leads on.

The value must be that of the one key that the state still wants (see `llm_fsm.recognition`). The move must be one
that the value opens by conditions alone, to a state whose words are fixed. Everything else is for the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm.program import Program, StatePlan
from llm_fsm.recognition import Heard
from llm_fsm.session import Session
from llm_fsm.transition import Move, verdict

_STEPS = 16
_FORMS = frozenset(("enum", "format", "pattern"))


def certain_value(
    program: Program, session: Session, plan: StatePlan, lacking: tuple[str, ...]
) -> tuple[str, Any] | None:
    """The key and the value that the message is, where that and the move it leads to are certain."""
    if len(lacking) != 1 or lacking[0] not in program.fast or plan.state.tools or plan.state.memory:
        return None
    [key] = lacking
    heard = Heard(
        text=(session.user_input or "").strip(),
        first=session.turns_in_state <= 1,
        asked=session.window[-1][1] if session.window else "",
    )
    value = program.fast[key](heard)
    if value is None or not (heard.first or _is_new(program, session, key, value)):
        return None
    before, after = session.data(), {**session.data(), key: value}
    move = next((move for move in plan.autos if verdict(move, after).holds), None)
    move = move or certain_move(plan, before, after)
    return (key, value) if move is not None and _speaks(program, move.target, after) else None


def _is_new(program: Program, session: Session, key: str, value: Any) -> bool:
    """False where the value may be meant for an answer that was given before, here or where something is left open."""
    keys = program.keys
    return not session.stack and not any(
        other != key and other in session.context and _FORMS & schema.keys() and keys.fault(other, value) is None
        for other, schema in keys.offered.items()
    )


def certain_move(plan: StatePlan, before: Mapping[str, Any], after: Mapping[str, Any]) -> Move | None:
    """The one move that became possible by conditions alone; None where there is none, or a choice of several."""
    opened = [
        move
        for move in plan.moves
        if move.target != plan.id
        and move.guards
        and not any(guard.judged for guard in move.guards)
        and not verdict(move, before).holds
        and verdict(move, after).holds
    ]
    return opened[0] if len({move.target for move in opened}) == 1 else None


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
