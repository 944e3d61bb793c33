"""Read a reply while it arrives: its move as soon as that is complete, then its message piece by
piece.

Only a reply whose move precedes its message is read ahead: a JSON object with `context_update` and
`target_state`, or with `transition`, before `message`. Prose, a code fence or a thinking block may
precede the object. For all other replies the reader returns nothing, and
`llm_fsm.turn.reply.parser` reads the whole at the end. The reader returns decoded text of
`message`, never JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from llm_fsm.conditions.coercion import mended
from llm_fsm.turn.reply.reasoning import ANY_END, ENDS, LONGEST_TAG, OPENING, may_begin

_MAX_PROSE = 2000
"""Characters before the object. Longer prose may be a thought whose beginning was in the prompt."""
_MAX_KEY = 200
"""Characters to wait for the end of a key. A longer text is no reply, so nothing is shown early."""
_MAX_SCALAR = 400
"""Characters to wait for the end of a number or word, for the same reason."""
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
"""Beginnings of a message that may be a reply within the reply, or a thought."""
_PARTS = frozenset({"context_update", "target_state"})
_FENCE = re.compile(r"`{1,2}|```[A-Za-z]*")
_MARKS = ("<", "[", "◁")
_ODD = ("{", "`", *_MARKS)
"""First characters of a reply, of a code fence and of the mark of a thought."""
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class ReplyReader:
    """A reader that takes a reply in pieces of any size, in time proportional to its length.

    `head`: once the move is complete, a whole reply with that move and no message. It is None until
    then, and stays None if the reply has another form.
    """

    __slots__ = (
        "_at",
        "_closing",
        "_depth",
        "_held",
        "_kept",
        "_name",
        "_new",
        "_parts",
        "_shown",
        "_step",
        "_text",
        "_value",
        "head",
    )

    def __init__(self) -> None:
        self.head: str | None = None
        self._text = ""
        self._at = 0
        self._depth = 0
        self._held: list[str] = []
        self._closing = ANY_END
        self._kept: list[str] | None = None
        self._name = ""
        self._parts: dict[str, str] = {}
        """The parts of the move that stand beside the message, as JSON."""
        self._new: list[str] = []
        self._shown = False
        self._value: Callable[[], bool] = self._over
        self._step: Callable[[], bool] = self._opening

    def feed(self, piece: str) -> str:
        """Take the next piece, and return its part of the message.

        The parts together are the message that `parser.parse` returns. Blanks at an end are held
        back until more text follows, because the message is stripped.
        """
        # What was read is dropped, so a long reply takes no more memory than its last piece.
        self._text = self._text[self._at :] + piece
        self._at = 0
        # Each step that is done sets the next one. The last one needs more text than there is.
        while self._step():
            pass
        if not (self._new or self._held):
            return ""
        new = "".join(self._new)
        self._new.clear()
        is_over = self._step == self._over
        is_blank = not new or new.isspace()
        if is_blank and not is_over:  # the held text still depends on what follows
            self._held.append(new)
            return ""
        message = "".join((*self._held, new))
        if not self._shown:
            message = message.lstrip()
            # Such a message is replaced by other words at the end, so nothing of it may be shown.
            if message.startswith(_ODD) and _NO_WORDS.match(message) is not None:
                self._give_up()
                self._held.clear()
                return ""
        part = message.rstrip()
        if not is_over:
            part = self._certain(part)
        self._held = [message[len(part) :]]
        self._shown = self._shown or part != ""
        return mended(part)

    def _certain(self, part: str) -> str:
        """Return a part of the message without an end that depends on the text that follows.

        At the beginning that may be a code fence or a thought, and anywhere half of a surrogate
        pair.
        """
        if not self._shown and part.startswith(_ODD):
            if _FENCE.fullmatch(part) or may_begin(part):
                return ""
            return _HIGH_END.sub("", part)
        if "\ud800" <= part[-1:] <= "\udbff":
            return _HIGH_END.sub("", part)
        return part

    # Each step returns True when it has done its part, and False when it needs more text. Text
    # before `_at` is dropped with the next piece.

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
        """Pass the text before the object: a thought, then prose without another bracket or tag."""
        text = self._text
        space = _SPACE.match(text, self._at)
        if space is not None:
            self._at = space.end()
        at = self._at
        if text.startswith(_MARKS, at):
            thought = _THOUGHT.match(text, at)
            if thought is not None:
                self._closing = ENDS[thought.group(1).lower()]
                self._step = self._thinking
                return True
            if may_begin(text[at : at + LONGEST_TAG]):
                return False
        most = at + _MAX_PROSE + 1
        place = text.find("{", at, most)
        prose = text[at : most if place < 0 else place]
        if "<" in prose or len(prose) > _MAX_PROSE:
            # The prompt may have begun a thought, so that only its end arrives.
            self._closing, self._step = ANY_END, self._thinking
            return True
        if place < 0:
            return False
        self._at, self._step = place + 1, self._key
        return True

    def _thinking(self) -> bool:
        end = self._closing.search(self._text, self._at)
        if end is None:
            # The end of the text may be the beginning of the tag that ends the thought.
            self._at = max(self._at, len(self._text) - LONGEST_TAG)
            return False
        self._at, self._step = end.end(), self._opening
        return True

    def _key(self) -> bool:
        """Take the next key of the object, up to the first character of its value."""
        match = _KEY.match(self._text, self._at)
        if match is None:
            return self._wait(_MAX_KEY)
        key, self._at = match.group(1), match.end()
        first = self._text[self._at]
        self._value = self._skipped
        if key == "transition":
            if self.head is not None or self._parts or first != "{":
                return self._give_up()
            self._value, self._kept = self._moved, []
        elif key == "message":
            self._join()
            if self.head is None or first != '"':
                return self._give_up()
            self._at, self._step = self._at + 1, self._message
            return True
        elif key in _PARTS:
            if self.head is not None or key in self._parts:
                # It is beside a transition, or twice, so the head alone cannot be checked.
                return self._give_up()
            self._value, self._kept, self._name = self._part, [], key
        self._depth = 0
        self._step = self._scalar if first not in '"{[' else self._brackets
        return True

    def _scalar(self) -> bool:
        match = _SCALAR.match(self._text, self._at)
        if match is None:
            return self._wait(_MAX_SCALAR)
        self._past(match.end())
        return self._value()

    def _wait(self, most: int) -> bool:
        """Wait for more text, or give up if more than `most` characters are not readable."""
        if len(self._text) - self._at > most:
            return self._give_up()
        return False

    def _brackets(self) -> bool:
        """Go past a text, an object or a list, outside of its strings."""
        while True:
            match = _OUTSIDE.search(self._text, self._at)
            if match is None:
                self._past(len(self._text))
                return False
            self._past(match.end())
            mark = match.group()
            if mark == '"':
                self._step = self._string
                return True
            self._depth += 1 if mark in "{[" else -1
            if self._depth == 0:
                return self._value()

    def _string(self) -> bool:
        """Go past the rest of a string."""
        while True:
            match = _PLAIN.match(self._text, self._at)
            self._past(len(self._text) if match is None else match.end())
            # A backslash at the end of a piece may escape the first character of the next one.
            is_last = self._at + 1 >= len(self._text)
            if is_last and not self._text.endswith('"', self._at):
                return False
            if self._text[self._at] == '"':
                self._past(self._at + 1)
                self._step = self._brackets
                return True if self._depth else self._value()
            self._past(self._at + 2)  # an escape

    def _skipped(self) -> bool:
        self._step = self._key
        return True

    def _part(self) -> bool:
        self._parts[self._name] = "".join(self._kept or ())
        self._kept = None
        self._step = self._key
        return True

    def _join(self) -> None:
        """Make the head of a reply that has the parts of its move beside its message."""
        if self.head is not None or not self._parts:
            return
        head = "".join(f'"{name}":{value},' for name, value in self._parts.items())
        try:
            json.loads(f'{{{head}"message":""}}')
        except (ValueError, RecursionError):
            return
        self.head = f'{{{head}"message":""}}'

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
        """Decode the part of the message that has arrived."""
        text = self._text
        while True:
            plain = _PLAIN.match(text, self._at)
            if plain is not None:
                self._new.append(plain.group())
                self._at = plain.end()
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
        """Return the length of the escape at this place, and its character.

        The length is 0 if more text is needed, and -1 if there is no escape.
        """
        text, at = self._text, self._at
        if len(text) < at + 2:
            return 0, ""
        if text[at + 1] != "u":
            character = _ESCAPES.get(text[at + 1])
            if character is None:
                return -1, ""
            return 2, character
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
