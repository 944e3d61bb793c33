"""The tables of the PostgreSQL store: create them, upgrade them, and refuse those of a newer
version.

Texts that are compared or ordered have the collation "C", the order of code points, as in every
store. `locks` needs no durability, because all locks end with the server.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection, sql

from llm_fsm.errors import StoreError

SCHEMA_VERSION = 5

_NAMESPACE = 0x4C46534D
"""Key of the advisory lock under which tables are made ("LFSM")."""

_STEPS: Mapping[int, tuple[str, ...]] = {
    0: (
        'CREATE TABLE definitions (sha text COLLATE "C" PRIMARY KEY, text text NOT NULL)',
        """CREATE TABLE conversations (
            id text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, session text NOT NULL,
            definition text COLLATE "C" NOT NULL, state text COLLATE "C" NOT NULL, ended boolean NOT NULL,
            created double precision NOT NULL, updated double precision NOT NULL,
            definition_sha text COLLATE "C" REFERENCES definitions (sha)) WITH (fillfactor = 70)""",
        "CREATE INDEX pinned ON conversations (definition_sha) WHERE definition_sha IS NOT NULL",
        """CREATE TABLE records (
            conversation text COLLATE "C" REFERENCES conversations (id) ON DELETE CASCADE,
            number bigint, record text NOT NULL, PRIMARY KEY (conversation, number))""",
        """CREATE TABLE inbox (
            conversation text COLLATE "C" REFERENCES conversations (id) ON DELETE CASCADE,
            request_id text COLLATE "C", number bigint NOT NULL, PRIMARY KEY (conversation, request_id))""",
        """CREATE TABLE outbox (
            conversation text COLLATE "C" REFERENCES conversations (id) ON DELETE CASCADE,
            number bigint, place int, sink text COLLATE "C" NOT NULL, key text NOT NULL, text text NOT NULL,
            PRIMARY KEY (conversation, number, place))""",
        "CREATE INDEX outbox_by_sink ON outbox (sink, conversation, number, place)",
        """CREATE TABLE due (
            conversation text COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            time double precision NOT NULL, kind text COLLATE "C" NOT NULL)""",
        "CREATE INDEX due_by_conversation ON due (conversation)",
        "CREATE INDEX due_by_time ON due (time)",
        """CREATE TABLE journal (
            conversation text COLLATE "C", step bigint, text text NOT NULL, PRIMARY KEY (conversation, step))""",
        'CREATE UNLOGGED TABLE locks (conversation text COLLATE "C" PRIMARY KEY, holder int NOT NULL)',
        "CREATE SEQUENCE holders AS int CYCLE",
    ),
    # No index on `updated`: every turn changes it, and would then have to write all indexes of its
    # row.
    1: (
        """CREATE TABLE labels (
            key text COLLATE "C", value text COLLATE "C",
            conversation text COLLATE "C" REFERENCES conversations (id) ON DELETE CASCADE,
            PRIMARY KEY (key, value, conversation))""",
        "CREATE INDEX labels_by_conversation ON labels (conversation)",
    ),
    # The functions for JSON fail at escapes of characters that a database cannot hold. The pattern
    # reads the first two members of a pause, which are always its id and its kind.
    2: (
        """ALTER TABLE conversations ADD COLUMN paused text COLLATE "C" NOT NULL DEFAULT ''""",
        r"""UPDATE conversations
            SET paused = coalesce(substring(session FROM '"pause":{"id":"[^"]*","kind":"([a-z_]+)"'), '')
            WHERE NOT ended AND session LIKE '%"pause":{"id":"%'""",
        "CREATE INDEX listed_by_pause ON conversations (id) WHERE paused <> ''",
    ),
    3: (
        "CREATE INDEX journal_open ON journal (conversation) WHERE step = 0",
        """CREATE UNLOGGED TABLE living (
            holder int PRIMARY KEY, backend int NOT NULL, seen timestamptz NOT NULL)""",
    ),
    # A message may be accepted before its conversation exists, hence no foreign key.
    4: (
        """CREATE TABLE IF NOT EXISTS accepted (
            conversation text COLLATE "C", request_id text COLLATE "C",
            definition text COLLATE "C" NOT NULL, text text NOT NULL,
            due double precision NOT NULL, place bigserial, state text NOT NULL,
            PRIMARY KEY (conversation, request_id))""",
        """CREATE INDEX IF NOT EXISTS accepted_by_due ON accepted (due, place)
            WHERE state IN ('waiting', 'begun')""",
    ),
}
"""Statements that upgrade tables from a version to the next one."""


async def prepare(db: AsyncConnection[Any], place: str, schema: str) -> None:
    """Make or update the tables in `schema`. Raises StoreError and psycopg.Error."""
    await _check_server(db, place)
    if await _version(db, schema) == SCHEMA_VERSION:
        return
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(%s)", (_NAMESPACE,))
        version = await _version(db, schema)
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{place}: written by a newer version (schema {version}; this one knows up to "
                f"{SCHEMA_VERSION}). Upgrade llm-fsm, or use another database or schema"
            )
        if version == 0:
            # creating one needs a right even if it exists
            known = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
            if await (await db.execute(known, (schema,))).fetchone() is None:
                await db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            await db.execute("CREATE TABLE IF NOT EXISTS contract (version int NOT NULL)")
        for step in range(version, SCHEMA_VERSION):
            for statement in _STEPS[step]:
                await db.execute(statement.encode())
        await db.execute("DELETE FROM contract")
        await db.execute("INSERT INTO contract VALUES (%s)", (SCHEMA_VERSION,))


async def holder_of(db: AsyncConnection[Any]) -> int:
    """Return a new holder's number for this connection, alive as long as the connection."""
    while True:
        holder = int(await _value(db, b"SELECT nextval('holders')"))
        take = "SELECT pg_try_advisory_lock('locks'::regclass::oid::int, %s)"
        row = await (await db.execute(take, (holder,))).fetchone()
        if row is not None and row[0]:
            return holder


async def _version(db: AsyncConnection[Any], schema: str) -> int:
    """Return the version of the tables; 0 where there are none.

    It reads the catalogue as a table, because `to_regclass` may use a cache that is older than the
    lock just taken.
    """
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'contract'"
    if await (await db.execute(query, (schema,))).fetchone() is None:
        return 0
    return int(await _value(db, b"SELECT coalesce(max(version), 0) FROM contract"))


async def _value(db: AsyncConnection[Any], query: bytes) -> Any:
    row = await (await db.execute(query)).fetchone()
    return None if row is None else row[0]


async def _check_server(db: AsyncConnection[Any], place: str) -> None:
    names = "server_encoding", "fsync", "full_page_writes"
    query = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    row = await (await db.execute(query.encode())).fetchone()
    encoding, *safe = row or ("", "on", "on")
    if encoding != "UTF8":
        raise StoreError(
            f"{place}: the database has the encoding {encoding}, which cannot hold every text: create one with UTF8"
        )
    if "off" in safe:
        warnings.warn(
            f"{place}: the server loses or damages acknowledged turns when its machine fails "
            f"(fsync = {safe[0]}, full_page_writes = {safe[1]}): turn both on",
            RuntimeWarning,
            stacklevel=2,
        )
