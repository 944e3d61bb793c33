"""Idempotency: a request id that was answered already gets the recorded turn, never a new one."""

from __future__ import annotations

from llm_fsm.engine.turn_runner import Outcome
from llm_fsm.errors import ConversationConflict
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, parse, replay
from llm_fsm.stores.base import Store
from llm_fsm.turn.output_mapping import agrees
from llm_fsm.turn.pipeline import UserMessage


async def message_again(store: Store, session: Session, heard: UserMessage, recorded: str) -> Outcome:
    """Return the turn that answered a message.

    Raises:
        ConversationConflict: The request id belongs to another message.
    """
    record = parse(recorded)
    before = record.user_message
    if before is None or before.text != heard.text:
        what = "an answer" if before is None else "another message"
        raise ConversationConflict(
            f"request id {heard.request_id!r} was already used for {what}; use a new id for each message"
        )
    return await _given(store, session, record)


async def answer_again(store: Store, session: Session, value: object, recorded: str) -> Outcome:
    """Return the turn that an answer led to.

    Raises:
        ConversationConflict: The request id belongs to another answer.
    """
    record = parse(recorded)
    given = next((event for event in record.events if isinstance(event, ev.Answered)), None)
    if given is None or not agrees(given.value, value):
        raise ConversationConflict(
            "this request id was already used for something else; use a new id for each answer"
        )
    return await _given(store, session, record)


async def _given(store: Store, session: Session, record: TurnRecord) -> Outcome:
    """Return a recorded turn with the session after it."""
    records = [parse(text) for text in await store.records(session.conversation_id)]
    number = next((n for n, item in enumerate(records, 1) if item == record), len(records))
    if number < len(records):
        session = replay(session.conversation_id, records[:number])
    return Outcome(record=record, session=session, again=True)
