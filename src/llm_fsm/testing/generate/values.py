"""Values that a JSON Schema accepts, and texts that a regular expression matches: few, simple,
always the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, list_at, object_at, without_none
from llm_fsm.lint.solver.value_sets import domain

_FORMATS: TextMap = {
    "email": "ada@example.com",
    "date": "2030-05-17",
    "time": "09:30:00Z",
    "date-time": "2030-05-17T09:30:00Z",
    "duration": "P1D",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "regex": "a+",
}
_CLASSES: TextMap = {"d": "7", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "b": "", "B": ""}
_PLAIN = "aA1 -_.@/"
_REPEATS = re.compile(r"\{(\d+)(,?)(\d*)\}")
_TEXTS = ("Ada", "two words", "ada@example.com", "2030-05-17", "12", "AB-123", "+49 170 1234567")


def samples(schema: JsonMap, definitions: JsonMap | None = None) -> list[Any]:
    """Return values that a schema probably accepts, listed and simple ones first. The caller checks
    them by the schema.
    """
    found = []
    found += list_at(schema, "enum")
    found += [schema[key] for key in ("const", "default") if key in schema]
    found += list_at(schema, "examples")
    found += [text for name, text in _FORMATS.items() if name == schema.get("format")]
    pattern = schema.get("pattern")
    found += list(islice(matching(pattern), 4)) if isinstance(pattern, str) else []
    values = domain(schema, definitions or {})
    if "object" in values.kinds:
        found.append(_object(schema, definitions))
    found += [value for value in values.samples() if value is not None]
    found += [1, 10, 100] if values.numbers else []
    if values.texts:
        found += _TEXTS
        least = schema.get("minLength")
        found += ["a" * least] if isinstance(least, int) and 0 < least <= 1000 else []
    if "list" in values.kinds:
        found += [[item] for item in _items(schema, definitions)]
    return found


def _items(schema: JsonMap, definitions: JsonMap | None) -> list[Any]:
    items = schema.get("items")
    if isinstance(items, dict):
        return samples(items, definitions)[:2]
    return ["a"]


def _object(schema: JsonMap, definitions: JsonMap | None) -> JsonDict:
    members = object_at(schema, "properties")
    made = {
        name: next(iter(samples(part, definitions)), None)
        for name, part in members.items()
        if isinstance(part, dict)
    }
    return without_none(made)


def matching(pattern: str) -> Iterator[str]:
    """Yield texts that a common expression matches; none for an expression that is not understood
    here.

    They are the shortest and a longer one, of the first characters and alternatives that it names.
    """
    plain = pattern.removeprefix("(?i)")
    for extra in (0, 1):
        try:
            text, end = _Reading(plain, extra).alternatives(0)
        except (IndexError, ValueError, re.error):
            return
        if end == len(plain):
            yield text


@dataclass(frozen=True, slots=True)
class _Reading:
    """An expression while a text is made of it. `extra`: repetitions beyond the needed ones."""

    pattern: str
    extra: int

    def alternatives(self, at: int) -> tuple[str, int]:
        """Return the first of several alternatives, and the end of the last one."""
        text, at = self.sequence(at)
        while at < len(self.pattern) and self.pattern[at] == "|":
            _, at = self.sequence(at + 1)
        return text, at

    def sequence(self, at: int) -> tuple[str, int]:
        made = ""
        while at < len(self.pattern) and self.pattern[at] not in "|)":
            part, at = self.part(at)
            count, at = self.repeated(at)
            made += part * count
        return made, at

    def part(self, at: int) -> tuple[str, int]:
        pattern = self.pattern
        char = pattern[at]
        if char == "(":
            start = at + 3 if pattern.startswith("(?:", at) else at + 1
            text, end = self.alternatives(start)
            if pattern[end] != ")":
                raise ValueError(pattern)
            return text, end + 1
        if char == "[":
            end = pattern.index("]", at + 2)
            while pattern[end - 1] == "\\":
                end = pattern.index("]", end + 1)
            return self.one_of(pattern[at : end + 1]), end + 1
        if char == "\\":
            following = pattern[at + 1]
            return _CLASSES.get(following, following), at + 2
        if char in "^$":
            return "", at + 1
        return ("a" if char == "." else char), at + 1

    def one_of(self, chosen: str) -> str:
        char: str
        for char in (*_PLAIN, *map(chr, range(33, 127)), *chosen):
            if re.fullmatch(chosen, char):
                return char
        raise ValueError(chosen)

    def repeated(self, at: int) -> tuple[int, int]:
        """Return the number of repetitions of a part, and the end of the quantifier."""
        pattern = self.pattern
        extra = self.extra
        if at < len(pattern) and pattern[at] in "*+?":
            count = {"*": extra, "+": 1 + extra, "?": extra}[pattern[at]]
            at += 1
        elif found := _REPEATS.match(pattern, at):
            least = int(found[1])
            most = found[3] or (found[1] if not found[2] else "")
            count = min(least + extra, int(most)) if most else least + extra
            at = found.end()
        else:
            return 1, at
        return min(count, 200), at + 1 if at < len(pattern) and pattern[at] == "?" else at
