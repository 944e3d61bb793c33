"""The models of a definition file: what an author may write, key by key.

These models are the one source of the format. The loader validates with them, and the published JSON Schema is
generated from them. They hold data only; `llm_fsm.turn.compiled` makes a definition ready to run. Every model is
frozen. Unknown keys are kept out here and reported by the loader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from llm_fsm.conditions.compiler import Rule, compile_rule
from llm_fsm.definition.names import (
    LANGUAGE_PATTERN,
    OUTCOME_PATTERN,
    STATE_ID_PATTERN,
    TIMEZONE_PATTERN,
    Kind,
    PatternName,
)


def _join_lines(value: object) -> object:
    """A text may be written as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if isinstance(value, str):
        return value
    raise PydanticCustomError("text_type", "text or a list of lines")


def _whole(value: object) -> object:
    """1.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[
    str,
    BeforeValidator(_join_lines, json_schema_input_type=str | list[str]),
]
Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Seconds = Annotated[float, Field(gt=0)]
StateId = Annotated[str, Field(pattern=STATE_ID_PATTERN)]
JsonObject = dict[str, JsonValue]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Condition(_Model):
    """One thing that must hold for a transition. Without keys and logic it is for the model to judge."""

    description: Text = ""
    """What must hold, in words for the model and the reader."""
    requires_context_keys: list[str] = []
    """Context keys that must be set and not null; dotted names look into objects."""
    logic: JsonValue = None
    """A JsonLogic rule over the context and the system names; it must be truthy."""

    @cached_property
    def rule(self) -> Rule | None:
        """The compiled logic; None when there is none. Raises ConditionError for a faulty rule."""
        return None if self.logic is None else compile_rule(self.logic)

    @property
    def judged(self) -> bool:
        """True when only the model can tell whether it holds."""
        return self.logic is None and not self.requires_context_keys


class Transition(_Model):
    """A move that the definition allows."""

    target_state: str
    """Id of the state that this transition leads to."""
    description: Text = ""
    """When to take it, in words for the model."""
    conditions: list[Condition] = []
    """All of them must hold."""
    priority: Whole = 100
    """Lower comes first: orders the menu and breaks ties; it never overrules the user."""
    auto: bool = False
    """Taken without asking as soon as its conditions hold."""
    returns: bool = Field(default=False, alias="return")
    """Global transitions only: a digression that comes back when it is done."""
    on: str | None = None
    """The label by which a task state routes its output."""
    sets: dict[str, JsonValue] = Field(default={}, alias="set")
    """Context key to the JsonLogic rule that gives its value when the transition is taken."""
    clear: list[str] = []
    """Context keys that are cleared when the transition is taken."""


class HistorySettings(_Model):
    """How much of the conversation the model is shown."""

    max_exchanges: Whole = Field(default=5, ge=0)
    """Never fewer exchanges are kept, at most twice as many, unless `max_tokens` demands it."""
    max_message_chars: Whole = Field(default=1000, ge=1)
    """Longer messages are cut (characters)."""
    max_tokens: Whole = Field(default=3000, ge=1)
    """Estimated tokens that the history may take."""
    strategy: Literal["window", "summary"] = "window"
    """What happens to what was trimmed: forgotten, or summarised."""


class ModelSettings(_Model):
    """Defaults for the model call; the caller may override them. Never an address or a key."""

    name: str | None = None
    """`provider/model`, as the command line's --model."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature."""
    max_tokens: Count | None = None
    """The most tokens that a reply may take."""
    reasoning: Literal["none", "first", "last"] | None = None
    """Whether the reply explains itself, and where; `none` when not given."""
    on_failure: Text | None = None
    """The text shown when the model failed twice."""


class Limits(_Model):
    """What one run may use before it stops."""

    auto_steps: Whole = Field(default=25, ge=1)
    """Moves without the user in one turn."""
    llm_calls: Whole = Field(default=10, ge=0)
    """Model calls in one turn."""
    tool_calls: Whole = Field(default=30, ge=0)
    """Tool calls in one turn."""
    seconds: Seconds | None = None
    """Elapsed seconds."""
    tokens: Count | None = None
    """Tokens read and written by models."""
    money: float | None = Field(default=None, gt=0)
    """Cost in US dollars, where the provider reports one."""


