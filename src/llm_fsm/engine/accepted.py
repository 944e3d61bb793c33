"""Messages that were accepted for a conversation, and that a worker answers without a caller.

The store keeps them in order of acceptance until their turns are committed. The commit has the
request id of the message, so a message that is still kept after it is dropped, and not answered
again. The first of two marks wins: a message that has begun cannot be cancelled, and one that is
cancelled never begins.
"""

from __future__ import annotations

import json

from llm_fsm._json import JsonDict, in_unicode, without
from llm_fsm.engine.validation import checked_message
from llm_fsm.stores.base import (
    BEGUN_MESSAGE,
    REFUSED_MESSAGE,
    WAITING,
    AcceptedMessage,
    AcceptedQuery,
    Store,
)
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.pipeline import UserMessage

_MOST = 1000
"""Messages of one conversation that are read at a time."""


def message_text(message: str | Choice, at: float) -> str:
    """Write a message as a store keeps it.

    Args:
        message: The message, or a choice.
        at: The time of acceptance, in seconds since the epoch.

    Returns:
        JSON text.

    Raises:
        ValueError: The message is empty or too long.
    """
    if isinstance(message, Choice):
        text = checked_message(message.label)
        return in_unicode({"text": text, "at": at, "picked": True, "question": message.question})
    return in_unicode({"text": checked_message(message), "at": at})


def accepted_at(message: AcceptedMessage) -> float:
    """Return the time of acceptance, in seconds since the epoch."""
    return float(json.loads(message.text)["at"])


def is_same_message(one: str, other: str) -> bool:
    """Return true if two texts of `message_text` hold the same message, whenever it was accepted."""
    return _said(one) == _said(other)


def _said(text: str) -> JsonDict:
    # Who sends a message again does so later, and it is the same message.
    return without(json.loads(text), {"at"})


def user_message(message: AcceptedMessage, time: float) -> UserMessage:
    """Return the trigger of an accepted message.

    Args:
        message: The message.
        time: The time at which it is played, in seconds since the epoch.
    """
    said = _said(message.text)
    return UserMessage(
        text=said["text"],
        time=time,
        request_id=message.request_id,
        picked=said.get("picked", False),
        question=said.get("question", ""),
        sent=accepted_at(message),
    )


async def next_accepted(store: Store, conversation_id: str, now: float) -> AcceptedMessage | None:
    """Return the message of a conversation that is to be answered next; None if none is due.

    That is one which has begun already, else the first in order of acceptance.
    """
    query = AcceptedQuery(now=now, limit=_MOST, conversation_id=conversation_id)
    # One of them may be cancelled meanwhile, which `claim` finds out.
    due = await store.accepted(query)
    return min(due, key=_begun_first, default=None)


def _begun_first(message: AcceptedMessage) -> tuple[bool, int]:
    return message.state != BEGUN_MESSAGE, message.place


async def claim(store: Store, message: AcceptedMessage) -> bool:
    """Mark a message as begun; return false if it was cancelled or removed."""
    name, request_id = message.conversation_id, message.request_id
    # The store compares and marks in one step: a caller may cancel at the same time.
    state = await store.mark_accepted(name, request_id, BEGUN_MESSAGE, [WAITING])
    return state == BEGUN_MESSAGE


async def refuse(store: Store, message: AcceptedMessage, why: str) -> None:
    """Mark a message as one that its conversation cannot take."""
    state = f"{REFUSED_MESSAGE}: {why}"
    name, request_id = message.conversation_id, message.request_id
    await store.mark_accepted(name, request_id, state, [WAITING, BEGUN_MESSAGE])
