"""The same requests of many conversations in a few statements.

Each statement makes the worker's thread wait for the interpreter again, for milliseconds where the event loop is
busy: one for each conversation would be the end of all speed. Values are bound, never written into the statement;
the statements themselves are few, because rows go in by powers of two.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llm_fsm.stores.base import Commit, Loaded
from llm_fsm.stores.errors import answered_already, unknown_definition, wrong_version
from llm_fsm.stores.sqlite import statements as rows
from llm_fsm.stores.sqlite.lately import Connection

_MOST = 512 if sqlite3.sqlite_version_info >= (3, 32) else 64
"""Rows in one statement: SQLite takes 32,766 values, older ones 999."""

_LOADED = """SELECT json_group_array(json_array(asked.place, c.session, c.version, r.record, c.definition_sha))
    FROM asked JOIN conversations c ON c.id = asked.id
    LEFT JOIN inbox i ON i.conversation = c.id AND i.request_id = asked.request
    LEFT JOIN records r ON r.conversation = c.id AND r.number = i.number"""
_STANDING = """SELECT json_group_array(json_array(asked.place, c.version,
    EXISTS (SELECT 1 FROM inbox i WHERE i.conversation = asked.id AND i.request_id = asked.request),
    EXISTS (SELECT 1 FROM due WHERE due.conversation = asked.id),
    EXISTS (SELECT 1 FROM journal WHERE journal.conversation = asked.id)))
    FROM asked LEFT JOIN conversations c ON c.id = asked.id"""
_WRITE = """INSERT INTO conversations
    (id, version, session, definition, state, ended, updated, definition_sha, created)"""
_OVER = """ON CONFLICT (id) DO UPDATE SET version = excluded.version, session = excluded.session,
    definition = excluded.definition, state = excluded.state, ended = excluded.ended,
    updated = excluded.updated, definition_sha = excluded.definition_sha"""

Row = tuple[Any, ...]


def load(asked: Sequence[tuple[str, str | None]], db: sqlite3.Connection) -> Sequence[Loaded | None]:
    """See `Store.load`, for each of `asked`."""
    found: list[Loaded | None] = [None] * len(asked)
    wanted = [(place, *item) for place, item in enumerate(asked)]
    for row in _all(db, "WITH asked (place, id, request) AS (", wanted, f") {_LOADED}"):
        place, session, version, recorded, sha = row
        found[place] = Loaded(session=session, version=version, recorded=recorded, definition_sha=sha)
    return found


def save(commits: Sequence[Commit], db: Connection) -> Sequence[Exception | None]:
    """See `Store.save`, for each of `commits`; of one conversation they are written one after the other."""
    db.lately.forget()
    outcomes: list[Exception | None] = [None] * len(commits)
    left = list(range(len(commits)))
    while left:
        now: dict[str, int] = {}
        for place in left:
            now.setdefault(commits[place].conversation_id, place)
        chosen = list(now.values())
        for place, outcome in zip(chosen, _save([commits[place] for place in chosen], db), strict=True):
            outcomes[place] = outcome
        left = [place for place in left if place not in set(chosen)]
    return outcomes


class _Standing(NamedTuple):
    """What is stored of a conversation that a commit is for. `version` None: there is none."""

    version: int | None = None
    answered: bool = False
    """One of the commit's request ids has its answer already."""
    due: bool = False
    journal: bool = False


def _save(commits: Sequence[Commit], db: sqlite3.Connection) -> Sequence[Exception | None]:
    standing = _standing(commits, db)
    missing = _missing(commits, db)
    outcomes = []
    for commit, found in zip(commits, standing, strict=True):
        refused: Exception | None = None
        if (found.version or 0) != commit.expected:
            refused = wrong_version(commit, found.version or 0)
        elif found.answered:
            refused = answered_already(commit)
        elif commit.definition_text is None and commit.definition_sha in missing:
            refused = unknown_definition(commit)
        outcomes.append(refused)
    taken = [place for place, refused in enumerate(outcomes) if refused is None]
    _write([commits[place] for place in taken], db)
    _clear("due", [commits[place] for place in taken if standing[place].due], db)
    _add_due([commits[place] for place in taken], db)
    _clear("journal", [commits[place] for place in taken if standing[place].journal], db)
    return outcomes


