"""Read a chat completion, in OpenAI's JSON shape and the variants of compatible servers.

Any text of a model is a reply, also an empty one, and the engine judges it. An answer that is no
chat completion raises ModelError.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, json_text, list_at, member, of_kind, value_of
from llm_fsm._text import shortened
from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.native import read_native
from llm_fsm.llm.refusals import advice, kind_of, may_pass
from llm_fsm.llm.structured_output import TOOL_NAME, Mode
from llm_fsm.session.messages import ModelReply, ToolCall

_LARGEST = 10**12
"""Token counts above this are wrong and count as 0."""
_NUMBERS = (int, float)
_ERROR_CHARS = 300
_SEEN = 4096
SOMEBODY = "the provider"
"""The beginning of error messages here. Callers that know the server replace it."""
_REASONS = ("error", "errors", "detail", "message", "msg", "error_message")
"""The keys in which servers describe an error."""
_CODES = ("code", "status", "status_code", "statusCode")
_STATUS = re.compile("[45][0-9][0-9]")
MALFORMED = "malformed_call"
"""The name of a call that names no function. Its arguments are the original call."""
THOUGHTS = ("reasoning_content", "reasoning")
"""The keys in which servers put a model's thoughts."""


def parse_payload(body: bytes) -> Any:
    """Return the JSON of an answer with status 200. Raises ModelError if it is none."""
    try:
        try:
            return value_of(body)
        except UnicodeDecodeError:
            return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise no_completion(_describe(body)) from error


class ReplySettings(NamedTuple):
    """The settings of a request for a reply.

    `tools`: tools were offered, so that calls are real calls, and not the reply in the form of one.
    """

    model: str
    mode: Mode
    tools: bool


def read_completion(
    payload: Any, asked: ReplySettings, *, attempts: int = 1, seconds: float = 0.0
) -> ModelReply:
    """Return the reply in a chat completion. Raises ModelError if it is none."""
    choice = _first_choice(payload)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise no_completion("JSON whose choice has no message")
    finish = choice.get("finish_reason")
    calls = read_calls(message) if asked.tools else ()
    text = _words(message) if asked.tools else _text(message, asked.mode)
    text = text or ("" if calls else _thought_aloud(message))
    if finish == "error" or (not (text or calls) and (choice.get("error") or payload.get("error"))):
        raise choice_fault(payload, choice)
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        usage = {}
    answered_by = payload.get("model")
    return ModelReply(
        text=text,
        model=answered_by if isinstance(answered_by, str) and answered_by else asked.model,
        mode=asked.mode,
        finish_reason=finish if isinstance(finish, str) else "",
        attempts=attempts,
        input_tokens=_count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        output_tokens=_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        seconds=seconds,
        cost=_cost(usage.get("cost")),
        cached_tokens=_cached(usage),
        tool_calls=calls,
        native=read_native(message, tuple(call.id for call in calls)) if calls else {},
    )


def read_calls(message: JsonMap) -> tuple[ToolCall, ...]:
    """Return the calls in the message of a completion, the old form `function_call` included.

    Missing or repeated ids are replaced. Arguments that are an object become its text. A call that
    names no function is called `MALFORMED`.
    """
    found = list_at(message, "tool_calls")
    old = message.get("function_call")
    if not found and isinstance(old, dict):
        found = [{"function": old}]
    calls: list[ToolCall] = []
    for item in found:
        call = _call(item)
        if call.id in {other.id for other in calls} or not call.id:
            call = ToolCall(
                id=f"call_{uuid.uuid4().hex[:20]}", name=call.name, arguments=call.arguments
            )
        calls.append(call)
    return tuple(calls)


def _call(item: Any) -> ToolCall:
    function = member(item, "function")
    name = member(function, "name")
    id = member(item, "id")
    known = id if isinstance(id, str) else ""
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        return ToolCall(id=known, name=MALFORMED, arguments=json.dumps({"call": item}))
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=known, name=name, arguments=text)


def no_completion(what: str) -> ModelError:
    """Return the error for an answer that is no chat completion, because the server is starting or
    is another one.
    """
    return ModelError(
        f"{SOMEBODY} answered 200 with {what}, not a chat completion", retryable=True, status=200
    )


def provider_fault(fault: object) -> ModelError:
    """Return the error for the member "error" in an answer with status 200."""
    if isinstance(fault, dict) and isinstance(fault.get("error"), dict):
        fault = fault["error"]
    named = [fault.get(name) for name in _CODES] if isinstance(fault, dict) else []
    status = next(
        (int(str(code)) for code in named if _STATUS.fullmatch(str(code)) is not None), 200
    )
    body = json_text(fault)
    kind = kind_of(status, body)
    return ModelError(
        f"{SOMEBODY} reports an error: {error_line(body)}{advice(status, body)}",
        retryable=may_pass(status, body) or (kind is None and status == 200),
        status=status,
        refusal=kind or "",
    )


