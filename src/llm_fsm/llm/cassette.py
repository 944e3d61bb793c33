"""Record the replies of a real model in a cassette, and play them back.

A cassette has one JSON object a line (JSON Lines, UTF-8). Lines are appended as replies arrive, so
that a crash loses at most the last one:

    {"fingerprint": "…", "state": "ask_name", "user": "I'm Ada",
     "reply": {"text": "…", "model": "…", "mode": "schema", "finish_reason": "stop",
               "input_tokens": 812, "cached_tokens": 640, "output_tokens": 40, "seconds": 1.2,
               "cost": 0.0004}}

A reply has `"form": "list"` if the prompt asked for a list of updates.

`fingerprint` is the SHA-256 of the request's messages as JSON, without the time of `<now>`. `user`
is null if there was no user message. A reply that calls tools has `tool_calls`: [{"id", "name",
"arguments"}]. A JSON list of such objects is also read. A cassette has no keys, URLs or headers,
but it has the messages of users.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert, to_builtins

from llm_fsm._json import json_text
from llm_fsm._text import sha256_of, shortened
from llm_fsm.documents.files import read_replies
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import LLM, in_pieces
from llm_fsm.llm.watched import WatchedLLM
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm

Match: TypeAlias = Literal["exact", "words"]
_NOW = re.compile("^<(now|today)>[^<]*</\\1>\n", re.MULTILINE)
"""The time of a message in a prompt. Texts of people, models and tools have no "<" there."""
_QUOTED = 60
_LISTED = 5


class RecordedReply(Struct, frozen=True, kw_only=True):
    """One recorded reply, with its request's fingerprint, state and user message."""

    fingerprint: str = ""
    state: str = ""
    user: str | None = None
    reply: ModelReply
    form: ReplyForm = "object"

    def to_json(self) -> str:
        """Return the entry as one line of a cassette."""
        document = to_builtins(self)
        # What a call took and what a prompt left out belong to the turn that asked.
        del document["reply"]["attempts"]
        del document["reply"]["left_out"]
        if not self.reply.tool_calls:
            del document["reply"]["tool_calls"]
        if not self.reply.native:
            del document["reply"]["native"]
        if self.form == "object":
            del document["form"]
        return json.dumps(document, separators=(",", ":"))


def fingerprint(request: LLMRequest) -> str:
    """Return the SHA-256 of the request's messages, independent of the time."""
    messages = [
        {**message.to_dict(), "content": _NOW.sub("", message.content)}
        for message in request.messages
    ]
    text = json.dumps(messages, separators=(",", ":"))
    return sha256_of(text)


