"""What was measured, as tables for a terminal and for `docs/benchmarks.md`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.beside.sections import HIGHER, SECTIONS, Row, Table

METHOD = """\
`make bench` installs every system from PyPI into an environment of its own under `.bench/`. One fake
OpenAI-compatible server runs on one core. The systems run on the other core, one after the other.

- **The conversation** is the same for all: a form of six states and nine messages. Two answers cannot be used, and
  one is corrected.
- **The model** is the same few regular expressions for all. So the figures compare systems, not models. The server
  holds replies to a strict schema, as providers do: every required key comes back.
- **CPU of a turn** is the median over the turns of a run. It is taken from the calmest of {runs} interleaved runs,
  because other programs only add to it.
- **A turn on disk** is the median of {runs} interleaved runs. It has one figure on that core, and one on any core.
- **The other figures** are of one run.
- **Prompts.** LangGraph, Burr, pydantic-ai and the raw clients bring no prompt of their own. They use one prompt
  written by hand. It says only what the form needs, and is ordered for prefix caching.
- **Tokens** are cl100k, counted from the requests. A greeting by a model call is not counted as a turn.
- **Costs** are in prompt tokens at full price. A cached token counts 0.1, and a token of the reply 5.
- **Caches** serve the beginning of an earlier request of the same conversation. There are three rules: any length,
  from 1,024 tokens in steps of 128, and nothing.

llm_fsm is measured with its own client and with litellm.

Keep in mind:

- Absolute times depend on the machine, so compare figures of one run only.
- fsm-agent-flow does not converse. Three states with one tool call each are its three turns.
- fsm-llm keeps no values itself, so functions of its states do. Its newest code is not on PyPI, and is not measured.
- Threaded systems pay for a thread for each conversation.
- Slow systems make fewer turns. With many conversations, none begins another turn after 3 seconds, but each makes at
  least one.
- A long conversation ends after 20 seconds. A figure that was not reached by then is a dash."""


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


_MOST_NAMED = 3
"""Systems that a row names; the tables above have all of them."""


def not_first(results: Mapping[str, Mapping[str, Row]]) -> str:
    """Return a table of the figures in which another system is ahead of ours: of every column, as
    it is printed.
    """
    lines = []
    for name, rows in results.items():
        table = SECTIONS[name]
        for head, key, form in table.columns:
            sign = -1 if key in HIGHER else 1
            given = {
                system: row[key]
                for system, row in rows.items()
                if form and row.get(key) is not None
            }
            shown = {system: sign * float(format(figure, form)) for system, figure in given.items()}
            ours = min(
                (figure for system, figure in shown.items() if _is_ours(system)), default=None
            )
            ahead = sorted(
                (figure, system)
                for system, figure in shown.items()
                if ours is not None and figure < ours
            )
            if ours is not None and ahead:
                named = [
                    f"{system} ({sign * figure:{form}})" for figure, system in ahead[:_MOST_NAMED]
                ]
                others = f" and {len(ahead) - _MOST_NAMED} more" if len(ahead) > _MOST_NAMED else ""
                lines.append(
                    f"| {table.title} | {head} | {', '.join(named)}{others} | {sign * ours:{form}} |"
                )
    if not lines:
        return "None in this run."
    return "| table | figure | ahead | llm_fsm |\n|---|---|---|---:|\n" + "\n".join(lines)


def _is_ours(system: str) -> bool:
    return system.startswith("llm_fsm")


_COMPARED = (
    (
        "stream",
        "visible_ms",
        "first word of a streamed reply, ms",
        "the wait before the user reads something",
    ),
    (
        "turns",
        "cpu_ms",
        "CPU of a turn over HTTP, ms",
        "how many conversations one processor serves",
    ),
    (
        "durable_turns",
        "cpu_ms",
        "CPU of a turn that is on disk, ms",
        "the same, with nothing lost in a crash",
    ),
    ("turns", "first_cpu_ms", "CPU up to the first reply, ms", "the cold start of a process"),
    (
        "many1000",
        "turns_per_s",
        "turns a second, 1,000 conversations",
        "the load that one process carries",
    ),
    ("idle", "kb", "memory of an idle conversation, kB", "how many conversations fit into memory"),
    (
        "cost",
        "units_any",
        "cost of a turn, prefixes cached",
        "the bill of a provider that caches any prefix",
    ),
    (
        "cost",
        "units_steps",
        "cost of a turn, cached from 1,024 tokens",
        "the bill of OpenAI and those like it",
    ),
    ("cost", "units_none", "cost of a turn, no cache", "the bill of a provider without a cache"),
)
"""What a buyer compares: section, figure, words, and what it means for them."""

_SHORT = """\
Beside other frameworks, llm_fsm needs the least CPU for a turn over HTTP, and shows the first word soonest.
Its prompts are longer, because they carry the rules of the machine.
A provider's cache saves most of that; without a cache, a turn costs about twice as much.
A bare client is faster and cheaper still, but it checks nothing, keeps nothing, and cannot be asked why.

