"""What a turn wants done, and what came back. The shell performs effects; the core never does.

AskModel → ModelReply · RunHandlers → HandlerResults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from llm_fsm.messages import LLMRequest, ModelReply, TurnView
from llm_fsm.session import Session


class Point(StrEnum):
    """The eight points at which handlers run."""

    START_CONVERSATION = "start_conversation"
    PRE_PROCESSING = "pre_processing"
    POST_PROCESSING = "post_processing"
    PRE_TRANSITION = "pre_transition"
    POST_TRANSITION = "post_transition"
    CONTEXT_UPDATE = "context_update"
    END_CONVERSATION = "end_conversation"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel:
    """Get a reply. `view` makes the plain view of the turn, for adapters that read it."""

    request: LLMRequest
    asked_for: Literal["turn", "greeting", "words"]
    view: Callable[[], TurnView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHandlers:
    """Run the handlers of one point.

    `target` is where a move leads, `updated` the keys just changed, `text` the words about to be said,
    `error` what failed.
    """

    point: Point
    session: Session
    target: str | None = None
    updated: frozenset[str] = frozenset()
    text: str | None = None
    error: BaseException | None = None


Effect = AskModel | RunHandlers


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerResult:
    """What one handler gave back. `changes` to the context, new `text`, a `veto` with its reason, or an `error`."""

    handler: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    veto: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerResults:
    """What the handlers of one point gave back, in the order in which they ran."""

    results: tuple[HandlerResult, ...] = ()


Result = ModelReply | HandlerResults