def read_cassette(path: str | Path) -> list[RecordedReply]:
    """Return the entries of a cassette, without a last line that was cut off.

    Raises ConfigurationError if the file cannot be read or holds something else.
    """
    try:
        text = read_replies(path).decode()
    except OSError as error:
        raise ConfigurationError(
            f"cassette: cannot read {path}: {error.strerror or error}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"cassette: cannot read {path}: {error}") from error
    return [_entry(item, f"{path}:{number}") for number, item in _items(text, path)]


class ReplayLLM:
    """Plays a cassette back.

    Requests with the same messages get the same replies, in recorded order. The last one repeats.
    With `match="words"`, only the state and the user's message count, so that a cassette survives
    changes of the prompts. An unknown request raises ModelError.
    """

    reads_view = True

    def __init__(
        self,
        entries: Iterable[RecordedReply],
        *,
        match: Match = "exact",
        name: str = "the cassette",
    ) -> None:
        self._match = match
        self._name = name
        self._entries: dict[object, deque[RecordedReply]] = defaultdict(deque)
        self._form: ReplyForm = "object"
        for entry in entries:
            self._form = "list" if entry.form == "list" else self._form
            key = entry.fingerprint if match == "exact" else (entry.state, entry.user)
            self._entries[key].append(entry)

    @classmethod
    def from_file(cls, path: str | Path, *, match: Match = "exact") -> ReplayLLM:
        """Play the cassette in this file. Raises ConfigurationError if it is none."""
        return cls(read_cassette(path), match=match, name=str(path))

    def reply_form(self, _model: str | None) -> ReplyForm:
        """Return the recorded form."""
        return self._form

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the recorded reply. Raises ModelError if there is none."""
        key = fingerprint(request) if self._match == "exact" else _said(request)
        found = self._entries.get(key)
        if not found:
            raise self._unknown(request)
        return found.popleft().reply if len(found) > 1 else found[0].reply

    def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Yield the recorded reply, its text in pieces of a few characters."""
        return in_pieces(self, request)

    def _unknown(self, request: LLMRequest) -> ModelError:
        state, user = _said(request)
        recorded = list(chain.from_iterable(self._entries.values()))
        same = dict.fromkeys(_quote(entry.user) for entry in recorded if entry.state == state)
        held = ", ".join(list(same)[:_LISTED]) + (", …" if len(same) > _LISTED else "")
        if not recorded:
            known = "it is empty"
        elif self._match == "exact" and _quote(user) in same:
            known = "it has that message, but with another prompt or history: record again, or use match='words'"
        elif same:
            known = f"for that state it has {held}"
        else:
            known = f"it has the states {', '.join(sorted({entry.state for entry in recorded}))}"
        return ModelError(
            f"{self._name} has no reply to {_quote(user)} in state {state!r}; {known}"
        )


class RecordingLLM(WatchedLLM):
    """Asks another model and appends each reply to a cassette."""

    def __init__(self, llm: LLM, path: str | Path) -> None:
        super().__init__(llm)
        self.reads_view = True
        self._path = Path(path)

    def answered(self, request: LLMRequest, reply: ModelReply | ModelError) -> None:
        """Record a reply. Raises ModelError if the cassette cannot be written."""
        if isinstance(reply, ModelError):
            return
        state, user = _said(request)
        form = "object" if request.schema is None else request.schema.form
        entry = RecordedReply(
            fingerprint=fingerprint(request), state=state, user=user, reply=reply, form=form
        )
        try:
            _append(self._path, entry.to_json().encode() + b"\n")
        except OSError as error:
            raise ModelError(
                f"cassette: cannot write {self._path}: {error.strerror or error}"
            ) from error


def _append(path: Path, line: bytes) -> None:
    """Write one line at once. A line that a crash cut off is ended first."""
    with path.open("ab+", buffering=0) as file:
        if file.tell():
            file.seek(-1, 2)
            line = line if file.read(1) == b"\n" else b"\n" + line
        if file.write(line) < len(line):  # a nearly full disk takes a part of it and raises nothing
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _said(request: LLMRequest) -> tuple[str, str | None]:
    view = request.view
    if view is not None:
        return view.state, view.user
    last = next(
        (message.content for message in reversed(request.messages) if message.role == "user"), None
    )
    return request.state, last


def _items(text: str, path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a cassette with their numbers, from a list or from lines."""
    if text.lstrip().startswith("["):
        try:
            yield from enumerate(json.loads(text), start=1)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"cassette: {path} is not JSON: {error}") from error
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            if number < len(lines) and not _cut(line):
                raise ConfigurationError(
                    f"cassette: {path}:{number} is not JSON: {error}"
                ) from error


def _cut(line: str) -> bool:
    """Return true if a line is the beginning of an entry, left by a crash."""
    return line.startswith('{"fingerprint":') and not line.rstrip().endswith("}")


def _entry(item: Any, where: str) -> RecordedReply:
    try:
        return convert(item, RecordedReply)
    except ValidationError as error:
        raise ConfigurationError(f"cassette: {where} is no entry: {error}") from error


def _quote(user: str | None) -> str:
    if user is None:
        return "the greeting"
    return json_text(shortened(user, _QUOTED))
