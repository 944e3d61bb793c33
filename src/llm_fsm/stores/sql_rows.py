"""The requests that SQLite and PostgreSQL serve alike, on the same tables.

A method of `SqlRows` is a generator. It yields a statement with its values, and is sent the rows of
the answer. So each store performs the statements in its own way, in a thread or in an event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import msgspec

from llm_fsm._json import JsonDict
from llm_fsm.stores.base import (
    AcceptedMessage,
    AcceptedQuery,
    DueRow,
    Listed,
    ListQuery,
    OutboxQuery,
    Posted,
)
from llm_fsm.stores.listing_sql import Dialect, Where, counting, listing

T = TypeVar("T")
Statement = tuple[str, JsonDict]
Work = Generator[Statement, Sequence[Any], T]
"""Statements, one after the other, and what they found."""

_MESSAGE = "conversation, request_id, definition, text, due, place, state"
_ONE = "conversation = {name} AND request_id = {request_id}"
_ALL = 2**31 - 1
"""The limit of a query that has none."""


class SqlRows:
    """The requests, in the words of a database."""

    dialect: Dialect

    def _bound(self, text: str, /, **values: Any) -> Statement:
        """Return a statement, with the placeholders of the database for names in braces."""
        marks = {name: self.dialect.mark(name) for name in values}
        return text.format_map(marks), values

    def definition(self, sha: str) -> Work[str | None]:
        rows = yield self._bound("SELECT text FROM definitions WHERE sha = {sha}", sha=sha)
        return rows[0][0] if rows else None

    def records(self, name: str, after: int, limit: int | None) -> Work[Sequence[str]]:
        query = """SELECT record FROM records WHERE conversation = {name} AND number > {after}
            ORDER BY number LIMIT {limit}"""
        most = _ALL if limit is None else max(limit, 0)
        rows = yield self._bound(query, name=name, after=after, limit=most)
        return tuple(record for (record,) in rows)

    def accept(self, message: AcceptedMessage) -> Work[AcceptedMessage]:
        insert = f"""INSERT INTO accepted (conversation, request_id, definition, text, due, state)
            VALUES ({{conversation_id}}, {{request_id}}, {{definition}}, {{text}}, {{due}}, 'waiting')
            ON CONFLICT DO NOTHING {self.dialect.told}"""
        # Inserted first, then read: of two callers, both read the message that was accepted.
        yield self._bound(insert, **asdict(message))
        query = f"SELECT {_MESSAGE} FROM accepted WHERE {_ONE}"
        name, request_id = message.conversation_id, message.request_id
        rows = yield self._bound(query, name=name, request_id=request_id)
        # Without a row, another caller has removed the message just now.
        return AcceptedMessage.of_row(rows[0]) if rows else message

    def accepted(self, query: AcceptedQuery) -> Work[Sequence[AcceptedMessage]]:
        where = Where(self.dialect)
        where.given("due <= {}", "now", query.now)
        where.given("definition = {}", "definition", query.definition)
        where.given("conversation = {}", "conversation", query.conversation_id)
        if not query.closed:
            where.add("state IN ('waiting', 'begun')")  # the condition of the index
        found = f"SELECT {_MESSAGE} FROM accepted"
        rows = yield where.statement(found, "due, place", query.limit)
        return tuple(map(AcceptedMessage.of_row, rows))

    def mark_accepted(
        self, name: str, request_id: str, state: str, before: Collection[str]
    ) -> Work[str | None]:
        among = self.dialect.among.format(value="state", mark="{before}")
        change = f"UPDATE accepted SET state = {{state}} WHERE {_ONE} AND {among}"
        known = self.dialect.several([*before])
        # Change first, then read: the caller learns the state even if the change did not apply.
        yield self._bound(change, name=name, request_id=request_id, state=state, before=known)
        query = f"SELECT state FROM accepted WHERE {_ONE}"
        rows = yield self._bound(query, name=name, request_id=request_id)
        return rows[0][0] if rows else None

    def drop_accepted(self, name: str, request_id: str) -> Work[None]:
        delete = f"DELETE FROM accepted WHERE {_ONE}"
        yield self._bound(delete, name=name, request_id=request_id)

    def listed(self, query: ListQuery) -> Work[Sequence[Listed]]:
        rows = yield listing(query, self.dialect)
        return tuple(
            Listed(
                name, of, state, bool(ended), turns, began, updated, sha, _labels(labels), paused
            )
            for name, of, state, ended, turns, began, updated, sha, paused, labels in rows
        )

    def counted(self, query: ListQuery) -> Work[int]:
        rows = yield counting(query, self.dialect)
        return int(rows[0][0])

    def due(self, now: float, limit: int, definition: str | None) -> Work[Sequence[DueRow]]:
        where = Where(self.dialect)
        where.given("time <= {}", "now", now)
        where.given("definition = {}", "definition", definition)
        found = f"SELECT conversation, time, kind FROM due {self.dialect.beside}"
        rows = yield where.statement(found, "time, conversation, kind", limit)
        return tuple(DueRow(*row) for row in rows)

    def outbox(self, query: OutboxQuery) -> Work[Sequence[Posted]]:
        where = Where(self.dialect)
        where.given("sink = {}", "sink", query.sink)
        where.given("conversation = {}", "conversation", query.conversation_id)
        where.given("conversation > {}", "after", query.after)
        where.given("definition = {}", "definition", query.definition)
        found = (
            f"SELECT conversation, number, place, sink, key, text FROM outbox {self.dialect.beside}"
        )
        rows = yield where.statement(found, "conversation, number, place", query.limit)
        return tuple(Posted(*row) for row in rows)

    def acknowledge(self, posted: Posted) -> Work[None]:
        delete = """DELETE FROM outbox WHERE conversation = {conversation_id} AND sink = {sink}
            AND (number, place) <= ({number}, {index})"""
        yield self._bound(delete, **asdict(posted))


def _labels(stored: Any) -> dict[str, str]:
    """Return the labels of a conversation, which a database gives as JSON text or as an object."""
    if isinstance(stored, str):
        stored = msgspec.json.decode(stored)
    return stored or {}