def _standing(commits: Sequence[Commit], db: sqlite3.Connection) -> Sequence[_Standing]:
    asked = [
        (place, commit.conversation_id, request_id)
        for place, commit in enumerate(commits)
        for _, _, request_id in commit.numbered
    ]
    found = [_Standing()] * len(commits)
    for place, *row in _all(db, "WITH asked (place, id, request) AS (", asked, f") {_STANDING}"):
        stands = _Standing(*row)
        found[place] = stands._replace(answered=bool(stands.answered or found[place].answered))
    return found


def _clear(table: str, commits: Sequence[Commit], db: sqlite3.Connection) -> None:
    """Empty what a table holds of these conversations."""
    names = [(commit.conversation_id,) for commit in commits]
    _run(db, f"DELETE FROM {table} WHERE conversation IN (", names, ")")


def _add_due(commits: Sequence[Commit], db: sqlite3.Connection) -> None:
    due = [(c.conversation_id, at, kind) for c in commits for at, kind in sorted(set(c.due))]
    _run(db, "INSERT INTO due (conversation, time, kind)", due)


def _missing(commits: Sequence[Commit], db: sqlite3.Connection) -> frozenset[str]:
    """The definitions that commits are pinned to and that nobody has brought."""
    pins = {commit.definition_sha for commit in commits if commit.definition_text is None}
    return frozenset(sha for sha in pins if sha is not None and rows.definition(sha, db) is None)


def _write(commits: Sequence[Commit], db: sqlite3.Connection) -> None:
    pins = {c.definition_sha: c.definition_text for c in commits if c.definition_text is not None}
    _run(db, "INSERT INTO definitions (sha, text)", list(pins.items()), "ON CONFLICT DO NOTHING")
    _run(db, _WRITE, [_line(commit) for commit in commits], _OVER)
    numbered = [(c.conversation_id, *item) for c in commits for item in c.numbered]
    records = [(name, number, record) for name, number, record, _ in numbered]
    _run(db, "INSERT INTO records (conversation, number, record)", records)
    inbox = [(name, request_id, number) for name, number, _, request_id in numbered if request_id is not None]
    _run(db, "INSERT INTO inbox (conversation, request_id, number)", inbox)
    posted = [
        (c.conversation_id, c.number, place, event.sink, event.key, event.text)
        for c in commits
        for place, event in enumerate(c.outbox)
    ]
    _run(db, "INSERT INTO outbox (conversation, number, place, sink, key, text)", posted)
    if any(commit.expected and commit.definition_text is not None for commit in commits):
        rows.drop_unused(db)


def _line(commit: Commit) -> Row:
    return (
        commit.conversation_id,
        commit.number,
        commit.session,
        commit.definition,
        commit.state,
        commit.ended,
        commit.time,
        commit.definition_sha,
        commit.began,
    )


def _run(db: sqlite3.Connection, before: str, values: Sequence[Row], after: str = "") -> None:
    for statement, bound in _statements(before, values, after):
        db.execute(statement, bound)


def _all(db: sqlite3.Connection, before: str, values: Sequence[Row], after: str) -> Iterator[Any]:
    """What statements give that answer with one JSON array."""
    for statement, bound in _statements(before, values, after):
        (text,) = db.execute(statement, bound).fetchone()
        yield from json.loads(text)


def _statements(before: str, values: Sequence[Row], after: str) -> Iterator[tuple[str, list[Any]]]:
    start = 0
    while start < len(values):
        size = min(_MOST, 1 << (len(values) - start).bit_length() - 1)
        part = values[start : start + size]
        row = f"({','.join('?' * len(part[0]))})"
        bound = [value for item in part for value in item]
        yield f"{before} VALUES {','.join([row] * size)} {after}", bound
        start += size
