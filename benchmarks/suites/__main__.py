"""Play a set that others made, and print its tables.

    python -m benchmarks.suites sgd DATA [--renamed] [--model MODEL] [--reply prompt]
    python -m benchmarks.suites star DATA [--model MODEL]
    python -m benchmarks.suites tau DATA [--tasks N] [--swaps N]

Without `--model`, SGD and STAR are played with the right replies, which shows that every label can
be reached. `tau` needs no model.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suites import desk, hostile, sgd, star, tau
from benchmarks.suites.files import Unusable
from benchmarks.suites.play import Part, faults, judged, play, share, table
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.testing.evaluation.judge import JudgedTurn


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the arguments name. Return the exit code: 2 if the data or the model is unusable."""
    options = _options(arguments)
    try:
        if options.suite == "tau":
            _tau(options)
        else:
            _labelled(options)
    except (Unusable, ConfigurationError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.suites", description=__doc__)
    parser.add_argument("suite", choices=["sgd", "star", "tau"])
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of the set")
    parser.add_argument("--model", help="provider/model; without it the right replies are played")
    parser.add_argument("--base-url", help="an OpenAI-compatible server")
    told = "force the form of replies, or ask for it in words"
    parser.add_argument("--reply", choices=["schema", "prompt"], default="", help=told)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for a turn (900)")
    parser.add_argument("--turns", type=int, help="the most turns of each part")
    parser.add_argument("--only", action="append", metavar="PART", help="a service or task by name")
    parser.add_argument("--renamed", action="store_true", help="SGD: change names and descriptions")
    parser.add_argument("--tasks", type=int, help="τ: the first N tasks alone")
    parser.add_argument("--swaps", type=int, default=2, help="τ: other values of an argument (2)")
    parser.add_argument("--seed", type=int, default=1, help="τ: the seed of what is drawn (1)")
    return parser.parse_args(arguments)


# -- SGD and STAR ----------------------------------------------------------------------------------


def _labelled(options: argparse.Namespace) -> None:
    """Play the parts of SGD or STAR, and print a row for each."""
    is_sgd = options.suite == "sgd"
    every = sgd.parts(options.data, renamed=options.renamed) if is_sgd else star.parts(options.data)
    chosen = [part for part in every if not options.only or part.name in options.only]
    if not chosen:
        known = ", ".join(part.name for part in every)
        raise Unusable(f"{options.data}: there is nothing to play; it has: {known or 'nothing'}")
    asks = options.model or options.base_url
    model = resolve(options.model, base_url=options.base_url, environ=os.environ) if asks else None
    name = options.model or "the right replies"
    print(f"{options.suite}{', renamed' if options.renamed else ''}: {name}\n")
    rows: list[Sequence[object]] = []
    turns: list[JudgedTurn] = []
    wrong: list[str] = []
    for part in chosen:
        played = _turns(part, model, options, wrong)
        turns += played
        rows.append([part.name, len(part.conversations), *_cells(played, is_sgd=is_sgd)])
    rows.append(
        ["all", sum(len(one.conversations) for one in chosen), *_cells(turns, is_sgd=is_sgd)]
    )
    print(table(HEAD_SGD if is_sgd else HEAD_STAR, rows))
    _print_list("Labels left out, with the reason:", [*_left_out(chosen)])
    _print_list("Turns that are not right:", wrong)


HEAD_SGD = (
    *("service", "dialogues", "turns", "joint goal", "intent right", "values right"),
    *("invented", "harmful", "calls a turn"),
)
HEAD_STAR = ("task", "dialogues", "turns", "action right", "calls a turn")


def _turns(
    part: Part, model: LLM | None, options: argparse.Namespace, wrong: list[str]
) -> list[JudgedTurn]:
    dialogues = play(
        part, model, turns=options.turns, timeout=options.timeout, reply_form=options.reply
    )
    wrong += faults(part, dialogues)
    return [turn for turn in judged(dialogues) if turn.wanted]


def _cells(turns: Sequence[JudgedTurn], *, is_sgd: bool) -> list[object]:
    whole = len(turns)
    moved = share(sum(turn.moved for turn in turns), whole)
    calls = f"{sum(turn.calls for turn in turns) / max(1, whole):.2f}"
    if not is_sgd:
        return [whole, moved, calls]
    joint = sum(not turn.wrong and not turn.invented for turn in turns)
    kept = sum(turn.kept for turn in turns)
    invented = sum(len(turn.invented) for turn in turns)
    harmful = sum(len(turn.harmful) for turn in turns)
    return [whole, share(joint, whole), moved, share(kept, whole), invented, harmful, calls]


def _left_out(parts: Sequence[Part]) -> list[str]:
    found: list[str] = []
    for part in parts:
        found += [f"{part.name} {reason}" for reason in part.left_out]
    return found


def _print_list(title: str, lines: Sequence[str]) -> None:
    print(f"\n{title} {len(lines)}")
    for line in lines:
        print(f"- {line}")


# -- τ ---------------------------------------------------------------------------------------------


def _tau(options: argparse.Namespace) -> None:
    """Play the right path of each task, and the hostile agent, and print both tables."""
    retail = tau.retail(options.data)
    tasks = retail.tasks[: options.tasks]
    wrong = []
    for task in tasks:
        differs = asyncio.run(desk.right_path(retail, task))
        if differs:
            wrong.append(f"task {task.id}: {differs}")
    writes = sum(len(task.writes) for task in tasks)
    reached = share(len(tasks) - len(wrong), len(tasks))
    print(table(["right path", "tasks", "writes", "the right database"],
                [["examples/retail", len(tasks), writes, reached]]))  # fmt: skip
    _print_list("Tasks with another database:", wrong)
    rows = asyncio.run(hostile.count(retail, tasks, options.seed, options.swaps))
    print()
    print(table(HEAD_TAU, [*map(_attacked, rows), _attacked(_sum(rows))]))
    broken = [f"{row['kind']}: {name}: {row[name]}" for row in rows for name in row if ": " in name]
    _print_list("Rules that examples/retail broke:", broken)


HEAD_TAU = (
    *("what the agent tries", "attacks", "forbidden writes, bare loop"),
    *("forbidden writes, examples/retail", "allowed writes, examples/retail"),
)


def _attacked(row: desk.Json) -> list[object]:
    cells = ("attacks", "loop forbidden", "ours forbidden", "ours allowed")
    return [row["kind"], *(row.get(name, 0) for name in cells)]


def _sum(rows: Sequence[desk.Json]) -> desk.Json:
    found: desk.Json = {"kind": "all"}
    for row in rows:
        for name, value in row.items():
            if name != "kind":
                found[name] = found.get(name, 0) + value
    return found


if __name__ == "__main__":
    sys.exit(main())
