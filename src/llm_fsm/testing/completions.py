"""Chat completions in OpenAI's JSON shapes, as a scripted server answers them.

Shapes: https://platform.openai.com/docs/api-reference/chat, with its streaming form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

Form: TypeAlias = Literal["schema", "tool", "json_object", "prompt"]

_REFUSALS: Mapping[str, tuple[str, str]] = {
    "schema": (
        "'response_format' of type 'json_schema' is not supported with this model.",
        "response_format",
    ),
    "tool": ("'tools' is not supported with this model.", "tools"),
    "json_object": (
        "'response_format' of type 'json_object' is not supported with this model.",
        "response_format",
    ),
}


def reply_form(body: Mapping[str, Any]) -> Form:
    """How the request asks for the form of its reply."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "json_schema":
        return "schema"
    if kind == "json_object":
        return "json_object"
    return "tool" if body.get("tools") else "prompt"


def refusal(form: Form) -> dict[str, Any]:
    """The error body of a provider that does not know this form."""
    message, parameter = _REFUSALS[form]
    return failure(message, param=parameter)


def failure(message: str, *, param: str | None = None) -> dict[str, Any]:
    """An error body."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


def models(names: tuple[str, ...]) -> dict[str, Any]:
    """The body of `GET /models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": "llm-fsm"} for name in names],
    }


def completion(text: str, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The answer to a request that does not stream; where it forces a tool, `text` is the call's arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = "stop"
    if reply_form(body) == "tool":
        call = {"name": _tool_name(body), "arguments": text}
        message |= {
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        }
        finish = "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**_head("chat.completion", body, number), "choices": [choice], "usage": _usage(text, body)}


def chunks(text: str, body: Mapping[str, Any], number: int, size: int = 16) -> Iterator[bytes]:
    """The same answer as server-sent events with `size` characters each."""
    head = _head("chat.completion.chunk", body, number)
    tool = reply_form(body) == "tool"

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"

    first: dict[str, Any] = {"role": "assistant", "content": None if tool else ""}
    if tool:
        call = {"name": _tool_name(body), "arguments": ""}
        first["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": call}]
    yield event(first)
    for start in range(0, len(text), size):
        part = text[start : start + size]
        arguments = {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
        yield event(arguments if tool else {"content": part})
    yield event({}, "tool_calls" if tool else "stop")
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        usage = {**head, "choices": [], "usage": _usage(text, body)}
        yield b"data: " + json.dumps(usage).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _head(kind: str, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": body.get("model", "scripted")}


def _tool_name(body: Mapping[str, Any]) -> str:
    try:
        return str(body["tools"][0]["function"]["name"])
    except (KeyError, IndexError, TypeError):
        return "reply"


def _usage(text: str, body: Mapping[str, Any]) -> dict[str, int]:
    """Token counts by the rule of thumb of four characters a token."""
    prompt = len(json.dumps(body.get("messages"), ensure_ascii=False)) // 4 + 1
    written = len(text) // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