def choice_fault(payload: JsonMap, choice: JsonMap) -> ModelError:
    """Return the error for a choice that ends with one, at any of its places."""
    return provider_fault(choice.get("error") or fault_in(payload) or "the reply broke off")


def fault_in(payload: JsonMap) -> object:
    """Return the error message of an answer without choices; "" if there is none."""
    if payload.get("error"):
        return payload["error"]
    if any(
        payload.get(name)
        for name in _REASONS
        if name != "message" or isinstance(payload.get(name), str)
    ):
        return payload
    base = payload.get("base_resp")  # MiniMax
    return base.get("status_msg") if isinstance(base, dict) and base.get("status_code") else ""


def rejected_words(said: str) -> JsonDict | None:
    """Return a completion from an error in which a provider reports that the model's text is no
    JSON.

    None for any other error.
    """
    place = said.find("{")
    try:
        payload = json.JSONDecoder().raw_decode(said, place)[0] if place >= 0 else None
    except (ValueError, RecursionError):
        return None
    fault = member(payload, "error")
    words = member(fault, "failed_generation")
    return {"choices": [{"message": {"content": words}}]} if isinstance(words, str) else None


def error_line(body: str) -> str:
    """Return the message of an error body, in one line."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = body
    more = None
    for key in _REASONS:
        payload = unlisted(payload)
        if isinstance(payload, dict) and payload.get(key):
            about = payload.get("metadata")  # OpenRouter has the provider's message here
            more = about.get("raw") if isinstance(about, dict) else more
            payload = payload[key]
    text = payload if isinstance(payload, str) else json.dumps(payload)
    if text.lstrip()[:1] == "<":
        return "an HTML page"
    line = " ".join(text.split()) or "nothing"
    if isinstance(more, str) and more:
        line += f" ({error_line(more)})"
    return shortened(line, _ERROR_CHARS)


def unlisted(payload: Any) -> Any:
    """Return the item of a list of one, which is Google's form of errors; any other value itself."""
    return payload[0] if isinstance(payload, list) and len(payload) == 1 else payload


def _first_choice(payload: Any) -> JsonDict:
    if not isinstance(payload, dict):
        # Google's form of errors
        told = unlisted(payload)
        if isinstance(told, dict) and told.get("error"):
            raise provider_fault(told)
        raise no_completion(f"a JSON {_KINDS.get(type(payload), 'value')}")
    choices = payload.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    fault = fault_in(payload)
    if fault:
        raise provider_fault(fault)
    raise no_completion("JSON without choices")


_KINDS = {
    list: "list",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _text(message: JsonMap, mode: Mode) -> str:
    called = _arguments(message)
    if called and (mode == "tool" or not content_text(message.get("content")).strip()):
        return called
    return _words(message)


def _words(message: JsonMap) -> str:
    """Return the content, or a model's refusal."""
    content = content_text(message.get("content"))
    if content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _thought_aloud(message: JsonMap) -> str:
    """Return the thought that is one object, and so must be the reply; "" if there is none."""
    for name in THOUGHTS:
        text = message.get(name)
        if isinstance(text, str) and text.strip()[:1] == "{" and text.rstrip()[-1] == "}":
            return text
    return ""


def content_text(content: Any) -> str:
    """Return the text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return json.dumps(content)


def _part(part: Any) -> str:
    """Return the text of one content part; thoughts, images and the like have none."""
    match part:
        case str():
            return part
        case dict() if part.get("type", "text") in {"text", "output_text"}:
            text = part.get("text")
            return text if isinstance(text, str) else ""
    return ""


def _arguments(message: JsonMap) -> str:
    """Return the arguments of the call of our function, else of the first call."""
    found = [member(call, "function") for call in list_at(message, "tool_calls")]
    functions = of_kind((*found, message.get("function_call")), dict)
    functions.sort(key=lambda called: called.get("name") != TOOL_NAME)
    return content_text(functions[0].get("arguments")) if functions else ""


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return 0
    return int(value) if 0 <= value <= _LARGEST else 0


def _cached(usage: JsonMap) -> int:
    """Return the cached tokens, by the key of OpenAI and most others, of DeepSeek, or of Moonshot."""
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    if isinstance(details, dict) and details.get("cached_tokens") is not None:
        return _count(details["cached_tokens"])
    return _count(usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens")))


def _cost(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return 0.0
    return float(value) if 0 <= value <= _LARGEST and math.isfinite(value) else 0.0


def _describe(body: bytes) -> str:
    start = body.lstrip()[:1]
    if not start:
        return "an empty body"
    if start == b"<":
        return "HTML"
    if start in b"{[":
        return "broken or truncated JSON"
    said = body[:_SEEN].decode("utf-8", "replace")
    return f"something that is not JSON{f' ({error_line(said)})' if is_text(said) else ''}"


def is_text(said: str) -> bool:
    """Return true if this is readable text."""
    return "\ufffd" not in said and " ".join(said.split()).isprintable()
