"""A chat completion that arrives in chunks, as server-sent events.

Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. Chunks have
OpenAI's shape. Joined, they make the JSON of a completion, which `llm_fsm.llm.openai.completion`
reads.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Container, Iterator
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, in_unicode, value_of
from llm_fsm.conditions.coercion import joined
from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.completion import (
    THOUGHTS,
    ReplySettings,
    choice_fault,
    content_text,
    error_line,
    fault_in,
    is_text,
    no_completion,
    parse_payload,
    provider_fault,
    unlisted,
)
from llm_fsm.llm.openai.native import call_parts, merged, message_parts

_DONE = "[DONE]"
_JSON = ("{", "[{")
"""The beginning of data that may be a part of the reply, and so is not shown."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A line end. A carriage return at the end may be half of one."""

_EVENTS = re.compile(rb"(?:data|event|id|retry|error)?:")
_FIELD = re.compile(rb"(?:data|event|id|retry)?(?::|\Z)")
DOCUMENTS = (b"{", b"<")
"""The beginnings of JSON and HTML, with which no line of an event begins."""
_LONGEST = len(b"event:")
BEGINNING = 4096
"""Bytes that are enough to recognise an answer."""

LAST = 5.0
"""Seconds for the data after a complete reply: its end, and its cost."""


class EventLines:
    """The data of server-sent events, from bytes in pieces of any size.

    Errors in other forms are also returned as data. An error may be an event or a field of that
    name (llama.cpp), or lines that are no field (Ollama).
    """

    __slots__ = ("_data", "_failed", "_odd", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[str] = []
        self._odd: list[str] = []
        self._failed = False

    def feed(self, received: bytes) -> Iterator[str]:
        """Yield the data of each event that is now complete."""
        self._rest.append(received)
        if b"\n" not in received and b"\r" not in b"".join(self._rest[-2:]):
            return
        received = b"".join(self._rest)
        *lines, rest = received.split(b"\n") if b"\r" not in received else _LINE_END.split(received)
        self._rest = [rest]
        for line in lines:
            yield from self._take(line)

    def end(self) -> Iterator[str]:
        """Yield the data of a last event that no empty line closed."""
        yield from self._take(b"".join(self._rest).rstrip(b"\r"))
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[str]:
        line = line.removeprefix(BOM_UTF8)
        if line.startswith(b"data:"):
            if self._odd:
                yield from self._aside()
            self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
        elif not line:
            lines, self._data = self._data, []
            for data in lines if len(lines) < 2 else _apart(lines):
                if data:
                    yield data if not self._failed else in_unicode({"error": _read(data)})
            if self._failed or self._odd:
                self._failed = False
                yield from self._aside()
        elif line.startswith((b"event:", b"error:")):
            name, _, said = line.decode("utf-8", "replace").partition(":")
            self._failed = name == "error" or said.strip() == "error"
            self._data += [said] if name == "error" else []
        elif _FIELD.match(line) is None:
            self._odd.append(line.decode("utf-8", "replace"))

    def _aside(self) -> Iterator[str]:
        """Yield the lines that are no field: JSON in one or several lines, or text."""
        lines, self._odd = self._odd, []
        for said in _apart(lines) if lines else ():
            if said == _DONE or _is_object(said):
                yield said
            elif is_text(said) and not said.lstrip().startswith(_JSON):
                yield in_unicode({"detail": said})


class Chunks:
    """The chunks of one completion."""

    def __init__(self, asked: ReplySettings) -> None:
        self.done = False
        self.taken = 0
        """The number of chunks with a part of the reply; a ping with data has none."""
        self._from_calls = asked.mode == "tool" and not asked.tools
        self._choice: Any = None
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._thought: list[str] = []
        self._thinks = False
        self._calls: list[JsonDict] = []
        self._native: JsonDict = {}
        """Parts of the message that are not read here, as far as they have arrived."""
        self._by_index: dict[int, int] = {}
        """A server's index to the number of its latest call."""
        self._finish: str | None = None
        self._model: str | None = None
        self._usage: JsonMap | None = None
        self._fault: object = None
        """An error in a chunk beside choices, which may be harmless."""
        self._aside: object = None
        """Data in place of a chunk, which may explain the end of the stream."""
        self.prompt: tuple[int, int] | None = None
        """The tokens of the prompt that llama.cpp has read, and all of them."""

    def read(self, data: str) -> str:
        """Take the data of one event, and return its piece of the reply's text; none after the end.
        Raises ModelError.
        """
        if self.done:
            return ""
        if data.strip() == _DONE:
            self.done = True
            return ""
        try:
            payload = value_of(data)
        except (ValueError, RecursionError) as error:
            if self._finish is not None:
                return ""
            words = "" if data.lstrip().startswith(_JSON) else f" ({error_line(data)})"
            raise no_completion(f"a chunk that is not JSON{words}") from error
        return self.take(payload)

    def take(self, payload: Any) -> str:
        """Take one chunk, and return its piece of the reply's text. Raises ModelError."""
        if not isinstance(payload, dict):
            if self._finish is not None:
                return ""
            # Google's errors
            found = unlisted(payload)
            if isinstance(found, dict):
                return self.take(found)
            raise (
                provider_fault(found)
                if isinstance(found, str)
                else no_completion("a chunk that is no object")
            )
        self.prompt = _prompt_read(payload.get("prompt_progress")) or self.prompt
        choices = payload.get("choices")
        if not choices and self._finish is None:
            fault = payload.get("error") or (
                "error" in (payload.get("object"), payload.get("type")) and payload
            )
            if fault:
                raise provider_fault(fault)
            self._aside = fault_in(payload) or self._aside
        if isinstance(payload.get("model"), str):
            self._model = payload["model"]
        if isinstance(payload.get("usage"), dict):
            self._usage = payload["usage"]
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""
        if self._finish is None and ("error" in payload or "error" in choice):
            self._fault = choice.get("error") or payload.get("error") or self._fault
        if not self._is_ours(choice.get("index")):
            return ""
        self.taken += 1
        self._aside = None
        # a server without streaming may send a whole message
        delta = choice.get("delta", choice.get("message"))
        if isinstance(choice.get("finish_reason"), str):
            if choice["finish_reason"] == "error" and self._finish is None:
                raise choice_fault(payload, choice)
            self._finish = self._finish or choice["finish_reason"]
            self._count(payload.get("x_groq"), choice)
        return self._delta(delta) if isinstance(delta, dict) else ""

    def _is_ours(self, index: Any) -> bool:
        """Return true if a choice is the first one. A server may send several unasked."""
        if self._choice is None:
            self._choice = index
        return index is None or index == self._choice

    def _count(self, *places: Any) -> None:
        """Take the token counts of servers with another place for them: Groq beside the choices,
        Moonshot in a choice.
        """
        for place in places:
            if (
                self._usage is None
                and isinstance(place, dict)
                and isinstance(place.get("usage"), dict)
            ):
                self._usage = place["usage"]

    def _delta(self, delta: JsonMap) -> str:
        piece = content_text(delta.get("content"))
        if piece:
            self._content.append(piece)
        elif not self._thinks:
            self._think(delta)
        parts = message_parts(delta)
        if parts:
            self._native = merged(self._native, parts)
        if isinstance(delta.get("refusal"), str):
            self._refusal.append(delta["refusal"])
        called = self._called(delta)
        return called if self._from_calls else piece

    def _called(self, delta: JsonMap) -> str:
        """Take the parts of calls, and return the new arguments of the first one."""
        listed = delta.get("tool_calls")
        old = delta.get("function_call")
        parts = []
        if isinstance(listed, list):
            parts = listed
        elif isinstance(old, dict):
            parts = [{"function": old}]
        piece = ""
        touched: set[int] = set()
        for part in parts:
            if not isinstance(part, dict):
                continue
            key = self._call_of(part, touched)
            touched.add(key)
            call = self._calls[key]
            if isinstance(part.get("id"), str) and part["id"]:
                call["id"] = part["id"]
            name, new = _name_and_arguments(part)
            call["function"]["arguments"] += new
            if name != call["function"]["name"]:
                call["function"]["name"] += name
            own = call_parts(part)
            if own:
                self._calls[key] = merged(call, own)
            piece += new if key == 0 else ""
        return piece

    def _call_of(self, part: JsonMap, touched: Container[int]) -> int:
        """Return the number of a part's call: by its index, else by its id, else the last one.

        `touched`: the calls that other parts of the same delta belong to.
        """
        index, id = part.get("index"), part.get("id")
        index = int(index) if isinstance(index, str) and index.isdecimal() else index
        index = index if isinstance(index, int) else None
        key = len(self._calls) - 1 if index is None else self._by_index.get(index, -1)
        if index is None and id:
            key = next((key for key, call in enumerate(self._calls) if call.get("id") == id), key)
        if key < 0 or self._begins(key, part, listed=index is None and key in touched):
            self._calls.append({"function": {"name": "", "arguments": ""}})
            key = len(self._calls) - 1
        if index is not None:
            self._by_index[index] = key
        return key

    def _begins(self, key: int, part: JsonMap, *, listed: bool) -> bool:
        """Return true if a part begins another call than the one that it would continue.

        `listed`: both are in one delta, and have no index. Some servers repeat the name, or make a
        new id, with each part. If the arguments are incomplete, that is the same call.
        """
        known, id = self._calls[key], part.get("id")
        name, arguments = _name_and_arguments(part)
        if not name or (id and id == known.get("id")):
            return False
        other, whole = name != known["function"]["name"], _is_whole(known["function"]["arguments"])
        if id and "id" in known:
            begun = known["function"]["arguments"] != ""
            return whole or arguments.lstrip().startswith("{") if begun else other or listed
        return listed or (whole and (other or bool(arguments)))

    def _think(self, delta: JsonMap) -> None:
        """Keep a thought that begins like a reply."""
        for name in THOUGHTS:
            thought = delta.get(name)
            if isinstance(thought, str) and (self._thought or thought.strip()):
                if self._thought or thought.lstrip().startswith("{"):
                    self._thought.append(thought)
                else:
                    self._thinks = True
                return

    def end(self, reason: str | None) -> str:
        """Note the end of the stream. None: without a reason, in spite of the chunks. It adds no
        text.
        """
        self.done = True
        self._finish = reason
        return ""

    @property
    def empty(self) -> bool:
        """True if nothing arrived, not even an error."""
        return not (self._content or self._calls or self._refusal or self._thought or self._finish)

    @property
    def whole(self) -> bool:
        """True if the reply is complete, although more data may arrive."""
        return self.done or self._finish is not None

    def completion(self) -> JsonDict:
        """Return the stream as a whole completion. Raises ModelError if it never ended."""
        if self._finish is None and (self._is_cut() if self.done else not self._is_object()):
            raise self.complaint or no_completion("a stream that breaks off")
        fault = self._fault or (self._aside if self._finish is None else None)
        if fault and self._is_lost():
            raise provider_fault(fault)
        message: JsonDict = {"role": "assistant", "content": joined("".join(self._content))}
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        if self._thought:
            message[THOUGHTS[0]] = joined("".join(self._thought))
        if self._calls:
            message = {**self._native, **message}
            message["tool_calls"] = self._calls
            for call in message["tool_calls"]:
                call["function"]["arguments"] = joined(call["function"]["arguments"])
        return {
            "model": self._model,
            "choices": [{"message": message, "finish_reason": self._finish}],
            "usage": self._usage,
        }

    @property
    def complaint(self) -> ModelError | None:
        """The error that the server sent, which explains a broken stream; None if there is none."""
        fault = self._fault or self._aside
        return provider_fault(fault) if fault else None

    def _is_lost(self) -> bool:
        """Return true if nothing arrived that can be a reply, or only an object without its end."""
        if not (self._content or self._calls):
            return not (self._refusal or self._thought)
        return (self._said().startswith("{") or self._calls != []) and not self._is_object()

    def _is_cut(self) -> bool:
        """Return true if the reply is an object without its end, so that a stream without an end
        broke off.
        """
        text = self._said()
        return text.startswith("{") and not text.endswith("}")

    def _is_object(self) -> bool:
        """Return true if the reply is a whole object, so that a stream without an end is complete."""
        calls = [call["function"]["arguments"].strip() for call in self._calls]
        return all(text.startswith("{") and _is_whole(text) for text in (self._said(), *calls))

    def _said(self) -> str:
        called = self._calls[0]["function"]["arguments"] if self._calls else ""
        return ("".join(self._content) or called).strip()


def _prompt_read(progress: object) -> tuple[int, int] | None:
    """Return the tokens of the prompt that llama.cpp has read, and all of them; None if it tells
    none.
    """
    if not isinstance(progress, dict):
        return None
    read, total = progress.get("processed"), progress.get("total")
    return (read, total) if isinstance(read, int) and isinstance(total, int) else None


def _name_and_arguments(part: JsonMap) -> tuple[str, str]:
    """Return the name and the arguments, or the parts of them, that a part of a call holds."""
    function = part.get("function")
    if not isinstance(function, dict):
        return "", ""
    name = function.get("name")
    return name if isinstance(name, str) else "", content_text(function.get("arguments"))


def _apart(lines: list[str]) -> list[str]:
    """Return the data in lines, from one event, or one in each line from a server without event
    ends.
    """
    said = "\n".join(lines)
    if _is_object(said) or not all(line == _DONE or _is_object(line) for line in lines):
        return [said]
    return lines


def _is_object(said: str) -> bool:
    """Return true for an object in JSON, and for a list of one, which is Google's form of errors."""
    return isinstance(unlisted(_read(said)), dict)


def _read(said: str) -> Any:
    """Return the value of a text as JSON; the text itself if it is not JSON."""
    try:
        return value_of(said)
    except (ValueError, RecursionError):
        return said


def _is_whole(text: str) -> bool:
    """Return true for a text that is JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_events(received: bytes) -> bool:
    """Return true if an answer begins like server-sent events, in spite of its headers."""
    return _EVENTS.match(received[:BEGINNING].lstrip().removeprefix(BOM_UTF8).lstrip()) is not None


def is_told(received: bytes) -> bool:
    """Return true if `received`, which may be cut anywhere, is enough for `is_events`."""
    begun = received.lstrip().removeprefix(BOM_UTF8).lstrip()
    return begun[:1] in DOCUMENTS or b":" in begun or len(begun) >= _LONGEST


def gathered(body: bytes) -> Any:
    """Return the JSON of a completion, also of one in unrequested chunks. Raises ModelError."""
    if body.startswith(b"{") or not is_events(body):
        try:
            return parse_payload(body)
        except ModelError:
            if not _is_object(body.lstrip().partition(b"\n")[0].decode("utf-8", "replace")):
                raise
    events, chunks = EventLines(), Chunks(ReplySettings("", "prompt", tools=True))
    for data in (*events.feed(body), *events.end()):
        chunks.read(data)
    return chunks.completion()
