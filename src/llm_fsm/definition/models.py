"""The models of a definition file: what an author may write, key by key.

These models are the one source of the format. The loader validates with them, and the published
JSON Schema is generated from them. They hold data only; `llm_fsm.turn.compiled` makes a definition
ready to run. Every model is frozen. Unknown keys are kept out here and reported by the loader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from llm_fsm._json import JsonMap, Schemas, joined, object_at, texts_at
from llm_fsm._text import sha256_of
from llm_fsm.conditions.compiler import CompiledRule, compile_rule
from llm_fsm.definition.marks import MarkedModel, NamedKey, NamedRule, NamedState, WrittenAs
from llm_fsm.definition.names import (
    LANGUAGE_PATTERN,
    OUTCOME_PATTERN,
    STATE_ID_PATTERN,
    TAG_PATTERN,
    TIMEZONE_PATTERN,
    Kind,
    PatternName,
    root_of,
)
from llm_fsm.definition.naming import Naming
from llm_fsm.languages import LANGUAGE, is_english, language_key


def _join_lines(value: object) -> object:
    """Join a text that is written as a list of lines."""
    text = joined(value)
    if text is None:
        raise PydanticCustomError("text_type", "text or a list of lines")
    return text


def _whole(value: object) -> object:
    """Read 1.0 as a whole number, as JSON does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, BeforeValidator(_join_lines, json_schema_input_type=str | list[str])]
MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years. Later times have no date in some stores."""
MAX_TOKENS = 10_000_000
MAX_STEPS = 1_000_000
"""The most steps, calls or retries that a limit can allow. Nobody waits for more."""
MAX_NUMBER = 1_000_000_000

Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=1, le=1_000 * MAX_NUMBER), BeforeValidator(_whole)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS), BeforeValidator(_whole)]
Money = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
StateId = Annotated[str, Field(pattern=STATE_ID_PATTERN), Naming.STATE]
Tag = Annotated[str, Field(pattern=TAG_PATTERN, examples=["de", "pt-BR"])]
ReplyText = Annotated[Text, Naming.REPLY]
Assignments = dict[NamedKey, NamedRule]
Places = Annotated[JsonValue, Naming.PLACES]
JsonObject = dict[str, JsonValue]


class _Model(MarkedModel, BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Condition(_Model):
    """One condition of a transition. Without keys and logic, the model judges it."""

    description: Text = ""
    """The condition in words, for the model and the reader."""
    requires_context_keys: list[NamedKey] = []
    """Context keys that must be set and not null; dotted names look into objects."""
    logic: NamedRule = None
    """A JsonLogic rule over the context and the system names; it must be truthy."""

    @cached_property
    def rule(self) -> CompiledRule | None:
        """The compiled logic; None if there is none. Raises ConditionError for a faulty rule."""
        return None if self.logic is None else compile_rule(self.logic)

    @property
    def judged(self) -> bool:
        """True if only the model can judge it."""
        return self.logic is None and not self.requires_context_keys


class Transition(_Model):
    """A move that the definition allows."""

    target_state: NamedState
    """Id of the state that this transition leads to."""
    description: Text = ""
    """The occasion to take it, in words for the model."""
    conditions: list[Condition] = []
    """All of them must be true."""
    priority: Whole = Field(default=100, ge=-MAX_NUMBER, le=MAX_NUMBER)
    """Lower comes first. It orders the menu and breaks ties, and never overrules the user."""
    auto: bool = False
    """Taken without asking as soon as its conditions are true."""
    returns: bool = Field(default=False, alias="return")
    """Only for global transitions: a digression, which returns when it is done."""
    agrees: Literal[False, True, "picked"] = False
    """The user's yes to what the state `confirms`: taken only if the user was shown these values.
    True needs the user's words of the yes; `picked` needs a choice that the user picked.
    """
    on: str | None = None
    """The label by which a task state routes its output."""
    sets: Assignments = Field(default={}, alias="set")
    """Context key to the JsonLogic rule that gives its value when the transition is taken."""
    clear: list[NamedKey] = []
    """Context keys that are cleared when the transition is taken."""


class HistorySettings(_Model):
    """The part of the conversation that the model sees."""

    max_exchanges: Whole = Field(default=5, ge=0, le=10_000)
    """The fewest exchanges that are kept; at most twice as many, unless `max_tokens` demands it."""
    max_message_chars: Whole = Field(default=1000, ge=1, le=1_000_000)
    """Longer messages are cut (characters)."""
    max_tokens: Whole = Field(default=3000, ge=1, le=MAX_TOKENS)
    """The most estimated tokens of the history."""
    strategy: Literal["window", "summary"] = "window"
    """The treatment of trimmed exchanges: forgotten, or summarised."""


class ModelSettings(_Model):
    """Defaults for the model call, which the caller may override. Never a URL or a key."""

    name: str | None = None
    """`provider/model`, as for the command line's --model."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature."""
    max_tokens: Tokens | None = None
    """The most tokens that a reply may take."""
    context: Tokens | None = None
    """The tokens that fit into the model's context. A longer prompt is shortened."""
    reasoning: Literal["none", "first", "last"] | None = None
    """The place of the model's reasoning in the reply; `none` by default."""
    on_failure: Text | None = None
    """The text shown when the model failed twice."""


