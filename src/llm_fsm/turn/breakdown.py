"""The way out when a function or a tool of the host fails for good: `on_function_error`.

Without the rule, the state stays open and the next message tries again. A run without a user has no
next message, so a task that has no attempt left ends it.
"""

from __future__ import annotations

from llm_fsm._json import of_kind
from llm_fsm.languages import certain_sentence
from llm_fsm.session import events as ev
from llm_fsm.turn import response
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.fixed_replies import WordingError
from llm_fsm.turn.guards import Move
from llm_fsm.turn.turn_state import TurnState

BY = "error"
"""The `by` of the move that the rule makes."""
POINTER = "/on_function_error"
"""The pointer of that move."""
_OF_TASK = ("function", "check", "route")


def has_failed(turn: TurnState, since: int) -> bool:
    """Return true if a function of a task failed among the events from number `since` on."""
    failed = of_kind(turn.events[since:], ev.FunctionFailed)
    return any(event.kind in _OF_TASK for event in failed)


def tool_has_failed(turn: TurnState) -> bool:
    """Return true if there is a rule, and the last call of a tool of this state failed."""
    if _ruled(turn) is None:
        return False
    # The last call of each tool decides: one that worked in the end is no failure.
    returned = of_kind(turn.events, ev.ToolReturned)
    failed = {event.name: event.error is not None for event in returned}
    return any(failed.get(name) for name in turn.state.definition.tools)


def words(turn: TurnState) -> str:
    """Return what the user reads: the rule's reply, else the apology of the definition."""
    machine = _ruled(turn) or turn.machine
    if machine.failure_reply is not None:
        try:
            return response.fixed_words(machine, turn.state, machine.failure_reply, turn.session)
        except WordingError as error:
            turn.emit(ev.ReplyFailed(state=turn.state.id, reason=str(error)))
    return turn.state.model.on_failure or certain_sentence(
        turn.machine.definition.language, "again"
    )


def way_out(turn: TurnState) -> Move | None:
    """Say the rule's reply in place of the model's, and return the move that the rule makes.

    None if there is no target, or if the rule has moved in this turn already.
    """
    machine = _ruled(turn)
    rule = None if machine is None else machine.definition.on_function_error
    moved = any(event.by == BY for event in of_kind(turn.events, ev.StateEntered))
    if machine is None or rule is None or rule.target_state is None or moved:
        return None
    said = words(turn)
    turn.said = tuple(
        part._replace(text="") if part.kind == "model" else part for part in turn.said
    )
    turn.fallback = True
    if rule.reply is not None:
        turn.say("notice", said)
    return Move(pointer=POINTER, target=rule.target_state)


def must_leave(turn: TurnState) -> bool:
    """Return true if the move of the rule leads out of the topmost place.

    That is a digression, or a called definition without a rule of its own.
    """
    stack = turn.session.stack
    return bool(stack) and (turn.machine is not _ruled(turn) or stack[-1].in_place)


def _ruled(turn: TurnState) -> CompiledMachine | None:
    """Return the definition whose rule counts: the current one, else the started one."""
    for machine in (turn.machine, turn.root):
        if machine.definition.on_function_error is not None:
            return machine
    return None
