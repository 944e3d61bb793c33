"""The statements of the SQLite store.

`load` and `save` serve the requests of many conversations in a few statements. Each statement makes
the thread wait for the interpreter, for milliseconds if the event loop is busy. All other methods
serve one request. Values are bound, never written into the statement. A statement that asks takes
its rows as JSON. A statement that writes takes a number of rows that is a power of two, so few
statements exist.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from llm_fsm.stores.base import (
    AcceptedMessage,
    AcceptedQuery,
    Commit,
    DueRow,
    JournalQuery,
    Listed,
    ListQuery,
    Loaded,
    LoadedWithJournal,
    OutboxQuery,
    Posted,
)
from llm_fsm.stores.batching import rounds
from llm_fsm.stores.errors import answered_already, step_exists, unknown_definition, wrong_version
from llm_fsm.stores.listing_sql import Dialect, counting, listing

_MOST = 64
"""The most rows in one statement. SQLite before 3.32 takes 999 values."""

_LOAD = """WITH asked AS (
        SELECT key AS place, json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS request
        FROM json_each(?))
    SELECT json_group_array(json_array(
        asked.place, c.session, c.version, r.record, c.definition_sha,
        EXISTS (SELECT 1 FROM journal WHERE journal.conversation = asked.id AND step = 0)))
    FROM asked JOIN conversations c ON c.id = asked.id
    LEFT JOIN inbox i ON i.conversation = c.id AND i.request_id = asked.request
    LEFT JOIN records r ON r.conversation = c.id AND r.number = i.number"""
_FOUND = """WITH asked AS (
        SELECT key AS place, value, json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS sha
        FROM json_each(?))
    SELECT json_group_array(json_array(asked.place, coalesce(c.version, 0),
    EXISTS (SELECT 1 FROM inbox i JOIN json_each(asked.value, '$[3]') request ON i.request_id = request.value
        WHERE i.conversation = asked.id),
    c.definition_sha IS asked.sha,
    (c.definition, c.state, c.ended, c.paused) IS (json_extract(asked.value, '$[4]'),
        json_extract(asked.value, '$[5]'), json_extract(asked.value, '$[6]'), json_extract(asked.value, '$[7]')),
    asked.sha IS NULL OR json_extract(asked.value, '$[2]')
        OR EXISTS (SELECT 1 FROM definitions d WHERE d.sha = asked.sha),
    EXISTS (SELECT 1 FROM due WHERE due.conversation = asked.id),
    EXISTS (SELECT 1 FROM journal WHERE journal.conversation = asked.id)))
    FROM asked LEFT JOIN conversations c ON c.id = asked.id"""
_row = attrgetter(
    *(
        "conversation_id",
        "number",
        "session",
        "definition",
        "state",
        "ended",
        "time",
        "definition_sha",
        "began",
    ),
    "paused",
)
"""The row of a commit, in the order of `_WRITE`."""
_WRITE = """INSERT INTO conversations
    (id, version, session, definition, state, ended, updated, definition_sha, created, paused)"""
_DIALECT = Dialect(
    mark=":{}".format,
    ended=(0, 1),
    unindexed="+",
    among="{value} IN (SELECT value FROM json_each({mark}))",
    several=lambda texts: msgspec.json.encode(texts).decode(),
    labels="(SELECT json_group_object(l.key, l.value) FROM labels l WHERE l.conversation = c.id)",
)
_EACH_TURN = ("version", "session", "updated")
_LISTED = ("definition", "state", "ended", "paused")
_PINNED = ("definition_sha",)
"""The columns that a commit replaces.