class FunctionErrorRule(_Model):
    """The words and the way when a function or tool of the host fails for good."""

    reply: ReplyText | None = None
    """The text that the user reads, a template as the `reply` of a state."""
    target_state: NamedState | None = None
    """The state in which the conversation continues; without it the state stays open."""


class Quota(_Model):
    """The most that is used before no model is called any more."""

    turns: Count | None = None
    """Messages and answers."""
    llm_calls: Count | None = None
    """Model calls."""
    tokens: Count | None = None
    """Tokens read and written by models."""
    money: Money | None = None
    """Cost in US dollars, if the provider reports it."""
    on_limit: Text | None = None
    """The text shown at the limit, in place of a model's words; `on_failure` of the model by
    default.
    """


class UserQuota(Quota):
    """The most that the conversations of one user use in a day."""

    by: str = Field(pattern=r"^metadata\..+", examples=["metadata.user"])
    """The label that names the user of a conversation, such as `metadata.user`. A conversation
    without the label has no user.
    """


class Quotas(_Model):
    """Limits for what many turns use together. A day begins at midnight in the `timezone`."""

    conversation: Quota | None = None
    """One conversation, from its beginning."""
    user: UserQuota | None = None
    """All conversations of one user, in a day."""
    day: Quota | None = None
    """All conversations of this definition's name, in a day."""


class Limits(_Model):
    """The limits of one run, after which it stops."""

    auto_steps: Whole = Field(default=25, ge=1, le=MAX_STEPS)
    """Moves without the user in one turn."""
    llm_calls: Whole = Field(default=10, ge=0, le=MAX_STEPS)
    """Model calls in one turn."""
    tool_calls: Whole = Field(default=30, ge=0, le=MAX_STEPS)
    """Tool calls in one turn."""
    seconds: Seconds | None = None
    """Elapsed seconds."""
    tokens: Count | None = None
    """Tokens read and written by models."""
    money: Money | None = None
    """Cost in US dollars, if the provider reports it."""
    per: Quotas = Quotas()
    """Limits for a conversation, a user and a day."""


class ToolRef(_Model):
    """A tool that the host registered, or one of an MCP server that the host configured."""

    registered: str | None = None
    """Name under which the host registered the function."""
    mcp: str | None = None
    """Alias of an MCP server in the host's configuration."""
    tool: str | None = None
    """Name of the tool on that server."""
    output: dict[NamedKey, str] = {}
    """Context key to JSON path of the result: all that the tool can write."""
    breaking: bool | None = None
    """The run stops after the batch that calls this tool."""
    approval: bool | None = None
    """A person is asked before each call."""
    at_most_once: bool | None = None
    """Never called again if the outcome of a call is unknown."""
    parallel: bool | None = None
    """May run beside the other calls of its batch."""
    timeout: Seconds | None = None
    """Seconds that one call may take."""
    scope: list[NamedState] | None = None
    """States in which it may be called."""
    acts: bool | None = None
    """It changes the world outside. A call must keep to what the user agreed to."""
    binds: dict[str, str] | None = None
    """Argument to the context key that the user agrees to, where the names differ."""
    free: list[str] | None = None
    """Arguments that nobody agrees to, such as a note."""


