"""The statements of the PostgreSQL store. One statement serves all waiting requests of a kind.

A statement takes its rows as JSON, so that one prepared statement serves any number of them. Each
statement is a transaction. A further query finds the reasons for refused commits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from psycopg import AsyncConnection, errors

from llm_fsm._json import JsonDict, json_text
from llm_fsm.stores.base import CLOSING, Commit, IsHeld, JournalQuery, Loaded, LoadedWithJournal
from llm_fsm.stores.errors import lock_lost, refusal, step_exists, wrong_version
from llm_fsm.stores.listing_sql import Dialect
from llm_fsm.stores.sql_rows import SqlRows

Connection = AsyncConnection[Any]


FROZEN_SECONDS = 15.0
"""Seconds without a sign of life after which whoever waits for a lock ends its connection. A
process that does not run its event loop for so long loses its locks."""


class LockedRequest(NamedTuple):
    """A request for one conversation, and the number of its lock's holder (None: without a lock)."""

    value: Any
    holder: int | None


class JournalStep(NamedTuple):
    """A result for the journal."""

    conversation_id: str
    step: int
    text: str


_LOAD = """SELECT c.session, c.version, r.record, c.definition_sha,
        EXISTS (SELECT 1 FROM journal j WHERE j.conversation = asked.id AND j.step = 0)
    FROM json_to_recordset(%s) AS asked (place int, id text, request_id text)
    LEFT JOIN conversations c USING (id)
    LEFT JOIN inbox i ON i.conversation = asked.id AND i.request_id = asked.request_id
    LEFT JOIN records r ON r.conversation = asked.id AND r.number = i.number
    ORDER BY place"""

_STILL = """(holder IS NULL OR EXISTS
        (SELECT 1 FROM locks l WHERE l.conversation = id AND l.holder = given.holder FOR SHARE))"""

_SAVE = f"""WITH given AS (
    SELECT * FROM json_to_recordset(%(commits)s) AS t (id text, expected bigint, number bigint, session text,
        definition text, state text, ended bool, paused text, time float8, began float8, sha text, holder int)
), appended AS (
    SELECT * FROM json_to_recordset(%(records)s) AS t (id text, number bigint, record text)
), answered AS (
    SELECT * FROM json_to_recordset(%(answered)s) AS t (id text, request_id text, number bigint)
), texts AS (
    SELECT * FROM json_to_recordset(%(definitions)s) AS t (sha text, text text)
), fit AS (
    SELECT * FROM given WHERE {_STILL}
    AND NOT EXISTS (SELECT 1 FROM answered a JOIN inbox i ON i.conversation = a.id AND i.request_id = a.request_id
        WHERE a.id = given.id)
    AND (sha IS NULL OR EXISTS (SELECT 1 FROM texts WHERE texts.sha = given.sha)
        OR EXISTS (SELECT 1 FROM definitions d WHERE d.sha = given.sha))
), created AS (
    INSERT INTO conversations
        (id, version, session, definition, state, ended, paused, created, updated, definition_sha)
    SELECT id, number, session, definition, state, ended, paused, began, time, sha FROM fit WHERE expected = 0
    ON CONFLICT DO NOTHING RETURNING id
), updated AS (
    UPDATE conversations c SET version = c.version + 1, session = fit.session, definition = fit.definition,
        state = fit.state, ended = fit.ended, paused = fit.paused, updated = fit.time, definition_sha = fit.sha
    FROM fit WHERE fit.expected > 0 AND c.id = fit.id AND c.version = fit.expected RETURNING c.id
), done AS (
    SELECT id FROM created UNION ALL SELECT id FROM updated
), pinned AS (
    INSERT INTO definitions SELECT DISTINCT texts.sha, texts.text FROM texts
    JOIN given ON given.sha = texts.sha JOIN done ON done.id = given.id ON CONFLICT DO NOTHING
), labelled AS (
    INSERT INTO labels SELECT key, value, id
    FROM json_to_recordset(%(labels)s) AS t (id text, key text, value text) JOIN created USING (id)
), recorded AS (
    INSERT INTO records SELECT id, number, record FROM appended JOIN done USING (id)
), known AS (
    INSERT INTO inbox SELECT id, request_id, number FROM answered JOIN done USING (id)
), undue AS (
    DELETE FROM due USING done, given
    WHERE due.conversation = done.id AND given.id = done.id AND given.expected > 0
), awaited AS (
    INSERT INTO due SELECT id, time, kind
    FROM json_to_recordset(%(due)s) AS t (id text, time float8, kind text) JOIN done USING (id)
), posted AS (
    INSERT INTO outbox SELECT id, number, place, sink, key, text
    FROM json_to_recordset(%(outbox)s) AS t (id text, number bigint, place int, sink text, key text, text text)
    JOIN done USING (id)
), forgotten AS (
    DELETE FROM journal USING done WHERE journal.conversation = done.id
)
SELECT id FROM done"""

