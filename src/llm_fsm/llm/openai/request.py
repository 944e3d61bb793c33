"""The JSON of a request for a chat completion, as servers and litellm take it."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from llm_fsm.llm.openai.completion import MALFORMED
from llm_fsm.llm.structured_output import Mode, form_fields
from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolCall
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments

_HISTORY_END = "]\n</conversation_history>\n"
_EXCHANGE = re.compile(r'(?<="})(?=,{"user":")')
"""The border between two exchanges of the history. No JSON string has an unescaped quote after a brace."""


def request_fields(
    request: LLMRequest, model: str, mode: Mode, *, marks: bool, untempered: Container[str] = ()
) -> dict[str, Any]:
    """Return the fields of a request that all servers take alike.

    Args:
        request: The request.
        model: The name of the model.
        mode: The way to ask for the form of the reply.
        marks: True marks the parts of the prompt that a provider is to cache.
        untempered: Models to which no temperature is sent.
    """
    messages = [message_json(message) for message in request.messages]
    if marks:
        messages[:2] = map(marked, messages[:2])
    fields: dict[str, Any] = {"model": model, "messages": messages}
    if request.temperature is not None and model not in untempered:
        fields["temperature"] = request.temperature
    fields |= form_fields(mode, request.schema)
    if request.tools:
        fields["tools"] = [spec.to_dict() for spec in request.tools]
    return fields


def message_json(message: LLMMessage) -> dict[str, Any]:
    """Return a message as servers take it.

    They parse the arguments of past calls, so wrong ones are wrapped.
    """
    if not message.tool_calls:
        return message.to_dict()
    sound = tuple(_sound(call) for call in message.tool_calls)
    return LLMMessage(message.role, message.content, sound, message.tool_call_id).to_dict()


def _sound(call: ToolCall) -> ToolCall:
    try:
        arguments = json.dumps(read_arguments(call.arguments))
    except ArgumentsFault:
        arguments = json.dumps({"malformed": call.arguments})
    return ToolCall(id=call.id, name=call.name or MALFORMED, arguments=arguments)


def takes_marks(model: str) -> bool:
    """Return true if the provider caches only the marked parts of a prompt, like every provider of Claude."""
    return "claude" in model.lower()


def marked(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the mark by which Claude's providers cache a prompt.

    The mark is after the system message, and after the last exchange of the history. A cached text ends with a part, so
    each exchange is a part. The next prompt begins with the same parts.
    """
    text = message["content"]
    if not isinstance(text, str):
        return message
    if message["role"] == "system":
        known, rest = [text], ""
    else:
        history, end, rest = text.partition(_HISTORY_END)
        if not end:
            return message
        known, rest = _EXCHANGE.split(history), end + rest
    parts: list[dict[str, Any]] = [{"type": "text", "text": part} for part in known]
    parts[-1]["cache_control"] = {"type": "ephemeral"}
    if rest:
        parts.append({"type": "text", "text": rest})
    return {**message, "content": parts}
