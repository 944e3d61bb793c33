"""Messages that are accepted now and answered later: `Prefer: respond-async` (RFC 7240)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, Field

from llm_fsm import Choice, ConversationNotFound, Turn
from llm_fsm.durable import MessageCancelled, cancel, result, submit
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import Problem

ASYNC = "respond-async"
"""The preference, as the header `Prefer` names it."""
RETRY_SECONDS = 1
"""Seconds after which a client looks again for the turn."""
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_NO_MOMENT = "give a date and time with an offset, such as 2026-11-27T18:00:00+01:00"
_DOTS = (".", "..")
"""Ids that are no part of an address: clients take them for folders."""


def _moment(given: object) -> object:
    """Read a date and time. Raises ValueError: numbers are refused, because they name no unit."""
    if given is None:
        return None
    text = given if isinstance(given, str) else ""
    try:
        return datetime.fromisoformat(text.upper())  # RFC 3339 allows a small `t` and `z`
    except ValueError:
        raise ValueError(_NO_MOMENT) from None


NotBefore = Annotated[
    AwareDatetime | None,
    BeforeValidator(_moment),
    Field(default=None, description=f"The earliest time of the turn; only with `Prefer: {ASYNC}`."),
]


def is_async(prefer: Iterable[str]) -> bool:
    """Return true if the client asks for an answer before the turn.

    Args:
        prefer: The values of its `Prefer` headers.

    Example:
        >>> is_async(["wait=10, Respond-Async"])
        True
    """
    parts = _QUOTED.sub("", ",".join(prefer)).split(",")
    names = (part.partition(";")[0].partition("=")[0].strip().lower() for part in parts)
    return ASYNC in names


def checked_id(request_id: str | None) -> str:
    """Return the id of a message to accept. Raises Problem 400 if its address cannot have it."""
    if request_id is None:
        raise Problem(
            "bad-request",
            f"with Prefer: {ASYNC}, send an Idempotency-Key: the address of the message has it",
        )
    if request_id in _DOTS:
        detail = "an address cannot have this Idempotency-Key; send another one"
        raise Problem("bad-request", detail)
    return request_id


def refuse_time(not_before: datetime | None) -> None:
    """Refuse a time for a message that is answered at once. Raises Problem 422."""
    if not_before is None:
        return
    detail = (
        f"a message waits only with Prefer: {ASYNC}, and without a stream; send it so, or without "
        "not_before"
    )
    place = {"pointer": "/not_before", "in": "body", "detail": "nothing waits for it"}
    raise Problem("invalid", detail, extra={"errors": [place]})


async def accept(
    served: Served, said: str | Choice, request_id: str, not_before: datetime | None
) -> bool:
    """Keep a message for a worker, and return true if it is answered already.

    Raises:
        Problem: The caller may not send messages (403), the message was cancelled (409), or the
            conversation is over (410).
        ConversationConflict: The id belongs to another message.
        ValueError: The message is empty.
        StoreError: The store failed.
    """
    served.check("talk", "send messages")
    store, name = served.store, served.machine.definition.name
    if served.chat.ended:
        loaded = await store.load(served.stored, request_id)
        if loaded is None or loaded.recorded is None:
            raise Problem("ended", "this conversation has ended; begin a new one")
    try:
        kept = await submit(name, served.stored, said, request_id, not_before, store=store)
    except MessageCancelled as error:
        raise _cancelled() from error
    return kept.state == "answered"


async def turn_of(served: Served, request_id: str) -> Turn | None:
    """Return the turn of a message; None while it waits.

    Raises:
        Problem: There is no such message (404), or it was cancelled (409).
        ConversationConflict: Its conversation could not take it, or its turn is parked.
        StoreError: The store failed.
    """
    try:
        return await result(served.stored, request_id, 0, store=served.store)
    except TimeoutError:
        return None
    except MessageCancelled as error:
        raise _cancelled() from error
    except ConversationNotFound as error:
        raise _unknown() from error


async def withdraw(served: Served, request_id: str) -> None:
    """Cancel a message whose turn has not begun.

    Raises:
        Problem: The caller may not send messages (403), there is no such message (404), or its turn
            has begun or is over (409).
        StoreError: The store failed.
    """
    served.check("talk", "cancel a message")
    try:
        is_cancelled = await cancel(served.stored, request_id, store=served.store)
    except ConversationNotFound as error:
        raise _unknown() from error
    if not is_cancelled:
        raise Problem("conflict", "the turn of this message has begun or is over; read it here")


def _cancelled() -> Problem:
    return Problem("cancelled", "this message was cancelled; send it with a new Idempotency-Key")


def _unknown() -> Problem:
    detail = "this conversation has no message of this id: it was never accepted, or was deleted"
    return Problem("not-found", detail)
