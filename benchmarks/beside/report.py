"""What was measured, as tables for a terminal and for `docs/benchmarks.md`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.beside.sections import HIGHER, SECTIONS, Row, Table

METHOD = """\
`make bench` installs every system from PyPI into an environment of its own under `.bench/`, starts one fake
OpenAI-compatible server on one core and runs the systems on the other, one after the other. CPU of a turn is
the median over the turns of a run, of that one of {runs} interleaved runs which took least: what else happens on a
machine only adds to it. What a turn on disk takes above one that is not is the median of {runs} interleaved runs, on
that core and, as no server is asked, on any. The other figures are of one run. All systems hold the same
conversation: a form of six states, nine messages, two answers that cannot be used and one correction. What the model
understands is the same few regular expressions for all, so the figures compare the systems and not a model. The
server holds replies to a strict schema as providers do: every required key comes back. Systems that bring no prompt
of their own (LangGraph, Burr, pydantic-ai, the raw clients) use one prompt written by hand, which says what the form
needs and no more, ordered for prefix caching. llm_fsm is measured by its own client and by litellm. Tokens are
cl100k, counted from what was sent; the greeting of a system that greets by a call is not counted as a turn.

Costs are in prompt tokens at full price: one that a cache serves counts 0.1, one of the reply 5. A cache serves what
began an earlier request of the same conversation, by three rules: any length; from 1,024 tokens in steps of 128;
nothing.

What to keep in mind: absolute times move with the machine, so compare within one run. fsm-agent-flow does not
converse; three states with one tool call each stand for three turns. fsm-llm keeps no values itself;
functions of its states do. The head of fsm-llm's own repository is not on PyPI and is not measured here. The
threaded systems pay for a thread per conversation in the runs with many conversations. What is slow makes fewer
turns, by the same rule for all: with many conversations none begins another turn when 3 seconds have passed, and
each makes at least one; a long conversation ends after 20 seconds, and what it did not come to is a dash."""


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form)


def markdown(table: Table, rows: Mapping[str, Row]) -> str:
    """One section as a Markdown table; the best figure of the plotted column comes first."""
    heads = [head for head, _, _ in table.columns]
    lines = ["| system | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name, row in ranked(table, rows):
        cells = (
            ["failed: " + row["failed"].replace("|", "/")[:80]] + [""] * (len(heads) - 1)
            if "failed" in row
            else [_cell(row.get(key), form) for _, key, form in table.columns]
        )
        shown = f"**{name}**" if _is_ours(name) else name
        lines.append(f"| {shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ranked(table: Table, rows: Mapping[str, Row]) -> list[tuple[str, Row]]:
    """The systems, the best first."""
    sign = -1 if table.better == "higher" else 1

    def place(item: tuple[str, Row]) -> float:
        value = item[1].get(table.plotted)
        return float("inf") if value is None else sign * value

    return sorted(rows.items(), key=place)


def not_first(results: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """The figures in which another system is ahead of ours, in words: of every column, as it is printed."""
    said = []
    for name, rows in results.items():
        table = SECTIONS[name]
        for head, key, form in table.columns:
            sign = -1 if key in HIGHER else 1
            given = {system: row[key] for system, row in rows.items() if form and row.get(key) is not None}
            shown = {system: sign * float(format(figure, form)) for system, figure in given.items()}
            ours = min((figure for system, figure in shown.items() if _is_ours(system)), default=None)
            ahead = sorted((figure, system) for system, figure in shown.items() if ours is not None and figure < ours)
            if ours is not None and ahead:
                others = ", ".join(f"{system} ({sign * figure:{form}})" for figure, system in ahead)
                said.append(f"- {table.title}, {head}: {others} before llm_fsm ({sign * ours:{form}})")
    return said


def _is_ours(system: str) -> bool:
    return system.startswith("llm_fsm")


_COMPARED = (
    ("stream", "visible_ms", "first word of a streamed reply, ms", "the wait before the user reads something"),
    ("turns", "cpu_ms", "CPU of a turn over HTTP, ms", "how many conversations one processor serves"),
    ("durable_turns", "cpu_ms", "CPU of a turn that is on disk, ms", "the same, with nothing lost in a crash"),
    ("turns", "first_cpu_ms", "CPU up to the first reply, ms", "the cold start of a process"),
    ("many1000", "turns_per_s", "turns a second, 1,000 conversations", "the load that one process carries"),
    ("idle", "kb", "memory of an idle conversation, kB", "how many conversations fit into memory"),
    ("cost", "units_any", "cost of a turn, prefixes cached", "the bill of a provider that caches any prefix"),
    ("cost", "units_steps", "cost of a turn, cached from 1,024 tokens", "the bill of OpenAI and those like it"),
    ("cost", "units_none", "cost of a turn, no cache", "the bill of a provider without a cache"),
)
"""What a buyer compares: section, figure, words, and what it means for them."""

_SHORT = """\
- **Beside other frameworks, llm_fsm needs the least CPU for a turn over HTTP.** It also shows words first, because the
  frameworks here do not stream, and it keeps a turn on disk for less.
