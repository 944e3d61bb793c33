"""What is measured: one function a table. Runs of the systems are interleaved, so that drift falls
on all.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.beside.server_process import Server
from benchmarks.beside.systems import HERE, System, python, why
from benchmarks.beside.workload import EXPECTED

Row = dict[str, Any]
FLOOR = "raw aiohttp"
"""The system that does nothing but ask, with which others are compared."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The server, the systems, and how often each is measured."""

    server: Server
    systems: Sequence[System]
    runs: int
    conversations: int

    def worker(self, system: System, mode: str, *, timeout: float = 300, **options: Any) -> Row:
        """One measurement of one system; how long it took is said on the error output."""
        began = time.perf_counter()
        found = self._worker(system, mode, timeout, options)
        said = "failed after" if "failed" in found else "took"
        print(
            f"{mode}: {system.name} {said} {time.perf_counter() - began:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        return found

    def _worker(self, system: System, mode: str, timeout: float, options: Row) -> Row:
        options = {"base_url": self.server.base_url, **options}
        command = [
            python(system.environment),
            str(HERE / "worker.py"),
            system.peer,
            mode,
            json.dumps(options),
        ]
        try:
            with tempfile.TemporaryDirectory(
                prefix="beside-"
            ) as elsewhere:  # some leave their logs where they run
                made = subprocess.run(
                    command,
                    cwd=elsewhere,
                    env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    check=False,
                )
            return json.loads(made.stdout.strip().splitlines()[-1])
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {timeout:g} s"}
        except (IndexError, ValueError):
            return {"failed": why(made)}

    def repeated(
        self, systems: Sequence[System], mode: str, *, runs: int | None = None, **options: Any
    ) -> dict[str, Row]:
        """Of the runs of each system the one that took the least of the processor: what disturbs
        only adds to it.
        """
        found: dict[str, list[Row]] = {system.name: [] for system in systems}
        for _ in range(runs or self.runs):
            for system in systems:
                found[system.name].append(self.worker(system, mode, **options))
        return {name: _calmest(rows) for name, rows in found.items()}


def _calmest(rows: list[Row]) -> Row:
    return min(
        (row for row in rows if "failed" not in row),
        key=lambda row: row["cpu_ms"],
        default=rows[-1],
    )


def tokens(bench: Bench) -> dict[str, Row]:
    """Calls and prompt tokens of one conversation, as counted from what was sent."""
    found = {}
    for system in bench.systems:
        bench.server.configure(record="light")
        talked = bench.worker(system, "talk", timeout=90)
        sent = bench.server.ask("/admin/stats")["requests"]
        if "failed" in talked or not sent:
            found[system.name] = talked
            continue
        calls, turns = len(sent) - talked["greeted"], talked["turns"]
        later = sent[talked["greeted"] :]
        prompt = sum(row["prompt_tokens"] for row in later)
        words = [row for row in later if row["lead_tokens"] < row["completion_tokens"]]
        found[system.name] = {
            "right": talked["state"] == "done" and (talked["data"] == EXPECTED or turns == 3),
            "calls": calls / turns,
            "messages": sum(row["message_tokens"] for row in later) / turns,
            "prompt": prompt / turns,
            "cached": 100 * sum(row["lcp_best_tokens"] for row in later) / prompt,
            "fresh": sum(row["prompt_tokens"] - row["lcp_best_tokens"] for row in later) / turns,
            "lead": statistics.mean(row["lead_tokens"] for row in words) if words else None,
            "completion": sum(row["completion_tokens"] for row in later) / turns,
            **{
                f"units_{rule}": sum(units(row, served) for row in later) / turns
                for rule, served in RULES.items()
            },
        }
    return found


RULES: Mapping[str, Callable[[int], int]] = {
    "any": lambda seen: seen,
    "steps": lambda seen: seen // 128 * 128 if seen >= 1024 else 0,
    "none": lambda _: 0,
}
"""Rules of providers to how many tokens of a prefix seen before their cache serves: any length,
from 1,024 in steps of 128, none."""


def units(row: Row, served: Callable[[int], int]) -> float:
    """What a call costs, in prompt tokens that no cache serves: one that it serves is 10 %, one of
    the reply five.
    """
    return float(
        row["prompt_tokens"] - 0.9 * served(row["lcp_best_tokens"]) + 5 * row["completion_tokens"]
    )


def cost(bench: Bench) -> dict[str, Row]:
    """What these tokens cost by each rule; `times`: the rule by which a system does worst beside
    the raw client.
    """
    rows = tokens(bench)
    floor = rows.get(FLOOR, {})
    for row in rows.values():
        if all(f"units_{rule}" in known for rule in RULES for known in (row, floor)):
            row["times"] = max(row[f"units_{rule}"] / floor[f"units_{rule}"] for rule in RULES)
    return rows


def turns(bench: Bench) -> dict[str, Row]:
    """A turn over HTTP at no delay."""
    bench.server.configure()
    return _beside(
        bench.repeated(bench.systems, "turns", warm=2, conversations=bench.conversations), "cpu_ms"
    )


def durable_turns(bench: Bench) -> dict[str, Row]:
    """The same with each turn on disk when it is answered, beside the raw client, which keeps
    nothing.
    """
    bench.server.configure()
    systems = [system for system in bench.systems if system.durable or system.name == FLOOR]
    found: dict[str, list[Row]] = {system.name: [] for system in systems}
    for _ in range(bench.runs):
        for system in systems:
            options = {"warm": 2, "conversations": bench.conversations, "store": system.durable}
            found[system.name].append(bench.worker(system, "turns", **options))
    return _beside({name: _calmest(rows) for name, rows in found.items()}, "cpu_ms")


def _beside(rows: dict[str, Row], key: str) -> dict[str, Row]:
    """The rows with how many times the figure of the raw client theirs is, as `times`."""
    floor = rows.get(FLOOR, {}).get(key)
    return {
        name: {**row, "times": row[key] / floor} if floor and key in row else row
        for name, row in rows.items()
    }


def stub(bench: Bench) -> dict[str, Row]:
    """A turn with the model in process."""
    systems = [system for system in bench.systems if system.stubbed]
    return bench.repeated(
        systems, "turns", warm=2, conversations=2 * bench.conversations, stub=True
    )


def _many(count: int, rounds: int) -> Callable[[Bench], dict[str, Row]]:
    def section(bench: Bench) -> dict[str, Row]:
        bench.server.configure(delay_ms=50)
        return bench.repeated(
            bench.systems, "many", runs=1, n=count, rounds=rounds, seconds=3, timeout=120
        )

    section.__doc__ = f"{count} conversations at once, a model that takes 50 ms, one core."
    return section


def idle(bench: Bench) -> dict[str, Row]:
    """Memory of an idle conversation in the memory store."""
    systems = [system for system in bench.systems if system.stubbed and system.converses]
    return {
        system.name: bench.worker(system, "idle", n=10_000, seconds=5, stub=True)
        for system in systems
    }


def long(bench: Bench) -> dict[str, Row]:
    """A conversation of 505 turns: prompt tokens and time at turns 10, 100 and 500."""
    found = {}
    for system in bench.systems:
        if not system.converses:
            continue
        bench.server.configure(record="light")
        row = bench.worker(system, "long", turns=505, seconds=20, timeout=120)
        sent = bench.server.ask("/admin/count")["count"]
        if "failed" not in row and sent:
            per = sent / (row["turns"] + 1)
            for number, took in row["ms_at"].items():
                at = int(per * (int(number) + 1))
                near = {"rows": list(range(max(0, at - 6), min(at + 6, sent)))}
                sizes = bench.server.ask("/admin/sizes", near)["prompt_tokens"]
                row |= {f"tokens_{number}": statistics.mean(sizes) * per, f"ms_{number}": took}
        found[system.name] = row
    return found


def stream(bench: Bench) -> dict[str, Row]:
    """Words of 200 tokens at 5 ms a token: when the user sees the first one."""
    bench.server.configure(token_delay_ms=5, pad_tokens=190)
    systems = [system for system in bench.systems if system.converses]
    return _beside(
        {item.name: bench.worker(item, "stream", times=3, timeout=120) for item in systems},
        "visible_ms",
    )


def durable(bench: Bench) -> dict[str, Row]:
    """A turn with the model in process, kept on disk and not, at turns 10, 100 and 500.

    On one processor, as all else is measured, and on any: waiting for a disk costs more where its
    interrupts go to another processor than the one that waits.
    """
    systems = [system for system in bench.systems if system.durable]
    found: dict[str, list[Row]] = {system.name: [] for system in systems}
    for _ in range(bench.runs):
        for system in systems:
            found[system.name].append(
                {**_kept(bench, system, "more"), **_kept(bench, system, "free", pinned=False)}
            )
    return {name: _middle(rows) for name, rows in found.items()}


def _kept(bench: Bench, system: System, named: str, **options: Any) -> Row:
    """What keeping takes: figures `named`_10, _100 and _500 in milliseconds, and the megabytes that
    are kept.
    """
    options |= {"turns": 505, "seconds": 20, "stub": True}
    kept, bare = (bench.worker(system, "long", store=store, **options) for store in (True, False))
    if "failed" in kept or "failed" in bare:
        return kept if "failed" in kept else bare
    row = {
        f"{named}_{at}": took - bare["ms_at"][at]
        for at, took in kept["ms_at"].items()
        if at in bare["ms_at"]
    }
    sizes = kept["store_bytes_at"]
    return {**row, "mb": sizes["500"] / 2**20} if "500" in sizes else row


def _middle(rows: list[Row]) -> Row:
    """The median of each figure over the runs that came to it."""
    done = [row for row in rows if "failed" not in row]
    heads = dict.fromkeys(key for row in done for key in row)
    return (
        {key: statistics.median(row[key] for row in done if key in row) for key in heads}
        if done
        else rows[-1]
    )


@dataclass(frozen=True, slots=True)
class Table:
    """A section and how it is printed: title, column heads with the key of each figure and its
    format.
    """

    title: str
    measure: Callable[[Bench], dict[str, Row]]
    columns: tuple[tuple[str, str, str], ...]
    plotted: str
    """The figure of the plot."""
    better: str = "lower"


HIGHER = ("cached", "turns_per_s")
"""The figures of which more is better."""

SECTIONS = {
    "stream": Table(
        "The first word: a reply of 200 tokens at 5 ms a token",
        stream,
        (
            ("streams", "streams", ""),
            ("first word ms", "visible_ms", ".0f"),
            ("times raw aiohttp", "times", ".2f"),
            ("all ms", "total_ms", ".0f"),
            ("shows JSON", "shows_json", ""),
        ),
        "visible_ms",
    ),
    "durable_turns": Table(
        "A whole turn over HTTP that is on disk when it is answered: CPU",
        durable_turns,
        (
            ("CPU ms", "cpu_ms", ".3f"),
            ("times raw aiohttp, which keeps nothing", "times", ".2f"),
            ("mean", "cpu_mean_ms", ".3f"),
            ("wall ms", "wall_ms", ".3f"),
        ),
        "cpu_ms",
    ),
    "cost": Table(
        "Cost of a turn, in prompt tokens at full price",
        cost,
        (
            ("any prefix cached", "units_any", ".0f"),
            ("from 1,024 tokens in steps of 128", "units_steps", ".0f"),
            ("no cache", "units_none", ".0f"),
            ("worst beside raw aiohttp", "times", ".2f"),
        ),
        "units_any",
    ),
    "tokens": Table(
        "Model calls and tokens of a turn",
        tokens,
        (
            ("form filled rightly", "right", ""),
            ("calls a turn", "calls", ".2f"),
            ("tokens of the messages", "messages", ".0f"),
            ("with schema and tools", "prompt", ".0f"),
            ("% in a prefix seen before", "cached", ".0f"),
            ("not seen before", "fresh", ".0f"),
            ("tokens of the reply", "completion", ".0f"),
            ("before its first word", "lead", ".0f"),
        ),
        "prompt",
    ),
    "turns": Table(
        "A turn over HTTP, a model that answers at once: CPU",
        turns,
        (
            ("CPU ms", "cpu_ms", ".3f"),
            ("times raw aiohttp", "times", ".2f"),
            ("mean", "cpu_mean_ms", ".3f"),
            ("wall ms", "wall_ms", ".3f"),
            ("up to the first reply, imports too", "first_cpu_ms", ".0f"),
        ),
        "cpu_ms",
    ),
    "stub": Table(
        "A turn with the model in process: CPU",
        stub,
        (
            ("CPU ms", "cpu_ms", ".3f"),
            ("mean", "cpu_mean_ms", ".3f"),
            ("wall ms", "wall_ms", ".3f"),
        ),
        "cpu_ms",
    ),
    "many256": Table(
        "256 conversations at once, a model that takes 50 ms, one core",
        _many(256, 6),
        (
            ("turns/s", "turns_per_s", ".0f"),
            ("p50 ms", "p50_ms", ".0f"),
            ("p99 ms", "p99_ms", ".0f"),
            ("CPU ms a turn", "cpu_ms", ".2f"),
            ("errors", "errors", ".0f"),
        ),
        "turns_per_s",
        "higher",
    ),
    "many1000": Table(
        "1,000 conversations at once, a model that takes 50 ms, one core",
        _many(1000, 4),
        (
            ("turns/s", "turns_per_s", ".0f"),
            ("p50 ms", "p50_ms", ".0f"),
            ("p99 ms", "p99_ms", ".0f"),
            ("MB", "rss_mb", ".0f"),
            ("errors", "errors", ".0f"),
        ),
        "turns_per_s",
        "higher",
    ),
    "idle": Table("Memory of an idle conversation", idle, (("kB", "kb", ".1f"),), "kb"),
    "long": Table(
        "A long conversation",
        long,
        (
            ("tokens at turn 10", "tokens_10", ".0f"),
            ("tokens at 100", "tokens_100", ".0f"),
            ("tokens at 500", "tokens_500", ".0f"),
            ("ms at turn 10", "ms_10", ".2f"),
            ("ms at 500", "ms_500", ".2f"),
        ),
        "tokens_500",
    ),
    "durable": Table(
        "A turn kept on disk, above one that is not",
        durable,
        (
            ("ms at turn 10", "more_10", ".2f"),
            ("ms at 100", "more_100", ".2f"),
            ("ms at 500", "more_500", ".2f"),
            ("any processor: at 10", "free_10", ".2f"),
            ("any: at 100", "free_100", ".2f"),
            ("any: at 500", "free_500", ".2f"),
            ("MB after 500 turns", "mb", ".1f"),
        ),
        "more_500",
    ),
}
