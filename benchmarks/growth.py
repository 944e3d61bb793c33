"""Bytes written per turn, early and late in a conversation: `python -m benchmarks.growth`.

Each store is measured without a context, and with one of a megabyte that no turn touches.
SQLite and files: what the process hands to `write` (`wchar` of /proc/self/io), PostgreSQL: its
write-ahead log. Each figure is the median of twenty turns around turn 10 and around turn 500: now
and then SQLite copies its log into the file, which comes on top.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.live import DEFINITION, REPLY, store_of
from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM

SPAN = 20
PLACES = (10, 500)
CONTEXTS = {
    "no context": {},
    "1 MB of context": {"catalogue": [f"article {number:06}" for number in range(60_000)]},
}


async def written_here() -> int:
    """Bytes that this process has written so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def written_there(url: str) -> Callable[[], Awaitable[int]]:
    """Bytes that a PostgreSQL server has written to its log so far."""

    async def ask() -> int:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
            row = await (await db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")).fetchone()
        return int(row[0])

    return ask


async def growth(
    url: str, written: Callable[[], Awaitable[int]], context: dict[str, Any]
) -> list[float]:
    """Bytes per turn around each of `PLACES`, in a conversation that was started with this context."""
    taken: dict[int, list[float]] = {place: [] for place in PLACES}
    async with AsyncMachine.from_dict(
        DEFINITION, model=ScriptedLLM([REPLY], loop=True), store=url
    ) as machine:
        chat = await machine.start(context, greet=False)
        for number in range(1, max(PLACES) + SPAN // 2 + 1):
            near = [place for place in PLACES if -SPAN // 2 < number - place <= SPAN // 2]
            before = await written() if near else 0
            await chat.send(
                f"This is what I have to say in turn {number:05}.",
                request_id=f"request-{number:05}",
            )
            for place in near:
                taken[place].append(await written() - before)
    return [statistics.median(taken[place]) for place in PLACES]


def main() -> None:
    """Measure each store and print a line for it."""
    for kind in ("sqlite", "file", "postgresql"):
        with store_of(kind) as url:
            count = written_there(url) if kind == "postgresql" else written_here
            for name, context in CONTEXTS.items():
                early, late = asyncio.run(growth(url, count, context))
                print(
                    f"{kind}, {name}: {early:,.0f} bytes a turn at turn {PLACES[0]}, {late:,.0f} at turn {PLACES[1]}"
                )


if __name__ == "__main__":
    main()
