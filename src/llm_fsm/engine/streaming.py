"""Stream the text of a turn as soon as its move has been checked.

A refused move never shows text. Text is provisional until the turn is saved. If the turn ends with
another text, the shown text is withdrawn and replaced. This happens if a reply breaks off, or a
limit is reached after the move.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from llm_fsm.session.events import MessageDelta, PromptRead
from llm_fsm.turn.reply.stream import ReplyReader

SoFar = Callable[[str], str]
"""Returns the text of the turn from the words of the reply that have arrived."""
Judge = Callable[[str], Awaitable[SoFar | None]]
"""Returns how the words of a reply are shown, from its head; None: they must not be shown."""


class MessageStream:
    """The text of a turn that a listener has received."""

    def __init__(self, say: Callable[[MessageDelta | PromptRead], None]) -> None:
        self._say = say
        self._sent = ""

    def up_to(self, text: str) -> None:
        """Send the rest of the turn's text, which is known."""
        # The listener shows another text, which must be withdrawn before this one.
        if not text.startswith(self._sent):
            self._say(MessageDelta(text=text, restart=True))
        elif len(text) > len(self._sent):
            self._say(MessageDelta(text=text[len(self._sent) :]))
        self._sent = text

    def at_least(self, text: str) -> None:
        """Send the rest of the turn's text so far.

        A text that was sent already may be on its way once more.
        """
        if not self._sent.startswith(text):
            self.up_to(text)

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
        self._so_far: SoFar | None = None
        self._words = ""

    def reading(self, read: int, total: int) -> None:
        """Pass on the tokens of the prompt that the server has read, and all of them."""
        self._stream.reading(read, total)

    async def take(self, piece: str) -> None:
        """Process the next piece of the reply's text."""
        words = self._reader.feed(piece)
        if self._judge is not None and self._reader.head is not None:
            # Judged once: the head of a reply does not change any more.
            judge, self._judge = self._judge, None
            self._so_far = await judge(self._reader.head)
        # Words may arrive before it is known whether anybody may hear them.
        if not words or self._so_far is None:
            return
        self.shown = True
        self._words += words
        self._stream.at_least(self._so_far(self._words))

    def give_up(self) -> None:
        """Drop the reply, because it is requested again, in one piece."""
        self._judge = self._so_far = None
