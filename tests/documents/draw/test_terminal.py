from __future__ import annotations

import time
from collections import Counter
from typing import Any

from hypothesis import given
from rich.cells import cell_len

from drawn import documents
from llm_fsm.documents.draw.extract import extract, light
from llm_fsm.documents.draw.terminal import boxes, fitted

MACHINE: dict[str, Any] = {
    "name": "order",
    "initial_state": "ask",
    "states": {
        "ask": {
            "purpose": "What may it be?",
            "transitions": [
                {"target_state": "pay", "description": "chosen"},
                {"target_state": "bye", "description": "no more"},
            ],
        },
        "pay": {
            "transitions": [
                {"target_state": "ask", "description": "wrong"},
                {"target_state": "bye"},
            ]
        },
        "bye": {"kind": "final"},
    },
    "global_transitions": [{"target_state": "bye", "description": "hangs up"}],
}


def test_states_stand_one_below_the_other_and_moves_are_rails() -> None:
    assert boxes(extract(MACHINE), 60).splitlines() == [
        "┌───────────────────────┐",
        "│ ● ask                 │◀┐",
        "│ What may it be?       │ │",
        "│              no more ─├─┼─┐",
        "└───────────────────────┘ │ │",
        "  │ chosen                │ │",
        "  ▼                       │ │",
        "┌───────────────────────┐ │ │",
        "│ pay                   │ │ │",
        "│                wrong ─├─┘ │",
        "└───────────────────────┘   │",
        "  │                         │",
        "  ▼                         │",
        "┌───────────────────────┐   │",
        "│ bye (final)           │◀──┘",
        "└───────────────────────┘",
        "",
        "* in every state that wa…",
        "    → bye: hangs up",
    ]


def test_highlighted_states_have_double_borders() -> None:
    lines = boxes(light(extract(MACHINE), path=("ask", "pay"))).splitlines()
    assert lines[0].startswith("╔══")
    assert "  ║ ▶ chosen" in [line[:12].rstrip() for line in lines]


def test_wide_characters_take_two_cells() -> None:
    assert fitted("日本語", 5) == "日本…"
    assert fitted("日本語", 4) == "日 …"
    assert fitted("é 🎉", 5) == "é 🎉 "
    assert fitted("日本", 5, right=True) == " 日本"


def columns(line: str) -> list[str]:
    """The line cell by cell: a wide character takes two."""
    found: list[str] = []
    for at, char in enumerate(line):
        width = cell_len(line[: at + 1]) - cell_len(line[:at])
        found += [char, ""][: max(width, 0)]
    return found


@given(document=documents())
def test_every_rail_leads_from_a_move_to_its_target(document: dict[str, Any]) -> None:
    picture = extract(document)
    lines = [columns(line) for line in boxes(picture, 80).splitlines()]
    lines = [line for line in lines if not (line and line[0] == "*")]
    ends = {}
    for row, line in enumerate(lines):
        if "◀" in line and line[0] in "│║":
            ends[row] = rail_of(line, line.index("◀") + 1)
    arrived = Counter()
    for row, line in enumerate(lines):
        at = next(
            (i for i, char in enumerate(line) if i and char in "├╠" and line[i - 1] == "─"), None
        )
        if at is None:
            continue
        column = rail_of(line, at + 1)
        rows = followed(lines, row, column)
        [target] = [end for end in rows if ends.get(end) == column]
        arrived[target] += 1
    titles = {}
    for row, line in enumerate(lines):
        if row and lines[row - 1] and lines[row - 1][0] in "┌╔":
            titles[row] = "".join(line)[1:].replace("●", "").split()[0]
    straight = sum("".join(line).startswith("  ▼") for line in lines)
    assert sum(arrived.values()) + straight == len(picture.own)
    wanted = Counter(edge.target for edge in picture.own)
    for row, number in arrived.items():
        assert 0 < number <= wanted[titles[row]]


def rail_of(line: list[str], at: int) -> int:
    while line[at] in "─┼":
        at += 1
    assert line[at] in "┐┘┤", line[at]
    return at


def followed(lines: list[list[str]], row: int, column: int) -> list[int]:
    rows = []
    for step, stop, first in ((-1, "┐", "┘┤"), (1, "┘", "┐┤")):
        at = row
        if lines[at][column] not in first:
            continue
        while True:
            at += step
            rows.append(at)
            assert lines[at][column] in "│┼┤" + stop
            if lines[at][column] == stop:
                break
    return rows


def test_a_machine_of_thousands_of_states_is_drawn_in_seconds() -> None:
    many = 1_500
    states = {
        f"s{n}": {
            "transitions": [{"target_state": f"s{at % many}"} for at in (n + 1, 7 * n, 11 * n)]
        }
        for n in range(many)
    }
    picture = extract({"name": "many", "initial_state": "s0", "states": states})
    began = time.process_time()
    drawing = boxes(picture)
    assert time.process_time() - began < 4
    assert drawing.count("◀") == many
