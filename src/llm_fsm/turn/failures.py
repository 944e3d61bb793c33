"""Failures of the host's functions, as a turn records them: without any secret value."""

from __future__ import annotations

from msgspec.structs import replace

from llm_fsm.session.events import FunctionFailed
from llm_fsm.session.redaction import redacted
from llm_fsm.turn.turn_state import TurnState


def record(turn: TurnState, *failed: FunctionFailed | None) -> None:
    """Record which functions of the host failed; None is none."""
    for one in failed:
        if one is not None:
            turn.emit(redacted_failure(turn, one))


def redacted_failure(turn: TurnState, failed: FunctionFailed) -> FunctionFailed:
    """Return a failure whose message shows no secret value of the conversation."""
    return replace(failed, error=redacted(turn.secrets(), failed.error))