class ToolRef(_Model):
    """A tool that the host registered, or one of an MCP server that the host configured."""

    registered: str | None = None
    """Name under which the host registered the function."""
    mcp: str | None = None
    """Alias of an MCP server in the host's configuration."""
    tool: str | None = None
    """Name of the tool on that server."""
    output: dict[str, str] = {}
    """Context key to JSON path of the result: all that the tool can write."""
    breaking: bool | None = None
    """The run stops after the batch that calls this tool."""
    approval: bool | None = None
    """A person is asked before each call."""
    at_most_once: bool | None = None
    """Never called again when the outcome of a call is unknown."""
    parallel: bool | None = None
    """May run beside the other calls of its batch."""
    timeout: Seconds | None = None
    """Seconds that one call may take."""
    scope: list[str] | None = None
    """States in which it may be called."""


class KeyResult(_Model):
    """One acceptance criterion of a task."""

    name: str
    """Short name, unique within the state."""
    description: Text = ""
    """What must be true of the output."""
    check: JsonValue = None
    """JsonLogic over {output, context, input}, {"judge": criterion} or {"registered": name}."""


def _labelled(value: object) -> object:
    """A choice may be written as its label alone."""
    return {"label": value} if isinstance(value, str) else value


class ChoiceWords(_Model):
    """One thing that the user can choose."""

    label: str
    """The words for it, as a button shows them."""
    value: JsonValue = None
    """A value of the key that is asked for, or the state that a transition leads to; the label if not given."""


class Scope(_Model):
    """Which context keys the model is shown."""

    read: list[str]
    """Only these keys."""


class State(_Model):
    """One state: what it is there for, what it collects and where it may lead."""

    id: str = ""
    """If given, it must equal the key under `states`."""
    kind: Kind = "converse"
    """converse waits for the user, decide picks by conditions, final ends, task works, wait parks the run,
    subflow calls another machine."""
    description: Text = ""
    """What the state is, for the reader and the model."""
    purpose: Text = ""
    """What this state is to achieve (also written `objective`)."""
    instructions: Text = ""
    """How the model is to go about it (also written `state_instructions`)."""
    extraction_instructions: Text = ""
    """How to read the user's message here."""
    response_instructions: Text = ""
    """How to word the reply here."""
    required_context_keys: list[str] = []
    """Keys to collect here; they never block leaving by themselves."""
    example_dialogue: list[dict[str, Text]] = []
    """Messages such as {"user": "…"} and {"system": "…"}, shown to the model."""
    transitions: list[Transition] = []
    """The moves that are allowed from here."""
    reply: Text | None = None
    """A fixed text (Jinja2 expressions over context keys) instead of a model's words."""
    choices: list[Annotated[ChoiceWords, BeforeValidator(_labelled, json_schema_input_type=str | ChoiceWords)]] = []
    """The user's choices here, as labels or as {label, value}; without it those of the one key that is asked for."""
    outcome: str = Field(default="", pattern=OUTCOME_PATTERN)
    """Outcome of the run in a final state: `failed` or another word."""
    sets: dict[str, JsonValue] = Field(default={}, alias="set")
    """Context key to the JsonLogic rule that gives its value when the state is entered."""
    clear: list[str] = []
    """Context keys that are cleared when the state is entered."""
    ask: Literal["when_missing", "always"] = "when_missing"
    """`always` asks the question on arrival although all that the state collects is known."""
    context_scope: Scope | None = None
    """Narrows what the model is shown of the context."""
    model: ModelSettings = ModelSettings()
    """Model settings for this state."""
    tools: list[str] = []
    """Names of the tools that may be called here."""
    key_results: list[KeyResult] = []
    """Acceptance criteria of a task."""
    max_retries: Whole = Field(default=3, ge=0)
    """A task is tried this many times more than once."""
    on_exhausted: str = "raise"
    """`raise`, `continue` or a state id."""
    execute: str | None = None
    """Name of the registered function that does the work."""
    route: str | None = None
    """Name of the registered function that picks a task's way on by its output: a label, a state, or null to end."""
    memory: bool = False
    """Offers the ten-bucket memory tools here."""
    summarize: bool = False
    """Summary and to-do list on leaving."""
    flow: str | None = None
    """The definition that a subflow calls: a relative path or a registered name."""
    input: dict[str, str] = {}
    """Context keys of the called machine, from keys here."""
    output: dict[str, str] = {}
    """Context keys here, from the called machine or the answer."""
    wait_for: str | None = None
    """Name of the event that a wait state waits for."""
    answer_schema: JsonObject | None = None
    """JSON Schema of the answer that a wait state accepts."""
    timeout: Seconds | None = None
    """Seconds after which a state that waits, or that talks and gets no message, gives up."""
    on_timeout: str | None = None
    """State to go to when the time is over."""
    remind: list[Seconds] = []
    """Seconds after which a state that waits, or that talks and gets no message, reminds."""


