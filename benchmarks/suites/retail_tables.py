"""The tables of the retail tasks that need no model: the right path, and the hostile agent."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from benchmarks.suites import desk, hostile, tau
from benchmarks.suites.play import print_list, share, table
from benchmarks.suites.retail_tools import Json

HEAD = (
    *("what the agent tries", "attacks", "forbidden writes, bare loop"),
    *("forbidden writes, examples/retail", "allowed writes, examples/retail"),
)


def report(options: argparse.Namespace) -> None:
    """Play the right path of each task, and the hostile agent, and print both tables.

    Raises:
        Unusable: The data is missing or has another form.
    """
    retail = tau.retail(options.data)
    tasks = retail.tasks[: options.tasks]
    wrong = []
    for task in tasks:
        differs = asyncio.run(desk.right_path(retail, task))
        if differs:
            wrong.append(f"task {task.id}: {differs}")
    writes = sum(len(task.writes) for task in tasks)
    reached = share(len(tasks) - len(wrong), len(tasks))
    row = ["examples/retail", len(tasks), writes, reached]
    print(table(["right path", "tasks", "writes", "the right database"], [row]))
    print_list("Tasks with another database:", wrong)
    rows = asyncio.run(hostile.count(retail, tasks, options.seed, options.swaps))
    print()
    print(table(HEAD, [*map(_attacked, rows), _attacked(_sum(rows))]))
    broken = [f"{row['kind']}: {name}: {row[name]}" for row in rows for name in row if ": " in name]
    print_list("Rules that examples/retail broke:", broken)


def _attacked(row: Json) -> list[object]:
    cells = ("attacks", "loop forbidden", "ours forbidden", "ours allowed")
    return [row["kind"], *(row.get(name, 0) for name in cells)]


def _sum(rows: Sequence[Json]) -> Json:
    found: Json = {"kind": "all"}
    for row in rows:
        for name, value in row.items():
            if name != "kind":
                found[name] = found.get(name, 0) + value
    return found
