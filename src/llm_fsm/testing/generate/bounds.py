"""Values at the bounds of a key's schema: some that it accepts, some that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm.conditions.coercion import is_number
from llm_fsm.testing.generate.values import matching

_ODD: tuple[Any, ...] = ("", "nonsense", -1, 0, 10**9, 1.5, True, [], {})
_NEAR: Mapping[str, tuple[Any, ...]] = {
    "email": ("ada@example.com", "ada@example", "ada@example.c", f"{'a' * 60}@example.com"),
    "date": ("2030-05-17", "2030-13-01"),
    "time": ("09:30", "24:30"),
    "uri": ("https://example.com/", "example.com"),
}
_LONG = 300
_MOST_CHARS = 12
_LONGEST = 3000
"""Characters of a text that a test may hold."""


def at_bounds(schema: Mapping[str, Any]) -> list[Any]:
    """Values of all kinds, and those just inside and outside of what the schema says."""
    found: list[Any] = list(_ODD)
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = schema.get(word)
        if is_number(bound):
            found += [bound - 1, bound - 0.5, bound, bound + 0.5, bound + 1]
    for word in ("minLength", "maxLength"):
        found += ["a" * size for size in _sizes(schema.get(word))]
    for word in ("minItems", "maxItems"):
        found += [["a"] * size for size in _sizes(schema.get(word)) if size <= 100]
    listed = schema.get("enum")
    found += [*listed[:8], f"{listed[0]}x"] if isinstance(listed, list) and listed else []
    pattern = schema.get("pattern")
    for text in matching(pattern) if isinstance(pattern, str) else ():
        found += [text, text[:-1], text[1:], *_misspelt(text)]
    if "string" in (schema.get("type") or "string") and not listed:
        found += ["a", "a" * _LONG]
    return [*found, *_NEAR.get(str(schema.get("format")), ())]


def _misspelt(text: str) -> list[str]:
    """Texts that differ from one at one end, in letter case, in one character, and by other characters of its kinds."""
    found = [text + text[-1:], text[:1] + text, f"{text}x", f"x{text}", f"{text} ", text.swapcase()]
    found += ["".join(_far(char, last=last) for char in text) for last in (True, False)]
    for at, char in enumerate(text[:_MOST_CHARS]):
        found += [text[:at] + other + text[at + 1 :] for other in ("x" if char.isdigit() else "1", char.swapcase())]
    return [one for one in dict.fromkeys(found) if one != text]


def _far(char: str, *, last: bool) -> str:
    """The first or the last character of the same kind."""
    if char.isascii() and char.isdigit():
        return "9" if last else "0"
    if not (char.isascii() and char.isalpha()):
        return char
    return ("z" if last else "a") if char.islower() else ("Z" if last else "A")


def _sizes(length: object) -> list[int]:
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length < _LONGEST:
        return []
    return [size for size in (length - 1, length, length + 1) if size > 0]
