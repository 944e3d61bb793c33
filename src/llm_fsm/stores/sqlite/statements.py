"""The statements of the SQLite store.

`load` and `save` serve the requests of many conversations in a few statements. Each statement makes
the thread wait for the interpreter, for milliseconds if the event loop is busy. All other methods
serve one request. Values are bound, never written into the statement. A statement that asks takes
its rows as JSON. A statement that writes takes a number of rows that is a power of two, so few
statements exist.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from llm_fsm.stores.base import Commit, IsHeld, JournalQuery, Loaded, LoadedWithJournal
from llm_fsm.stores.batching import rounds
from llm_fsm.stores.errors import refusal, step_exists
from llm_fsm.stores.listing_sql import Dialect
from llm_fsm.stores.sql_rows import SqlRows

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
    # A cross join keeps its order. Else SQLite might go through all conversations of a definition.
    beside="CROSS JOIN conversations ON id = conversation",
    told="",
)
_EACH_TURN = ("version", "session", "updated")
_LISTED = ("definition", "state", "ended", "paused")
_PINNED = ("definition_sha",)
"""The columns that a commit replaces.

A column with an index costs a page of each of its indexes, even if the value is the same. So
`_LISTED` and `_PINNED` are replaced only if they change.
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
    return [_performed(work(SqliteRows(db)), db) for work in works]


def _performed(found: Any, db: sqlite3.Connection) -> Any:
    """Perform the statements of a request, and return its result. Own methods are done already."""
    if not isinstance(found, Generator):
        return found
    try:
        statement = next(found)
        while True:
            statement = found.send(db.execute(*statement).fetchall())
    except StopIteration as done:
        return done.value


def load(
    asked: Sequence[tuple[str, str | None]], db: sqlite3.Connection
) -> Sequence[Loaded | None]:
    """See `Store.load`, for pairs of a conversation id and a request id."""
    found = {}
    for place, session, version, recorded, sha, has_journal in _answers(db, _LOAD, asked):
        kind = LoadedWithJournal if has_journal else Loaded
        found[place] = kind(session, version, recorded, sha)
    return [found.get(place) for place in range(len(asked))]


def save(commits: Sequence[Commit], db: sqlite3.Connection) -> Sequence[Exception | None]:
    """See `Store.save`. Commits of one conversation are written one after the other."""
    outcomes: list[Exception | None] = [None] * len(commits)
    # The second commit of a conversation is checked against what the first one wrote.
    for places in rounds([commit.conversation_id for commit in commits]):
        found = _find([commits[place] for place in places], db)
        for place, before in zip(places, found, strict=True):
            outcomes[place] = refusal(
                commits[place], before.version, answered=before.answered, defined=before.defined
            )
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
        due = []
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


def _write(taken: Sequence[tuple[Commit, _Found]], db: sqlite3.Connection) -> None:
    commits = [commit for commit, _ in taken]
    pins = {c.definition_sha: c.definition_text for c in commits if c.definition_text is not None}
    records = []
    answered = []
    labels = []
    posted = []
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
    # Only a conversation that changes its definition can leave one without use.
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
        # The largest power of two that fits, so that only seven statements exist of each kind.
        size = min(_MOST, 1 << (len(values) - start).bit_length() - 1)
        part = values[start : start + size]
        row = f"({','.join('?' * len(part[0]))})"
        yield f"{before} VALUES {','.join([row] * size)} {after}", list(chain.from_iterable(part))
        start += size


class SqliteRows(SqlRows):
    """The methods of a store that serve one request, on an open connection. Methods that write need
    a transaction.
    """

    dialect = _DIALECT

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

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

    def unfinished(self, query: JournalQuery, is_held: IsHeld) -> Sequence[str]:
        with closing(self.db.execute(_JOURNALS, (query.after or "",))) as cursor:
            return query.page(cursor, is_held)

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
