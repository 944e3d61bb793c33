"""Fit an answer to a messenger: its markup, the size of its messages, and its buttons.

Nothing is cut. A long text becomes several messages, and the last one has the question and the
buttons. Choices that fit no button become lines of the text. The user may type them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llm_fsm import Choice
from llm_fsm._text import units

Markup = tuple[tuple[str, str], ...]
"""Regular expressions with their replacements, in order."""
BOLD, HEADING = r"\*\*(\S(?:.*?\S)?)\*\*", r"^#{1,6} +\**(.+?)\**$"
LINK = r"\[([^\[\]\n]+)\]\((https?://[^\s()]+)\)"
"""What models write although nobody asked for Markdown."""
_BREAKS = (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s+", r"\s+")
"""Where a text may be parted: a paragraph, a line, a sentence, a word; the first is the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The sizes that a messenger takes, in UTF-16 code units: no messenger counts more.

    Attributes:
        text: Of a message.
        text_with_buttons: Of a message with buttons.
        buttons: The kinds of buttons: how many there may be, and the size of a label.
        mark: Of the text by which a button is recognised: its question, `|` and its label.
    """

    text: int
    text_with_buttons: int
    buttons: tuple[tuple[int, int], ...]
    mark: int


class MessagePart(NamedTuple):
    """One message of an answer."""

    text: str
    choices: Sequence[Choice] = ()


def rewritten(text: str, markup: Markup) -> str:
    """Return a text with each pattern of a table replaced."""
    for pattern, replacement in markup:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def fits_buttons(choices: Sequence[Choice], limits: Limits, kind: tuple[int, int]) -> bool:
    """Return true if choices can be buttons of a kind. Labels are compared as they are shown."""
    most, chars = kind
    for choice in choices:
        label = choice.label
        shown = label.isprintable() and label == label.strip()
        mark = units(f"{choice.question}|{label}")
        if not shown or units(label) > chars or mark > limits.mark:
            return False
    return 0 < len(choices) <= most


def in_lines(text: str, choices: Sequence[Choice]) -> list[str]:
    """Return a line for each choice that a text does not name."""
    said = text.casefold()
    return [f"- {choice.label}" for choice in choices if choice.label.casefold() not in said]


def fit(
    text: str, choices: Sequence[Choice], limits: Limits, markup: Markup = ()
) -> list[MessagePart]:
    """Return the messages of an answer; none if it has no words.

    Args:
        text: The words.
        choices: The choices that the user has.
        limits: The sizes that the messenger takes.
        markup: The markup of the messenger.

    Returns:
        The messages, in order. The last one has the buttons.
    """
    if not text.strip():
        return []
    has_buttons = any(fits_buttons(choices, limits, kind) for kind in limits.buttons)
    lines = [] if has_buttons else in_lines(text, choices)
    said = rewritten("\n".join([text, *lines]), markup)
    last = limits.text_with_buttons if has_buttons else limits.text
    *before, end = parts_of(said, limits.text, last)
    return [*map(MessagePart, before), MessagePart(end, choices if has_buttons else ())]


def parts_of(text: str, most: int, last: int) -> list[str]:
    """Part a text, from its end, so that the question there stays whole.

    Args:
        text: The text.
        most: The size of a part.
        last: The size of the last part.

    Returns:
        The parts, without the white space between them.
    """
    parts: list[str] = []
    rest, limit = text.strip(), last
    while units(rest) > limit:
        start = _start_of_end(rest, limit)
        parts.insert(0, rest[start:])
        rest, limit = rest[:start].rstrip(), most
    return [rest, *parts]


def _start_of_end(text: str, limit: int) -> int:
    """Return where the longest end of a text begins that fits and parts no more than it must."""
    first = max(0, len(text) - limit)
    while units(text[first:]) > limit:
        first += 1
    for pattern in _BREAKS:
        found = re.compile(pattern).search(text, max(0, first - 1))
        if found is not None and first <= found.end() < len(text):
            return found.end()
    return first
