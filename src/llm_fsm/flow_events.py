"""What happened between the flows of a conversation: one called another, a digression began, one came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPushed(Event):
    """The state was put on the stack, to come back to. `kind`: subflow or digression.

    A subflow begins the definition `flow` in its state `entered`, with a `context` of its own; `sources`: key to
    who once wrote its value. A digression stays in its definition; `asked`: what the user was asked last.
    """

    kind: str
    state: str
    flow: str = ""
    entered: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReturned(Event):
    """The conversation came back to `state` on the stack, from the state `ended`.

    `kind` as of `FlowPushed`. `flow`: the definition that was left. `how`: final, cancelled, or resumed, when
    the user chose what to come back to. `frame`: the place on the stack, -1 the topmost.
    """

    kind: str
    state: str
    ended: str
    flow: str = ""
    how: str = "final"
    frame: int = -1
