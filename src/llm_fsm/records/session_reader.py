"""Read stored sessions, with the large values that stand in their turn records."""

from __future__ import annotations

from typing import Any

from llm_fsm._json import text_of, value_at, value_of
from llm_fsm.errors import UnreadableError
from llm_fsm.session.large_values import Located, digest, with_large
from llm_fsm.session.session import Reference, Session, parse_stored_session
from llm_fsm.stores.base import Store

_KEPT = 16_000_000
"""Characters of JSON text. A value of a megabyte takes longer to parse than the rest of a turn."""


class SessionReader:
    """Reads sessions of one store. It keeps the large values that it read last; a value on record
    never changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, tuple[Any, int]] = {}

    async def read(self, conversation_id: str, text: str) -> tuple[Session, tuple[Located, ...]]:
        """Read a stored session.

        Args:
            conversation_id: The conversation.
            text: The session document, as the store gave it.

        Returns:
            The whole session, and its large values with the places where they are on record.

        Raises:
            UnreadableError: This version cannot read it, or a record does not hold its value.
        """
        session, large = parse_stored_session(text)
        if not large:
            return session, ()
        records: dict[int, Any] = {}
        values = {
            place: await self._value(conversation_id, found, records)
            for place, found in large.items()
        }
        return with_large(session, values), tuple(
            Located(values[place], found) for place, found in large.items()
        )

    async def _value(
        self, conversation_id: str, reference: Reference, records: dict[int, Any]
    ) -> Any:
        sha = reference.sha256
        if sha not in self._kept:
            number = reference.record
            if number not in records:
                texts = await self._store.records(conversation_id, after=number - 1, limit=1)
                records[number] = value_of(texts[0]) if texts else None
            value = value_at(records[number], reference.pointer)
            text = text_of(value)
            if digest(text) != sha:
                raise UnreadableError(
                    f"a stored conversation cannot be read: record {number} does not hold the "
                    f"value that its session refers to, at {reference.pointer}. "
                    "Restore the store from a backup"
                )
            self._kept[sha] = value, len(text)
            while sum(size for _, size in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.pop(next(iter(self._kept)))
        return self._kept[sha][0]
