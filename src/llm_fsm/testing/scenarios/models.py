"""The models of a `*.test.json` file: what an author may write, key by key.

The loader validates with these models, and the published JSON Schema is generated from them. A
model replaces a short form by the long one before it validates: `"expect": "done"` becomes
`"expect": {"state": "done"}`. `Suite` is the file, `Case` a conversation, and `CaseStep` one
message or answer in it. `CaseReply` is the model's reply, and `Expect` its expected result. The
keys of a `Case` may stand in a file, too: they are for all its cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from llm_fsm._json import JsonDict, JsonMap, TextMap, escape, list_at
from llm_fsm._text import nearest
from llm_fsm.conditions.compiler import ConditionError, compile_rule, evaluate
from llm_fsm.definition.marks import MarkedModel, NamedKey, NamedState, WrittenAs
from llm_fsm.definition.models import JsonObject
from llm_fsm.definition.naming import Naming
from llm_fsm.session.events import EVENTS

DIALOGUE_KEYS: TextMap = {"clock": "time", "what": "description"}
"""Keys of dialogues with labels, and the keys of a case that they are."""
BEGINNING = 1893456000.0
"""The time at which a case begins by default: 2030-01-01T00:00:00Z."""


def _listed(value: object) -> object:
    """Read a single item as a list of one."""
    if isinstance(value, list):
        return value
    return [value]


def _rule(value: object) -> object:
    try:
        compile_rule(value)
    except ConditionError as error:
        raise wrong(f"this is no rule: {error}") from error
    return value


def wrong(reason: str) -> PydanticCustomError:
    """Make the error for a value that is not allowed; the reason is a sentence."""
    return PydanticCustomError("value", "{reason}", {"reason": reason})


Texts = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]
Rule = Annotated[JsonValue, BeforeValidator(_rule), Naming.RULE]
NamedKeys = Annotated[JsonObject, Naming.KEY]
"""Values by context keys."""
NamedStates = Annotated[Texts, Naming.STATE]


class Written(MarkedModel):
    """The base of every object of the file. Keys that begin with `x-` are ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        given = value if isinstance(value, dict) or not cls.short else {cls.short: value}
        if not isinstance(given, dict):
            return given
        known = cls.known_keys()
        if given.keys() <= known:
            return given
        given = {key: item for key, item in given.items() if not key.startswith("x-")}
        for key in given:
            if key not in known:
                where = {"key": key, "known": sorted(known), "pointer": escape(key)}
                raise PydanticCustomError("unknown_key", "unknown key", where)
        return given

    @classmethod
    @cache
    def known_keys(cls) -> frozenset[str]:
        """List the keys that this object may have."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


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
    """The result of one call of a tool."""

    result: JsonValue = None
    """The result."""
    error: str | None = None
    """The call fails with this message."""
    when: JsonObject | None = None
    """Only for calls with these arguments (among others)."""


class ToolFixture(Written):
    """A simulated tool: {"result": …}, {"error": …}, a list of these for successive calls, or an
    object.
    """

    calls: Annotated[list[ToolResultFixture], Field(min_length=1)]
    """The results of successive calls; the last one repeats."""
    description: str = ""
    """The description that the model sees."""
    parameters: JsonObject | None = None
    """JSON Schema of its arguments; without it any arguments are accepted."""

    @model_validator(mode="before")
    @classmethod
    def _calls(cls, value: Any) -> Any:
        """Read the short forms: one result, or a list of results."""
        match value:
            case dict() if value.keys() <= {"result", "error", "when"}:
                return {"calls": [value]}
            case list():
                return {"calls": value}
        return value


class FunctionResultFixture(Written):
    """The result of one call of a function."""

    output: JsonValue = None
    """For `execute`: the output of the task."""
    passed: bool | None = None
    """For a check: true if it passed."""
    reason: str = ""
    """For a check: the reason why it failed."""
    set: NamedKeys = {}
    """For `execute`: context keys that it sets; null deletes."""
    ask: str | None = None
    """For `execute`: it asks a person this question, and the answer is its output."""
    error: str | None = None
    """It raises this."""


FunctionFixture = Annotated[
    list[FunctionResultFixture],
    Field(min_length=1),
    BeforeValidator(
        _listed, json_schema_input_type=FunctionResultFixture | list[FunctionResultFixture]
    ),
]


class HandlerFixture(Written):
    """A simulated handler of the host."""

    at: PointName = "post_transition"
    """The point at which it runs."""
    state: NamedStates | None = None
    """Only in these states; at post_transition: when one of them is entered."""
    when: Rule = None
    """Only when this JsonLogic rule over the context and the system names is truthy."""
    set: NamedKeys = {}
    """Context keys that it sets; null deletes."""
    text: str | None = None
    """At post_processing and error: the text to say instead."""
    veto: str | None = None
    """At pre_transition: forbids the move, with this reason."""
    error: str | None = None
    """It raises this."""
    times: Annotated[int, Field(ge=1)] | None = None
    """Number of times that it acts; afterwards it does nothing."""


_OPENAI = ("role", "content", "text")
"""Keys beside `tool_calls` that mark a whole message."""


class CallScripted(Written):
    """A tool call that the model makes."""

    short: ClassVar[str] = "name"

    name: str
    """The tool's name in the definition."""
    arguments: JsonValue = {}
    """Its arguments: an object, or a text that is sent unchanged."""