class KeyResult(_Model):
    """One acceptance criterion of a task."""

    name: str
    """Short name, unique within the state."""
    description: Text = ""
    """The condition of the output, in words."""
    check: Annotated[JsonValue, Naming.CHECK] = None
    """JsonLogic over {output, context, input}, {"judge": criterion} or {"registered": name}."""


def _labelled(value: object) -> object:
    """Read a choice that is written as its label."""
    return {"label": value} if isinstance(value, str) else value


class ChoiceWords(_Model):
    """One choice of the user."""

    label: str
    """The label, as a button shows it."""
    value: Annotated[JsonValue, Naming.STATE] = None
    """A value of the collected key, or the state that a transition leads to; the label by
    default.
    """


class Scope(_Model):
    """The context keys that the model sees."""

    read: list[NamedKey]
    """Only these keys."""


class State(_Model):
    """One state: its purpose, the keys that it collects, and its transitions."""

    id: NamedState = ""
    """If given, it must equal the key under `states`."""
    kind: Kind = "converse"
    """converse waits for the user, decide picks by conditions, final ends, task works, wait pauses
    the run, subflow calls another machine.
    """
    description: Text = ""
    """The description of the state, for the reader and the model."""
    purpose: Text = ""
    """The purpose of this state (also written `objective`)."""
    instructions: Text = ""
    """Instructions for the model (also written `state_instructions`)."""
    extraction_instructions: Text = ""
    """Instructions for reading the user's message here."""
    response_instructions: Text = ""
    """Instructions for the text of the reply here."""
    required_context_keys: list[NamedKey] = []
    """Keys to collect here. By themselves, they do not prevent leaving."""
    example_dialogue: list[dict[str, Text]] = []
    """Messages such as {"user": "…"} and {"system": "…"}, shown to the model."""
    transitions: list[Transition] = []
    """The moves that are allowed from here."""
    reply: ReplyText | None = None
    """A fixed text (a small part of Jinja2 over context keys) that the state says after the model's
    message.
    """
    reply_alone: bool = False
    """On arrival only the fixed text is said, and no message of the model."""
    confirms: list[NamedKey] = []
    """Context keys that the state reads back, and to which a transition with `agrees` is the yes.
    """
    choices: list[
        Annotated[ChoiceWords, BeforeValidator(_labelled, json_schema_input_type=str | ChoiceWords)]
    ] = []
    """The user's choices here, as labels or as {label, value}; by default those of the only
    collected key.
    """
    outcome: str = Field(default="", pattern=OUTCOME_PATTERN)
    """Outcome of the run in a final state: `failed` or another word."""
    sets: Assignments = Field(default={}, alias="set")
    """Context key to the JsonLogic rule that gives its value when the state is entered."""
    clear: list[NamedKey] = []
    """Context keys that are cleared when the state is entered."""
    ask: Literal["when_missing", "always"] = "when_missing"
    """`always` asks the question on arrival, even if all collected keys are known."""
    context_scope: Scope | None = None
    """Limits the context that the model sees."""
    model: ModelSettings = ModelSettings()
    """Model settings for this state."""
    tools: list[str] = []
    """Names of the tools that may be called here."""
    tools_first: bool = False
    """On arrival one further call may use the tools and speaks for the state."""
    key_results: list[KeyResult] = []
    """Acceptance criteria of a task."""
    max_retries: Whole = Field(default=3, ge=0, le=MAX_STEPS)
    """The number of retries of a task."""
    on_exhausted: NamedState = "raise"
    """`raise`, `continue` or a state id."""
    execute: str | None = None
    """Name of the registered function that does the work."""
    acts: bool = False
    """The task changes the world outside. It must keep to what the user agreed to."""
    route: str | None = None
    """Name of the function that picks the next state by a task's output: a label, a state, or null
    to end.
    """
    memory: bool = False
    """Offers the ten-bucket memory tools here."""
    summarize: bool = False
    """Makes a summary and a to-do list on leaving."""
    flow: str | None = None
    """The definition that a subflow calls: a relative path or a registered name."""
    input: dict[str, NamedKey] = {}
    """Context keys of the called machine, from keys here."""
    output: dict[NamedKey, str] = {}
    """Context keys here, from the called machine or the answer."""
    wait_for: str | None = None
    """Name of the event that a wait state waits for."""
    answer_schema: JsonObject | None = None
    """JSON Schema of the answer that a wait state accepts."""
    timeout: Seconds | None = None
    """Seconds after which a state that waits, or a converse state without a message, gives up."""
    on_timeout: NamedState | None = None
    """The target state of the time-out."""
    messages: Literal["refuse", "record"] = "refuse"
    """The fate of the user's messages while a state waits: `record` keeps them for a person who
    takes over.
    """
    remind: list[Seconds] = []
    """Seconds after which a state that waits, or a converse state without a message, reminds."""