class Property(_Model):
    """A statement about all paths, checked by the linter."""

    never: JsonValue = None
    """State id, list of ids or {"key": name} that must not be reached (before `before`, if given)."""
    always: JsonValue = None
    """What must be reached on every path (after `after`, if given)."""
    eventually: JsonValue = None
    """What every path must reach."""
    before: JsonValue = None
    """Limits `never` to the part of a path before this."""
    after: JsonValue = None
    """Limits `always` to the part of a path after this."""


class Definition(_Model):
    """One machine: its states, the context it collects, and the moves it allows."""

    name: str
    """Name of the machine."""
    description: Text = ""
    """What the machine does."""
    version: str = ""
    """The author's version."""
    persona: Text = ""
    """Who the model is to be: tone and manners."""
    language: str = Field(default="", pattern=LANGUAGE_PATTERN)
    """Language of the definition's own words, as a BCP 47 tag. Without it, English sentences are added to them."""
    timezone: str = Field(default="", pattern=TIMEZONE_PATTERN)
    """Time zone of the conversations, as an IANA name."""
    initial_state: str
    """Id of the state in which a conversation begins."""
    states: dict[StateId, State] = Field(min_length=1)
    """State id to state."""
    context_schema: JsonObject | None = None
    """JSON Schema object whose properties are the context keys; x-source, x-secret, x-fast and x-from per key."""
    global_transitions: list[Transition] = []
    """Offered in every converse state but their own target."""
    patterns: list[PatternName] = []
    """Repair patterns that are switched on."""
    tools: dict[str, ToolRef] = {}
    """Tool name to what it is bound to."""
    history: HistorySettings = HistorySettings()
    """How much history the model is shown."""
    model: ModelSettings = ModelSettings()
    """Defaults for model calls."""
    limits: Limits = Limits()
    """What one run may use."""
    properties: list[Property] = []
    """What must hold on all paths."""
    x_lint: JsonObject | None = Field(default=None, alias="x-lint")
    """Settings of the linter; ignored by the engine."""
    ui: JsonValue = None
    """Settings of editors; ignored by the engine."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.states)} states)"

    @property
    def is_english(self) -> bool:
        """True when English sentences of the engine may stand beside the definition's own words."""
        return self.language.partition("-")[0].lower() in ("", "en", "eng")

    @property
    def document(self) -> Mapping[str, Any]:
        """Its JSON in the order in which it was written, without `ui` and `x-lint`."""
        ignored = {"ui", "x_lint"}
        return self.model_dump(mode="json", by_alias=True, exclude=ignored, exclude_defaults=True)

    @cached_property
    def canonical(self) -> str:
        """Its canonical JSON in ASCII, without `ui` and `x-lint`; it reads back as the same definition."""
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"))

    @cached_property
    def sha256(self) -> str:
        """The engine's identity of it: SHA-256 of its canonical JSON."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @cached_property
    def key_schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """Context key to its JSON Schema, as declared; empty without a `context_schema`."""
        properties = (self.context_schema or {}).get("properties")
        if not isinstance(properties, dict):
            return {}
        return {key: schema if isinstance(schema, dict) else {} for key, schema in properties.items()}

    def source_of(self, key: str) -> str:
        """Return who may write a declared key: `model` unless its schema says otherwise."""
        return str(self.key_schemas.get(key, {}).get("x-source", "model"))

    def made_of(self, key: str) -> tuple[str, ...]:
        """Return the keys of which a declared key is made, as `x-from` says."""
        names = self.key_schemas.get(key, {}).get("x-from")
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()

    def is_secret(self, key: str) -> bool:
        """Return true when the key's value must stay out of prompts, fixed replies, logs and transcripts."""
        schemas = self.key_schemas
        return any(schemas.get(name, {}).get("x-secret") is True for name in (key, key.split(".", 1)[0]))

    def kind_of(self, state_id: str) -> Kind:
        """Return the state's effective kind: a converse state without own transitions is final."""
        state = self.states[state_id]
        if state.kind == "converse" and not state.transitions:
            return "final"
        return state.kind
