"""A reply read while it arrives: its move as soon as that is complete, then its words as they come.

Only a reply in the form that was asked for is read ahead. It is a JSON object whose `transition` stands before
its `message`. Words, a code fence or a thinking block may stand before the object. Of anything else nothing is given
before the end, when `llm_fsm.turn.reply.parser` reads the whole. What is given is always decoded text of `message`,
never JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from llm_fsm.conditions.coercion import mended
from llm_fsm.turn.reply.reasoning import ANY_END, ENDS, LONGEST_TAG, OPENING, may_begin

_MAX_PROSE = 2000
_MAX_KEY = 200
_MAX_SCALAR = 400
_THOUGHT = re.compile(OPENING, re.IGNORECASE | re.ASCII)
_SPACE = re.compile(r"\s*")
_KEY = re.compile(r'\s*+,?\s*+"((?:[^"\\]|\\.)*)"\s*:\s*(?=\S)')
_PLAIN = re.compile(r'[^"\\]*')
_OUTSIDE = re.compile(r'["{}\[\]]')
_SCALAR = re.compile(r"[^,}\]\s]*(?=[,}\]\s])")
_SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_HIGH_END = re.compile("\\s*[\ud800-\udbff]$")
"""Half of a surrogate pair whose other half may come with the next piece."""
_NO_WORDS = re.compile(rf"(?:```[A-Za-z]*\s*)?\{{|{OPENING}", re.IGNORECASE | re.ASCII)
"""Beginnings of words that may be a reply within the reply, or a thought."""
_FENCE = re.compile(r"`{1,2}|```[A-Za-z]*")
_MARKS = ("<", "[", "◁")
_ODD = ("{", "`", *_MARKS)
"""First characters of a reply, of a code fence and of the mark of a thought."""
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class ReplyReader:
    """A reader that takes a reply in pieces of any size, in time that grows with its length alone.

    `head`: once the move is complete, a whole reply with that move and no words. It is None until then, and for ever
    where the reply has another form.
    """

    __slots__ = ("_at", "_closing", "_depth", "_held", "_kept", "_new", "_said", "_step", "_text", "_value", "head")

    def __init__(self) -> None:
        self.head: str | None = None
        self._text = ""
        self._at = 0
        self._depth = 0
        self._held: list[str] = []
        self._closing = ANY_END
        self._kept: list[str] | None = None
        self._new: list[str] = []
        self._said = False
        self._value: Callable[[], bool] = self._over
        self._step: Callable[[], bool] = self._opening

    def feed(self, piece: str) -> str:
        """Take the next piece and return its words, which together are those that `parser.parse` gives."""
        self._text = self._text[self._at :] + piece
        self._at = 0
        while self._step():
            pass
        if not (self._new or self._held):
            return ""
        new = "".join(self._new)
        self._new.clear()
        if self._step != self._over and (not new or new.isspace()):  # which says nothing of what is held
            self._held.append(new)
            return ""
        words = "".join((*self._held, new))
        if not self._said:
            words = words.lstrip()
            if words.startswith(_ODD) and _NO_WORDS.match(words) is not None:
                self._give_up()
                self._held.clear()
                return ""
        given = words.rstrip()
        if "\ud800" <= given[-1:] <= "\udbff" or (not self._said and given.startswith(_ODD)):
            given = self._certain(given)
        self._held = [words[len(given) :]]
        self._said = self._said or given != ""
        return mended(given)

    def _certain(self, words: str) -> str:
        """Return the words without an end that only following ones explain, while there may be more of them."""
        if self._step == self._over:
            return words
        open_ = not self._said and words != "" and (_FENCE.fullmatch(words) or may_begin(words))
        return "" if open_ else _HIGH_END.sub("", words)

    # Each step returns True when it has done its part, False when it needs more text. What it went past is dropped.

    def _over(self) -> bool:
        self._at = len(self._text)
        return False

    def _give_up(self) -> bool:
        self._step = self._over
        return self._over()

    def _past(self, end: int) -> None:
        if self._kept is not None:
            self._kept.append(self._text[self._at : end])
        self._at = end

    def _opening(self) -> bool:
        """Pass what may stand before the object: a thought, then words without another bracket or tag."""
        text = self._text
        space = _SPACE.match(text, self._at)
        at = self._at = self._at if space is None else space.end()
        if text.startswith(_MARKS, at):
            thought = _THOUGHT.match(text, at)
            if thought is not None:
                self._closing, self._step = ENDS[thought.group(1).lower()], self._thinking
                return True
            if may_begin(text[at : at + LONGEST_TAG]):
                return False
        place = text.find("{", at, at + _MAX_PROSE + 1)
        prose = text[at : at + _MAX_PROSE + 1 if place < 0 else place]
        if "<" in prose or len(prose) > _MAX_PROSE:
            self._closing, self._step = ANY_END, self._thinking  # where a prompt begins the thought, only its end comes
            return True
        if place < 0:
            return False
        self._at, self._step = place + 1, self._key
        return True

    def _thinking(self) -> bool:
        found = self._closing.search(self._text, self._at)
        if found is None:
            self._at = max(self._at, len(self._text) - LONGEST_TAG)
            return False
        self._at, self._step = found.end(), self._opening
        return True

    def _key(self) -> bool:
        """Take the next key of the object, up to the first character of its value."""
        found = _KEY.match(self._text, self._at)
        if found is None:
            return self._give_up() if len(self._text) - self._at > _MAX_KEY else False
        key, self._at = found.group(1), found.end()
        first = self._text[self._at]
        self._value = self._skipped
        if key == "transition":
            if self.head is not None or first != "{":
                return self._give_up()
            self._value, self._kept = self._moved, []
        elif key == "message":
            if self.head is None or first != '"':
                return self._give_up()
            self._at, self._step = self._at + 1, self._message
            return True
        elif key == "context_update":  # beside the transition: the move cannot be checked by the head alone
            return self._give_up()
        self._depth = 0
        self._step = self._scalar if first not in '"{[' else self._brackets
        return True

    def _scalar(self) -> bool:
        found = _SCALAR.match(self._text, self._at)
        if found is None:
            return self._give_up() if len(self._text) - self._at > _MAX_SCALAR else False
        self._past(found.end())
        return self._value()

    def _brackets(self) -> bool:
        """Go past a text, an object or a list, outside of its strings."""
        while True:
            found = _OUTSIDE.search(self._text, self._at)
            if found is None:
                self._past(len(self._text))
                return False
            self._past(found.end())
            if found.group() == '"':
                self._step = self._string
                return True
            self._depth += 1 if found.group() in "{[" else -1
            if self._depth == 0:
                return self._value()

    def _string(self) -> bool:
        """Go past the rest of a string."""
        while True:
            found = _PLAIN.match(self._text, self._at)
            self._past(len(self._text) if found is None else found.end())
            if self._at + 1 >= len(self._text) and not self._text.endswith('"', self._at):
                return False
            if self._text[self._at] == '"':
                self._past(self._at + 1)
                self._step = self._brackets
                return True if self._depth else self._value()
            self._past(self._at + 2)

    def _skipped(self) -> bool:
        self._step = self._key
        return True

    def _moved(self) -> bool:
        move = "".join(self._kept or ())
        self._kept = None
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
                self._new.append(found.group())
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
            self._new.append(character)
            self._at += length

    def _escape(self) -> tuple[int, str]:
        """Return the escape that stands here, and its length: 0 where more text is needed, -1 where it is none."""
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