The next two tables have the wins first and then the losses, each by size. The tables after them have every figure."""

_FAILED = """\
A row that says `failed` did not end within its time, or ended with the error that it shows:

{rows}"""

_THREADS = """\
`Machine` needs a thread for each conversation that waits, and `AsyncMachine` needs none. Python threads share one
lock, so 1,000 of them that get their replies at once wait for each other. Use `AsyncMachine` for more than some
hundred conversations at once in one process."""


def compared(results: Mapping[str, Mapping[str, Row]], *, bare: bool) -> str:
    """Return a table of wins, the largest first, and then losses. `bare`: beside bare clients, not
    frameworks.
    """
    lines: list[tuple[float, str]] = []
    for name, key, words, meaning in _COMPARED:
        given = {
            system: row[key]
            for system, row in results.get(name, {}).items()
            if row.get(key) is not None
        }
        ours = given.get("llm_fsm")
        others = {
            system: figure for system, figure in given.items() if _is_compared(system, bare=bare)
        }
        if ours is None or not others:
            continue
        higher = key in HIGHER
        best = (
            max(others, key=others.__getitem__) if higher else min(others, key=others.__getitem__)
        )
        factor = ours / others[best] if higher else others[best] / ours
        verdict = f"{factor:.1f} times better" if factor >= 1 else f"{1 / factor:.1f} times worse"
        beside = f"{_short(ours)} | {_short(others[best])} ({best})"
        lines.append((factor, f"| {words} | {beside} | {verdict} | {meaning} |"))
    ordered = [line for _, line in sorted(lines, key=lambda one: -one[0])]
    head = "| figure | llm_fsm | best of them | llm_fsm is | what it means for you |\n|---|---:|---:|---|---|\n"
    return head + "\n".join(ordered)


def _failed(results: Mapping[str, Mapping[str, Row]]) -> str:
    """Return a list of the rows that failed, with the reason."""
    return "\n".join(
        f"- {SECTIONS[name].title}: {system}, {row['failed'][:80]}."
        for name, rows in results.items()
        for system, row in rows.items()
        if "failed" in row
    )


def _short(figure: float) -> str:
    return f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}"


def _is_compared(system: str, *, bare: bool) -> bool:
    return not _is_ours(system) and system.startswith("raw ") is bare


def page(
    results: Mapping[str, Mapping[str, Row]],
    versions: Mapping[str, str],
    machine: Sequence[str],
    runs: int,
) -> str:
    """`docs/benchmarks.md`. `runs`: of each system, as `Bench` says."""
    parts = ["# Benchmarks", _SHORT]
    parts.append("## Beside other frameworks\n\n" + compared(results, bare=False))
    parts.append("## Beside bare clients\n\n" + compared(results, bare=True))
    parts.append("## Threads or asyncio\n\n" + _THREADS)
    failed = _failed(results)
    if failed:
        parts.append("## Rows that failed\n\n" + _FAILED.format(rows=failed))
    parts += [
        "## How it is measured",
        METHOD.format(runs=runs),
        "Measured on " + ", ".join(machine) + ".",
    ]
    listed = "\n".join(f"| {name} | {version} |" for name, version in versions.items())
    parts.append("| system | version |\n|---|---|\n" + listed)
    for name, rows in results.items():
        table = SECTIONS[name]
        parts.append(
            f"## {table.title}\n\n![{table.title}](benchmarks/{name}.png)\n\n{markdown(table, rows)}"
        )
    parts.append("## Every figure in which another system is ahead\n\n" + not_first(results))
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
