"""What passes between the engine and a model, and what a caller reads of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that a model asked for. `arguments` is JSON text as the model sent it, unchecked."""

    id: str
    name: str
    arguments: str


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as a model is told of it. `parameters` is the JSON Schema of its arguments object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash((self.name, self.description))  # parameters have no hash


class LLMMessage(Struct, frozen=True):
    """One message as a chat-completions API takes it.

    An assistant's message may carry `tool_calls`; a message of role tool answers the call `tool_call_id`.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of OpenAI's chat completions."""
        document: dict[str, Any] = {"role": self.role, "content": self.content}
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
    """One message of a conversation as its caller reads it."""

    role: Literal["user", "assistant"]
    text: str
    turn: int


class Paused(Struct, frozen=True, kw_only=True):
    """What a run waits for, as its caller reads it and `answer` is checked against.

    `kind`: wait (a state that waits), approval (before a tool runs: answer {"approved": …}), break (a tool or
    function that asks), unknown_outcome (a call that a crash interrupted and that must not be repeated blindly).
    `what`: a name or a sentence. `call`: the tool call in question as {"name", "arguments"}, with "result" where it
    has run. `schema`: JSON Schema of the answer. `expires`: seconds since the epoch, None: never.
    """

    id: str
    kind: Literal["wait", "approval", "break", "unknown_outcome"]
    what: str
    state: str
    call: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] = {}
    expires: float | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """What was spent: `calls` counts replies asked for, `attempts` counts requests sent for them.

    `seconds` is time spent waiting for models; `cost` is in US dollars, 0 where none is reported.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            attempts=self.attempts + other.attempts,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            seconds=self.seconds + other.seconds,
            cost=self.cost + other.cost,
        )


class ReplySchema(Struct, frozen=True, kw_only=True):
    """The JSON Schema of the reply that is wanted; `text` is its JSON, the same bytes each time."""

    name: str
    schema: Mapping[str, Any]
    text: str


class Choice(Struct, frozen=True, kw_only=True):
    """A transition as the plain view shows it. `judged`: only words say when to take it."""

    target_state: str
    description: str
    open: bool
    judged: bool
    arrival: str
    """What the target says or is there for, in the definition's own words; fixed replies are rendered."""
    requires: tuple[str, ...] = ()
    logic: tuple[Any, ...] = ()
    fixed: bool = False
    """The target has a fixed reply, which follows by itself."""
    wanted: Mapping[str, Mapping[str, Any]] = {}
    """Keys that the target collects and that are missing now, with their schemas."""


class TurnView(Struct, frozen=True, kw_only=True):
    """The turn without the prompt's wording, for adapters that work without a model.

    `wanted`: keys to collect here that are still missing, with their JSON Schemas ({} when undeclared).
    `writable`: all keys that a reply may write, with their schemas. `speak`: words only, no move is possible.
    `user` is None where nobody has spoken (the greeting).
    """

    state: str
    purpose: str
    description: str
    own_words: str
    user: str | None
    speak: bool
    context: Mapping[str, Any]
    system: Mapping[str, Any]
    wanted: Mapping[str, Mapping[str, Any]]
    writable: Mapping[str, Mapping[str, Any]]
    choices: tuple[Choice, ...]
    refused: tuple[str, ...] = ()
    """Why the previous reply to the same message was not accepted."""
    task: bool = False
    """A task asks: the reply is its output, in plain words, not a reply in the form of a turn."""
    patterns: tuple[str, ...] = ()
    """Repair patterns that a reply may name instead of a state."""


class LLMRequest(Struct, frozen=True, kw_only=True):
    """One question to a model. `timeout` is the time left for it in seconds; None: no limit."""

    messages: tuple[LLMMessage, ...]
    schema: ReplySchema | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the model may call instead of answering in the form of `schema`."""
    conversation_id: str = ""
    state: str = ""
    """Id of the state that asks, for adapters that record or replay."""
    sizes: Mapping[str, int] = {}
    """Estimated tokens of the prompt's parts, tools apart: system, schema, and sections of the user message."""
    view: TurnView | None = None
    """Given to adapters with a true attribute `reads_view`."""
    options: Mapping[str, Any] = {}
    """Further settings of a chat client, as its caller gave them; other adapters ignore them."""


class ModelReply(Struct, frozen=True, kw_only=True):
    """What a model answered. `text`: the raw reply; `mode`: how its form was asked for; `seconds`: how long it took.

    `cached_tokens`: those of the `input_tokens` that came from the provider's cache.
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
    """Calls that the model asks for; the text beside them is not a reply."""

    @property
    def usage(self) -> Usage:
        """What this one reply took."""
        return Usage(
            calls=1,
            attempts=self.attempts,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seconds=self.seconds,
            cost=self.cost,
        )