- **Its prompts are longer.** They carry the rules of the machine. A provider's cache takes most of that back.
- **Without a cache, a turn costs about twice as much** as with a short prompt written by hand.
- **A bare client is faster and cheaper still.** It checks nothing, keeps nothing, and cannot be asked why."""

_THREADS = """\
A row that says `failed` did not end in its time. `llm_fsm, sync` with 1,000 conversations is 1,000 threads on one core.
It ends with 256 threads. With a model in the same process, 1,000 threads played 3,000 turns in 9.5 s.
Use `AsyncMachine` for more than some hundred conversations in one process: it needs no threads."""


def compared(results: Mapping[str, Mapping[str, Row]], *, bare: bool) -> str:
    """Return a table of wins, the largest first, and then losses. `bare`: beside bare clients, not frameworks."""
    lines: list[tuple[float, str]] = []
    for name, key, words, meaning in _COMPARED:
        given = {system: row[key] for system, row in results.get(name, {}).items() if row.get(key) is not None}
        ours = given.get("llm_fsm")
        others = {system: figure for system, figure in given.items() if _is_compared(system, bare=bare)}
        if ours is None or not others:
            continue
        higher = key in HIGHER
        best = max(others, key=others.__getitem__) if higher else min(others, key=others.__getitem__)
        factor = ours / others[best] if higher else others[best] / ours
        verdict = f"{factor:.1f} times better" if factor >= 1 else f"{1 / factor:.1f} times worse"
        beside = f"{_short(ours)} | {_short(others[best])} ({best})"
        lines.append((factor, f"| {words} | {beside} | {verdict} | {meaning} |"))
    ordered = [line for _, line in sorted(lines, key=lambda one: -one[0])]
    head = "| figure | llm_fsm | best of them | llm_fsm is | what it means for you |\n|---|---:|---:|---|---|\n"
    return head + "\n".join(ordered)


def _short(figure: float) -> str:
    return f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}"


def _is_compared(system: str, *, bare: bool) -> bool:
    return not _is_ours(system) and system.startswith("raw ") is bare


def page(
    results: Mapping[str, Mapping[str, Row]], versions: Mapping[str, str], machine: Sequence[str], runs: int
) -> str:
    """`docs/benchmarks.md`. `runs`: of each system, as `Bench` says."""
    parts = ["# Benchmarks", _SHORT]
    parts.append("## Beside other frameworks\n\n" + compared(results, bare=False))
    parts.append("## Beside bare clients\n\n" + compared(results, bare=True))
    parts.append("## A row that failed\n\n" + _THREADS)
    parts += ["## How it is measured", METHOD.format(runs=runs), "Measured on " + ", ".join(machine) + "."]
    listed = "\n".join(f"| {name} | {version} |" for name, version in versions.items())
    parts.append("| system | version |\n|---|---|\n" + listed)
    for name, rows in results.items():
        table = SECTIONS[name]
        parts.append(
            f"## {table.title}\n\n![{table.title}](benchmarks/{name}.png)\n\n{markdown(table, rows)}"
        )
    behind = not_first(results)
    parts.append("## Every figure in which another system is ahead\n\n" + ("\n".join(behind) or "None in this run."))
    return "\n\n".join(parts) + "\n"


def plot_data(results: Mapping[str, Mapping[str, Row]]) -> str:
    """What `plots.py` draws, as JSON."""
    return json.dumps(
        {
            name: {
                "title": SECTIONS[name].title,
                "label": next(
                    head for head, key, _ in SECTIONS[name].columns if key == SECTIONS[name].plotted
                ),
                "rows": [
                    (system, row[SECTIONS[name].plotted])
                    for system, row in ranked(SECTIONS[name], rows)
                    if row.get(SECTIONS[name].plotted) is not None
                ],
            }
            for name, rows in results.items()
        }
    )