class Property(_Model):
    """A statement about all paths, checked by the linter."""

    never: Places = None
    """State id, list of ids or {"key": name} that must not be reached (before `before`, if
    given).
    """
    always: Places = None
    """The states or keys that every path must reach (after `after`, if given)."""
    eventually: Places = None
    """The states or keys that every path must reach."""
    before: Places = None
    """Limits `never` to the part of a path before this."""
    after: Places = None
    """Limits `always` to the part of a path after this."""


class _NamesOnly(MarkedModel, BaseModel):
    """An object of any form, whose names are found by this shape."""


class ValidEntry(_NamesOnly):
    """An entry of `x-valid`."""

    logic: NamedRule = None


class KeySettings(_NamesOnly):
    """The names in the schema of a key."""

    made_of: list[NamedKey] = Field(default=[], alias="x-from")
    valid: list[ValidEntry] = Field(default=[], alias="x-valid")


class KeySchemas(_NamesOnly):
    """The names in `context_schema`."""

    properties: dict[NamedKey, KeySettings] = {}
    required: list[NamedKey] = []


class AcceptedFinding(_NamesOnly):
    """An entry of `ignore` in `x-lint`."""

    at: Annotated[str, Naming.POINTER] = ""


class LintSettings(_NamesOnly):
    """The names in `x-lint`."""

    ignore: list[AcceptedFinding] = []


class EditorSettings(_NamesOnly):
    """The names in `ui` and `graph_layout`: those of states with a position."""

    positions: dict[NamedState, JsonValue] = {}


