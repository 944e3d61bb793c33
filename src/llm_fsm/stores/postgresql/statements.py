"""What the PostgreSQL store reads and writes: one statement for all requests of a kind that came together.

A statement takes arrays and is a transaction by itself. What a commit cannot be granted is found out afterwards,
for the refused ones only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from psycopg import AsyncConnection, errors, pq
from psycopg.adapt import Dumper
from psycopg.postgres import types

from llm_fsm.stores.base import Commit, Due, Listed, ListQuery, Loaded, OutboxQuery, Posted
from llm_fsm.stores.errors import (
    answered_already,
    lock_lost,
    step_exists,
    unknown_definition,
    wrong_version,
)

Connection = AsyncConnection[Any]
_TEXT = types["text"]
_NULL = struct.pack("!i", -1)


class Texts(tuple[str | None, ...]):
    """An array of texts; None is NULL."""

    __slots__ = ()


class TextsDumper(Dumper):
    """`Texts` in the binary format of PostgreSQL's arrays, always of one type: one prepared statement serves them."""

    format = pq.Format.BINARY
    oid = _TEXT.array_oid

    def dump(self, obj: Texts) -> bytes:
        """The array as the server takes it."""
        if not obj:
            return struct.pack("!iii", 0, 0, _TEXT.oid)
        parts = [struct.pack("!iiiii", 1, 1, _TEXT.oid, len(obj), 1)]
        for text in obj:
            if text is None:
                parts.append(_NULL)
            else:
                encoded = text.encode()
                parts += [struct.pack("!i", len(encoded)), encoded]
        return b"".join(parts)


def texts(items: Iterable[str | None]) -> Texts:
    """An array of texts."""
    return Texts(items)


def numbers(items: Iterable[float | None]) -> str:
    """An array of numbers in its text form, to be cast to the type that the statement wants."""
    return "{" + ",".join("NULL" if item is None else repr(item) for item in items) + "}"


class Held(NamedTuple):
    """What is asked for one conversation, and under which number its lock was taken (None: without a lock)."""

    value: Any
    holder: int | None


class Step(NamedTuple):
    """A result for the journal."""

    conversation_id: str
    step: int
    text: str


_LOAD = """SELECT c.session, c.version, r.record, c.definition_sha
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS asked (id, request_id, place)
    LEFT JOIN conversations c USING (id)
    LEFT JOIN inbox i ON i.conversation = asked.id AND i.request_id = asked.request_id
    LEFT JOIN records r ON r.conversation = asked.id AND r.number = i.number
    ORDER BY place"""

_STILL = """(holder IS NULL OR EXISTS
        (SELECT 1 FROM locks l WHERE l.conversation = id AND l.holder = given.holder FOR SHARE))"""

_SAVE = f"""WITH given AS (
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::int[],
        %s::float8[], %s::float8[], %s::text[], %s::int[])
    AS t (id, expected, number, session, definition, state, ended, time, began, sha, holder)
), appended AS (
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[]) AS t (id, number, record, request_id)
), texts AS (
    SELECT * FROM unnest(%s::text[], %s::text[]) AS t (sha, text)
), fit AS (
    SELECT * FROM given WHERE {_STILL}
    AND NOT EXISTS (SELECT 1 FROM appended a JOIN inbox i ON i.conversation = a.id AND i.request_id = a.request_id
        WHERE a.id = given.id)
    AND (sha IS NULL OR EXISTS (SELECT 1 FROM texts WHERE texts.sha = given.sha)
        OR EXISTS (SELECT 1 FROM definitions d WHERE d.sha = given.sha))
), created AS (
    INSERT INTO conversations (id, version, session, definition, state, ended, created, updated, definition_sha)
    SELECT id, number, session, definition, state, ended = 1, began, time, sha FROM fit WHERE expected = 0
    ON CONFLICT DO NOTHING RETURNING id
), updated AS (
    UPDATE conversations c SET version = c.version + 1, session = fit.session, definition = fit.definition,
        state = fit.state, ended = fit.ended = 1, updated = fit.time, definition_sha = fit.sha
    FROM fit WHERE fit.expected > 0 AND c.id = fit.id AND c.version = fit.expected RETURNING c.id
), done AS (
    SELECT id FROM created UNION ALL SELECT id FROM updated
), pinned AS (
    INSERT INTO definitions SELECT DISTINCT texts.sha, texts.text FROM texts
    JOIN given ON given.sha = texts.sha JOIN done ON done.id = given.id ON CONFLICT DO NOTHING
), recorded AS (
    INSERT INTO records SELECT id, number, record FROM appended JOIN done USING (id)
), known AS (
    INSERT INTO inbox SELECT id, request_id, number FROM appended JOIN done USING (id) WHERE request_id IS NOT NULL
), undue AS (
    DELETE FROM due USING done, given
    WHERE due.conversation = done.id AND given.id = done.id AND given.expected > 0
), awaited AS (
    INSERT INTO due SELECT id, time, kind FROM unnest(%s::text[], %s::float8[], %s::text[]) AS t (id, time, kind)
    JOIN done USING (id)
), posted AS (
    INSERT INTO outbox SELECT id, number, place, sink, key, text
    FROM unnest(%s::text[], %s::bigint[], %s::int[], %s::text[], %s::text[], %s::text[])
    AS t (id, number, place, sink, key, text) JOIN done USING (id)
), forgotten AS (
    DELETE FROM journal USING done WHERE journal.conversation = done.id
)
SELECT id FROM done"""