class WrittenMove(Written):
    """The move of a reply, as a model writes it."""

    target_state: NamedState | None = None
    """The target state."""
    context_update: NamedKeys = {}
    """Context keys that it sets."""


class WholeReply(WrittenMove):
    """A reply as a model writes it. Other keys of it name nothing of the definition."""

    transition: WrittenMove | None = None
    """The move."""


class CaseReply(Written):
    """One reply of the model. A text is sent unchanged, an object without any of these keys as its
    JSON.

    A key that is one of these but for a typo is an error; with `raw` it can be sent.
    """

    exact: ClassVar[str] = "raw"

    to: NamedState | None = None
    """The target state; without it the conversation stays where it is."""
    set: NamedKeys = {}
    """Context keys that it sets."""
    clear: list[NamedKey] = []
    """Context keys that it clears."""
    message: str = ""
    """The message to the user."""
    question: str | None = None
    """The question behind it; without the key the reply has an older form, whose message may ask."""
    reasoning: str | None = None
    """The reasoning that it gives."""
    tool_calls: list[CallScripted] = []
    """The tools that it calls instead of replying. `calls` is an older name of this key."""
    fault: FaultName | None = None
    """The failure that replaces the reply: the provider fails, or the reply is empty or cut off."""
    raw: Annotated[JsonValue, WrittenAs(WholeReply)] = None
    """The exact reply: a text, or any value, sent as JSON."""

    @model_validator(mode="before")
    @classmethod
    def _verbatim(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"raw": value}
        if not isinstance(value, dict):
            return value
        if "calls" in value and "tool_calls" not in value:
            value = {"tool_calls" if key == "calls" else key: item for key, item in value.items()}
        if cls._is_whole(value) or not (
            value.keys() & cls.known_keys() or any(map(cls._misspelt, value))
        ):
            return {"raw": value}
        return value

    @staticmethod
    def _is_whole(value: JsonMap) -> bool:
        """Return true for a reply as models write it, or a message in OpenAI's form, which is sent
        unchanged.
        """
        calls = list_at(value, "tool_calls")
        of_openai = any(isinstance(call, dict) and "function" in call for call in calls)
        return (
            "transition" in value
            or "target_state" in value
            or of_openai
            or (value.get("tool_calls") is not None and not value.keys().isdisjoint(_OPENAI))
        )

    @classmethod
    def _misspelt(cls, key: str) -> bool:
        """Return True for a misspelt key of this model, which is reported and not sent."""
        return nearest(key, cls.known_keys()) is not None


EVENT_NAMES: Mapping[str, Naming] = {
    "state": Naming.STATE,
    "previous": Naming.STATE,
    "target": Naming.STATE,
    "key": Naming.KEY,
    "keys": Naming.KEY,
    "values": Naming.KEY,
    "removed": Naming.KEY,
    "transition": Naming.POINTER,
}
"""Fields of events that name something of the definition."""
_EVENT_FIELDS = frozenset({"type"}).union(*(kind.__struct_fields__ for kind in EVENTS.values()))


