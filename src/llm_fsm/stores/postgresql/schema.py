"""The tables of the PostgreSQL store: create them, and refuse those of another version.

Texts that are compared or ordered have the collation "C", the order of code points, as in every
store. `locks` needs no durability, because all locks end with the server.
"""

from __future__ import annotations

import warnings
from typing import Any

from psycopg import AsyncConnection, sql

from llm_fsm.errors import StoreError

SCHEMA_VERSION = 5

_NAMESPACE = 0x4C46534D
"""Key of the advisory lock under which tables are made ("LFSM")."""

_SCHEMA = (
    'CREATE TABLE definitions (sha text COLLATE "C" PRIMARY KEY, text text NOT NULL)',
    # No index on `updated`: every turn changes it, and would then have to write all indexes of its
    # row.
    """CREATE TABLE conversations (
        id text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, session text NOT NULL,
        definition text COLLATE "C" NOT NULL, state text COLLATE "C" NOT NULL, ended boolean NOT NULL,
        created double precision NOT NULL, updated double precision NOT NULL,
        definition_sha text COLLATE "C" REFERENCES definitions (sha),
        paused text COLLATE "C" NOT NULL DEFAULT '') WITH (fillfactor = 70)""",
    "CREATE INDEX pinned ON conversations (definition_sha) WHERE definition_sha IS NOT NULL",
    "CREATE INDEX listed_by_pause ON conversations (id) WHERE paused <> ''",
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
    "CREATE INDEX journal_open ON journal (conversation) WHERE step = 0",
    'CREATE UNLOGGED TABLE locks (conversation text COLLATE "C" PRIMARY KEY, holder int NOT NULL)',
    "CREATE SEQUENCE holders AS int CYCLE",
    """CREATE UNLOGGED TABLE living (
        holder int PRIMARY KEY, backend int NOT NULL, seen timestamptz NOT NULL)""",
    """CREATE TABLE labels (
        key text COLLATE "C", value text COLLATE "C",
        conversation text COLLATE "C" REFERENCES conversations (id) ON DELETE CASCADE,
        PRIMARY KEY (key, value, conversation))""",
    "CREATE INDEX labels_by_conversation ON labels (conversation)",
    # A message may be accepted before its conversation exists, hence no foreign key.
    """CREATE TABLE accepted (
        conversation text COLLATE "C", request_id text COLLATE "C",
        definition text COLLATE "C" NOT NULL, text text NOT NULL,
        due double precision NOT NULL, place bigserial, state text NOT NULL,
        PRIMARY KEY (conversation, request_id))""",
    """CREATE INDEX accepted_by_due ON accepted (due, place)
        WHERE state IN ('waiting', 'begun')""",
    "CREATE TABLE contract (version int NOT NULL)",
    f"INSERT INTO contract VALUES ({SCHEMA_VERSION})",
)


async def prepare(db: AsyncConnection[Any], place: str, schema: str) -> None:
    """Make the tables in `schema`, unless they are there. Raises StoreError and psycopg.Error."""
    await _check_server(db, place)
    if await _is_made(db, place, schema):
        return
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(%s)", (_NAMESPACE,))
        if await _is_made(db, place, schema):  # another process was faster
            return
        # creating one needs a right even if it exists
        known = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if await (await db.execute(known, (schema,))).fetchone() is None:
            await db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for statement in _SCHEMA:
            await db.execute(statement.encode())


async def holder_of(db: AsyncConnection[Any]) -> int:
    """Return a new holder's number for this connection, alive as long as the connection."""
    while True:
        holder = int(await _value(db, b"SELECT nextval('holders')"))
        take = "SELECT pg_try_advisory_lock('locks'::regclass::oid::int, %s)"
        row = await (await db.execute(take, (holder,))).fetchone()
        if row is not None and row[0]:
            return holder


async def _is_made(db: AsyncConnection[Any], place: str, schema: str) -> bool:
    """Return true if the tables are there. Raises StoreError for those of another version.

    It reads the catalogue as a table, because `to_regclass` may use a cache that is older than the
    lock just taken.
    """
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'contract'"
    if await (await db.execute(query, (schema,))).fetchone() is None:
        return False
    version = await _value(db, b"SELECT max(version) FROM contract")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{place}: has the schema {version}, and this llm-fsm reads only {SCHEMA_VERSION}. "
            "Use the version that made it, or another database or schema"
        )
    return True


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