class Definition(_Model):
    """One machine: its states, the context that it collects, and the moves that it allows."""

    others: ClassVar[Mapping[str, Naming]] = {"graph_layout": Naming.STATE}
    name: str
    """Name of the machine."""
    description: Text = ""
    """The description of the machine."""
    version: str = ""
    """The author's version."""
    persona: Text = ""
    """The role of the model, with tone and manners."""
    language: str = Field(default="", pattern=LANGUAGE_PATTERN)
    """Language of the definition's texts, as a BCP 47 tag. Without it, English sentences are added
    to them.
    """
    languages: list[Tag] = []
    """Further languages of the conversations, as BCP 47 tags. `NAME.TAG.po` beside the file has the
    texts.
    """
    texts: dict[str, dict[Annotated[str, Naming.POINTER], Annotated[str, Naming.REPLY]]] = {}
    """Language to its texts, by the JSON pointer of each text here. Loading reads them from the
    `.po` files.
    """
    timezone: str = Field(default="", pattern=TIMEZONE_PATTERN)
    """Time zone of the conversations, as an IANA name."""
    initial_state: NamedState
    """Id of the state in which a conversation begins."""
    states: dict[StateId, State] = Field(min_length=1)
    """State id to state."""
    context_schema: Annotated[JsonObject | None, WrittenAs(KeySchemas)] = None
    """JSON Schema object whose properties are the context keys. Settings of a key begin with `x-`.
    """
    global_transitions: list[Transition] = []
    """Offered in every converse state but their own target."""
    patterns: list[PatternName] = []
    """Repair patterns that are switched on."""
    tools: dict[str, ToolRef] = {}
    """Tool name to its binding."""
    on_function_error: FunctionErrorRule | None = None
    """Counts when a task's function has no attempt left, or a tool fails for good in a state that
    talks. Without it the state stays open, and the next message tries again.
    """
    history: HistorySettings = HistorySettings()
    """The history that the model sees."""
    model: ModelSettings = ModelSettings()
    """Defaults for model calls."""
    limits: Limits = Limits()
    """The limits of one run."""
    properties: list[Property] = []
    """Statements about all paths."""
    x_lint: Annotated[JsonObject | None, WrittenAs(LintSettings)] = Field(
        default=None, alias="x-lint"
    )
    """Settings of the linter; ignored by the engine."""
    ui: Annotated[JsonValue, WrittenAs(EditorSettings)] = None
    """Settings of editors; ignored by the engine."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.states)} states)"

    @property
    def is_english(self) -> bool:
        """True if the engine may add English sentences to the definition's texts."""
        return is_english(self.language)

    @property
    def document(self) -> JsonMap:
        """Its JSON in the written order, without `ui` and `x-lint`."""
        ignored = {"ui", "x_lint"}
        return self.model_dump(mode="json", by_alias=True, exclude=ignored, exclude_defaults=True)

    @cached_property
    def canonical(self) -> str:
        """Its canonical JSON in ASCII, without `ui` and `x-lint`, from which the same definition
        can be read.
        """
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"))

    @cached_property
    def sha256(self) -> str:
        """Its identity: SHA-256 of its canonical JSON."""
        return sha256_of(self.canonical)

    @cached_property
    def key_schemas(self) -> Schemas:
        """Context key to its JSON Schema, as declared; empty without a `context_schema`."""
        properties = object_at(self.context_schema, "properties")
        return {key: object_at(properties, key) for key in properties}

    @property
    def machine_keys(self) -> Mapping[str, JsonMap]:
        """The key that the machine itself declares, with its schema: the language, if there are
        several.
        """
        # An answer as any other, so that the user changes it as one.
        several = len(self.tags) > 1
        return {LANGUAGE: language_key(self.tags, self.language)} if several else {}

    @property
    def tags(self) -> tuple[str, ...]:
        """The languages of its conversations, its own first."""
        return tuple(dict.fromkeys((self.language or "en", *self.languages)))

    def source_of(self, key: str) -> str:
        """Return the writer of a declared key.

        Args:
            key: The key.

        Returns:
            "model", unless its schema names another `x-source`.
        """
        return str(self.key_schemas.get(key, {}).get("x-source", "model"))

    def made_of(self, key: str) -> tuple[str, ...]:
        """Return the keys that a declared key depends on, as `x-from` lists them.

        Args:
            key: The key.

        Returns:
            Names of keys, or dotted names of their parts.
        """
        return tuple(texts_at(self.key_schemas.get(key), "x-from"))

    def is_secret(self, key: str) -> bool:
        """Return true if the key's value must stay out of prompts, fixed replies, logs and
        transcripts.

        Args:
            key: The key.

        Returns:
            True for a key with `x-secret`.
        """
        schemas = self.key_schemas
        return any(schemas.get(name, {}).get("x-secret") is True for name in (key, root_of(key)))

    def kind_of(self, state_id: str) -> Kind:
        """Return the effective kind of a state. A converse state without its own transitions is
        final.

        Args:
            state_id: Id of the state.

        Returns:
            The kind.
        """
        state = self.states[state_id]
        if state.kind == "converse" and not state.transitions:
            return "final"
        return state.kind