def _patterns(found: list[str]) -> list[str]:
    for pattern in found:
        try:
            evaluate({"matches": ["", {"var": "pattern"}]}, {"pattern": pattern})
        except ConditionError as error:
            raise wrong(f"{pattern!r} is no regular expression (RE2): {error}") from error
    return found


class WordsExpected(Written):
    """Conditions on the text; all of them must be met."""

    short: ClassVar[str] = "contains"

    contains: Texts = []
    """Texts that the text must contain; letter case counts."""
    matches: Annotated[Texts, AfterValidator(_patterns)] = []
    """Regular expressions (RE2) that must all be found in the text."""
    equals: str | None = None
    """The whole text."""


class CallExpected(Written):
    """One tool call."""

    short: ClassVar[str] = "name"

    name: str
    """The tool's name in the definition."""
    arguments: JsonObject | None = None
    """The arguments, all of them."""
    error: bool | None = None
    """True if the call failed or was refused."""


class PauseExpected(Written):
    """The answer that the run waits for."""

    short: ClassVar[str] = "what"

    what: str | None = None
    """The name or the sentence of the pause."""
    kind: Literal["wait", "approval", "break", "unknown_outcome"] | None = None
    """The reason why it waits."""
    tool: str | None = None
    """The tool whose call waits for a decision."""


class EventExpected(Written):
    """An event: its type, and fields that must have these values."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    short: ClassVar[str] = "type"
    others: ClassVar[Mapping[str, Naming]] = EVENT_NAMES

    type: str
    """The type of the event, such as MoveRefused; the other keys are fields of it."""

    @classmethod
    @cache
    def known_keys(cls) -> frozenset[str]:
        """List the fields of all events; the type decides which of them an event has."""
        return _EVENT_FIELDS

    @model_validator(mode="after")
    def _known(self) -> EventExpected:
        kind = EVENTS.get(self.type)
        if kind is None:
            raise PydanticCustomError(
                "choice",
                "unknown",
                {"value": self.type, "known": sorted(EVENTS), "pointer": "type"},
            )
        known = set(kind.__struct_fields__)
        for key in self.values:
            if key not in known:
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key",
                    {"key": key, "known": sorted(known), "pointer": key},
                )
        return self

    @property
    def values(self) -> JsonMap:
        """The fields and their expected values."""
        return self.model_extra or {}


def _paused(value: object) -> object:
    """Read true and false as waiting for anything and for nothing."""
    if value is True:
        return {}
    return None if value is False else value


class Expect(Written):
    """Expectations after a step; all of them must be met."""

    short: ClassVar[str] = "state"

    state: NamedStates | None = None
    """The state of the conversation, or a list of allowed states."""
    moved: bool | None = None
    """True if a transition was made."""
    path: list[NamedState] | None = None
    """The states entered in this step, in order; [] when none was."""
    context: NamedKeys = {}
    """Context keys with the values that they must have, among others; null: it is not set."""
    context_exact: NamedKeys | None = None
    """The whole context."""
    absent: Annotated[Texts, Naming.KEY] = []
    """Context keys that must not be set."""
    logic: Rule = None
    """A JsonLogic rule over the context and the system names that must be truthy."""
    open: list[NamedState] | None = None
    """All states and repair patterns that the next reply may name, in the order of the prompt."""
    missing: list[NamedKey] | None = None
    """All keys that this state collects and that are not known yet, in order."""
    shown: list[NamedKey] | None = None
    """All keys whose values the next prompt shows, in any order."""
    text: WordsExpected | None = None
    """The text of the turn: a text or texts that it must contain, or an object."""
    tools: list[CallExpected] | None = None
    """The tool calls of this step, all of them in order; [] when there must be none."""
    events: list[EventExpected] = []
    """Events that must have happened, in this order among others: a type, or an object with `type`
    and fields.
    """
    calls: int | None = None
    """Number of model calls."""
    ended: bool | None = None
    """True if the conversation has ended."""
    outcome: str | None = None
    """The outcome: passed, paused, exhausted, limited, failed, closed, or that of its end, such as
    final.
    """
    paused: Annotated[
        PauseExpected | None,
        BeforeValidator(_paused, json_schema_input_type=bool | str | PauseExpected | None),
    ] = None
    """The pause: true, false, its name, or an object."""
    output: JsonValue = None
    """The output of the last task."""
    error: str | None = None
    """The step must fail: a part of the error's class or message, such as ConversationEnded."""
    none_of: Expect | None = Field(default=None, alias="not")
    """Expectations of which none may be met."""
    any_of: Annotated[list[Expect], Field(min_length=1)] = []
    """Alternatives: at least one must be met as a whole."""


