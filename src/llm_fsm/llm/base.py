"""The port to models: a request goes in, a reply comes out.

An adapter is any object with `complete`, and with `stream` if it can give a reply while it arrives.
Both take an `LLMRequest`. `complete` returns a `ModelReply` or raises `ModelError`, and raises
nothing else. The error is `retryable` if the same call may succeed later. An adapter does not parse
or judge the reply.

`stream` yields the reply's text in pieces, in order, and the `ModelReply` last. After the first
piece, it never sends the request again. `aclose` frees connections, if there are any. `reply_form`
returns the form of a reply that the model's schemas take; see `form_of`. `name`, if there is one,
is the model's name in the trace of a call that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from llm_fsm.errors import ModelError
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm

_PIECE = 12


@runtime_checkable
class LLM(Protocol):
    """The interface of a model that the engine needs."""

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer the request.

        Args:
            request: The messages, the schema of the reply, the tools, and the settings.

        Returns:
            The reply, with its text as the model wrote it.

        Raises:
            ModelError: The provider could not be reached, or refused the request.
        """


def form_of(llm: object, model: str | None) -> TakenForm:
    """Return the form of a reply that a model takes.

    Args:
        llm: The adapter. Its `reply_form(model)` gives the form. Without that method, the form is
            "list", which strict schemas of every provider take.
        model: The name of the model; None: the adapter's own.

    Returns:
        The form.
    """
    say: Callable[[str | None], TakenForm] | None = getattr(llm, "reply_form", None)
    return "list" if say is None else say(model)


class Listener(Protocol):
    """A receiver of a reply while it arrives.

    Attributes:
        shown: True if the user has seen some of its text.
    """

    shown: bool

    async def take(self, piece: str) -> None:
        """Take the next piece of the reply's text.

        Args:
            piece: The piece.
        """

    def give_up(self) -> None:
        """Drop all pieces, because the whole reply follows at once."""


async def listened(llm: Any, request: LLMRequest, listener: Listener) -> object:
    """Return a reply, and pass it to a listener while it arrives.

    If the stream breaks before the user has seen any text, the whole reply is requested instead.

    Args:
        llm: The adapter.
        request: The request.
        listener: The receiver of the pieces. A model without `stream` gives none.

    Returns:
        The last item of the stream, which should be a `ModelReply`.

    Raises:
        ModelError: The model failed.
    """
    last = None
    try:
        async with aclosing(streamed(llm, request)) as items:
            async for item in items:
                last = item
                if isinstance(item, str):
                    await listener.take(item)
    except ModelError as error:
        if not error.retryable or last is None or listener.shown:
            raise
        listener.give_up()
        reply: ModelReply = await llm.complete(request)
        return replace(
            reply,
            attempts=reply.attempts + (error.attempts or 1),
            seconds=reply.seconds + error.seconds,
        )
    return last


def streamed(llm: Any, request: LLMRequest) -> AsyncGenerator[Any, None]:
    """Return the items of the model's `stream`, or only the reply if the model has no `stream`.

    Args:
        llm: The adapter.
        request: The request.

    Returns:
        Pieces of text, and the `ModelReply` last. Iterating over them raises ModelError.
    """
    stream: Callable[[LLMRequest], AsyncGenerator[Any, None]] | None = getattr(llm, "stream", None)
    return _whole(llm, request) if stream is None else stream(request)


async def _whole(llm: Any, request: LLMRequest) -> AsyncGenerator[Any, None]:
    yield await llm.complete(request)


async def let_go(*models: object) -> None:
    """Free the connections of models that have any, of each once.

    Args:
        models: The adapters.
    """
    for llm in {id(one): one for one in models}.values():
        close = getattr(llm, "aclose", None)
        if close is not None:
            await close()


async def in_pieces(llm: LLM, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
    """Yield a complete reply in pieces of a few characters, as if it arrived slowly.

    Args:
        llm: The adapter.
        request: The request.

    Yields:
        Pieces of text, and the reply last.
    """
    reply = await llm.complete(request)
    for start in range(0, len(reply.text), _PIECE):
        yield reply.text[start : start + _PIECE]
        await asyncio.sleep(0)
    yield reply
