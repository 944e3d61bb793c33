"""What happened between the flows of a conversation: one called another, a digression began, one came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.session.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPushed(Event):
    """The state was put on the stack, to come back to. `kind`: subflow or digression.

    A subflow begins the definition `flow` in its state `entered`, with a `context` of its own; `sources`: key to
    who once wrote its value. A digression stays in its definition and begins in `entered`; `asked`: what the user was
    asked last, `wanted`: for which keys. `caller`: the place on the stack of the definition in which it takes place,
    where that is one that waits for the one that was left.
    """

    kind: str
    state: str
    flow: str = ""
    entered: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""
    wanted: tuple[str, ...] = ()
    caller: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReturned(Event):
    """The conversation came back to `state` on the stack, from the state `ended`.

    `kind` as of `FlowPushed`. `flow`: the definition that was left. `how`: final, cancelled, corrected, when an answer
    from before it leads another way, handover, when a caller hands over, or resumed, when the user chose what to
    come back to; what the definition at work left open then stays so, beneath the flow that is come back to.
    `frame`: the place on the stack, -1 the topmost.
    """

    kind: str
    state: str
    ended: str
    flow: str = ""
    how: str = "final"
    frame: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected(Event):
    """Answers were changed that had been given before. `named`: the model said so itself.

    `back_to`: the state from which the way is decided again, "" where it stays; `dropped`: the keys that were
    collected on the way that is no longer taken.
    """

    keys: tuple[str, ...]
    named: bool = False
    back_to: str = ""
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersChanged(Event):
    """Answers were changed that a definition holds which waits for the one at work. `frame`: its place on the stack."""

    frame: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired(Event):
    """A repair pattern did what it is there for. `how`: what exactly, where there are several possibilities."""

    pattern: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSkipped(Event):
    """The user will not answer these; they are not asked for any more, unless they come by themselves."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed(Event):
    """The user was not understood. `count`: how many times in a row."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(Event):
    """Everything begins again in `state`, with `context`: what the caller and the host gave, and what came with it."""

    state: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceWatched(Event):
    """If nobody says anything until then (seconds since the epoch): when to remind, and when to close."""

    reminders: tuple[float, ...] = ()
    closes: float | None = None