Seconds = Annotated[float, Field(gt=0, le=1e9)]


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise wrong("this is no time; write for example 2030-05-17T09:30:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


Moment = Annotated[
    float, Field(ge=0, le=2e11), BeforeValidator(_moment, json_schema_input_type=str | float)
]


def _whole(value: object) -> object:
    if isinstance(value, str | dict):
        return value
    raise wrong("a definition is a path or an object")


class Start(Written):
    """The beginning of the conversation: the greeting, or a run until it first waits."""

    reply: CaseReply | None = None
    """The reply of the model: an exact text, or an object."""
    replies: list[CaseReply] = []
    """The successive replies of the model; all of them must be used."""
    expect: Expect | None = None
    """The expectations: a state, or an object."""


_HAPPENS = frozenset({"say", "answer", "wait", "end"})


class CaseStep(Written):
    """One event from outside: exactly one of `say`, `answer`, `wait` and `end`."""

    reply: CaseReply | None = None
    """The reply of the model: an exact text, or an object."""
    replies: list[CaseReply] = []
    """The successive replies of the model; all of them must be used."""
    expect: Expect | None = None
    """The expectations: a state, or an object."""
    say: str | None = None
    """The user's message."""
    answer: JsonValue = None
    """The answer to a pause: any JSON value, also null."""
    wait: Seconds | None = None
    """Seconds that pass; whatever is due then happens."""
    end: Literal[True] | None = None
    """The caller closes the conversation."""
    description: str = ""
    """The purpose of this step."""

    @property
    def kind(self) -> Literal["say", "answer", "wait", "end"]:
        """Return the kind of event."""
        given = self.model_fields_set
        if "say" in given:
            return "say"
        if "wait" in given:
            return "wait"
        return "end" if "end" in given else "answer"

    @model_validator(mode="after")
    def _one(self) -> CaseStep:
        if len(_HAPPENS & self.model_fields_set) != 1:
            raise wrong("a step has one of say, answer, wait and end")
        return self


class LabelledTurn(Written):
    """A message of the user, and the labels that a person gave it, for `llm-fsm evaluate`."""

    say: str
    """The user's message."""
    state: NamedStates | None = None
    """The state after it, or a list of allowed states."""
    values: NamedKeys = {}
    """The keys that must be known from this turn on, with their values. null: the key must not be
    set. {"like": "…"}: a text in which this regular expression (RE2) is found; case is ignored.
    {"maybe": …}: if the key is set, it has this value.
    """
    text: str | None = None
    """A regular expression (RE2) that must be found in the text; case is ignored."""
    acts: list[str] | None = None
    """The tools and tasks behind a yes that must act in this turn, and no other; [] when none may.
    """
    said: str | None = None
    """The answer of another system, which takes the place of this one's in the later history."""


def script(step: Start | CaseStep) -> tuple[CaseReply, ...]:
    """List all replies of a step, or of the start."""
    return (*(() if step.reply is None else (step.reply,)), *step.replies)


class Case(Written):
    """One conversation and what is expected of it."""

    context: NamedKeys = {}
    """The context at the start."""
    state: NamedState | None = None
    """The state to begin in; without it the definition's own."""
    greet: bool | None = None
    """True to begin with a greeting; by default if there is a `start`."""
    time: Moment | None = None
    """The time at which it begins, ISO 8601 or seconds since the epoch; it passes only by
    `wait`.
    """
    input: JsonValue = None
    """For a machine without a user: the input of the first task."""
    background: JsonObject = {}
    """For a machine without a user: the background of the work."""
    model: str | None = None
    """A model without a key that answers instead of scripted replies: offline, or scripted:FILE."""
    tools: dict[str, ToolFixture] = {}
    """The results of each tool."""
    functions: dict[str, FunctionFixture] = {}
    """The results of each registered function."""
    handlers: list[HandlerFixture] = []
    """The handlers of the host."""
    name: str = ""
    """The name, unique in the file."""
    description: str = ""
    """The purpose of the case."""
    start: Start | None = None
    """The greeting, or the run until it first waits."""
    steps: list[CaseStep] = []
    """The events from outside, in order."""
    turns: list[LabelledTurn] = []
    """Messages with labels instead of `steps`: `llm-fsm evaluate` plays them with a real model."""
    expect: Expect | None = None
    """Expectations at the end; `tools`, `events` and `calls` count over the whole conversation."""
    table: list[JsonObject] = []
    """The case is played once for each row; {{column}} in its texts is the row's value."""
    skip: str | None = None
    """The reason why the case is skipped."""

    @property
    def why_skipped(self) -> str | None:
        """Return why scripted replies cannot play the case; None if they can."""
        if self.skip is None and self.turns:
            return "its turns have labels for a real model: llm-fsm evaluate"
        return self.skip

    @model_validator(mode="before")
    @classmethod
    def _of_dialogues(cls, value: Any) -> Any:
        """Read the names that dialogues with labels have for a time, a description and tools."""
        if not isinstance(value, dict) or "turns" not in value:
            return value
        renamed = {DIALOGUE_KEYS.get(key, key): item for key, item in value.items()}
        if isinstance(renamed.get("tools"), list):
            del renamed["tools"]  # names of functions of the host, which `--tools` registers
        return renamed

    @model_validator(mode="after")
    def _one_kind(self) -> Case:
        if self.steps and self.turns:
            raise wrong("a case has steps or turns, not both")
        return self


class User(Written):
    """A user simulated by a second model, with --simulate."""

    name: str = ""
    """The name in the report."""
    persona: str
    """The user, and their manner of speaking."""
    goal: str
    """The goal of the user."""
    success: Rule = None
    """A JsonLogic rule over the context, the system names and `ended` that is truthy when the goal
    is reached.
    """
    judge: str | None = None
    """A criterion that a model must find fulfilled, instead of `success` or besides."""
    max_turns: Annotated[int, Field(ge=1, le=200)] = 12
    """Messages after which the user gives up."""
    context: NamedKeys = {}
    """The context at the start."""
    state: NamedState | None = None
    """The state to begin in."""


class Suite(Written):
    """A file of conversation tests: one definition, shared settings, and the cases.

    A file with `steps` of its own is one case.
    """

    definition: Annotated[
        JsonValue, BeforeValidator(_whole, json_schema_input_type=str | JsonObject)
    ]
    """The definition: a path relative to this file, the name of a shipped one, or the definition
    itself.
    """
    cases: list[Case] = []
    """The conversations."""
    users: list[User] = []
    """Simulated users, who need live models; see --simulate."""
    flows: dict[str, JsonObject] = {}
    """Definitions by the names that subflows call."""
    schema_: str | None = Field(default=None, alias="$schema")
    """Allowed and ignored."""


_SETTINGS = (
    "context",
    "state",
    "greet",
    "time",
    "input",
    "background",
    "model",
    "tools",
    "functions",
    "handlers",
)
"""The keys of a case that a file may give to all its cases."""


def merged(shared: Case, case: Case) -> JsonMap:
    """Merge the settings of a case over those of its file: objects are merged, lists joined."""
    found: JsonDict = {}
    for name in _SETTINGS:
        own = getattr(case, name)
        given = getattr(shared, name)
        match given:
            case dict() if isinstance(own, dict):
                found[name] = {**given, **own}
            case list() if isinstance(own, list):
                found[name] = [*given, *own]
            case _:
                found[name] = own if name in case.model_fields_set else given
    return found
