"""Failures of the host's functions, as a turn records them: without any secret value."""

from __future__ import annotations

from msgspec.structs import replace

from llm_fsm.session.events import FunctionFailed
from llm_fsm.session.redaction import redacted
from llm_fsm.turn.turn_state import TurnState


def record(turn: TurnState, failed: FunctionFailed) -> None:
    """Record that a function of the host failed."""
    turn.emit(redacted_failure(turn, failed))


def redacted_failure(turn: TurnState, failed: FunctionFailed) -> FunctionFailed:
    """Return a failure whose message shows no secret value of the conversation."""
    return replace(failed, error=redacted(turn.secrets(), failed.error))
