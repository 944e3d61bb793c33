"""Idempotency: a request id that was answered already gets the recorded turn, never a new one."""

from __future__ import annotations

from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.errors import ConversationConflict
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, parse, replay
from llm_fsm.stores.base import Store
from llm_fsm.turn.output_mapping import agrees
from llm_fsm.turn.pipeline import Update, UserMessage


async def merged_record(store: Store, conversation_id: str, request_id: str | None) -> str | None:
    """Find the record of a turn that answered a request id together with others.

    The store indexes only one request id of a turn, so this searches all records.
    """
    if request_id is None:
        return None
    for text in reversed(await store.records(conversation_id)):
        said = parse(text).user_message if '"merged"' in text else None
        if said is not None and any(request_id == merged for merged, _ in said.merged):
            return text
    return None


async def answered_before(store: Store, conversation_id: str, request_id: str | None) -> bool:
    """Return true if the request id is known, so that its message need not wait for others."""
    if request_id is None:
        return False
    loaded = await store.load(conversation_id, request_id)
    known = loaded is not None and loaded.recorded is not None
    return known or await merged_record(store, conversation_id, request_id) is not None


async def message_again(store: Store, session: Session, message: UserMessage, recorded: str) -> TurnResult:
    """Return the turn that answered a message.

    Raises:
        ConversationConflict: The request id belongs to another message.
    """
    record = parse(recorded)
    before = record.user_message
    said = () if before is None else before.merged or ((message.request_id, before.text),)
    if (message.request_id, message.text) not in said:
        what = "an answer" if before is None else "another message"
        raise ConversationConflict(
            f"request id {message.request_id!r} was already used for {what}; use a new id for each message"
        )
    return await _given(store, session, record)


async def answer_again(store: Store, session: Session, value: object, recorded: str) -> TurnResult:
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


async def update_again(store: Store, session: Session, given: Update, recorded: str) -> TurnResult:
    """Return the turn of an update.

    Raises:
        ConversationConflict: The request id belongs to something else.
    """
    record = parse(recorded)
    before = next((event for event in record.events if isinstance(event, ev.Updated)), None)
    said = record.text if given.text is not None else None
    same = before is not None and (before.values, before.state) == (given.context, given.state) and said == given.text
    if not same:
        raise ConversationConflict(
            "this request id was already used for something else; use a new id for each update"
        )
    return await _given(store, session, record)


async def _given(store: Store, session: Session, record: TurnRecord) -> TurnResult:
    """Return a recorded turn with the session after it."""
    records = [parse(text) for text in await store.records(session.conversation_id)]
    number = next((n for n, item in enumerate(records, 1) if item == record), len(records))
    if number < len(records):
        session = replay(session.conversation_id, records[:number])
    return TurnResult(record=record, session=session, again=True)
