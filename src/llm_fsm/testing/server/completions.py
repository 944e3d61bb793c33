"""Chat completions in OpenAI's JSON shapes, as a scripted server answers them.

Shapes: https://platform.openai.com/docs/api-reference/chat, with its streaming form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from llm_fsm._json import JsonDict, JsonMap, json_text
from llm_fsm.session.messages import ToolCall

Form: TypeAlias = Literal["schema", "tool", "json_object", "prompt", "tools"]
"""The form in which a reply is requested. `tools`: tools are offered, in any form."""

_REFUSALS: Mapping[str, tuple[str, str]] = {
    "schema": (
        "'response_format' of type 'json_schema' is not supported with this model.",
        "response_format",
    ),
    "tool": ("'tools' is not supported with this model.", "tools"),
    "tools": ("This model does not support tools.", "tools"),
    "json_object": (
        "'response_format' of type 'json_object' is not supported with this model.",
        "response_format",
    ),
}


def reply_form(body: JsonMap) -> Form:
    """Return the form in which the request wants its reply."""
    wanted = body.get("response_format")
    kind = None
    if isinstance(wanted, dict):
        kind = wanted.get("type")
    if kind == "json_schema":
        return "schema"
    if kind == "json_object":
        return "json_object"
    return "tool" if isinstance(body.get("tool_choice"), dict) else "prompt"


def offers_tools(body: JsonMap) -> bool:
    """Return True if the model may call tools, and is not forced to answer by one."""
    return bool(body.get("tools")) and not isinstance(body.get("tool_choice"), dict)


def refusal(form: Form) -> JsonDict:
    """Return the error body of a provider that does not know this form."""
    message, parameter = _REFUSALS[form]
    return failure(message, param=parameter)


def failure(message: str, *, param: str | None = None) -> JsonDict:
    """Return an error body."""
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    }


def models(names: tuple[str, ...]) -> JsonDict:
    """Return the body of `GET /models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": "llm-fsm"} for name in names],
    }


def completion(text: str, body: JsonMap, number: int, calls: Sequence[ToolCall] = ()) -> JsonDict:
    """Return the answer to a request without streaming. If the request forces a tool, `text` is the
    call's arguments.
    """
    text, calls = _said(text, body, number, calls)
    message: JsonDict = {"role": "assistant", "content": None if calls and not text else text}
    if calls:
        message["tool_calls"] = [_call_json(call, call.arguments) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = _usage(_spoken(text, calls), body)
    return {**_head("chat.completion", body, number), "choices": [choice], "usage": usage}


def chunks(
    text: str, body: JsonMap, number: int, calls: Sequence[ToolCall] = (), size: int = 16
) -> Iterator[bytes]:
    """Yield the same answer as server-sent events with `size` characters each."""
    head = _head("chat.completion.chunk", body, number)
    text, calls = _said(text, body, number, calls)

    def event(delta: JsonDict, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"

    yield event({"role": "assistant", "content": None if calls and not text else ""})
    for part in _parts(text, size):
        yield event({"content": part})
    for index, call in enumerate(calls):
        yield event({"tool_calls": [{"index": index, **_call_json(call, "")}]})
        for part in _parts(call.arguments, size):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield event({}, "tool_calls" if calls else "stop")
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        usage = {**head, "choices": [], "usage": _usage(_spoken(text, calls), body)}
        yield b"data: " + json.dumps(usage).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _said(
    text: str, body: JsonMap, number: int, calls: Sequence[ToolCall]
) -> tuple[str, Sequence[ToolCall]]:
    """Return the content and the calls of the answer. The text becomes a call's arguments if the
    form demands it.
    """
    if calls or reply_form(body) != "tool":
        return text, calls
    return "", (ToolCall(id=f"call_{number}", name=_tool_name(body), arguments=text),)


def _call_json(call: ToolCall, arguments: str) -> JsonDict:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _parts(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _spoken(text: str, calls: Sequence[ToolCall]) -> str:
    return text + "".join(call.name + call.arguments for call in calls)


def _head(kind: str, body: JsonMap, number: int) -> JsonDict:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 0,
        "model": body.get("model", "scripted"),
    }


def _tool_name(body: JsonMap) -> str:
    try:
        return str(body["tools"][0]["function"]["name"])
    except (KeyError, IndexError, TypeError):
        return "reply"


def _usage(text: str, body: JsonMap) -> dict[str, int]:
    """Token counts by the rule of thumb of four characters a token."""
    prompt = len(json_text(body.get("messages"))) // 4 + 1
    written = len(text) // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