_WHY = f"""SELECT id, c.version, r.record, {_STILL},
    EXISTS (SELECT 1 FROM inbox i WHERE i.conversation = id AND requests ? i.request_id),
    sha IS NULL OR EXISTS (SELECT 1 FROM definitions d WHERE d.sha = given.sha)
    FROM jsonb_to_recordset(%s) AS given (id text, number bigint, holder int, sha text, requests jsonb)
    LEFT JOIN conversations c USING (id) LEFT JOIN records r ON r.conversation = id AND r.number = given.number"""

_JOURNAL = f"""INSERT INTO journal SELECT id, step, text
    FROM json_to_recordset(%s) AS given (id text, step bigint, text text, holder int)
    WHERE {_STILL} ON CONFLICT DO NOTHING RETURNING conversation, step"""

_FORGET = f"""WITH given AS (SELECT %s::text AS id, %s::int AS holder),
    still AS (SELECT id FROM given WHERE {_STILL}),
    gone AS (DELETE FROM journal USING still WHERE journal.conversation = still.id)
    SELECT id FROM still"""

_JOURNALLED = """SELECT place, text FROM json_to_recordset(%s) AS asked (place int, id text)
    JOIN journal ON conversation = id ORDER BY place, step"""

_JOURNALS = """WITH alive AS MATERIALIZED (
        SELECT p.objid::bigint AS holder FROM pg_locks p
        WHERE p.locktype = 'advisory' AND p.granted AND p.classid = 'locks'::regclass::oid AND p.objsubid = 2
        AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND NOT EXISTS (SELECT 1 FROM living v WHERE v.holder = p.objid::bigint
            AND v.seen < now() - make_interval(secs => %(frozen)s))
    ), open AS (
        SELECT j.conversation, j.text, (SELECT e.text FROM journal e WHERE e.conversation = j.conversation
            ORDER BY e.step DESC LIMIT 1) AS last
        FROM journal j LEFT JOIN locks l ON l.conversation = j.conversation
        WHERE j.step = 0 AND j.conversation > %(after)s
        AND NOT EXISTS (SELECT 1 FROM alive WHERE alive.holder = l.holder)
    )
    SELECT conversation, text, last FROM open WHERE (last ~ %(closing)s) = %(parked)s
    ORDER BY conversation LIMIT %(limit)s"""

_DELETE = """WITH forgotten AS (DELETE FROM journal WHERE conversation = %s),
    unaccepted AS (DELETE FROM accepted WHERE conversation = %s)
    DELETE FROM conversations WHERE id = %s"""

_LOCK = """INSERT INTO locks AS held (conversation, holder) SELECT id, holder
    FROM json_to_recordset(%s) AS t (id text, holder int)
    ON CONFLICT (conversation) DO UPDATE SET holder = excluded.holder
    WHERE held.holder = excluded.holder
    OR pg_try_advisory_xact_lock('locks'::regclass::oid::int, held.holder)
    RETURNING conversation"""

_SEEN = """INSERT INTO living (holder, backend, seen) VALUES (%s, pg_backend_pid(), now())
    ON CONFLICT (holder) DO UPDATE SET backend = excluded.backend, seen = excluded.seen"""

_END_FROZEN = """SELECT pg_terminate_backend(p.pid)
    FROM locks l JOIN living v ON v.holder = l.holder
    JOIN pg_locks p ON p.pid = v.backend AND p.locktype = 'advisory' AND p.granted AND p.objsubid = 2
        AND p.classid = 'locks'::regclass::oid AND p.objid = l.holder::oid
        AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    WHERE l.conversation = ANY(%s::text[]) AND v.seen < now() - make_interval(secs => %s)"""
"""The connection must still hold the advisory lock, because its number may be another one's by now.
"""

_UNLOCK = """DELETE FROM locks USING json_to_recordset(%s) AS t (id text, holder int)
    WHERE conversation = id AND locks.holder = t.holder"""

_DIALECT = Dialect(
    mark="%({})s".format,
    ended=None,
    unindexed="",
    among="{value} = ANY({mark}::text[])",
    several=list,
    labels="(SELECT jsonb_object_agg(l.key, l.value) FROM labels l WHERE l.conversation = c.id)",
    beside="JOIN conversations ON id = conversation",
    told="RETURNING pg_notify(left(current_schema() || '_accepted', 63), '')",
)

_UNUSED = """DELETE FROM definitions d
    WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.definition_sha = d.sha)"""


