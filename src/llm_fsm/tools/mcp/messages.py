"""Clean the messages of MCP servers before the SDK reads them.

The SDK checks a message as a whole, so that one malformed tool or part of an answer would remove
all others. Here each is read alone. Usable ones are kept, and the others are named.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping

from llm_fsm._json import JsonDict, JsonMap, as_list, as_text, json_text, member, of_kind, without
from llm_fsm.conditions.coercion import all_mended

UNREADABLE = "it gave an answer that nobody can read"
_ID = re.compile(r'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')
_PART = re.compile(r'"(method|result|error)"\s*:')
_OTHER_ENCODING = re.compile("[\udc80-\udcff]")
"""Bytes that are no UTF-8, as the error handler `surrogateescape` keeps them."""
_TEXT_TYPE = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml|x-yaml|javascript|x-ndjson|toml)\b"
)


def unread(error: Exception) -> list[JsonDict]:
    """Recover the messages that a transport could not read, from its error.

    Args:
        error: The error of the transport. Bytes that are no UTF-8 are lone surrogates in its text.

    Returns:
        The message, with half characters repaired; an error in place of each unreadable answer. A
        list is unreadable, because the protocol has none, and so is another encoding. Nothing for
        text that is no message, such as a printed line.
    """
    errors = getattr(error, "errors", None)
    given = errors()[0].get("input") if callable(errors) else None
    if isinstance(given, bytes):
        given = given.decode("utf-8", "surrogateescape")
    if not isinstance(given, str):
        return _no_answers(given)
    if not given.lstrip().startswith(("{", "[")):
        return []
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        return _no_answer_in(given)
    is_message = isinstance(found, dict) and found.get("jsonrpc") == "2.0"
    if is_message and not _OTHER_ENCODING.search(given):
        return [all_mended(found)]
    return _no_answers(found)


def _no_answer_in(text: str) -> list[JsonDict]:
    """Return an error in place of the answer in a text that is no JSON, by the first id in it."""
    id, part = _ID.search(text), _PART.search(text)
    if id is None or (part is not None and part[1] == "method"):
        return []
    return _no_answers({"id": json.loads(id[1])})


def _no_answers(found: object) -> list[JsonDict]:
    """Return an error in place of each answer; nothing for requests and notifications."""
    made = []
    for message in as_list(found):
        if not isinstance(message, Mapping) or "method" in message:
            continue
        id = message.get("id")
        if isinstance(id, int | str) and not isinstance(id, bool):
            error = {"code": -32700, "message": UNREADABLE}
            made.append({"jsonrpc": "2.0", "id": id, "error": error})
    return made


def tidy_result(result: JsonMap, faults: dict[str, str]) -> JsonDict:
    """Return the result of a request, reduced to the used parts.

    Args:
        result: A list of tools, the answer of a tool, or any other result, which is returned as it
            is.
        faults: Receives the names of malformed tools, with their faults.
    """
    if isinstance(result.get("tools"), list):
        tools = [tool for item in result["tools"] if (tool := _tool(item, faults)) is not None]
        cursor = result.get("nextCursor")
        kept = without(result, {"nextCursor"})
        return {
            **kept,
            "tools": tools,
            **({"nextCursor": cursor} if isinstance(cursor, str) else {}),
        }
    if "content" not in result and "structuredContent" not in result and "isError" not in result:
        return dict(result)
    content, structured = result.get("content"), result.get("structuredContent")
    parts = []
    if isinstance(content, list):
        parts = content
    elif content is not None:
        parts = [content]
    texts = [_words(part) for part in parts]
    if structured is not None and not isinstance(structured, dict):
        texts, structured = texts or [json_text(structured)], None
    kept = without(result, {"content", "structuredContent"})
    return {
        **kept,
        "isError": result.get("isError") is True,
        "content": [{"type": "text", "text": text} for text in texts],
        **({} if structured is None else {"structuredContent": structured}),
    }


def _tool(item: object, faults: dict[str, str]) -> JsonDict | None:
    """Return a tool with its name, description and schema; None, with its fault noted, if it cannot
    be called.

    Its output schema is dropped, because a result that does not fit it is still a result.
    """
    name = member(item, "name")
    if not isinstance(item, Mapping) or not isinstance(name, str) or not name:
        return None
    schema, words = item.get("inputSchema"), item.get("description")
    if not isinstance(schema, dict):
        faults[name] = "it has no inputSchema that is an object"
        return None
    if schema.get("type") != "object":
        faults[name] = 'its inputSchema is not one of an object: it lacks "type": "object"'
        return None
    faults.pop(name, None)
    kept = {"description": words} if isinstance(words, str) else {}
    hints = _hints(item.get("annotations"))
    return {
        "name": name,
        "inputSchema": schema,
        **kept,
        **({"annotations": hints} if hints else {}),
    }


def _hints(annotations: object) -> dict[str, bool]:
    """Return the hints that say if a tool changes the world outside, as far as they are true or
    false.
    """
    if not isinstance(annotations, Mapping):
        return {}
    named = {name: annotations.get(name) for name in ("readOnlyHint", "destructiveHint")}
    return {name: hint for name, hint in named.items() if isinstance(hint, bool)}


def _words(part: object) -> str:
    """Return the text of one part of an answer. A part without text is described by its names, type
    and size.
    """
    if not isinstance(part, Mapping):
        return as_text(part)
    inner = part.get("resource")
    holder = inner if isinstance(inner, Mapping) else part
    for place in (part, holder):
        if isinstance(place.get("text"), str):
            return str(place["text"])
    kind = holder.get("mimeType")
    kind = kind if isinstance(kind, str) else ""
    data = holder.get("blob") if isinstance(holder.get("blob"), str) else holder.get("data")
    size = ""
    if isinstance(data, str):
        if _TEXT_TYPE.match(kind) and (text := _decoded(data)) is not None:
            return text
        size = f"{len(data.rstrip('=')) * 3 // 4:,} bytes"
    named = " ".join(
        str(word) for word in (part.get("type") or "part", holder.get("uri") or "") if word
    )
    given = [part.get(key) for key in ("title", "name", "description")]
    named_so = dict.fromkeys(of_kind(given, str))
    told = ", ".join(filter(None, (*named_so, kind, size)))
    return f"[{named}{f': {told}' if told else ''}]"


def _decoded(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=False).decode("utf-8")
    except ValueError:
        return None
