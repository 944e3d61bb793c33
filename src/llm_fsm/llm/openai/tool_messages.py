"""Tools and their calls in the JSON of chat completions, as they are sent and as they come back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolCall
from llm_fsm.turn.prompt.tool_formats import to_openai
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments

MALFORMED = "malformed_call"
"""The name given to a call that names no function; its arguments are the call as it came."""


def tool_fields(request: LLMRequest) -> dict[str, Any]:
    """Return the fields that offer the request's tools; {} when there are none."""
    if not request.tools:
        return {}
    return {"tools": [to_openai(spec) for spec in request.tools]}


def message_json(message: LLMMessage) -> dict[str, Any]:
    """Return a message as servers take it.

    They parse the arguments of past calls, so ones that are none are wrapped.
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


def read_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the calls in the message of a completion, the old form `function_call` included.

    Ids that are missing or used twice are made; arguments given as an object become its text. A call that names
    no function is called `MALFORMED`.
    """
    listed = message.get("tool_calls")
    found = listed if isinstance(listed, list) else []
    old = message.get("function_call")
    if not found and isinstance(old, dict):
        found = [{"function": old}]
    calls: list[ToolCall] = []
    for item in found:
        call = _call(item)
        if call.id in {other.id for other in calls} or not call.id:
            call = ToolCall(id=f"call_{uuid.uuid4().hex[:20]}", name=call.name, arguments=call.arguments)
        calls.append(call)
    return tuple(calls)


def _call(item: Any) -> ToolCall:
    function = item.get("function") if isinstance(item, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    id = item.get("id") if isinstance(item, dict) else None
    known = id if isinstance(id, str) else ""
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        return ToolCall(id=known, name=MALFORMED, arguments=json.dumps({"call": item}))
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=known, name=name, arguments=text)
