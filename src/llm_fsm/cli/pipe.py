"""Conversation through a pipe: one message a line in, replies out, a blank line between them."""

from __future__ import annotations

import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TextIO

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.terminal import answers, console, escape
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.validation import checked_message
from llm_fsm.session.events import MessageDelta, PromptRead
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS

_HELP = "/help"
_HELP_TEXT = (
    "piped input is one message a line, and standard output has the replies alone",
    "an approval or another answer is a line of JSON",
    "/state, /context, /why, /undo, /save and /test work in a terminal, without the pipe",
    "`llm-fsm conversations show --last --why` tells what happened",
)

_CHUNK = 65_536
_MAX_LINE_BYTES = 4 * MAX_MESSAGE_CHARS + 4
_MAX_UNREAD = 16_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of input by its number from 1. `text` is None where `fault` says why it is no message."""

    number: int
    text: str | None
    fault: str = ""


class PipeLines:
    """The lines of a byte stream that are not blank, in bounded memory however long a line is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._number = 0

    def __iter__(self) -> Iterator[Line]:
        while (data := self._next()) is not None:
            line = self._line(data)
            if line is not None:
                yield line

    def awaited(self, seconds: float | None) -> bool:
        """Wait until there is something to read or the input ends; False when `seconds` pass first
        (None: never).
        """
        return b"\n" in self._buffer or self._ready(seconds)

    def unread(self) -> int:
        """Return how many lines that are not blank can be read now, without waiting for more."""
        while len(self._buffer) < _MAX_UNREAD and self._ready(0, unless=False):
            if not self._fill():
                break
        return sum(1 for line in self._buffer.split(b"\n") if line.strip())

    def _next(self) -> bytes | None:
        """The next line without its end, cut just above the limit; None at the end of the input."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _MAX_LINE_BYTES:
                return self._too_long()
            if not self._fill():
                rest = bytes(self._buffer)
                self._buffer.clear()
                self._number += 1
                return rest or None
        data = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._number += 1
        return data

    def _too_long(self) -> bytes:
        """The start of a line whose rest is thrown away as it comes."""
        start = bytes(self._buffer[: _MAX_LINE_BYTES + 1])
        while (end := self._buffer.find(b"\n")) < 0:
            self._buffer.clear()
            if not self._fill():
                break
        del self._buffer[: end + 1]
        self._number += 1
        return start

    def _line(self, data: bytes) -> Line | None:
        if len(data) > _MAX_LINE_BYTES:
            return Line(self._number, None, f"is longer than {MAX_MESSAGE_CHARS:,} characters")
        try:
            text = data.decode("utf-8-sig" if self._number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            return Line(self._number, None, f"is not UTF-8 at byte {error.start + 1}")
        if not text.strip():
            return None
        try:
            return Line(self._number, checked_message(text))
        except ValueError as error:
            return Line(self._number, None, f"is no message: {error}")

    def _fill(self) -> bool:
        data: bytes = self._stream.read1(_CHUNK)  # type: ignore[attr-defined]  # buffered streams have it
        self._buffer += data
        return bool(data)

    def _ready(self, seconds: float | None, *, unless: bool = True) -> bool:
        """Return True if the stream has something within so many seconds; `unless` where that
        cannot be told.
        """
        try:
            return bool(select.select([self._stream], [], [], seconds)[0])
        except (OSError, ValueError):
            return unless


class Replies:
    """Standard output as a caller reads it: replies and nothing else, separated by blank lines."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._first = True

    def say(self, text: str) -> None:
        """Print one reply; nothing for silence."""
        if not text:
            return
        console.text(("" if self._first else "\n") + text, self._stream)
        self._first = False


def converse(talk: Talk, stream: IO[bytes], *, greeting: str, out: TextIO | None = None) -> int:
    """Hold the conversation until the input or it ends, and return the exit code. Raises what
    `send` raises.

    While no line comes, what is due is done: reminders, and what happens when nobody says anything.
    When the conversation waits for an answer, a line of JSON that fits is the answer. Any other
    line then ends the command. While a person has taken over, each line is a message to them.

    Args:
        talk: The conversation.
        stream: The input, one message a line.
        greeting: The first reply to print.
        out: The stream for the replies; None: standard output.
    """
    replies = Replies(out)
    lines = PipeLines(stream)
    code = exits.OK
    replies.say(greeting)
    reading = iter(lines)
    while not talk.ended:
        if not lines.awaited(talk.seconds_left()):
            for words in talk.due():
                replies.say(words)
            continue
        line = next(reading, None)
        if line is None:
            break
        if line.text is None:
            console.error(f"line {line.number} {line.fault}; it was not sent")
            code = exits.USAGE
            continue
        if line.text.strip() == _HELP:
            for said in _HELP_TEXT:
                console.note(said)
            continue
        for words in _overdue(talk):
            replies.say(words)
        try:
            turn = _taken(talk, line.text)
        except _NoAnswer as error:
            console.error(
                f"line {line.number} is no answer: {error}; it was not sent{_unread(lines)}"
            )
            return exits.PAUSED
        if turn is not None:
            replies.say(turn.text)
    if talk.ended:
        _say_ended(lines)
    return exits.PAUSED if talk.paused is not None else code


class _NoAnswer(Exception):
    """The conversation waits for an answer, and a line is none."""


def _overdue(talk: Talk) -> list[str]:
    """Return the texts that are said because nobody answered in time."""
    return talk.due() if talk.paused is not None and talk.seconds_left() == 0 else []


def _taken(talk: Talk, text: str) -> Turn | None:
    """The turn that a line led to; None where the conversation is over. Raises _NoAnswer."""
    if talk.ended:
        return None
    if talk.paused is None or talk.paused.messages == "record":
        return talk.send(text, _listen)
    try:
        value = answers.piped(talk.paused, text)
    except ValueError as error:
        raise _NoAnswer(str(error)) from error
    return talk.answer(value, _listen)


def _listen(_: MessageDelta | PromptRead) -> None:
    """Take words while they arrive. A pipe gets them whole, but they show that a slow model is
    alive.
    """


def _unread(lines: PipeLines) -> str:
    unread = lines.unread()
    return (
        f"; {escape.plural(unread, 'further line was', 'further lines were')} not read"
        if unread
        else ""
    )


def _say_ended(lines: PipeLines) -> None:
    console.note(f"the conversation has ended{_unread(lines)}")
