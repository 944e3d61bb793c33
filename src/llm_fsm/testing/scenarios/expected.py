"""What a file of tests may expect of a step or of a whole conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from llm_fsm.conditions.compiler import ConditionError, evaluate
from llm_fsm.session.events import Event
from llm_fsm.session.serialization import NAMES
from llm_fsm.testing.scenarios.written import JsonObject, Rule, Texts, Written, wrong

_EVENTS: Mapping[str, type[Event]] = {
    kind.__name__: kind for kind in Event.__subclasses__() if kind.__name__ in NAMES
}
_EVENT_FIELDS = frozenset({"type", *(item.name for kind in _EVENTS.values() for item in fields(kind))})


def _patterns(found: list[str]) -> list[str]:
    for pattern in found:
        try:
            evaluate({"matches": ["", {"var": "pattern"}]}, {"pattern": pattern})
        except ConditionError as error:
            raise wrong(f"{pattern!r} is no regular expression (RE2): {error}") from error
    return found


class WordsExpected(Written):
    """What the words must be like; all that is given must hold."""

    short: ClassVar[str] = "contains"

    contains: Texts = Field(default_factory=list)
    """Texts that must all stand in the words; letter case counts."""
    matches: Annotated[Texts, AfterValidator(_patterns)] = Field(default_factory=list)
    """Regular expressions (RE2) that must all be found in the words."""
    equals: str | None = None
    """The whole words."""


class CallExpected(Written):
    """One tool call."""

    short: ClassVar[str] = "name"

    name: str
    """The tool's name in the definition."""
    arguments: JsonObject | None = None
    """The arguments, all of them."""
    error: bool | None = None
    """Whether the call failed or was refused."""


class PauseExpected(Written):
    """What the run waits for."""

    short: ClassVar[str] = "what"

    what: str | None = None
    """The name or sentence of what is waited for."""
    kind: Literal["wait", "approval", "break", "unknown_outcome"] | None = None
    """Why it waits."""
    tool: str | None = None
    """The tool whose call is in question."""


class EventExpected(Written):
    """An event: its type, and fields that must have these values."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    short: ClassVar[str] = "type"

    type: str
    """The type of the event, such as MoveRefused; the other keys are fields of it."""

    @classmethod
    @cache
    def known_keys(cls) -> frozenset[str]:
        """Any key: which ones an event has is said by its type."""
        return _EVENT_FIELDS

    @model_validator(mode="after")
    def _known(self) -> EventExpected:
        kind = _EVENTS.get(self.type)
        if kind is None:
            raise PydanticCustomError(
                "choice", "unknown", {"value": self.type, "known": sorted(_EVENTS), "pointer": "type"}
            )
        known = {item.name for item in fields(kind)}
        for key in self.values:
            if key not in known:
                raise PydanticCustomError(
                    "unknown_key", "unknown key", {"key": key, "known": sorted(known), "pointer": key}
                )
        return self

    @property
    def values(self) -> Mapping[str, Any]:
        """Fields with the values that they must have."""
        return self.model_extra or {}


def _paused(value: object) -> object:
    """True and false say only whether it waits."""
    return {} if value is True else None if value is False else value


class Expect(Written):
    """What must be true after a step; all that is given must hold."""

    short: ClassVar[str] = "state"

    state: Texts | None = None
    """The state the conversation is in, or several of which it may be in any."""
    moved: bool | None = None
    """Whether a transition was made."""
    path: list[str] | None = None
    """The states entered in this step, in order; [] when none was."""
    context: JsonObject = Field(default_factory=dict)
    """Context keys with the values that they must have, among others; null: it is not set."""
    context_exact: JsonObject | None = None
    """The whole context."""
    absent: Texts = Field(default_factory=list)
    """Context keys that must not be set."""
    logic: Rule = None
    """A JsonLogic rule over the context and the system names that must be truthy."""
    open: list[str] | None = None
    """The states and repair patterns that the next reply may name, all of them in the order of the menu."""
    missing: list[str] | None = None
    """The keys that are collected here and not known yet, all of them in order."""
    shown: list[str] | None = None
    """The keys whose values the model is shown with the next message, all of them in any order."""
    text: WordsExpected | None = None
    """What the words must be like: a text or texts that they must contain, or an object."""
    tools: list[CallExpected] | None = None
    """The tool calls of this step, all of them in order; [] when there must be none."""
    events: list[EventExpected] = Field(default_factory=list)
    """Events that must have happened, in this order among others: a type, or an object with `type` and fields."""
    calls: int | None = None
    """How many replies the model was asked for."""
    ended: bool | None = None
    """Whether the conversation is over."""
    outcome: str | None = None
    """How it stands: passed, paused, exhausted, limited, failed, closed, or the outcome of its end, such as final."""
    paused: Annotated[
        PauseExpected | None,
        BeforeValidator(_paused, json_schema_input_type=bool | str | PauseExpected | None),
    ] = None
    """What it waits for: true, false, its name, or an object."""
    output: JsonValue = None
    """What the last task put out."""
    error: str | None = None
    """The step must fail: a part of the error's class or message, such as ConversationEnded."""
    none_of: Expect | None = Field(default=None, alias="not")
    """What must not be true: none of it may hold."""
    any_of: Annotated[list[Expect], Field(min_length=1)] = Field(default_factory=list)
    """Alternatives: at least one must hold as a whole."""
