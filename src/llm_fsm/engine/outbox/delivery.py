"""One event on its way to a sink."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm_fsm._json import JsonMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event for a sink.

    Attributes:
        key: The idempotency key, made of conversation, record and index. It is the same if the
            event is delivered again.
        conversation_id: Id of the conversation.
        record: The number of the record in the conversation, from 1.
        index: The number of the event in the record, from 0.
        definition: The name of the machine's definition.
        kind: The kind of turn.
        state: Id of the state after the turn.
        event: The event as in turn records, {"type": …, …}. Dots replace values of secret keys.
    """

    key: str
    conversation_id: str
    record: int
    index: int
    definition: str
    kind: str
    state: str
    event: JsonMap = field(default_factory=dict)
