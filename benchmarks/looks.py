"""A look for unfinished and due turns beside many idle conversations: `python -m benchmarks.looks
[URL]`.

Without a URL it makes an SQLite file. A URL names an empty schema of PostgreSQL. Conversations are
written past the store's methods, because a million turns would take an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from psycopg import AsyncConnection

from llm_fsm.stores.base import Commit, OutboxQuery, Store
from llm_fsm.stores.registry import resolve

_COLUMNS = "id, version, session, definition, state, ended, created, updated"


def _fill_sqlite(path: Path, idle: int) -> None:
    """Write idle conversations into a file that the store has made."""
    rows = ((f"idle-{number}", 1, "{}", "bot", "ask", 0, 1.0, 1.0) for number in range(idle))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.executemany(f"INSERT INTO conversations ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)", rows)


async def _fill_postgresql(url: str, idle: int) -> None:
    async with await AsyncConnection.connect(url) as db:
        await db.execute(
            f"INSERT INTO llm_fsm.conversations ({_COLUMNS}) "
            "SELECT 'idle-' || n, 1, '{}', 'bot', 'ask', false, 1, 1 FROM generate_series(1, %s) n",
            (idle,),
        )
        await db.execute("ANALYZE llm_fsm.conversations")


async def _leave(store: Store, count: int) -> None:
    """Leave unfinished turns, and as many that are due."""
    for number in range(count):
        entry = {"kind": "message", "definition": "bot", "time": 1.0, "step": 0}
        await store.journal(f"open-{number}", 0, json.dumps(entry))
        row = ((5.0, "expire"),)
        commit = Commit(conversation_id=f"due-{number}", expected=0, session="{}", record="{}")
        await store.save(Commit(**{**vars(commit), "due": row, "definition": "bot"}))


async def _look(store: Store, now: float) -> float:
    """Return the milliseconds of one look."""
    began = time.perf_counter()
    found = await store.unfinished(100, ["bot"])
    due = await store.due(now, 100, "bot")
    await store.outbox(OutboxQuery(limit=1))
    if not found or not due:
        raise RuntimeError("the look found nothing")
    return (time.perf_counter() - began) * 1000


async def measure(url: str | None, idle: int, looks: int = 50) -> str:
    """Return the figures in a sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bots.db"
        store = resolve(url or f"sqlite:///{path}")
        await _leave(store, 10)
        if url is None:
            await asyncio.to_thread(_fill_sqlite, path, idle)
        else:
            await _fill_postgresql(url, idle)
        times = [await _look(store, 10.0) for _ in range(looks)]
        await store.close()
    kind = "SQLite" if url is None else "PostgreSQL"
    return (
        f"{kind}, {idle:,} idle, 10 unfinished and 10 due: a look takes "
        f"{statistics.median(times):.1f} ms (median), {max(times):.1f} ms (worst of {looks})"
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--idle", type=int, default=1_000_000)
    given = parser.parse_args()
    print(asyncio.run(measure(given.url, given.idle)))


if __name__ == "__main__":
    main()
