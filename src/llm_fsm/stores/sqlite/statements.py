"""What the SQLite store reads and writes: one function a request, each on an open connection.

Those that write are called within a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from llm_fsm.stores.base import Commit, Due, Listed, Loaded, Posted
from llm_fsm.stores.errors import answered_already, step_exists, unknown_definition, wrong_version
from llm_fsm.stores.sqlite.lately import Connection

_LOAD = "SELECT session, version, NULL, definition_sha FROM conversations WHERE id = ?"
_LOAD_WITH_REQUEST = """SELECT session, version,
    (SELECT record FROM inbox JOIN records USING (conversation, number)
     WHERE inbox.conversation = conversations.id AND request_id = ?), definition_sha
    FROM conversations WHERE id = ?"""
_CREATE = """INSERT INTO conversations
    (session, definition, state, ended, updated, definition_sha, id, version, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_UPDATE = """UPDATE conversations SET session = ?, definition = ?, state = ?, ended = ?, updated = ?,
    definition_sha = ?, version = version + 1 WHERE id = ? AND version = ?"""
_UPDATE_SAME_PIN = """UPDATE conversations SET session = ?, definition = ?, state = ?, ended = ?, updated = ?,
    version = version + 1 WHERE definition_sha IS ? AND id = ? AND version = ?
    AND (definition_sha IS NULL OR EXISTS (SELECT 1 FROM definitions WHERE sha = definition_sha))"""
_UPDATE_ALONE = f"""{_UPDATE_SAME_PIN} AND NOT EXISTS (SELECT 1 FROM due WHERE conversation = conversations.id)
    AND NOT EXISTS (SELECT 1 FROM journal WHERE conversation = conversations.id)"""
_STRAYS = """SELECT EXISTS (SELECT 1 FROM due WHERE conversation = ?),
    EXISTS (SELECT 1 FROM journal WHERE conversation = ?)"""
_LIST = """SELECT id, definition, state, ended, version, created, updated, definition_sha FROM conversations
    WHERE id > :after AND (:definition IS NULL OR definition = :definition) AND (:state IS NULL OR state = :state)
    AND (:ended IS NULL OR ended = :ended) ORDER BY id LIMIT :limit"""
_OUTBOX = """SELECT conversation, number, place, sink, key, text FROM outbox
    JOIN conversations ON id = conversation
    WHERE sink = :sink AND conversation > :after AND (:conversation_id IS NULL OR conversation = :conversation_id)
    AND (:definition IS NULL OR definition = :definition) ORDER BY conversation, number, place LIMIT :limit"""
_OUTBOX_OF_ALL = _OUTBOX.replace("sink = :sink", ":sink IS NULL")
_UNUSED = """DELETE FROM definitions WHERE NOT EXISTS
    (SELECT 1 FROM conversations WHERE definition_sha = definitions.sha)"""


def load(conversation_id: str, request_id: str | None, db: Connection) -> Loaded | None:
    if request_id is None:
        found = db.lately.of(conversation_id, db)
        if found is not None:
            return found
        row = db.execute(_LOAD, (conversation_id,)).fetchone()
    else:
        row = db.execute(_LOAD_WITH_REQUEST, (request_id, conversation_id)).fetchone()
    if row is None:
        return None
    return Loaded(session=row[0], version=row[1], recorded=row[2], definition_sha=row[3])


def save(commit: Commit, db: Connection) -> None:
    name = commit.conversation_id
    db.lately.write(commit)
    if not _put(commit, db):
        _clear(name, db)
    for number, record, request_id in commit.numbered:
        insert = "INSERT INTO records (conversation, number, record) VALUES (?, ?, ?)"
        db.execute(insert, (name, number, record))
        if request_id is not None:
            inbox = (
                "INSERT INTO inbox (conversation, request_id, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            )
            if db.execute(inbox, (name, request_id, number)).rowcount == 0:
                raise answered_already(commit)
    for at, kind in commit.due:
        db.execute("INSERT OR IGNORE INTO due (conversation, time, kind) VALUES (?, ?, ?)", (name, at, kind))
    for place, event in enumerate(commit.outbox):
        post = "INSERT INTO outbox (conversation, number, place, sink, key, text) VALUES (?, ?, ?, ?, ?, ?)"
        db.execute(post, (name, commit.number, place, event.sink, event.key, event.text))
    if commit.expected and commit.definition_text is not None:
        drop_unused(db)


def _put(commit: Commit, db: sqlite3.Connection) -> bool:
    """Write the row of the conversation. Raises ConversationConflict for another version than the expected one.

    True: it has neither due rows nor a journal. False: there may be some.
    """
    row = (
        commit.session,
        commit.definition,
        commit.state,
        commit.ended,
        commit.time,
        commit.definition_sha,
        commit.conversation_id,
    )
    usual = commit.expected and commit.definition_text is None
    if usual and db.execute(_UPDATE_ALONE, (*row, commit.expected)).rowcount:
        return True
    # A pin that stays as it was is one to a definition that is there, and its index needs no writing.
    if usual and db.execute(_UPDATE_SAME_PIN, (*row, commit.expected)).rowcount:
        return False
    _keep_definition(commit, db)
    if commit.expected:
        written = db.execute(_UPDATE, (*row, commit.expected)).rowcount
    else:
        written = db.execute(_CREATE, (*row, commit.number, commit.began)).rowcount
    if written == 0:
        raise wrong_version(commit, _version(commit.conversation_id, db))
    return False


def _version(conversation_id: str, db: sqlite3.Connection) -> int:
    found = db.execute("SELECT version FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    return found[0] if found else 0


def _clear(conversation_id: str, db: sqlite3.Connection) -> None:
    """Empty what the due table and the journal hold of a conversation."""
    is_due, is_journalled = db.execute(_STRAYS, (conversation_id, conversation_id)).fetchone()
    if is_due:
        db.execute("DELETE FROM due WHERE conversation = ?", (conversation_id,))
    if is_journalled:
        forget_journal(conversation_id, db)


def _keep_definition(commit: Commit, db: sqlite3.Connection) -> None:
    sha = commit.definition_sha
    if sha is None:
        return
    if commit.definition_text is not None:
        insert = "INSERT INTO definitions (sha, text) VALUES (?, ?) ON CONFLICT DO NOTHING"
        db.execute(insert, (sha, commit.definition_text))
    elif definition(sha, db) is None:
        if (version := _version(commit.conversation_id, db)) != commit.expected:
            raise wrong_version(commit, version)  # with the last conversation that is pinned to it goes a definition
        raise unknown_definition(commit)


def definition(sha: str, db: sqlite3.Connection) -> str | None:
    row = db.execute("SELECT text FROM definitions WHERE sha = ?", (sha,)).fetchone()
    return None if row is None else row[0]


def records(conversation_id: str, after: int, limit: int | None, db: sqlite3.Connection) -> Sequence[str]:
    query = "SELECT record FROM records WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?"
    rows = db.execute(query, (conversation_id, after, -1 if limit is None else max(limit, 0)))
    return tuple(record for (record,) in rows)


def journal(conversation_id: str, step: int, text: str, db: sqlite3.Connection) -> None:
    insert = "INSERT INTO journal (conversation, step, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    if db.execute(insert, (conversation_id, step, text)).rowcount == 0:
        raise step_exists(conversation_id, step)


def journalled(conversation_id: str, db: sqlite3.Connection) -> Sequence[str]:
    query = "SELECT text FROM journal WHERE conversation = ? ORDER BY step"
    return tuple(text for (text,) in db.execute(query, (conversation_id,)))


def forget_journal(conversation_id: str, db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM journal WHERE conversation = ?", (conversation_id,))


def listed(wanted: Mapping[str, object], db: sqlite3.Connection) -> Sequence[Listed]:
    """See `Store.list`; `wanted` are `after` ("" for all), `limit`, `definition`, `state` and `ended`."""
    rows = db.execute(_LIST, wanted)
    return tuple(
        Listed(
            conversation_id=row[0],
            definition=row[1],
            state=row[2],
            ended=bool(row[3]),
            turns=row[4],
            created=row[5],
            updated=row[6],
            definition_sha=row[7],
        )
        for row in rows
    )


def due(now: float, limit: int, definition: str | None, db: sqlite3.Connection) -> Sequence[Due]:
    query = """SELECT conversation, time, kind FROM due JOIN conversations ON id = conversation
        WHERE time <= ? AND (? IS NULL OR definition = ?) ORDER BY time, conversation, kind LIMIT ?"""
    rows = db.execute(query, (now, definition, definition, max(limit, 0)))
    return tuple(Due(conversation_id=name, time=at, kind=kind) for name, at, kind in rows)


def outbox(wanted: Mapping[str, object], db: sqlite3.Connection) -> Sequence[Posted]:
    """See `Store.outbox`; `wanted` are `sink`, `after` ("" for all), `limit`, `conversation_id` and `definition`."""
    rows = db.execute(_OUTBOX_OF_ALL if wanted["sink"] is None else _OUTBOX, wanted)
    return tuple(
        Posted(conversation_id=row[0], number=row[1], index=row[2], sink=row[3], key=row[4], text=row[5])
        for row in rows
    )


def acknowledge(posted: Posted, db: sqlite3.Connection) -> None:
    told = "DELETE FROM outbox WHERE conversation = ? AND sink = ? AND (number, place) <= (?, ?)"
    db.execute(told, (posted.conversation_id, posted.sink, posted.number, posted.index))


def faults(db: sqlite3.Connection) -> Sequence[str]:
    """What SQLite finds damaged in the file, and rows that belong to no conversation."""
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    strays = {str(row[0]) for row in db.execute("PRAGMA foreign_key_check")}
    return (*found, *(f"rows of the table {name} belong to no conversation" for name in sorted(strays)))


def drop_unused(db: sqlite3.Connection) -> None:
    """Forget the definitions that no conversation is pinned to."""
    db.execute(_UNUSED)


def delete(conversation_id: str, db: Connection) -> bool:
    db.lately.forget()
    forget_journal(conversation_id, db)
    gone = db.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)).rowcount > 0
    if gone:
        drop_unused(db)
    return gone
