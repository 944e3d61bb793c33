"""What was measured, as tables for a terminal and for `docs/benchmarks.md`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.beside.sections import HIGHER, SECTIONS, Row, Table

METHOD = """\
`make bench` installs every system from PyPI into an environment of its own under `.bench/`, starts one fake
OpenAI-compatible server on one core and runs the systems on the other, one after the other. CPU of a turn is
the median over the turns of a run, of that one of five interleaved runs which took least: what else happens on a
machine only adds to it. What keeping a turn on disk takes is the median of five interleaved runs, on that core
and, as no server is asked, on any. The other figures are of one run. All systems hold the same conversation: a
form of six states, nine messages, two answers that cannot be used and one correction. What the model
understands is the same few regular expressions for all, so the figures compare the systems and not a model.
Systems that bring no prompt of their own (LangGraph, Burr, pydantic-ai, fsm-llm, the raw clients) use one prompt
written by hand, ordered for prefix caching. Tokens are cl100k, counted from what was sent; the greeting of a
system that greets by a call is not counted as a turn.

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
    return system in ("llm_fsm", "llm_fsm, sync")


def page(
    results: Mapping[str, Mapping[str, Row]], versions: Mapping[str, str], machine: Sequence[str]
) -> str:
    """`docs/benchmarks.md`."""
    parts = ["# Beside the others", METHOD, "Measured on " + ", ".join(machine) + "."]
    listed = "\n".join(f"| {name} | {version} |" for name, version in versions.items())
    parts.append("| system | version |\n|---|---|\n" + listed)
    for name, rows in results.items():
        table = SECTIONS[name]
        parts.append(
            f"## {table.title}\n\n![{table.title}](benchmarks/{name}.png)\n\n{markdown(table, rows)}"
        )
    behind = not_first(results)
    parts.append("## Where we are not first\n\n" + ("\n".join(behind) or "Nowhere in this run."))
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