async def load(db: Connection, asked: Sequence[tuple[str, str | None]]) -> Sequence[Loaded | None]:
    wanted = _json(
        {"place": place, "id": name, "request_id": request}
        for place, (name, request) in enumerate(asked)
    )
    found = await (await db.execute(_LOAD, (wanted,))).fetchall()
    return [_loaded(*row) for row in found]


def _loaded(
    session: str | None, version: int, recorded: str | None, sha: str | None, has_journal: bool
) -> Loaded | None:
    if session is None:
        return None
    kind = LoadedWithJournal if has_journal else Loaded
    return kind(session, version, recorded, sha)


async def save(
    db: Connection, asked: Sequence[LockedRequest], again: bool
) -> Sequence[Exception | None]:
    """See `Store.save`, with one commit for each conversation. `again`: some of them may be stored
    already.
    """
    commits: Sequence[Commit] = [item.value for item in asked]
    cursor = await db.execute(_SAVE, _parameters(asked, commits))
    done = {name for (name,) in await cursor.fetchall()}
    # Only a conversation that changes its definition can leave one without use.
    if any(commit.expected and commit.definition_text is not None for commit in commits):
        await _drop_unused(db)
    refused = [item for item in asked if item.value.conversation_id not in done]
    reasons = await _reasons(db, refused, again) if refused else {}
    return [reasons.get(commit.conversation_id) for commit in commits]


def _parameters(asked: Sequence[LockedRequest], commits: Sequence[Commit]) -> dict[str, str]:
    pins = {c.definition_sha: c.definition_text for c in commits if c.definition_text is not None}
    return {
        "commits": _json(
            {
                "id": c.conversation_id,
                "expected": c.expected,
                "number": c.number,
                "session": c.session,
                "definition": c.definition,
                "state": c.state,
                "ended": c.ended,
                "paused": c.paused,
                "time": c.time,
                "began": c.began,
                "sha": c.definition_sha,
                "holder": item.holder,
            }
            for item, c in zip(asked, commits, strict=True)
        ),
        "definitions": _json({"sha": sha, "text": text} for sha, text in pins.items()),
        **_beside(commits),
    }


def _beside(commits: Sequence[Commit]) -> dict[str, str]:
    """Return the rows of all tables beside those of conversations and definitions, by table."""
    records: list[JsonDict] = []
    answered: list[JsonDict] = []
    labels: list[JsonDict] = []
    due: list[JsonDict] = []
    outbox: list[JsonDict] = []
    for c in commits:
        name = c.conversation_id
        records += [
            {"id": name, "number": number, "record": text} for number, text, _ in c.numbered
        ]
        answered += [{"id": name, "request_id": known, "number": at} for known, at in c.answered]
        labels += [{"id": name, "key": key, "value": value} for key, value in c.metadata.items()]
        due += [{"id": name, "time": at, "kind": kind} for at, kind in c.due]
        outbox += [
            {"id": name, "number": c.number, "place": place, **asdict(event)}
            for place, event in enumerate(c.outbox)
        ]
    rows = {"records": records, "answered": answered, "labels": labels, "due": due}
    return {table: _json(found) for table, found in {**rows, "outbox": outbox}.items()}


def _json(rows: Iterable[JsonDict]) -> str:
    return json_text([*rows])


async def _reasons(
    db: Connection, refused: Sequence[LockedRequest], again: bool
) -> dict[str, Exception | None]:
    found: dict[str, Exception | None] = {}
    for item in refused:
        commit: Commit = item.value
        asked = {
            "id": commit.conversation_id,
            "number": commit.number,
            "holder": item.holder,
            "sha": commit.definition_sha,
            "requests": [request_id for request_id, _ in commit.answered],
        }
        row = await (await db.execute(_WHY, (_json([asked]),))).fetchone()
        unknown = ("", 0, None, False, False, False)
        _, version, record, locked, known, defined = row or unknown
        reason: Exception | None
        # The connection broke after the server had committed: this is our own turn.
        if again and record == commit.record:
            reason = None
        elif not locked:
            reason = lock_lost(commit.conversation_id)
        else:
            reason = refusal(commit, version or 0, answered=known, defined=defined)
            # Without a reason, another writer wrote between the statement and the query.
            reason = reason or wrong_version(commit, commit.expected + 1)
        found[commit.conversation_id] = reason
    return found


async def journal(
    db: Connection, asked: Sequence[LockedRequest], again: bool
) -> Sequence[Exception | None]:
    steps: Sequence[JournalStep] = [item.value for item in asked]
    given = _json(
        {"id": name, "step": step, "text": text, "holder": holder}
        for (name, step, text), holder in asked
    )
    cursor = await db.execute(_JOURNAL, (given,))
    done = set(await cursor.fetchall())
    return [
        None if (step.conversation_id, step.step) in done else await _why_not(db, item, again)
        for step, item in zip(steps, asked, strict=True)
    ]


