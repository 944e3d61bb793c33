"""Stream the text of a turn as soon as its move has been checked.

A refused move never shows text. Text is provisional until the turn is saved. If the turn ends with
another text, the shown text is withdrawn and replaced. This happens if a reply breaks off, or a
limit is reached after the move.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from llm_fsm.session.events import MessageDelta, PromptRead
from llm_fsm.turn.reply.stream import ReplyReader

Judge = Callable[[str], Awaitable[str | None]]
"""Returns the text before a reply's own, from the head of the reply; None: its text must not be
shown."""


class MessageStream:
    """The text of a turn that a listener has received."""

    def __init__(self, say: Callable[[MessageDelta | PromptRead], None]) -> None:
        self._say = say
        self._sent: list[str] = []

    def up_to(self, text: str) -> None:
        """Send the rest of the turn's text so far."""
        sent = "".join(self._sent)
        if not text.startswith(sent):
            self._say(MessageDelta(text=text, restart=True))
            self._sent = [text]
        elif len(text) > len(sent):
            self.more(text[len(sent) :])

    def more(self, text: str) -> None:
        """Send this text after the text so far."""
        self._say(MessageDelta(text=text))
        self._sent.append(text)

    def reading(self, read: int, total: int) -> None:
        """Send how much of the prompt the model's server has read."""
        self._say(PromptRead(read=read, total=total))


class ReplyListener:
    """One reply while it arrives. `shown` is true if some of its text was sent."""

    def __init__(self, stream: MessageStream, judge: Judge) -> None:
        self.shown = False
        self._stream = stream
        self._judge: Judge | None = judge
        self._reader = ReplyReader()
        self._before: str | None = None

    def reading(self, read: int, total: int) -> None:
        """Pass on the tokens of the prompt that the server has read, and all of them."""
        self._stream.reading(read, total)

    async def take(self, piece: str) -> None:
        """Process the next piece of the reply's text."""
        words = self._reader.feed(piece)
        if self._judge is not None and self._reader.head is not None:
            judge, self._judge = self._judge, None
            self._before = await judge(self._reader.head)
        if not words or self._before is None:
            return
        if self.shown:
            self._stream.more(words)
        else:
            self.shown = True
            self._stream.up_to(self._before + words)

    def give_up(self) -> None:
        """Drop the reply, because it is requested again, in one piece."""
        self._judge = self._before = None