_WHY = f"""SELECT id, c.version, r.record, {_STILL},
    EXISTS (SELECT 1 FROM inbox i WHERE i.conversation = id AND i.request_id = ANY (requests.ids)),
    given.sha IS NULL OR EXISTS (SELECT 1 FROM definitions d WHERE d.sha = given.sha)
    FROM unnest(%s::text[], %s::bigint[], %s::int[], %s::text[]) AS given (id, number, holder, sha)
    LEFT JOIN conversations c USING (id)
    LEFT JOIN records r ON r.conversation = id AND r.number = given.number,
    LATERAL (SELECT %s::text[] AS ids) AS requests"""

_JOURNAL = f"""INSERT INTO journal SELECT id, step, text
    FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::int[]) AS given (id, step, text, holder)
    WHERE {_STILL} ON CONFLICT DO NOTHING RETURNING conversation, step"""

_FORGET = f"""WITH given AS (SELECT %s::text AS id, %s::int AS holder),
    still AS (SELECT id FROM given WHERE {_STILL}),
    gone AS (DELETE FROM journal USING still WHERE journal.conversation = still.id)
    SELECT id FROM still"""

_JOURNALLED = """SELECT place, text FROM unnest(%s::text[]) WITH ORDINALITY AS asked (id, place)
    JOIN journal ON conversation = id ORDER BY place, step"""

_DELETE = """WITH forgotten AS (DELETE FROM journal WHERE conversation = %s)
    DELETE FROM conversations WHERE id = %s"""

_LOCK = """INSERT INTO locks AS held (conversation, holder) SELECT id, %s::int FROM unnest(%s::text[]) AS t (id)
    ON CONFLICT (conversation) DO UPDATE SET holder = excluded.holder
    WHERE held.holder = excluded.holder
    OR pg_try_advisory_xact_lock('locks'::regclass::oid::int, held.holder)
    RETURNING conversation"""

_UNLOCK = """DELETE FROM locks USING unnest(%s::text[], %s::int[]) AS t (id, holder)
    WHERE conversation = id AND locks.holder = t.holder"""

_LIST = """SELECT id, definition, state, ended, version, created, updated, definition_sha FROM conversations
    WHERE id > coalesce(%(after)s, '') AND (%(definition)s::text IS NULL OR definition = %(definition)s)
    AND (%(state)s::text IS NULL OR state = %(state)s) AND (%(ended)s::bool IS NULL OR ended = %(ended)s)
    ORDER BY id LIMIT greatest(%(limit)s, 0)"""

_DUE = """SELECT due.conversation, due.time, due.kind FROM due JOIN conversations c ON c.id = due.conversation
    WHERE due.time <= %s AND (%s::text IS NULL OR c.definition = %s)
    ORDER BY due.time, due.conversation, due.kind LIMIT %s"""