async def _why_not(db: Connection, item: LockedRequest, again: bool) -> Exception | None:
    step: JournalStep = item.value
    query = "SELECT text FROM journal WHERE conversation = %s AND step = %s"
    row = await (await db.execute(query, (step.conversation_id, step.step))).fetchone()
    if row is None:
        return lock_lost(step.conversation_id)
    return None if again and row[0] == step.text else step_exists(step.conversation_id, step.step)


async def journalled(db: Connection, asked: Sequence[str]) -> Sequence[Sequence[str]]:
    found: list[list[str]] = [[] for _ in asked]
    wanted = _json({"place": place, "id": name} for place, name in enumerate(asked))
    for place, text in await (await db.execute(_JOURNALLED, (wanted,))).fetchall():
        found[place].append(text)
    return [tuple(steps) for steps in found]


async def lock(db: Connection, names: Sequence[str], holder: int) -> frozenset[str]:
    """Take locks for the holder with the number `holder`, and return the conversations that were
    free.
    """
    # In order, so that two processes that take several locks never wait for each other.
    wanted = _json({"id": name, "holder": holder} for name in sorted(set(names)))
    cursor = await db.execute(_LOCK, (wanted,))
    return frozenset(name for (name,) in await cursor.fetchall())


async def say_alive(db: Connection, holder: int) -> None:
    """Record that the process of a holder runs."""
    await db.execute(_SEEN, (holder,))


async def end_frozen(db: Connection, names: Sequence[str], silent: float) -> None:
    """End the lock connections of processes that hold these conversations and stand still.

    Args:
        db: The connection.
        names: Conversations whose locks somebody waits for.
        silent: Seconds after which a process that did not say that it lives counts as frozen.
    """
    await db.execute(_END_FROZEN, (list(names), silent))


async def unlock(db: Connection, held: Sequence[tuple[str, int]]) -> None:
    """Release locks, unless they were lost to other holders."""
    await db.execute(
        _UNLOCK, (_json({"id": name, "holder": holder} for name, holder in sorted(held)),)
    )


async def perform(db: Connection, work: Callable[[PostgresRows], Any]) -> Any:
    """Perform the statements of a request, and return its result."""
    found = work(PostgresRows(db))
    if not isinstance(found, Generator):
        return await found
    try:
        text, values = next(found)
        while True:
            cursor = await db.execute(text.encode(), values)
            text, values = found.send(await cursor.fetchall() if cursor.description else ())
    except StopIteration as done:
        return done.value


class PostgresRows(SqlRows):
    """The methods of a store that serve one request, on an open connection."""

    dialect = _DIALECT

    def __init__(self, db: Connection) -> None:
        self._db = db

    async def unfinished(self, query: JournalQuery, is_held: IsHeld) -> Sequence[str]:
        found: list[str] = []
        page, after = max(query.limit, 1), query.after or ""
        while len(found) < query.limit:
            values = {"after": after, "closing": CLOSING, "parked": query.parked, "limit": page}
            values["frozen"] = FROZEN_SECONDS
            rows = await (await self._db.execute(_JOURNALS, values)).fetchall()
            for name, first, last in rows:
                if not is_held(name) and query.admits(first, last):
                    found.append(name)
            # A short page is the last one. Lines that are held or do not match do not count.
            if len(rows) < page:
                break
            after = rows[-1][0]
        return tuple(found[: max(query.limit, 0)])

    async def forget_journal(self, name: str, holder: int | None) -> None:
        if await (await self._db.execute(_FORGET, (name, holder))).fetchone() is None:
            raise lock_lost(name)

    async def delete(self, name: str, seen: set[str]) -> bool:
        """See `Store.delete`. If it is repeated after a fault, `seen` holds what it may have
        deleted the first time.
        """
        again = name in seen
        if (
            await (
                await self._db.execute("SELECT 1 FROM conversations WHERE id = %s", (name,))
            ).fetchone()
            is not None
        ):
            # Noted before it is deleted: a connection that breaks after that hides the outcome.
            seen.add(name)
        gone = await self._db.execute(_DELETE, (name, name, name))
        await _drop_unused(self._db)
        return gone.rowcount > 0 or again


def channel(schema: str) -> str:
    """Return the channel on which the server tells that a message was accepted."""
    return f"{schema}_accepted"[:63]


async def _drop_unused(db: Connection) -> None:
    # another commit has just pinned one, so all stay until the next time
    with suppress(errors.ForeignKeyViolation):
        await db.execute(_UNUSED)