A column with an index costs a page of each of its indexes, even if the value is the same. So
`_LISTED` and `_PINNED` are replaced only if they change.
"""
_POSTED = """SELECT conversation, number, place, sink, key, text
    FROM outbox CROSS JOIN conversations ON id = conversation"""
_DUE = "SELECT conversation, time, kind FROM due CROSS JOIN conversations ON id = conversation"
"""A cross join keeps its order. Otherwise SQLite might go through all conversations of a
definition.
"""
_DROP_UNUSED = """DELETE FROM definitions WHERE NOT EXISTS
    (SELECT 1 FROM conversations WHERE definition_sha = definitions.sha)"""

_JOURNALS = """WITH RECURSIVE names (id) AS (
        SELECT min(conversation) FROM journal WHERE conversation > ?
        UNION ALL
        SELECT (SELECT min(conversation) FROM journal WHERE conversation > names.id) FROM names WHERE id IS NOT NULL)
    SELECT names.id, first.text,
        (SELECT text FROM journal WHERE conversation = names.id ORDER BY step DESC LIMIT 1)
    FROM names CROSS JOIN journal first ON first.conversation = names.id AND first.step = 0"""
"""It jumps from one journal to the next, so it needs no index beside the table's own, which every
turn would write.
"""

_ACCEPTED = "SELECT conversation, request_id, definition, text, due, place, state FROM accepted"

Row = tuple[Any, ...]


class _Found(NamedTuple):
    """The stored state of a conversation before a commit."""

    version: int
    answered: bool
    """A request id of the commit is answered already."""
    pinned: bool
    """The conversation is pinned to the definition of the commit."""
    listed: bool
    """Filters of lists find the same of the conversation after the commit."""
    defined: bool
    """The definition of the commit is stored."""
    is_due: bool
    has_journal: bool


def each(works: Sequence[Callable[[SqliteRows], Any]], db: sqlite3.Connection) -> Sequence[Any]:
    """Serve requests one by one."""
    return [work(SqliteRows(db)) for work in works]


def load(
    asked: Sequence[tuple[str, str | None]], db: sqlite3.Connection
) -> Sequence[Loaded | None]:
    """See `Store.load`, for pairs of a conversation id and a request id."""
    found: dict[int, Loaded] = {}
    for place, session, version, recorded, sha, has_journal in _answers(db, _LOAD, asked):
        kind = LoadedWithJournal if has_journal else Loaded
        found[place] = kind(session, version, recorded, sha)
    return [found.get(place) for place in range(len(asked))]


def save(commits: Sequence[Commit], db: sqlite3.Connection) -> Sequence[Exception | None]:
    """See `Store.save`. Commits of one conversation are written one after the other."""
    outcomes: list[Exception | None] = [None] * len(commits)
    for places in rounds([commit.conversation_id for commit in commits]):
        found = _find([commits[place] for place in places], db)
        for place, before in zip(places, found, strict=True):
            outcomes[place] = _refusal(commits[place], before)
        taken = [
            (commits[place], before)
            for place, before in zip(places, found, strict=True)
            if not outcomes[place]
        ]
        _write(taken, db)
        for table, names in (
            ("due", [(commit.conversation_id,) for commit, before in taken if before.is_due]),
            (
                "journal",
                [(commit.conversation_id,) for commit, before in taken if before.has_journal],
            ),
        ):
            _run(db, f"DELETE FROM {table} WHERE conversation IN (", names, ")")
        due: list[Row] = []
        for commit, _ in taken:
            due += [(commit.conversation_id, *row) for row in sorted(set(commit.due))]
        _run(db, "INSERT INTO due (conversation, time, kind)", due)
    return outcomes


def _find(commits: Sequence[Commit], db: sqlite3.Connection) -> Sequence[_Found]:
    asked = [
        (
            c.conversation_id,
            c.definition_sha,
            c.definition_text is not None,
            [request_id for request_id, _ in c.answered],
            c.definition,
            c.state,
            c.ended,
            c.paused,
        )
        for c in commits
    ]
    found = {place: _Found(*row) for place, *row in _answers(db, _FOUND, asked)}
    return [found[place] for place in range(len(commits))]


def _refusal(commit: Commit, before: _Found) -> Exception | None:
    if before.version != commit.expected:
        return wrong_version(commit, before.version)
    if before.answered:
        return answered_already(commit)
    return None if before.defined else unknown_definition(commit)


def _write(taken: Sequence[tuple[Commit, _Found]], db: sqlite3.Connection) -> None:
    commits = [commit for commit, _ in taken]
    pins = {c.definition_sha: c.definition_text for c in commits if c.definition_text is not None}
    records: list[Row] = []
    answered: list[Row] = []
    labels: list[Row] = []
    posted: list[Row] = []
    for c in commits:
        records += [(c.conversation_id, number, record) for number, record, _ in c.numbered]
        answered += [(c.conversation_id, request_id, number) for request_id, number in c.answered]
        if not c.expected:  # the labels of the first commit hold for ever
            labels += [(*label, c.conversation_id) for label in c.metadata.items()]
        for place, event in enumerate(c.outbox):
            posted.append((c.conversation_id, c.number, place, event.sink, event.key, event.text))
    _run(db, "INSERT INTO definitions (sha, text)", list(pins.items()), "ON CONFLICT DO NOTHING")
    for columns, rows in _replaced(taken).items():
        replaced = ", ".join(f"{column} = excluded.{column}" for column in columns)
        _run(db, _WRITE, rows, f"ON CONFLICT (id) DO UPDATE SET {replaced}")
    _run(db, "INSERT INTO labels (key, value, conversation)", labels)
    _run(db, "INSERT INTO records (conversation, number, record)", records)
    _run(db, "INSERT INTO inbox (conversation, request_id, number)", answered)
    _run(db, "INSERT INTO outbox (conversation, number, place, sink, key, text)", posted)
    if any(commit.expected and commit.definition_text is not None for commit in commits):
        db.execute(_DROP_UNUSED)


def _replaced(taken: Sequence[tuple[Commit, _Found]]) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows of commits by the columns that they replace."""
    rows: dict[tuple[str, ...], list[Row]] = {}
    for commit, before in taken:
        columns: tuple[str, ...] = _EACH_TURN
        if not before.listed:
            columns += _LISTED
        if not before.pinned:
            columns += _PINNED
        rows.setdefault(columns, []).append(_row(commit))
    return rows