_OUTBOX = """SELECT o.conversation, o.number, o.place, o.sink, o.key, o.text
    FROM outbox o JOIN conversations c ON c.id = o.conversation
    WHERE o.sink = %(sink)s AND o.conversation > coalesce(%(after)s, '')
    AND (%(conversation_id)s::text IS NULL OR o.conversation = %(conversation_id)s)
    AND (%(definition)s::text IS NULL OR c.definition = %(definition)s)
    ORDER BY o.conversation, o.number, o.place LIMIT greatest(%(limit)s, 0)"""

_OUTBOX_OF_ALL = _OUTBOX.replace("o.sink = %(sink)s", "%(sink)s::text IS NULL")

_UNUSED = """DELETE FROM definitions d
    WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.definition_sha = d.sha)"""


async def load(db: Connection, asked: Sequence[tuple[str, str | None]]) -> Sequence[Loaded | None]:
    cursor = await db.execute(
        _LOAD, (texts(name for name, _ in asked), texts(request for _, request in asked))
    )
    return [
        None
        if row[0] is None
        else Loaded(session=row[0], version=row[1], recorded=row[2], definition_sha=row[3])
        for row in await cursor.fetchall()
    ]


async def save(db: Connection, asked: Sequence[Held], again: bool) -> Sequence[Exception | None]:
    """See `Store.save`; of each conversation one commit. `again`: some of them may be in already."""
    commits: Sequence[Commit] = [item.value for item in asked]
    cursor = await db.execute(_SAVE, _arrays(asked, commits))
    done = {name for (name,) in await cursor.fetchall()}
    if any(commit.expected and commit.definition_text is not None for commit in commits):
        await _drop_unused(db)
    refused = [item for item in asked if item.value.conversation_id not in done]
    reasons = await _reasons(db, refused, again) if refused else {}
    return [reasons.get(commit.conversation_id) for commit in commits]


def _arrays(asked: Sequence[Held], commits: Sequence[Commit]) -> Sequence[Texts | str]:
    pins = {c.definition_sha: c.definition_text for c in commits if c.definition_text is not None}
    appended = [(c.conversation_id, *item) for c in commits for item in c.numbered]
    due = [(c.conversation_id, at, kind) for c in commits for at, kind in c.due]
    posted = [
        (c.conversation_id, c.number, place, event) for c in commits for place, event in enumerate(c.outbox)
    ]
    return (
        texts(c.conversation_id for c in commits),
        numbers(c.expected for c in commits),
        numbers(c.number for c in commits),
        texts(c.session for c in commits),
        texts(c.definition for c in commits),
        texts(c.state for c in commits),
        numbers(int(c.ended) for c in commits),
        numbers(c.time for c in commits),
        numbers(c.began for c in commits),
        texts(c.definition_sha for c in commits),
        numbers(item.holder for item in asked),
        texts(row[0] for row in appended),
        numbers(row[1] for row in appended),
        texts(row[2] for row in appended),
        texts(row[3] for row in appended),
        texts(pins),
        texts(pins.values()),
        texts(row[0] for row in due),
        numbers(row[1] for row in due),
        texts(row[2] for row in due),
        texts(row[0] for row in posted),
        numbers(row[1] for row in posted),
        numbers(row[2] for row in posted),
        texts(row[3].sink for row in posted),
        texts(row[3].key for row in posted),
        texts(row[3].text for row in posted),
    )


async def _reasons(db: Connection, refused: Sequence[Held], again: bool) -> dict[str, Exception | None]:
    found: dict[str, Exception | None] = {}
    for item in refused:
        commit: Commit = item.value
        requests = [request for *_, request in commit.numbered if request is not None]
        asked = (
            texts([commit.conversation_id]),
            numbers([commit.number]),
            numbers([item.holder]),
            texts([commit.definition_sha]),
            texts(requests),
        )
        row = await (await db.execute(_WHY, asked)).fetchone()
        _, version, record, locked, known, defined = row or (None,) * 6
        reason: Exception | None
        if again and record == commit.record:
            reason = None
        elif not locked:
            reason = lock_lost(commit.conversation_id)
        elif (version or 0) != commit.expected:
            reason = wrong_version(commit, version or 0)
        elif known:
            reason = answered_already(commit)
        elif not defined and commit.definition_text is None:
            reason = unknown_definition(commit)
        else:  # another writer was there between the statement and the question
            reason = wrong_version(commit, commit.expected + 1)
        found[commit.conversation_id] = reason
    return found


