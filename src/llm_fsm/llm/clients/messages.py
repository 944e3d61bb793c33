"""Messages, tool calls and replies of chat clients, and their translation to those of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llm_fsm._json import JsonDict, JsonMap, json_text
from llm_fsm.llm.openai.completion import read_calls
from llm_fsm.session.messages import LLMMessage, ModelReply, ToolSpec
from llm_fsm.session.messages import ToolCall as AskedCall
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments


@dataclass
class ToolCall:
    """A call that a model asks for.

    It can also be read as chat completions write it: `call["function"]["name"]`.

    Attributes:
        id: The id, which the result repeats.
        name: The name of the tool.
        arguments: The arguments, by name.
    """

    id: str
    name: str
    arguments: JsonDict

    def __getitem__(self, key: str) -> Any:
        return self.to_openai()[key]

    def to_openai(self) -> JsonDict:
        """Return the call in the form of chat completions.

        Returns:
            The call, with its arguments as JSON text.
        """
        function = {"name": self.name, "arguments": json_text(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


AnyCall: TypeAlias = ToolCall | JsonMap
"""A call as an object, or in the form of chat completions."""


@dataclass
class Message:
    """One message to a model.

    Args:
        role: `system`, `user`, `assistant` or `tool`.
        content: Its text.
        tool_calls: The calls of an assistant's message.
        tool_call_id: The call that a message of the role `tool` answers.
        name: The name of the tool that answers.
    """

    role: str
    content: str | None = None
    tool_calls: Sequence[AnyCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


@dataclass
class LLMResponse:
    """One answer of a model. `str(response)` is its text.

    Attributes:
        content: The text; None or "" if there are only calls.
        tool_calls: The calls that the model asks for.
        finish_reason: The provider's reason for the end.
        usage: Token counts, by the provider's names.
    """

    content: str | None = None
    tool_calls: Sequence[AnyCall] | None = field(default_factory=list)
    finish_reason: str | None = "stop"
    usage: JsonDict | None = field(default_factory=dict)

    def __str__(self) -> str:
        return self.content or ""


AnyMessage: TypeAlias = Message | LLMMessage | JsonMap
"""A message as an object, or as {"role": …, "content": …}."""


def to_openai(message: AnyMessage) -> JsonDict:
    """Return a message as chat completions take it.

    Args:
        message: The message.

    Returns:
        JSON data.

    Raises:
        ValueError: It has no role.
    """
    if isinstance(message, LLMMessage):
        return message.to_dict()
    given = message if isinstance(message, Mapping) else vars(message)
    if not isinstance(given.get("role"), str):
        raise ValueError('messages are a list of Message(role="user", content="…")')
    made = {"role": given["role"], "content": given.get("content") or ""}
    if given.get("tool_calls"):
        made["tool_calls"] = [
            one.to_openai() if isinstance(one, ToolCall) else one for one in given["tool_calls"]
        ]
    made |= {key: given[key] for key in ("tool_call_id", "name") if given.get(key)}
    return made


def to_engine(message: AnyMessage) -> LLMMessage:
    """Return a message as the engine's models take it.

    Raises:
        ValueError: It has no role.
    """
    if isinstance(message, LLMMessage):
        return message
    plain = to_openai(message)
    return LLMMessage(
        plain["role"], plain["content"], read_calls(plain), str(plain.get("tool_call_id", ""))
    )


def from_engine(message: LLMMessage) -> Message:
    """Return a message of the engine as clients take it."""
    calls = [from_call(call) for call in message.tool_calls] or None
    return Message(message.role, message.content, calls, message.tool_call_id or None)


def from_call(call: AskedCall) -> ToolCall:
    """Return a call as an object. Arguments that are no JSON object get the key `malformed`."""
    try:
        arguments = dict(read_arguments(call.arguments))
    except ArgumentsFault:
        arguments = {"malformed": call.arguments}
    return ToolCall(call.id, call.name, arguments)


def asked_calls(calls: Iterable[AnyCall] | None) -> tuple[AskedCall, ...]:
    """Return the calls of a client's reply as the engine reads them."""
    return read_calls(
        {
            "tool_calls": [
                one.to_openai() if isinstance(one, ToolCall) else one for one in calls or ()
            ]
        }
    )


def to_response(reply: ModelReply) -> LLMResponse:
    """Return a reply of the engine as clients give it."""
    usage = {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    calls = [from_call(call) for call in reply.tool_calls]
    return LLMResponse(reply.text, calls, reply.finish_reason or "stop", usage)


def text_of(answer: Any) -> Any:
    """Return the text of a client's response; any other value unchanged."""
    return (answer.content or "") if isinstance(answer, LLMResponse) else answer


def read_tools(schemas: Iterable[JsonMap] | None) -> tuple[ToolSpec, ...]:
    """Read tools in the form of chat completions.

    Raises:
        ValueError: One of them is not {"type": "function", "function": {"name": …}}.
    """
    specs = []
    for schema in schemas or ():
        function = schema.get("function", schema)
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError('tools are a list of {"type": "function", "function": {"name": "…"}}')
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        specs.append(
            ToolSpec(
                name=function["name"],
                description=str(function.get("description", "")),
                parameters=parameters,
            )
        )
    return tuple(specs)