def _run(db: sqlite3.Connection, before: str, values: Sequence[Row], after: str = "") -> None:
    for statement, bound in _statements(before, values, after):
        db.execute(statement, bound)


def _answers(db: sqlite3.Connection, statement: str, asked: Sequence[Row]) -> list[list[Any]]:
    """Return the rows of a statement that takes and returns JSON. Fetching each would wait for the
    interpreter, too.
    """
    (text,) = db.execute(statement, (msgspec.json.encode(asked).decode(),)).fetchone()
    return msgspec.json.decode(text, type=list[list[Any]])


def _statements(before: str, values: Sequence[Row], after: str) -> Iterator[tuple[str, list[Any]]]:
    start = 0
    while start < len(values):
        size = min(_MOST, 1 << (len(values) - start).bit_length() - 1)
        part = values[start : start + size]
        row = f"({','.join('?' * len(part[0]))})"
        yield f"{before} VALUES {','.join([row] * size)} {after}", list(chain.from_iterable(part))
        start += size


def _posted(query: OutboxQuery) -> str:
    """Return the statement that reads the outbox, with the filters that are given."""
    wanted = [
        *_if(query.sink, "sink = :sink"),
        *_if(query.conversation_id, "conversation = :conversation_id"),
        *_if(query.after, "conversation > :after"),
        *_if(query.definition, "definition = :definition"),
    ]
    return f"{_where(_POSTED, wanted)} ORDER BY conversation, number, place LIMIT max(:limit, 0)"


def _if(given: object, condition: str) -> list[str]:
    return [] if given is None else [condition]


def _where(select: str, conditions: Sequence[str]) -> str:
    return f"{select} WHERE {' AND '.join(conditions)}" if conditions else select


