"""The JSON of a request for a chat completion, as servers and litellm take it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from msgspec.structs import replace

from llm_fsm._json import JsonDict, value_of
from llm_fsm.llm.openai.completion import MALFORMED
from llm_fsm.llm.openai.native import with_native
from llm_fsm.llm.structured_output import Mode, ReplyModes, form_fields, has_own_temperature
from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolCall
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments

_HISTORY_END = "]\n</conversation_history>\n"
_EXCHANGE = re.compile(r'(?<="})(?=,{"user":")')
"""The border between two exchanges of the history. No JSON string has an unescaped quote after a
brace.
"""


def request_fields(
    request: LLMRequest, model: str, mode: Mode, *, marks: bool, modes: ReplyModes, by: str
) -> JsonDict:
    """Return the fields of a request that all servers take alike.

    The request's further settings come first, so that they replace no field that the engine needs.

    Args:
        request: The request.
        model: The name of the model.
        mode: The way to ask for the form of the reply.
        marks: True marks the parts of the prompt that a provider is to cache.
        modes: The settings that the models of the endpoint accept.
        by: The name of the model, with its endpoint, as `ModelReply.native` has it.
    """
    author = "" if model in modes.plain else by
    sent = without_system(request.messages) if model in modes.unsystemed else request.messages
    messages = [message_json(message, author) for message in sent]
    if marks:
        messages[:2] = map(marked, messages[:2])
    fields = {**request.options, "model": model, "messages": messages}
    is_default = "temperature" in request.defaults
    untempered = model in modes.untempered or (is_default and has_own_temperature(model))
    if request.temperature is not None and not untempered:
        fields["temperature"] = request.temperature
    fields |= form_fields(mode, request.schema)
    if request.tools:
        fields["tools"] = [spec.to_dict() for spec in request.tools]
    return fields


def signed_keys(request: LLMRequest) -> frozenset[str]:
    """Return the keys of a request's messages that only the provider of a model understands."""
    keys = set()
    for message in request.messages:
        keys.update(message.native.get("message", {}))
        for parts in message.native.get("calls", {}).values():
            keys.update(parts, parts.get("function", {}))
    return frozenset(keys - {"function"})


def without_system(messages: Iterable[LLMMessage]) -> tuple[LLMMessage, ...]:
    """Return messages for a model without a system role, in which user and assistant alternate.

    The words of the system precede those of the user, in one message.
    """
    made: list[LLMMessage] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        last = made[-1] if made else None
        if last is not None and last.role == role == "user":
            made[-1] = LLMMessage("user", f"{last.content}\n\n{message.content}")
        else:
            made.append(replace(message, role=role))
    return tuple(made)


def message_json(message: LLMMessage, by: str = "") -> JsonDict:
    """Return a message as servers take it.

    They parse the arguments of past calls, so wrong ones are wrapped. The model `by` gets back all
    that it wrote.
    """
    if not message.tool_calls:
        return message.to_dict()
    sound = tuple(_sound(call) for call in message.tool_calls)
    document = LLMMessage(message.role, message.content, sound, message.tool_call_id).to_dict()
    is_own = by != "" and message.native.get("by") == by
    return with_native(document, message.native) if is_own else document


def _is_object(text: str) -> bool:
    try:
        return isinstance(value_of(text), dict)
    except (ValueError, RecursionError):
        return False


def _sound(call: ToolCall) -> ToolCall:
    if call.name and _is_object(call.arguments):
        return call
    try:
        arguments = json.dumps(read_arguments(call.arguments))
    except ArgumentsFault:
        arguments = json.dumps({"malformed": call.arguments})
    return ToolCall(id=call.id, name=call.name or MALFORMED, arguments=arguments)


def takes_marks(model: str) -> bool:
    """Return true if the provider caches only the marked parts of a prompt, like every provider of
    Claude.
    """
    return "claude" in model.lower()


def marked(message: JsonDict) -> JsonDict:
    """Return a message with the mark by which Claude's providers cache a prompt.

    The mark is after the system message, and after the last exchange of the history. A cached text
    ends with a part, so each exchange is a part. The next prompt begins with the same parts.
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
    parts: list[JsonDict] = [{"type": "text", "text": part} for part in known]
    parts[-1]["cache_control"] = {"type": "ephemeral"}
    if rest:
        parts.append({"type": "text", "text": rest})
    return {**message, "content": parts}
