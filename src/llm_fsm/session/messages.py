"""Messages: the values between the engine and a model, and the values that a caller reads of a
conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from llm_fsm._json import JsonDict, JsonMap, Schemas, in_unicode

Role = Literal["system", "user", "assistant", "tool"]
ReplyForm = Literal["object", "list"]
"""The form in which a reply writes values: an object of the mentioned keys, or a list of {"key",
"value"}.

A provider's strict mode that wants every property of an object takes the list.
"""
TakenForm = Literal["object", "list", "either"]
"""The form that a model takes. Of a model that takes either, objects are shorter.

Only a list can demand the quote of a value with it, so machines with `x-said: "quote"` ask such a
model for lists.
"""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call that a model asked for. `arguments` is JSON text as the model sent it,
    unchecked."""

    id: str
    name: str
    arguments: str


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """A tool as the model sees it. `parameters` is the JSON Schema of its arguments object."""

    name: str
    description: str
    parameters: JsonMap

    def __hash__(self) -> int:
        return hash((self.name, self.description))  # parameters have no hash

    def to_dict(self) -> JsonDict:
        """Return the tool in the JSON form of OpenAI's chat completions."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    @cached_property
    def text(self) -> str:
        """The JSON text of `to_dict`, written once for all requests."""
        return in_unicode(self.to_dict())


class LLMMessage(Struct, frozen=True):
    """One message as a chat-completions API takes it.

    A message of the assistant may carry `tool_calls`. A message of role tool answers the call
    `tool_call_id`. `native` is that of the `ModelReply` from which a message was made.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    native: JsonMap = {}

    def to_dict(self) -> JsonDict:
        """Return the message in the JSON form of OpenAI's chat completions."""
        document: JsonDict = {"role": self.role, "content": self.content}
        if self.tool_calls:
            document["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            document["tool_call_id"] = self.tool_call_id
        return document


class Message(Struct, frozen=True):
    """One message of a conversation. `turn` counts from 1; the greeting is turn 0.

    `by` names the person who said it in the place of the machine; "" is the machine, or the user.
    `interrupted`: the user heard only the text before the mark `… [interrupted]`. `claimed`: it
    was said elsewhere before, as who began the conversation claims.
    """

    role: Literal["user", "assistant"]
    text: str
    turn: int
    by: str = ""
    interrupted: bool = False
    claimed: bool = False


class Paused(Struct, frozen=True, kw_only=True):
    """The question or approval that a run waits for.

    Attributes:
        id: Id of the pause.
        kind: "wait" of a state that waits. "approval" before a tool runs; the answer is
            {"approved": …}. "break" if a tool or function asks. "unknown_outcome" if a crash
            interrupted a call that must not be repeated blindly.
        what: A name or a sentence.
        state: Id of the state that waits.
        call: The tool call in question as {"name", "arguments"}, with "result" if it ran.
        schema: JSON Schema of the answer.
        expires: Seconds since the epoch; None: never.
        messages: record (messages of the user are kept for a person, without a model) or refuse.
    """

    id: str
    kind: Literal["wait", "approval", "break", "unknown_outcome"]
    what: str
    state: str
    call: JsonMap | None = None
    schema: JsonMap = {}
    expires: float | None = None
    messages: Literal["refuse", "record"] = "refuse"


class Usage(Struct, frozen=True, kw_only=True):
    """Model calls and their cost.

    `calls` counts replies asked for, and `attempts` the requests sent for them. `seconds` is time
    spent waiting for models. `cost` is in US dollars; it is 0 if the provider reports none.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        names = self.__struct_fields__
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def by_limit(self) -> dict[str, float]:
        """Return what counts for limits, by their names."""
        tokens = self.input_tokens + self.output_tokens
        return {"llm_calls": self.calls, "tokens": tokens, "money": self.cost}


class ReplySchema(Struct, frozen=True, kw_only=True):
    """The JSON Schema of the reply that is wanted. `text` is its JSON, always the same bytes."""

    name: str
    schema: JsonMap
    text: str
    form: ReplyForm = "object"


class TransitionView(Struct, frozen=True, kw_only=True):
    """A transition as the plain view shows it.

    `judged`: only its description says when to take it. `own`: it is the state's, not a global one
    or one left open.
    """

    target_state: str
    description: str
    open: bool
    judged: bool
    arrival: str
    """The target's fixed reply or purpose, in the definition's own words; fixed replies are
    rendered."""
    requires: tuple[str, ...] = ()
    logic: tuple[Any, ...] = ()
    reasons: tuple[str, ...] = ()
    """The demand of each rule of `logic`, in the definition's own words."""
    own: bool = True
    fixed: bool = False
    """The target has a fixed reply, which follows without a model."""
    wanted: Schemas = {}
    """Missing keys that the target collects, with their schemas."""


class PlainTurn(Struct, frozen=True, kw_only=True):
    """The turn without the prompt's wording, for adapters that work without a model.

    `wanted` holds missing keys to collect here, with their JSON Schemas ({} if undeclared).
    `writable` holds all keys that a reply may write, with their schemas. `speak`: only words are
    wanted, and no move is possible. `user` is None if nobody has spoken (the greeting).
    """

    state: str
    purpose: str
    description: str
    own_words: str
    user: str | None
    speak: bool
    context: JsonMap
    system: JsonMap
    wanted: Schemas
    writable: Schemas
    choices: tuple[TransitionView, ...]
    refused: tuple[str, ...] = ()
    """The reasons for which earlier replies to the same message were not accepted."""
    broken: tuple[str, ...] = ()
    """The rules for values that these replies broke, in the definition's words."""
    task: bool = False
    """A task asks: the reply is its output in plain words."""
    patterns: tuple[str, ...] = ()
    """Repair patterns that a reply may name instead of a state."""
    language: str = ""
    """The language of the definition's own words, as a tag of BCP 47; "" if it does not say."""


class LLMRequest(Struct, frozen=True, kw_only=True):
    """One question to a model.

    `timeout`: seconds without a sign of life; None: no limit. `defaults`: the settings that no
    author chose, among "temperature" and "max_tokens". An adapter may change them for a model. It
    adds room for thoughts, and leaves out a temperature that the model does not take.
    """

    messages: tuple[LLMMessage, ...]
    schema: ReplySchema | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    defaults: frozenset[str] = frozenset()
    timeout: float | None = None
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the model may call instead of replying in the form of `schema`."""
    conversation_id: str = ""
    state: str = ""
    """Id of the current state, for adapters that record or replay."""
    targets: tuple[str, ...] = ()
    """States and patterns that this reply may name, of those in `schema`; () for a task."""
    clearable: tuple[str, ...] = ()
    """Keys whose values this reply may take back."""
    asked: tuple[str, ...] = ()
    """Keys that the current state collects."""
    sizes: Mapping[str, int] = {}
    """Estimated tokens of the prompt's parts without tools: system, schema, and sections of the
    user message."""
    view: PlainTurn | None = None
    """Given to adapters that have a true attribute `reads_view`."""
    reading: Callable[[int, int], None] | None = None
    """Called with the tokens of the prompt that the server has read, and with all of them.
    Some servers do not report them. None: nobody listens."""
    context: int | None = None
    """Tokens that fit into the model's context, as the definition says."""
    options: JsonMap = {}
    """Further settings of the provider, such as `top_p`, `seed` or `response_format`.

    Chat clients and servers get them. Adapters that ask no provider ignore them.
    """


class ModelReply(Struct, frozen=True, kw_only=True):
    """A model's answer.

    `text` is the raw reply. `mode` says how its form was requested. `seconds` is the time that it
    took. `cached_tokens` is the part of `input_tokens` that the provider's cache served.
    """

    text: str
    model: str = ""
    mode: str = ""
    finish_reason: str = ""
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    cached_tokens: int = 0
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls that the model asks for. The text beside them is not a reply."""
    left_out: tuple[str, ...] = ()
    """The parts of the prompt that were shortened to fit: history, results, keys."""
    native: JsonMap = {}
    """Parts of a message with calls that only its provider understands: {"by": the model that
    wrote it, "message": {…}, "calls": {id: {…}}}. They go back to that model within the turn."""

    @property
    def usage(self) -> Usage:
        """The usage of this one reply."""
        return Usage(
            calls=1,
            attempts=self.attempts,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seconds=self.seconds,
            cost=self.cost,
        )