class SqliteRows:
    """The methods of a store that serve one request, on an open connection. Methods that write need
    a transaction.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def definition(self, sha: str) -> str | None:
        row = self.db.execute("SELECT text FROM definitions WHERE sha = ?", (sha,)).fetchone()
        return None if row is None else row[0]

    def records(self, conversation_id: str, after: int, limit: int | None) -> Sequence[str]:
        query = "SELECT record FROM records WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?"
        rows = self.db.execute(
            query, (conversation_id, after, -1 if limit is None else max(limit, 0))
        )
        return tuple(record for (record,) in rows)

    def journal(self, conversation_id: str, step: int, text: str) -> None:
        insert = (
            "INSERT INTO journal (conversation, step, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        )
        if self.db.execute(insert, (conversation_id, step, text)).rowcount == 0:
            raise step_exists(conversation_id, step)

    def journalled(self, conversation_id: str) -> Sequence[str]:
        query = "SELECT text FROM journal WHERE conversation = ? ORDER BY step"
        return tuple(text for (text,) in self.db.execute(query, (conversation_id,)))

    def forget_journal(self, conversation_id: str) -> None:
        self.db.execute("DELETE FROM journal WHERE conversation = ?", (conversation_id,))

    def unfinished(self, query: JournalQuery, is_held: Callable[[str], bool]) -> Sequence[str]:
        found: list[str] = []
        cursor = self.db.execute(_JOURNALS, (query.after or "",))
        for name, first, last in cursor:
            if len(found) >= query.limit:
                break
            if not is_held(name) and query.admits(first, last):
                found.append(name)
        cursor.close()
        return tuple(found)

    def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        insert = """INSERT INTO accepted (conversation, request_id, definition, text, due, state)
            VALUES (:conversation_id, :request_id, :definition, :text, :due, 'waiting')
            ON CONFLICT DO NOTHING"""
        self.db.execute(insert, asdict(message))
        query = f"{_ACCEPTED} WHERE conversation = ? AND request_id = ?"
        row = self.db.execute(query, (message.conversation_id, message.request_id)).fetchone()
        return AcceptedMessage.of_row(row)

    def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        wanted = [
            *_if(query.now, "due <= :now"),
            *_if(query.definition, "definition = :definition"),
            *_if(query.conversation_id, "conversation = :conversation_id"),
        ]
        if not query.closed:
            wanted.append("state IN ('waiting', 'begun')")
        found = f"{_where(_ACCEPTED, wanted)} ORDER BY due, place LIMIT max(:limit, 0)"
        return tuple(map(AcceptedMessage.of_row, self.db.execute(found, asdict(query))))

    def mark_accepted(
        self, conversation_id: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        change = """UPDATE accepted SET state = ? WHERE conversation = ? AND request_id = ?
            AND state IN (SELECT value FROM json_each(?))"""
        known = msgspec.json.encode([*before]).decode()
        self.db.execute(change, (state, conversation_id, request_id, known))
        query = "SELECT state FROM accepted WHERE conversation = ? AND request_id = ?"
        row = self.db.execute(query, (conversation_id, request_id)).fetchone()
        return None if row is None else row[0]

    def drop_accepted(self, conversation_id: str, request_id: str) -> None:
        delete = "DELETE FROM accepted WHERE conversation = ? AND request_id = ?"
        self.db.execute(delete, (conversation_id, request_id))

    def listed(self, query: ListQuery) -> Sequence[Listed]:
        rows = self.db.execute(*listing(query, _DIALECT))
        return tuple(
            Listed(
                name,
                of,
                state,
                bool(ended),
                turns,
                began,
                updated,
                sha,
                msgspec.json.decode(labels),
                paused,
            )
            for name, of, state, ended, turns, began, updated, sha, paused, labels in rows
        )

    def counted(self, query: ListQuery) -> int:
        return int(self.db.execute(*counting(query, _DIALECT)).fetchone()[0])

    def due(self, now: float, limit: int, definition: str | None) -> Sequence[DueRow]:
        wanted = ["time <= :now", *_if(definition, "definition = :definition")]
        query = f"{_where(_DUE, wanted)} ORDER BY time, conversation, kind LIMIT max(:limit, 0)"
        rows = self.db.execute(query, {"now": now, "definition": definition, "limit": limit})
        return tuple(DueRow(*row) for row in rows)

    def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        rows = self.db.execute(_posted(query), asdict(query))
        return tuple(Posted(*row) for row in rows)

    def acknowledge(self, posted: Posted) -> None:
        delete = (
            "DELETE FROM outbox WHERE conversation = ? AND sink = ? AND (number, place) <= (?, ?)"
        )
        self.db.execute(delete, (posted.conversation_id, posted.sink, posted.number, posted.index))

    def faults(self) -> Sequence[str]:
        """Find damage in the file, and rows that belong to no conversation."""
        found = [
            str(row[0]) for row in self.db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"
        ]
        strays = {str(row[0]) for row in self.db.execute("PRAGMA foreign_key_check")}
        return (
            *found,
            *(f"rows of the table {name} belong to no conversation" for name in sorted(strays)),
        )

    def delete(self, conversation_id: str) -> bool:
        self.forget_journal(conversation_id)
        self.db.execute("DELETE FROM accepted WHERE conversation = ?", (conversation_id,))
        gone = (
            self.db.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)).rowcount
            > 0
        )
        if gone:
            self.db.execute(_DROP_UNUSED)
        return gone
