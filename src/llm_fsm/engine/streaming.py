"""The words of a turn on their way to whoever listens, given out as early as they are certain to be allowed.

Words of a reply are let through while it arrives, once its move has been checked: not before, so that a refused
move shows no word. They are provisional until the turn is saved. Where the turn ends in other words after all (a
reply that breaks off in the middle, a limit that is reached after the move), they are withdrawn and said anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from llm_fsm.session.events import MessageDelta
from llm_fsm.turn.reply.stream import ReplyReader

Judge = Callable[[str], Awaitable[str | None]]
"""From the head of a reply to the words that stand before its own; None: its words are not to be shown."""


class Voice:
    """What a listener has heard of a turn."""

    def __init__(self, say: Callable[[MessageDelta], None]) -> None:
        self._say = say
        self._heard: list[str] = []

    def up_to(self, text: str) -> None:
        """Say what is missing of the turn's words so far."""
        heard = "".join(self._heard)
        if not text.startswith(heard):
            self._say(MessageDelta(text=text, restart=True))
            self._heard = [text]
        elif len(text) > len(heard):
            self.more(text[len(heard) :])

    def more(self, text: str) -> None:
        """Say these words after those so far."""
        self._say(MessageDelta(text=text))
        self._heard.append(text)


class Listening:
    """One reply while it arrives. `shown`: words of it were given out."""

    def __init__(self, voice: Voice, judge: Judge) -> None:
        self.shown = False
        self._voice = voice
        self._judge: Judge | None = judge
        self._reader = ReplyReader()
        self._before: str | None = None

    async def hear(self, piece: str) -> None:
        """Take the next piece of the reply's text."""
        words = self._reader.feed(piece)
        if self._judge is not None and self._reader.head is not None:
            judge, self._judge = self._judge, None
            self._before = await judge(self._reader.head)
        if not words or self._before is None:
            return
        if self.shown:
            self._voice.more(words)
        else:
            self.shown = True
            self._voice.up_to(self._before + words)

    def give_up(self) -> None:
        """The reply is asked for anew, in one piece."""
        self._judge = self._before = None
