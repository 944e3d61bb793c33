"""Idempotency: a request id that was answered already gets the recorded turn, never a new one."""

from __future__ import annotations

from collections.abc import Mapping

from llm_fsm._json import of_kind
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.errors import ConversationConflict
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, parse, replay
from llm_fsm.stores.base import Store
from llm_fsm.turn.output_mapping import agrees
from llm_fsm.turn.pipeline import Answer, Update, UserMessage

Requested = UserMessage | Answer | Update
"""The requests that may have an id."""
_NOUNS: Mapping[type[Requested], str] = {UserMessage: "message", Answer: "answer", Update: "update"}
_ONE = {"message": "a message", "answer": "an answer", "update": "an update"}


async def answered_before(store: Store, conversation_id: str, request_id: str | None) -> bool:
    """Return true if the request id is known, so that its message need not wait for others."""
    if request_id is None:
        return False
    loaded = await store.load(conversation_id, request_id)
    return loaded is not None and loaded.recorded is not None


async def turn_again(
    store: Store, session: Session, trigger: Requested, recorded: str
) -> TurnResult:
    """Return the recorded turn of a request id, with the session after it.

    Args:
        store: The store of the conversation.
        session: The conversation as it is now.
        trigger: The message, answer or update that came with the request id.
        recorded: The record that the store has for the request id.

    Raises:
        ConversationConflict: The request id belongs to something else.
    """
    record = parse(recorded)
    if not _is_turn_of(record, trigger):
        noun = _NOUNS[type(trigger)]
        used = f"another {noun}" if record.kind == noun else _ONE[record.kind]
        raise ConversationConflict(
            f"request id {trigger.request_id!r} was already used for {used}; use a new id for "
            f"each {noun}"
        )
    return await turn_on_record(store, session, record)


async def turn_on_record(store: Store, session: Session, record: TurnRecord) -> TurnResult:
    """Return a turn that is on record, with the session after it.

    Args:
        store: The store of the conversation.
        session: The conversation as it is now.
        record: The record of the turn.
    """
    records = [parse(text) for text in await store.records(session.conversation_id)]
    # Found by content: the store gives the record without its number.
    number = next((n for n, item in enumerate(records, 1) if item == record), len(records))
    # The caller sees the conversation as it was after that turn.
    if number < len(records):
        session = replay(session.conversation_id, records[:number])
    return TurnResult(record=record, session=session, again=True)


def _is_turn_of(record: TurnRecord, trigger: Requested) -> bool:
    """Return true if a turn answered the same message, or took the same answer or update."""
    match trigger:
        case UserMessage():
            before = record.user_message
            # A merged message has its own part, and the request id belongs to that part.
            said = () if before is None else before.merged or ((trigger.request_id, before.text),)
            return (trigger.request_id, trigger.text) in said
        case Answer():
            answers = of_kind(record.events, ev.Answered)
            return any(agrees(event.value, trigger.value) for event in answers)
        case Update():
            wanted = (trigger.context, trigger.state)
            updates = of_kind(record.events, ev.Updated)
            same = any((event.values, event.state) == wanted for event in updates)
            is_said = (record.text, record.by) == (trigger.text, trigger.by)
            return same and (trigger.text is None or is_said)
