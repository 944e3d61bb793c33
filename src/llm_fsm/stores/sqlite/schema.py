"""The SQLite file itself: opening, its schema and its version.

`application_id` is "LFSM" in ASCII. `user_version` is the schema's version. Large rows (sessions,
records) are in ordinary tables, small ones in tables without a row id.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from llm_fsm.errors import StoreError
from llm_fsm.stores.locks.file_locks import make_folder
from llm_fsm.stores.sqlite.errors import is_busy

MEMORY = ":memory:"
SCHEMA_VERSION = 7
APPLICATION_ID = int.from_bytes(b"LFSM", "big")

_SCHEMA = (
    """CREATE TABLE conversations (
        id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, session TEXT NOT NULL,
        definition TEXT NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
        created REAL NOT NULL, updated REAL NOT NULL, definition_sha TEXT,
        paused TEXT NOT NULL DEFAULT '')""",
    """CREATE TABLE records (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        number INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (conversation, number))""",
    """CREATE TABLE inbox (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        request_id TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (conversation, request_id)) WITHOUT ROWID""",
    # The first turn has a journal before the conversation exists, hence no foreign key.
    """CREATE TABLE journal (
        conversation TEXT NOT NULL, step INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (conversation, step)) WITHOUT ROWID""",
    """CREATE TABLE due (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        time REAL NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (conversation, time, kind)) WITHOUT ROWID""",
    "CREATE INDEX due_by_time ON due (time)",
    "CREATE TABLE definitions (sha TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX pinned ON conversations (definition_sha) WHERE definition_sha IS NOT NULL",
    """CREATE TABLE outbox (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        number INTEGER NOT NULL, place INTEGER NOT NULL, sink TEXT NOT NULL, key TEXT NOT NULL,
        text TEXT NOT NULL, PRIMARY KEY (conversation, number, place))""",
    "CREATE INDEX outbox_by_sink ON outbox (sink, conversation, number, place)",
    # One for each choice of filters, with the id last, so that a list reads only the lines that it
    # returns.
    "CREATE INDEX listed_by_ended ON conversations (ended, id)",
    "CREATE INDEX listed_by_state ON conversations (state, ended, id)",
    "CREATE INDEX listed_by_definition ON conversations (definition, ended, id)",
    "CREATE INDEX listed_by_definition_and_state ON conversations (definition, state, ended, id)",
    """CREATE TABLE labels (
        key TEXT NOT NULL, value TEXT NOT NULL,
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        PRIMARY KEY (key, value, conversation)) WITHOUT ROWID""",
    "CREATE INDEX labels_by_conversation ON labels (conversation)",
    "CREATE INDEX conversations_by_time ON conversations (updated, id)",
    "CREATE INDEX listed_by_pause ON conversations (id) WHERE paused <> ''",
    # A message may be accepted before its conversation exists, hence no foreign key.
    """CREATE TABLE accepted (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL, request_id TEXT NOT NULL,
        definition TEXT NOT NULL, text TEXT NOT NULL, due REAL NOT NULL, state TEXT NOT NULL,
        UNIQUE (conversation, request_id))""",
    """CREATE INDEX accepted_by_due ON accepted (due, place)
        WHERE state IN ('waiting', 'begun')""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def open_database(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open the file, and create missing folder, file and schema. The caller owns the connection.

    Any thread may use it, but one at a time.

    Waits at most about `busy_timeout` seconds for others. Raises StoreError and sqlite3.Error.
    """
    if path != MEMORY:
        make_folder(Path(path))
        # created here for this user only; opening it reports what prevents that
        with suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(
        path,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _until_free(busy_timeout, lambda: _prepare(db, path))
    except BaseException:  # no failure, not even an interrupt, may leave a connection behind
        db.close()
        raise
    return db


def inode(path: str) -> tuple[int, int] | None:
    """Identify the file at this path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare(db: sqlite3.Connection, path: str) -> None:
    with transaction(db, "BEGIN"):
        missing = _missing(db, path)
    # for new files, because a turn changes few rows, but writes whole pages
    db.execute("PRAGMA page_size = 1024")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: a log of four megabytes
    db.execute("PRAGMA foreign_keys = ON")
    if missing:
        with transaction(db, "BEGIN IMMEDIATE"):
            for statement in _missing(db, path):  # nothing if another process was faster
                db.execute(statement)


def _missing(db: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """Choose the statements that create the schema. Refuse files of another program or another
    version.

    Call it in a transaction, so that the answers are consistent.
    """
    application = _value(db, "PRAGMA application_id")
    version = _value(db, "PRAGMA user_version")
    if application == APPLICATION_ID:
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{path}: has the schema {version}, and this llm-fsm reads only {SCHEMA_VERSION}. "
                "Use the version that wrote it, or another file"
            )
        return ()
    if application or version or _value(db, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path}: is a database of another program: use another file")
    return _SCHEMA


@contextmanager
def transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit at the end, or roll back. If that failed, `db.in_transaction` stays true."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:  # an interrupt or a cancelled caller must not leave the transaction open
        if db.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the one to report
                db.execute("ROLLBACK")
        raise


def _value(db: sqlite3.Connection, query: str) -> int:
    (value,) = db.execute(query).fetchone()
    return int(value)


def _until_free(seconds: float, action: Callable[[], None]) -> None:
    """Repeat while the database is locked, because statements such as the switch to WAL do not wait
    by themselves.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return
