"""Submitted messages: accepted durably now, answered by a worker, and read when they are done.

A process that submits needs only the store of the workers. It needs neither the definition nor a
model, and may end at once. `llm-fsm worker` and `llm-fsm serve` answer what was accepted.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.models import Definition
from llm_fsm.engine.accepted import accepted_at, is_same_message, message_text
from llm_fsm.engine.conversation import Turn, turn_of
from llm_fsm.engine.idempotency import turn_on_record
from llm_fsm.engine.journal import TurnParked
from llm_fsm.errors import ConversationConflict, ConversationNotFound
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import (
    CANCELLED_MESSAGE,
    PARKED,
    REFUSED_MESSAGE,
    WAITING,
    AcceptedMessage,
    AcceptedQuery,
    ListQuery,
    Store,
    checked_id,
    storable,
)
from llm_fsm.turn.choices import Choice

AT_ONCE = 0.0
"""The due time of a message that waits for none, so that no clock of another host delays it."""
_MOST = 1000
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
"""Seconds between two looks for a result. They double."""


class MessageCancelled(ConversationConflict):
    """The message was cancelled before its turn began."""


class MessageRefused(ConversationConflict):
    """The conversation could not take the message, for example because it was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A message that was accepted.

    Attributes:
        conversation_id: The conversation.
        request_id: The id of the message.
        state: "waiting", "begun" or "answered".
    """

    conversation_id: str
    request_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Work without a caller that a store holds.

    Attributes:
        waiting: Accepted messages that may be answered now, and are not; at most 1,000 are counted.
        scheduled: Accepted messages whose time has not come, counted alike.
        unfinished: Turns that were interrupted, and that a worker may take up; counted alike.
        parked: Turns that ended too many processes, and wait for a person; counted alike.
        oldest: Seconds for which the oldest waiting message has waited; None: none waits.
    """

    waiting: int
    scheduled: int
    unfinished: int
    parked: int
    oldest: float | None


async def submit(
    definition: str | Definition,
    conversation: str,
    text: str | Choice,
    request_id: str,
    not_before: datetime | float | None = None,
    *,
    store: Store,
) -> Submission:
    """Accept a message for a worker, and return as soon as it is on disk.

    A worker with the definition answers the messages of a conversation in order of acceptance. If
    the conversation does not exist yet, it begins without a greeting. The same call may be
    repeated.

    Args:
        definition: The definition, or its name.
        conversation: The id of the conversation.
        text: The message, or a choice of the turn before.
        request_id: Your id of the message, 1 to 200 characters.
        not_before: The earliest time of its turn: a datetime with a time zone, or seconds since the
            epoch; None: at once.
        store: The store of the workers.

    Returns:
        The accepted message.

    Raises:
        ValueError: An id, the text or the time is wrong.
        ConversationConflict: The request id belongs to another message or a cancelled one, or the
            conversation to another definition.
        StoreError: The store failed.

    Example:
        >>> import asyncio
        >>> from llm_fsm.durable import submit
        >>> from llm_fsm.stores.memory import MemoryStore
        >>> store = MemoryStore()
        >>> asyncio.run(submit("order", "visit-1", "a large pizza", "m1", store=store)).state
        'waiting'
    """
    name = storable(definition.name if isinstance(definition, Definition) else definition)
    _check_ids(conversation, request_id)
    due = AT_ONCE if not_before is None else _seconds(not_before)
    written = message_text(text, time.time())
    loaded = await store.load(conversation, request_id)
    if loaded is not None:
        await _check_definition(store, conversation, name)
        if loaded.recorded is not None:
            _check_answered(loaded.recorded, request_id, written)
            return _submission(conversation, request_id, "answered")
    message = AcceptedMessage(
        conversation_id=conversation, request_id=request_id, definition=name, text=written, due=due
    )
    kept = await store.accept(message)
    if not is_same_message(kept.text, written):
        raise _used(request_id)
    if not kept.is_open:
        raise _closed(kept)
    return _submission(conversation, request_id, kept.state)


async def result(
    conversation: str, request_id: str, timeout: float | None = None, *, store: Store
) -> Turn:
    """Wait until a message is answered, and return its turn.

    Args:
        conversation: The id of the conversation.
        request_id: The id of the message.
        timeout: Seconds to wait; 0 looks once; None: for ever.
        store: The store of the workers.

    Returns:
        The turn.

    Raises:
        TimeoutError: The message is not answered yet.
        MessageCancelled: It was cancelled.
        MessageRefused: Its conversation could not take it.
        TurnParked: Its turn ended too many processes.
        ConversationNotFound: There is no such message: it was never accepted, or its conversation
            was deleted.
        StoreError: The store failed.
    """
    _check_ids(conversation, request_id)
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while True:
        turn = await _answer(store, conversation, request_id)
        if turn is not None:
            return turn
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"message {request_id!r} of conversation {conversation!r} is not answered yet. Ask "
                "again, and see that a worker with its definition runs on this store"
            )
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


