"""A reply read while it arrives: its move as soon as that is complete, then its words as they come.

Only a reply in the form that was asked for is read ahead: a JSON object, alone, in a code fence or after a
thinking block, whose `transition` stands before its `message`. Of anything else nothing is given before the end,
when `llm_fsm.reply` reads the whole. What is given is always decoded text of `message`, never JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from llm_fsm.reply import THINKING

_MAX_PROSE = 2000
_MAX_KEY = 200
_THOUGHT = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_LONGEST_TAG = 12
_FENCED = re.compile(r"[^`]*```[A-Za-z0-9_-]*\s*")
_KEY = re.compile(r'\s*,?\s*"((?:[^"\\]|\\.)*)"\s*:\s*(?=\S)')
_PLAIN = re.compile(r'[^"\\]*')
_OUTSIDE = re.compile(r'["{}\[\]]')
_SCALAR = re.compile(r"[^,}\]\s]*(?=[,}\]\s])")
_SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class ReplyReader:
    """Takes a reply in pieces of any size.

    `head`: once the move is complete, a whole reply with that move and no words; None until then, and for ever
    where the reply has another form.
    """

    __slots__ = ("_at", "_depth", "_from", "_step", "_text", "_value", "_words", "head")

    def __init__(self) -> None:
        self.head: str | None = None
        self._text = ""
        self._at = 0
        self._words = ""
        self._depth = 0
        self._from = 0
        self._value: Callable[[], bool] = self._over
        self._step: Callable[[], bool] = self._opening

    @property
    def words(self) -> str:
        """The words so far, as `llm_fsm.reply.parse` would give them."""
        return self._words.strip()

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        self._text += piece
        while self._step():
            pass

    # Each step returns True when it has done its part, False when it needs more text.

    def _over(self) -> bool:
        return False

    def _give_up(self) -> bool:
        self._step = self._over
        return False

    def _opening(self) -> bool:
        """What may stand before the object."""
        rest = self._text.lstrip()
        if rest.startswith("<"):
            found = THINKING.match(self._text) if ">" in rest else None
            if found is not None:
                self._text = self._text[found.end() :]
                return True
            other = len(rest) > _LONGEST_TAG and _THOUGHT.match(rest) is None
            return self._give_up() if other else False
        place = self._text.find("{")
        if place < 0:
            return self._give_up() if len(self._text) > _MAX_PROSE else False
        before = self._text[:place]
        if before.strip().lstrip("\ufeff") and _FENCED.fullmatch(before) is None:
            return self._give_up()
        self._at, self._step = place + 1, self._key
        return True

    def _key(self) -> bool:
        """The next key of the object, up to the first character of its value."""
        found = _KEY.match(self._text, self._at)
        if found is None:
            return self._give_up() if len(self._text) - self._at > _MAX_KEY else False
        key, self._at = found.group(1), found.end()
        first = self._text[self._at]
        if key == "transition":
            if self.head is not None or first != "{":
                return self._give_up()
            self._value = self._moved
        elif key == "message":
            if self.head is None or first != '"':
                return self._give_up()
            self._at, self._step = self._at + 1, self._message
            return True
        else:
            self._value = self._skipped
        self._from, self._depth = self._at, 0
        self._step = self._text_value if first == '"' else self._brackets if first in "{[" else self._scalar
        return True

    def _scalar(self) -> bool:
        found = _SCALAR.match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        return self._value()

    def _text_value(self) -> bool:
        if not self._past_string():
            return False
        return self._value()

    def _past_string(self) -> bool:
        """Go past the string that begins here; stay where its end has not come."""
        at = self._at + 1
        while True:
            found = _PLAIN.match(self._text, at)
            at = len(self._text) if found is None else found.end()
            if at >= len(self._text):
                return False
            if self._text[at] == '"':
                self._at = at + 1
                return True
            at += 2

    def _brackets(self) -> bool:
        """Go past an object or a list."""
        while True:
            found = _OUTSIDE.search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                return False
            self._at = found.start()
            if found.group() == '"':
                if not self._past_string():
                    return False
                continue
            self._at += 1
            self._depth += 1 if found.group() in "{[" else -1
            if self._depth == 0:
                return self._value()

    def _skipped(self) -> bool:
        self._step = self._key
        return True

    def _moved(self) -> bool:
        move = self._text[self._from : self._at]
        try:
            json.loads(move)
        except (ValueError, RecursionError):
            return self._give_up()
        self.head = f'{{"transition":{move},"message":""}}'
        self._step = self._key
        return True

    def _message(self) -> bool:
        """Decode as much of the message as has come."""
        text = self._text
        while True:
            found = _PLAIN.match(text, self._at)
            if found is not None:
                self._words += found.group()
                self._at = found.end()
            if self._at >= len(text):
                return False
            if text[self._at] == '"':
                return self._give_up()
            length, character = self._escape()
            if length == 0:
                return False
            if length < 0:
                return self._give_up()
            self._words += character
            self._at += length

    def _escape(self) -> tuple[int, str]:
        """The escape that stands here, and its length: 0 where more text is needed, -1 where it is none."""
        text, at = self._text, self._at
        if len(text) < at + 2:
            return 0, ""
        if text[at + 1] != "u":
            character = _ESCAPES.get(text[at + 1])
            return (-1, "") if character is None else (2, character)
        if len(text) < at + 6:
            return 0, ""
        length = 6
        if _HIGH.match(text, at) is not None:
            if _SURROGATES.match(text, at) is not None:
                length = 12
            elif len(text) < at + 12 and r"\u".startswith(text[at + 6 : at + 8]):
                return 0, ""
        try:
            return length, str(json.loads(f'"{text[at : at + length]}"'))
        except ValueError:
            return -1, ""
