"""What a file of tests may script: the model's replies, and what tools, functions and handlers of the host do."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from llm_fsm._text import nearest
from llm_fsm.testing.scenarios.written import JsonObject, Rule, Texts, Written

PointName = Literal[
    "start_conversation",
    "pre_processing",
    "post_processing",
    "pre_transition",
    "post_transition",
    "context_update",
    "end_conversation",
    "error",
]
FaultName = Literal["down", "timeout", "rate_limit", "refused", "empty", "cut_off"]


class ToolResultFixture(Written):
    """What a tool gives back for one call."""

    result: JsonValue = None
    """The result."""
    error: str | None = None
    """The call fails with this message."""
    when: JsonObject | None = None
    """Only for calls with these arguments (among others)."""


def _results(value: object) -> object:
    """A fixture's results, from what may be one of them or a list."""
    if isinstance(value, dict) and value.keys() <= {"result", "error", "when"}:
        return {"calls": [value]}
    return {"calls": value} if isinstance(value, list) else value


class ToolFixture(Written):
    """A tool of the host, played: {"result": …}, {"error": …}, a list of these for call after call, or all of this."""

    calls: Annotated[list[ToolResultFixture], Field(min_length=1)]
    """What call after call gives back; the last one stays."""
    description: str = ""
    """What a model is told of it."""
    parameters: JsonObject | None = None
    """JSON Schema of its arguments; without it anything is taken."""

    @model_validator(mode="before")
    @classmethod
    def _calls(cls, value: Any) -> Any:
        return _results(value)


class FunctionResultFixture(Written):
    """What a function gives back for one call."""

    output: JsonValue = None
    """For `execute`: the output of the task."""
    passed: bool | None = None
    """For a check: whether it passed."""
    reason: str = ""
    """For a check: why not."""
    set: JsonObject = Field(default_factory=dict)
    """For `execute`: context keys that it sets; null deletes."""
    ask: str | None = None
    """For `execute`: it asks a person this, and its output is the answer."""
    error: str | None = None
    """It raises this."""


def _outputs(value: object) -> object:
    return value if isinstance(value, list) else [value]


FunctionFixture = Annotated[
    list[FunctionResultFixture],
    Field(min_length=1),
    BeforeValidator(_outputs, json_schema_input_type=FunctionResultFixture | list[FunctionResultFixture]),
]


class HandlerFixture(Written):
    """A handler of the host, played."""

    at: PointName = "post_transition"
    """The point at which it runs."""
    state: Texts | None = None
    """Only in these states; at post_transition: when one of them is entered."""
    when: Rule = None
    """Only when this JsonLogic rule over the context and the system names is truthy."""
    set: JsonObject = Field(default_factory=dict)
    """Context keys that it sets; null deletes."""
    text: str | None = None
    """At post_processing and error: the words to say instead."""
    veto: str | None = None
    """At pre_transition: forbids the move, with this reason."""
    error: str | None = None
    """It raises this."""
    times: Annotated[int, Field(ge=1)] | None = None
    """It does so this many times, then nothing."""


class CallScripted(Written):
    """A tool call that the model makes."""

    short: ClassVar[str] = "name"

    name: str
    """The tool's name in the definition."""
    arguments: JsonValue = Field(default_factory=dict)
    """Its arguments: an object, or a text that is sent as it stands."""


class Reply(Written):
    """One reply of the model. A text is sent as it stands, an object without any of these keys as its JSON.

    A key that is one of these but for a typo is an error; with `raw` it can be sent.
    """

    to: str | None = None
    """The state that it moves to; without it, it stays."""
    set: JsonObject = Field(default_factory=dict)
    """Context keys that it sets."""
    clear: list[str] = Field(default_factory=list)
    """Context keys that it takes back."""
    message: str = ""
    """What it says."""
    reasoning: str | None = None
    """Why it does so."""
    calls: list[CallScripted] = Field(default_factory=list)
    """Tools that it calls instead."""
    fault: FaultName | None = None
    """What goes wrong instead of a reply: the provider is down, times out, refuses, or the reply is empty or cut."""
    raw: JsonValue = None
    """What is sent as it stands: a text, or any value as its JSON."""

    @model_validator(mode="before")
    @classmethod
    def _verbatim(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"raw": value}
        if not isinstance(value, dict):
            return value
        whole = "transition" in value or "tool_calls" in value
        if whole or not (value.keys() & cls.known_keys() or any(map(cls._misspelt, value))):
            return {"raw": value}
        return value

    @classmethod
    def _misspelt(cls, key: str) -> bool:
        """Whether a key was meant to be one of these: then it is told, not sent."""
        return nearest(key, cls.known_keys()) is not None
