"""What a message says about the context's keys, read by patterns: values that are wanted, and corrections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llm_fsm.llm.offline.values import (
    Schema,
    accepts,
    is_free_text,
    is_self_evident,
    is_unmistakable,
    key_words,
    options_of,
    rank,
    read_values,
    type_of,
)
from llm_fsm.llm.offline.vocabulary import CORRECTING, WORD, is_question, is_small_talk, stem, words_of
from llm_fsm.session.messages import TurnView

MAX_CHARS = 2000
"""Characters of a message that are read."""

_LIST_BREAK = re.compile(r"\s*(?:,|;|\n|\band\b|&|\+)\s*(?:and\s+)?", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"^(?:i(?:'d| would) like(?: to (?:have|add|order))?|i want|i need|i have|i'll (?:have|take)"
    r"|please add|add|give me)\s+",
    re.IGNORECASE,
)


def read_update(view: TurnView) -> dict[str, Any]:
    """The keys that the message sets, with values that their schemas accept."""
    text = (view.user or "")[:MAX_CHARS]
    reading = _Reading(view, text)
    mentioned = _mentioned(view, text)
    reading.take(
        key for key in mentioned if key not in view.wanted and type_of(view.writable[key]) != "boolean"
    )
    reading.take(sorted(view.wanted, key=lambda key: rank(key, view.wanted[key])))
    reading.take(key for key in view.writable if _decides(key, view))
    known = [key for key in view.writable if view.context.get(key) is not None]
    if CORRECTING.intersection(words_of(text)):
        reading.take_alone(known, is_self_evident)
    if not is_question(text):
        unasked = [key for key in view.writable if key not in known and key not in view.wanted]
        reading.take_alone(unasked, is_unmistakable)
    if not reading.update:
        reading.take_whole()
    return reading.update


class _Reading:
    """One message being read; what was used for one key is blank for the next."""

    def __init__(self, view: TurnView, text: str) -> None:
        self.update: dict[str, Any] = {}
        self._view = view
        self._text = text
        timestamp = view.system.get("_timestamp")
        self._now = float(timestamp) if isinstance(timestamp, int | float) and timestamp > 0 else None

    def take(self, keys: Iterable[str]) -> None:
        """Set each key of which a value is found, nearest to where the key is named."""
        for key in keys:
            schema = self._schema(key)
            if key in self.update:
                continue
            found = list(read_values(key, schema, self._text, self._now)) or _stated(key, schema, self._text)
            if found:
                places = _places(key, schema, self._text)
                self._set(key, *min(found, key=lambda item: _distance(item[1], item[2], places)))

    def take_alone(self, keys: Sequence[str], sure: Callable[[str, Schema], bool]) -> None:
        """Set the keys that are not named, where `sure` says so and no other of them looks the same."""
        for key in keys:
            schema = self._schema(key)
            alike = [other for other in keys if rank(other, self._schema(other)) == rank(key, schema)]
            if key not in self.update and sure(key, schema) and alike == [key]:
                for found in read_values(key, schema, self._text, self._now):
                    self._set(key, *found)
                    break

    def take_whole(self) -> None:
        """Let the whole message be the value of the key that is asked for first, if it takes any words."""
        text = self._text.strip()
        if not text or not self._view.wanted or is_question(text) or is_small_talk(text):
            return
        key, schema = next(iter(self._view.wanted.items()))
        if type_of(schema) == "array":
            value: Any = _items(schema, text, self._now)
        elif is_free_text(key, schema):
            value = text
        else:
            return
        if value and accepts(schema, value):
            self.update[key] = value

    def _schema(self, key: str) -> Schema:
        return self._view.wanted.get(key, self._view.writable.get(key, {}))

    def _set(self, key: str, value: Any, start: int, end: int) -> None:
        if self._view.context.get(key) != value:
            self.update[key] = value
        self._text = self._text[:start] + " " * (end - start) + self._text[end:]


def _decides(key: str, view: TurnView) -> bool:
    """Whether a yes or no to this key, given before, is what a choice depends on."""
    return (
        type_of(view.writable[key]) == "boolean"
        and isinstance(view.context.get(key), bool)
        and any(f'"{key}"' in json.dumps(choice.logic, default=str) for choice in view.choices)
    )


def _mentioned(view: TurnView, text: str) -> list[str]:
    """The keys that the message names by words which no wanted key shares."""
    taken = {stem(word) for key, schema in view.wanted.items() for word in key_words(key, schema)}
    said = {stem(word) for word in words_of(text)}
    return [
        key
        for key, schema in view.writable.items()
        if ({stem(word) for word in key_words(key, schema) if word.isalpha()} - taken) & said
    ]


def _places(key: str, schema: Schema, text: str) -> list[tuple[int, int]]:
    """Where the message names the key."""
    names = {stem(word) for word in key_words(key, schema)}
    return [
        (match.start(), match.end()) for match in WORD.finditer(text) if stem(match.group().lower()) in names
    ]


def _distance(start: int, end: int, places: list[tuple[int, int]]) -> int:
    """Characters between a value and the nearest mention of its key; 0 where the key is not mentioned."""
    return min((max(start - last, first - end, 0) for first, last in places), default=0)


def _stated(key: str, schema: Schema, text: str) -> list[tuple[Any, int, int]]:
    """The value of a free text in "my city is Paris" or "change the city to Paris"."""
    if not is_free_text(key, schema):
        return []
    name = r"[\s_-]+".join(re.escape(word) for word in words_of(key.replace("_", " ")))
    pattern = rf"\b{name}\s*(?::|=|\b(?:is|to|should be|will be)\b)\s*(?:actually |now |rather )?([^.!?\n]+)"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        value = match[1].strip()
        if value and not is_question(text) and accepts(schema, value):
            return [(value, match.start(1), match.end(1))]
    return []


def _items(schema: Mapping[str, Any], text: str, now: float | None) -> list[Any]:
    """The items of a list in words: "eggs, milk and bread"."""
    inner = schema.get("items")
    item: Schema = inner if isinstance(inner, dict) else {}
    parts = [part for part in _LIST_BREAK.split(_LEAD_IN.sub("", text.strip().rstrip("."))) if part]
    if not options_of(item) and type_of(item) in {"", "string"}:
        return parts
    found = [next(read_values("", item, part, now), None) for part in parts]
    return list(dict.fromkeys(value[0] for value in found if value is not None))