async def cancel(conversation: str, request_id: str, *, store: Store) -> bool:
    """Cancel a message whose turn has not begun.

    Args:
        conversation: The id of the conversation.
        request_id: The id of the message.
        store: The store of the workers.

    Returns:
        True if it is cancelled, and will never be answered. False if its turn has begun, or is
        over.

    Raises:
        ConversationNotFound: There is no such message.
        StoreError: The store failed.
    """
    _check_ids(conversation, request_id)
    state = await store.mark_accepted(conversation, request_id, CANCELLED_MESSAGE, [WAITING])
    if state is not None:
        return state == CANCELLED_MESSAGE
    loaded = await store.load(conversation, request_id)
    if loaded is None or loaded.recorded is None:
        raise _unknown(conversation, request_id)
    return False


async def health(*, store: Store, definition: str | Definition | None = None) -> Health:
    """Count the work without a caller that a store holds.

    Args:
        store: The store of the workers.
        definition: Only work of this definition; None: all.

    Returns:
        The counts.

    Raises:
        StoreError: The store failed.
    """
    name = definition.name if isinstance(definition, Definition) else definition
    named = None if name is None else storable(name)
    names = None if named is None else [named]
    now = time.time()
    messages = await store.accepted(AcceptedQuery(limit=_MOST, definition=named))
    due = [message for message in messages if message.due <= now]
    since = [max(accepted_at(message), message.due) for message in due]
    return Health(
        waiting=len(due),
        scheduled=len(messages) - len(due),
        unfinished=len(await store.unfinished(_MOST, names)),
        parked=len(await store.unfinished(_MOST, names, parked=True)),
        oldest=max((now - at for at in since), default=None),
    )


# -- helpers


async def _answer(store: Store, conversation: str, request_id: str) -> Turn | None:
    """Return the turn of a message; None if it is still to be answered."""
    turn = await _turn(store, conversation, request_id)
    if turn is not None:
        return turn
    kept = await _kept(store, conversation, request_id)
    if kept is not None and not kept.is_open:
        raise _closed(kept)
    is_durable, is_parked = await _journal(store, conversation, request_id)
    if is_parked:
        raise TurnParked(
            f"message {request_id!r} of conversation {conversation!r} is parked, because its "
            "turn ended too many processes. See to the cause, then run: llm-fsm conversations retry"
        )
    if kept is not None or is_durable:
        return None
    # Between the two looks it may have been answered, and then it is kept no longer.
    turn = await _turn(store, conversation, request_id)
    if turn is None:
        raise _unknown(conversation, request_id)
    return turn


async def _turn(store: Store, conversation: str, request_id: str) -> Turn | None:
    loaded = await store.load(conversation, request_id)
    if loaded is None or loaded.recorded is None:
        return None
    session, _ = await SessionReader(store).read(conversation, loaded.session)
    return turn_of(await turn_on_record(store, session, parse(loaded.recorded)))


async def _kept(store: Store, conversation: str, request_id: str) -> AcceptedMessage | None:
    query = AcceptedQuery(conversation_id=conversation, limit=_MOST, closed=True)
    messages: Sequence[AcceptedMessage] = await store.accepted(query)
    return next((one for one in messages if one.request_id == request_id), None)


async def _journal(store: Store, conversation: str, request_id: str) -> tuple[bool, bool]:
    """Return if the journal is that of the message, and if it is parked."""
    entries = await journal_entries(store, conversation)
    if not entries or entries[0].get("request_id") != request_id:
        return False, False
    return True, entries[-1].get("kind") == PARKED


async def _check_definition(store: Store, conversation: str, name: str) -> None:
    for line in await store.list(ListQuery(ids=frozenset({conversation}), limit=1)):
        if line.definition != name:
            raise ConversationConflict(
                f"conversation {conversation!r} belongs to the definition {line.definition!r}, not "
                f"to {name!r}; submit the message for that definition"
            )


def _check_answered(recorded: str, request_id: str, written: str) -> None:
    said = parse(recorded).user_message
    if said is None:
        raise _used(request_id)
    texts = [text for key, text in said.merged if key == request_id] or [said.text]
    if json.loads(written)["text"] not in texts:
        raise _used(request_id)


def _check_ids(conversation: str, request_id: str) -> None:
    checked_id(conversation, "conversation id")
    checked_id(request_id, "request id")


def _seconds(moment: datetime | float) -> float:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("not_before has no time zone; give one, such as timezone.utc")
        return moment.timestamp()
    if not is_number(moment) or not math.isfinite(moment):
        raise ValueError(
            "not_before is a datetime with a time zone, or seconds since the epoch, "
            f"not {moment!r:.80}"
        )
    return float(moment)


def _submission(conversation: str, request_id: str, state: str) -> Submission:
    return Submission(conversation_id=conversation, request_id=request_id, state=state)


def _used(request_id: str) -> ConversationConflict:
    return ConversationConflict(
        f"request id {request_id!r} was already used for another message; use a new id for each "
        "message"
    )


def _closed(message: AcceptedMessage) -> ConversationConflict:
    """Return the error of a message that will never be answered."""
    named = f"message {message.request_id!r} of conversation {message.conversation_id!r}"
    if message.state == CANCELLED_MESSAGE:
        return MessageCancelled(f"{named} was cancelled; submit it with a new request id")
    why = message.state.removeprefix(f"{REFUSED_MESSAGE}: ")
    return MessageRefused(f"{named} was refused: {why}")


def _unknown(conversation: str, request_id: str) -> ConversationNotFound:
    return ConversationNotFound(
        f"there is no message {request_id!r} of conversation {conversation!r}: it was never "
        "accepted, or its conversation was deleted"
    )
