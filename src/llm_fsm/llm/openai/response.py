"""An arriving HTTP answer, in chunks or as a whole, which its headers do not decide."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp

from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.completion import ReplySettings, no_completion, read_completion
from llm_fsm.llm.openai.connection import HttpAnswer
from llm_fsm.llm.openai.stream import (
    BEGINNING,
    DOCUMENTS,
    LAST,
    Chunks,
    EventLines,
    gathered,
    is_events,
    is_told,
)
from llm_fsm.session.messages import ModelReply

MAX_ANSWER = 2 * 2**20
"""The most bytes of an answer's body that are read."""

MAX_STREAM = 32 * 2**20
"""The most bytes of an answer in chunks, because each chunk repeats names and ids."""

_PARTING = 0.05
"""Seconds for an answer to end after its last chunk."""


class ArrivingReply:
    """An answer that arrives in chunks, or, from a server that does not stream, as a whole."""

    def __init__(self, response: HttpAnswer, asked: ReplySettings) -> None:
        self.asked = asked
        self.status = response.status
        self._response = response
        self._events = EventLines()
        self._chunks = Chunks(asked)
        self._first: list[str] = []
        self._over = False
        self._told = False
        """True if the last piece of the answer had more than keep-alive data."""
        self._whole: Any = None
        self._size = 0

    async def begin(
        self,
        alive: Callable[[], None] = lambda: None,
        reading: Callable[[int, int], None] | None = None,
    ) -> None:
        """Wait for the first piece of the reply's text. Raises ModelError if the answer has none.

        Args:
            alive: Called after each piece with more than keep-alive data, such as a thought.
            reading: Called with the tokens of the prompt that the server has read, and with all of
                them.
        """
        received = await self._response.content.readany()
        if not received.startswith(b"data:"):
            while (
                len(received) < BEGINNING
                and not is_told(received)
                and not self._response.content.at_eof()
            ):
                received += await self._response.content.readany()
            labelled = self._response.content_type == "text/event-stream"
            if received.lstrip()[:1] in DOCUMENTS if labelled else not is_events(received):
                self.take(gathered(received + await self._response.read(MAX_ANSWER)))
                return
        self._first = await self._read(received)
        self._tell(reading)
        while not self._first and not self._over:
            if self._told:
                alive()
            self._first = await self._more()
            self._tell(reading)
        if self._over:
            self._chunks.completion()

    def _tell(self, reading: Callable[[int, int], None] | None) -> None:
        """Tell how much of the prompt the server has read, if it said so."""
        if reading is not None and self._chunks.prompt is not None:
            reading(*self._chunks.prompt)

    @property
    def complaint(self) -> ModelError | None:
        """The error that the server sent; None if there is none."""
        return self._chunks.complaint

    def take(self, payload: Any) -> None:
        """Take a whole completion. Raises ModelError if it is none."""
        self._whole = payload
        self.reply(attempts=0, seconds=0.0)

    async def pieces(self, idle_timeout: float) -> AsyncIterator[str]:
        """Yield the pieces of the reply's text. Raises TimeoutError if none arrives for
        `idle_timeout` seconds.
        """
        pieces, until = self._first, math.inf
        now = asyncio.get_running_loop().time
        silent = now()
        while True:
            for piece in pieces:
                yield piece
            if self._told:
                silent = now()
            if self._over or self._whole is not None:
                return
            if self._chunks.whole:
                until = min(until, now() + LAST)  # endless keep-alive data may follow
            try:
                async with asyncio.timeout_at(min(until, silent + idle_timeout)):
                    pieces = await self._more()
            except TimeoutError:
                if not self._chunks.whole:
                    raise
                return

    async def _drain(self) -> None:
        """Read the end of the answer, so that its connection can be reused."""
        with suppress(aiohttp.ClientError, OSError):  # a timeout among them
            async with asyncio.timeout(_PARTING):
                while (
                    not self._response.content.at_eof() and await self._response.content.readany()
                ):
                    pass

    async def _more(self) -> list[str]:
        """Return further pieces of text; after the last one the answer is complete."""
        try:
            received = await self._response.content.readany()
        except (aiohttp.ClientError, OSError):
            if not self._chunks.whole:
                raise
            self._over = True
            return []
        return await self._read(received)

    async def _read(self, received: bytes) -> list[str]:
        """Return the pieces of text in received bytes."""
        self._size += len(received)
        if self._size > MAX_STREAM:
            raise no_completion(f"more than {MAX_STREAM} bytes")
        events = self._events.feed(received) if received else self._events.end()
        before = self._chunks.taken
        pieces = [piece for data in events if (piece := self._chunks.read(data))]
        self._told = self._chunks.taken > before
        self._over = not received or self._chunks.done
        if self._chunks.done:
            await self._drain()
        return pieces

    def reply(self, *, attempts: int, seconds: float) -> ModelReply:
        """Return the whole answer. Raises ModelError."""
        payload = self._chunks.completion() if self._whole is None else self._whole
        return read_completion(payload, self.asked, attempts=attempts, seconds=seconds)

    def close(self) -> None:
        """Return the connection, or close it if the answer was not read to its end."""
        self._response.close()