async def journal(db: Connection, asked: Sequence[Held], again: bool) -> Sequence[Exception | None]:
    steps: Sequence[Step] = [item.value for item in asked]
    arrays = (
        texts(step.conversation_id for step in steps),
        numbers(step.step for step in steps),
        texts(step.text for step in steps),
        numbers(item.holder for item in asked),
    )
    cursor = await db.execute(_JOURNAL, arrays)
    done = set(await cursor.fetchall())
    return [
        None if (step.conversation_id, step.step) in done else await _why_not(db, item, again)
        for step, item in zip(steps, asked, strict=True)
    ]


async def _why_not(db: Connection, item: Held, again: bool) -> Exception | None:
    step: Step = item.value
    query = "SELECT text FROM journal WHERE conversation = %s AND step = %s"
    row = await (await db.execute(query, (step.conversation_id, step.step))).fetchone()
    if row is None:
        return lock_lost(step.conversation_id)
    return None if again and row[0] == step.text else step_exists(step.conversation_id, step.step)


async def journalled(db: Connection, asked: Sequence[str]) -> Sequence[Sequence[str]]:
    found: list[list[str]] = [[] for _ in asked]
    cursor = await db.execute(_JOURNALLED, (texts(asked),))
    for place, text in await cursor.fetchall():
        found[place - 1].append(text)
    return [tuple(steps) for steps in found]


async def lock(db: Connection, names: Sequence[str], holder: int) -> frozenset[str]:
    """The conversations whose locks could be taken under the number `holder`."""
    cursor = await db.execute(_LOCK, (holder, texts(sorted(set(names)))))
    return frozenset(name for (name,) in await cursor.fetchall())


async def unlock(db: Connection, held: Sequence[tuple[str, int]]) -> None:
    """Give locks back; those that were lost are somebody else's."""
    given = sorted(held)
    await db.execute(_UNLOCK, (texts(name for name, _ in given), numbers(holder for _, holder in given)))


async def records(db: Connection, name: str, after: int, limit: int | None) -> Sequence[str]:
    query = "SELECT record FROM records WHERE conversation = %s AND number > %s ORDER BY number LIMIT %s"
    cursor = await db.execute(query, (name, after, None if limit is None else max(limit, 0)))
    return tuple(record for (record,) in await cursor.fetchall())


async def forget_journal(db: Connection, name: str, holder: int | None) -> None:
    if await (await db.execute(_FORGET, (name, holder))).fetchone() is None:
        raise lock_lost(name)


async def listed(db: Connection, query: ListQuery) -> Sequence[Listed]:
    return tuple(Listed(*row) for row in await (await db.execute(_LIST, asdict(query))).fetchall())


async def definition(db: Connection, sha: str) -> str | None:
    row = await (await db.execute("SELECT text FROM definitions WHERE sha = %s", (sha,))).fetchone()
    return None if row is None else row[0]


async def due(db: Connection, now: float, limit: int, name: str | None) -> Sequence[Due]:
    cursor = await db.execute(_DUE, (now, name, name, max(limit, 0)))
    return tuple(Due(*row) for row in await cursor.fetchall())


async def outbox(db: Connection, query: OutboxQuery) -> Sequence[Posted]:
    cursor = await db.execute(_OUTBOX_OF_ALL if query.sink is None else _OUTBOX, asdict(query))
    return tuple(Posted(*row) for row in await cursor.fetchall())


async def acknowledge(db: Connection, posted: Posted) -> None:
    told = "DELETE FROM outbox WHERE conversation = %s AND sink = %s AND (number, place) <= (%s, %s)"
    await db.execute(told, (posted.conversation_id, posted.sink, posted.number, posted.index))


async def delete(db: Connection, name: str, seen: set[str]) -> bool:
    """See `Store.delete`. Begun again after a fault, it knows by `seen` what it may have deleted the first time."""
    again = name in seen
    if await (await db.execute("SELECT 1 FROM conversations WHERE id = %s", (name,))).fetchone() is not None:
        seen.add(name)
    gone = await db.execute(_DELETE, (name, name))
    await _drop_unused(db)
    return gone.rowcount > 0 or again


async def _drop_unused(db: Connection) -> None:
    with suppress(errors.ForeignKeyViolation):  # somebody has pinned one meanwhile: all stay until the next time
        await db.execute(_UNUSED)
