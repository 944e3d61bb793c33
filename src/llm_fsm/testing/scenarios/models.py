"""The models of a `*.test.json` file: what an author may write, key by key.

These models, with those of `expected` and `scripted`, are the one source of the format: `reading` validates with
them and the published JSON Schema is generated from them. Short forms are spelled out before a value is validated:
`"expect": "done"` stands for `"expect": {"state": "done"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from llm_fsm.testing.scenarios.expected import Expect
from llm_fsm.testing.scenarios.scripted import FunctionFixture, HandlerFixture, Reply, ToolFixture
from llm_fsm.testing.scenarios.written import JsonObject, Rule, Written, wrong

Seconds = Annotated[float, Field(gt=0, le=1e9)]


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise wrong("this is no time; write for example 2030-05-17T09:30:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


Moment = Annotated[float, Field(ge=0, le=2e11), BeforeValidator(_moment, json_schema_input_type=str | float)]


class Setup(Written):
    """What is given before the first word."""

    context: JsonObject = Field(default_factory=dict)
    """What is known from the start."""
    state: str | None = None
    """The state to begin in; without it the definition's own."""
    greet: bool | None = None
    """Whether the conversation begins with a greeting; without it: when there is a `start`."""
    time: Moment | None = None
    """The time at which it begins, ISO 8601 or seconds since the epoch; it passes only by `wait`."""
    input: JsonValue = None
    """For a machine without a user: what the first task is given."""
    background: JsonObject = Field(default_factory=dict)
    """For a machine without a user: what the work is for."""
    model: str | None = None
    """A model without a key that answers instead of scripted replies: offline, or scripted:FILE."""
    tools: dict[str, ToolFixture] = Field(default_factory=dict)
    """Tool name to what the tool gives back."""
    functions: dict[str, FunctionFixture] = Field(default_factory=dict)
    """Name of a registered function to what it gives back."""
    handlers: list[HandlerFixture] = Field(default_factory=list)
    """What the host's handlers do."""


def _whole(value: object) -> object:
    if isinstance(value, str | dict):
        return value
    raise wrong("a definition is a path or an object")


class _Scripted(Written):
    reply: Reply | None = None
    """What the model replies: a text as it stands, or an object (see the guide to tests)."""
    replies: list[Reply] = Field(default_factory=list)
    """What the model replies to one question after the other; all of it must be asked for."""
    expect: Expect | None = None
    """What must be true then: a state, or an object."""

    @property
    def script(self) -> tuple[Reply, ...]:
        """All replies."""
        return (*(() if self.reply is None else (self.reply,)), *self.replies)


class Start(_Scripted):
    """How the conversation begins: the greeting, or a run until it first waits."""


_HAPPENS = frozenset({"say", "answer", "wait", "end"})


class Step(_Scripted):
    """One thing that happens from outside: exactly one of `say`, `answer`, `wait` and `end`."""

    say: str | None = None
    """The user's message."""
    answer: JsonValue = None
    """An answer to what the run waits for, any JSON value; null too."""
    wait: Seconds | None = None
    """Seconds that pass; what is due then happens."""
    end: Literal[True] | None = None
    """The caller closes the conversation."""
    description: str = ""
    """Why this step is there."""

    @property
    def kind(self) -> Literal["say", "answer", "wait", "end"]:
        """What happens."""
        given = self.model_fields_set
        return (
            "say" if "say" in given else "wait" if "wait" in given else "end" if "end" in given else "answer"
        )

    @model_validator(mode="after")
    def _one(self) -> Step:
        if len(_HAPPENS & self.model_fields_set) != 1:
            raise wrong("a step has one of say, answer, wait and end")
        return self


class Case(Setup):
    """One conversation and what is expected of it."""

    name: str = ""
    """What it is called, once in a file."""
    description: str = ""
    """What it is there for."""
    start: Start | None = None
    """The greeting, or the run until it first waits."""
    steps: list[Step] = Field(default_factory=list)
    """What happens, in order."""
    expect: Expect | None = None
    """What must be true at the end; `tools`, `events` and `calls` count over the whole conversation."""
    table: list[JsonObject] = Field(default_factory=list)
    """The case is played once for each row; {{column}} in its texts is the row's value."""
    skip: str | None = None
    """It is not played, for this reason."""


class User(Written):
    """Somebody whom a second model plays, with --simulate."""

    name: str = ""
    """What the user is called in the report."""
    persona: str
    """Who it is, and how they speak."""
    goal: str
    """What they want."""
    success: Rule = None
    """A JsonLogic rule over the context, the system names and `ended` that is truthy when the goal is reached."""
    judge: str | None = None
    """Instead, or besides: what a model must find true of the conversation."""
    max_turns: Annotated[int, Field(ge=1, le=200)] = 12
    """Messages after which the user gives up."""
    context: JsonObject = Field(default_factory=dict)
    """What is known from the start."""
    state: str | None = None
    """The state to begin in."""


class Suite(Case):
    """A file of conversation tests: one definition, what all its cases share, and the cases.

    A file with `steps` of its own is one case.
    """

    definition: Annotated[JsonValue, BeforeValidator(_whole, json_schema_input_type=str | JsonObject)]
    """The definition: a path relative to this file, the name of a shipped one, or the definition itself."""
    cases: list[Case] = Field(default_factory=list)
    """The conversations."""
    users: list[User] = Field(default_factory=list)
    """Simulated users, who need live models; see --simulate."""
    schema_: str | None = Field(default=None, alias="$schema")
    """Allowed and ignored."""


def merged(suite: Setup, case: Setup) -> Mapping[str, Any]:
    """What holds for a case: its own settings over those of its file; objects are merged, lists joined."""
    found: dict[str, Any] = {}
    for name in Setup.model_fields:
        own, shared = getattr(case, name), getattr(suite, name)
        if isinstance(shared, dict) and isinstance(own, dict):
            found[name] = {**shared, **own}
        elif isinstance(shared, list) and isinstance(own, list):
            found[name] = [*shared, *own]
        else:
            found[name] = own if name in case.model_fields_set else shared
    return found
