"""The port to models: one question in, one reply out.

An adapter is any object with `complete`, and with `stream` if it can give a reply while it arrives. It returns
a `ModelReply` or raises `ModelError` (`retryable` when the same call may succeed later) and nothing else. It
neither parses nor judges the reply. `stream` takes the same request and gives the reply's text in pieces, in order,
and the reply itself last. Once a piece was given, it does not send the request again. `aclose` frees connections,
where there are any. `reply_form` says which form of a reply its schemas take, see `form_of`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from llm_fsm.errors import ModelError
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm

_PIECE = 12


@runtime_checkable
class LLM(Protocol):
    """The interface of a model that the engine needs."""

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer the request. Raises ModelError."""


def form_of(llm: object, model: str | None) -> ReplyForm:
    """Return the form of a reply that a model takes: what its adapter's `reply_form(model)` says.

    An adapter without that method gets the list, which strict schemas of every provider take.
    """
    say: Callable[[str | None], ReplyForm] | None = getattr(llm, "reply_form", None)
    return "list" if say is None else say(model)


class Listener(Protocol):
    """A receiver of a reply while it arrives. `shown`: somebody has read words of it."""

    shown: bool

    async def hear(self, piece: str) -> None:
        """Take the next piece of the reply's text."""

    def give_up(self) -> None:
        """Drop what was heard: it does not count, and the reply comes in one piece."""


async def listened(llm: Any, request: LLMRequest, listener: Listener) -> object:
    """Return the reply, heard while it arrives where the model can do that.

    A stream that breaks before a word was shown is asked for again as a whole. Raises ModelError.
    """
    last: object = None
    try:
        async with aclosing(streamed(llm, request)) as items:
            async for item in items:
                last = item
                if isinstance(item, str):
                    await listener.hear(item)
    except ModelError as error:
        if not error.retryable or last is None or listener.shown:
            raise
        listener.give_up()
        reply: ModelReply = await llm.complete(request)
        return replace(reply, attempts=reply.attempts + (error.attempts or 1), seconds=reply.seconds + error.seconds)
    return last


def streamed(llm: Any, request: LLMRequest) -> AsyncGenerator[Any, None]:
    """Return the items of the model's `stream`, or the reply alone from a model without one.

    Going through them raises ModelError.
    """
    stream: Callable[[LLMRequest], AsyncGenerator[Any, None]] | None = getattr(llm, "stream", None)
    return _whole(llm, request) if stream is None else stream(request)


async def _whole(llm: Any, request: LLMRequest) -> AsyncGenerator[Any, None]:
    yield await llm.complete(request)


async def let_go(llm: object) -> None:
    """Free what a model holds, where it holds anything."""
    close = getattr(llm, "aclose", None)
    if close is not None:
        await close()


async def in_pieces(llm: LLM, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
    """Yield the reply as it might arrive, a few characters at a time, from a model that has it at once."""
    reply = await llm.complete(request)
    for start in range(0, len(reply.text), _PIECE):
        yield reply.text[start : start + _PIECE]
        await asyncio.sleep(0)
    yield reply
