"""The events of streams, described for the OpenAPI document.

A document of OpenAPI 3.1 has no form for a stream. By convention the schema of `text/event-stream`
is that of one
event: its `event`, its `id`, and its `data`, parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ag_ui.core.events import EventType
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import models_json_schema

from llm_fsm._json import JsonDict
from llm_fsm.definition.models import JsonObject
from llm_fsm.server import views
from llm_fsm.session.turn_record import Kind

Responses = dict[int | str, JsonDict]
"""The answers of a route in an OpenAPI document, by status."""
EventShapes = Mapping[str, type[BaseModel]]
PLACE = "#/components/schemas/"
"""The place of schemas in an OpenAPI document, before their names."""


class DeltaData(BaseModel):
    """Text to add. `restart`: the words so far are withdrawn."""

    text: str
    restart: bool = False


class ReadingData(BaseModel):
    """Tokens of the prompt that a local server has `read`, and all of them."""

    read: int
    total: int


class StateData(BaseModel):
    """A move. `by`: its cause."""

    state: str
    previous_state: str
    by: str


class ContextData(BaseModel):
    """Values that were set, and keys that were removed."""

    values: JsonObject
    removed: list[str]


class ToolData(BaseModel):
    """A call of a tool: `failed` and `seconds` if it was made, or else the reason for which it was
    `refused`.
    """

    name: str
    failed: bool | None = None
    seconds: float | None = None
    refused: str | None = None


class ProgressData(BaseModel):
    """A report of a task."""

    state: str
    report: JsonValue


class AttemptData(BaseModel):
    """An attempt of a task that begins; with `failures` it failed."""

    state: str
    attempt: int
    failures: list[dict[str, str]] | None = None


class CheckData(BaseModel):
    """The check of a key result."""

    name: str
    passed: bool
    reason: str


class PauseData(BaseModel):
    """A pause that begins. `schema`: JSON Schema of the answer. `may_answer` and `messages`: as of
    a conversation.
    """

    id: str
    kind: str
    what: str
    answer_schema: JsonObject = Field(alias="schema")
    may_answer: bool
    messages: str


class EndData(BaseModel):
    """The end of a conversation."""

    outcome: str


class UserMessageData(BaseModel):
    """A message of the user."""

    text: str
    picked: bool
    request_id: str | None


class ReminderData(BaseModel):
    """A reminder. `due`: its time in seconds since the epoch."""

    due: float


class TimeoutData(BaseModel):
    """A pause that nobody answered in time."""

    pause: str


class UndoneData(BaseModel):
    """The number of a record that was taken back."""

    record: int


class FollowedTurn(views.TurnView):
    """A turn of a conversation that is followed. `kind`: its cause."""

    kind: Kind


class ToolFunction(BaseModel):
    """The function of a tool call, which is `answer`. `arguments`: JSON."""

    name: str
    arguments: str


class ToolCallView(BaseModel):
    """A pause as a tool call. A message of the role `tool` answers it."""

    index: int | None = None
    id: str
    type: Literal["function"]
    function: ToolFunction


class AssistantView(BaseModel):
    """The answer of a chat."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    tool_calls: list[ToolCallView] | None = None


class CompletionChoice(BaseModel):
    """The one choice of a chat completion."""

    index: int
    message: AssistantView
    finish_reason: Literal["stop", "tool_calls"]


class TokenUsage(BaseModel):
    """Tokens of a chat completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """A chat completion. `llm_fsm`: the whole turn."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage
    conversation_id: str | None = None
    llm_fsm: JsonObject | None = None


class ChunkDelta(BaseModel):
    """The addition of one piece of a chat completion."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: list[ToolCallView] | None = None


class ChunkChoice(BaseModel):
    """The one choice of a piece."""

    index: int
    delta: ChunkDelta
    finish_reason: Literal["stop", "tool_calls"] | None


class ChatCompletionChunk(BaseModel):
    """The data of one event of a streamed chat completion. The stream ends with the text `[DONE]`."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: TokenUsage | None = None
    conversation_id: str | None = None
    llm_fsm: JsonObject | None = None


class OutputItem(BaseModel):
    """An item of a response: a message of the assistant, or a function call."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: Literal["message", "function_call"]
    role: Literal["assistant"] | None = None
    status: str


class ResponseFault(BaseModel):
    """The reason of a failed response. `code`: the name of a problem; `retry_after`: seconds."""

    code: str
    message: str
    retry_after: int | None = None


class ModelResponse(BaseModel):
    """A response. `llm_fsm`: the whole turn."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["response"]
    status: Literal["in_progress", "completed", "failed"]
    model: str
    output: list[OutputItem]
    error: ResponseFault | None


class ModelResponseEvent(BaseModel):
    """The data of one event of a streamed response; its name is its `type`."""

    model_config = ConfigDict(extra="allow")

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
        "response.failed",
    ]
    sequence_number: int


class AgUiEvent(BaseModel):
    """The data of one event of a run by AG-UI. Its further members depend on its `type`."""

    model_config = ConfigDict(extra="allow")

    type: EventType


_OTHERS = (ChatCompletion, ChatCompletionChunk, ModelResponse, ModelResponseEvent, AgUiEvent)
HAPPENED: EventShapes = {
    "state": StateData,
    "context": ContextData,
    "tool": ToolData,
    "progress": ProgressData,
    "attempt": AttemptData,
    "check": CheckData,
    "paused": PauseData,
    "ended": EndData,
}
"""Names of events in every stream, with their data."""
TURN_EVENTS: EventShapes = {
    "reading": ReadingData,
    "delta": DeltaData,
    **HAPPENED,
    "turn": views.TurnView,
}
"""Names of events in the stream of one turn, besides `error`."""
CONVERSATION_EVENTS: EventShapes = {
    "conversation": views.ConversationView,
    "message": UserMessageData,
    "reminder": ReminderData,
    "timeout": TimeoutData,
    "undone": UndoneData,
    **HAPPENED,
    "turn": FollowedTurn,
}
"""Names of events in the stream of a conversation, besides `error`."""


def stream_of(name: str) -> JsonDict:
    """Return the content of a response that may be a stream, whose events have a name in `schemas`."""
    return {"text/event-stream": {"schema": {"$ref": PLACE + name}}}


def schemas() -> JsonDict:
    """Return the schemas of streams and of all that they name, for the components of an OpenAPI
    document.
    """
    models: set[type[BaseModel]] = {*TURN_EVENTS.values(), *CONVERSATION_EVENTS.values(), *_OTHERS}
    in_order = sorted(models, key=lambda model: model.__name__)
    _, found = models_json_schema(
        [(model, "serialization") for model in in_order],
        ref_template=PLACE + "{model}",
        by_alias=True,
    )
    return {
        **found["$defs"],
        "TurnEvent": _any_of("One event of the stream of a turn.", TURN_EVENTS),
        "ConversationEvent": _any_of(
            "One event of the stream of a conversation.", CONVERSATION_EVENTS
        ),
    }


def _any_of(description: str, events: EventShapes) -> JsonDict:
    kinds = [_event(name, model.__name__) for name, model in events.items()]
    return {"description": description, "oneOf": [*kinds, _event("error", "Problem")]}


def _event(name: str, data: str) -> JsonDict:
    return {
        "title": name,
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "For Last-Event-ID"},
            "event": {"type": "string", "const": name},
            "data": {"$ref": PLACE + data},
        },
    }
