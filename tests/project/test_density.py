"""The package does not grow: its nodes have a ceiling, and its statements stay simple.

A room may grow if another shrinks in the same change. Write both into `ROOMS` then. Never raise the
ceiling or a room's `nodes_a_statement`.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from density import Density, density, density_of
from paths import ROOT

PACKAGE = ROOT / "src" / "llm_fsm"
CEILING = 364_300


class Room(NamedTuple):
    """The nodes that a room had when this table was last written, and its upper limit of nodes a
    statement.
    """

    nodes: int
    nodes_a_statement: float


ROOMS = {
    "channels": Room(0, 5.80),
    "cli": Room(32_496, 5.96),
    "conditions": Room(6_602, 6.37),
    "definition": Room(12_823, 6.21),
    "documents": Room(21_947, 6.69),
    "durable": Room(2_778, 5.22),
    "editor": Room(12_795, 5.76),
    "engine": Room(25_318, 5.88),
    "languages": Room(60, 7.5),
    "lint": Room(46_640, 6.79),
    "llm": Room(20_502, 6.22),
    "records": Room(5_629, 6.84),
    "releases": Room(0, 5.90),
    "server": Room(27_477, 5.70),
    "session": Room(18_092, 6.75),
    "statechart": Room(3_576, 6.06),
    "stores": Room(21_781, 5.90),
    "telemetry": Room(1_729, 5.77),
    "testing": Room(40_006, 6.59),
    "tools": Room(8_655, 5.98),
    "turn": Room(45_951, 6.41),
    "workflow": Room(7_292, 6.33),
}


@pytest.fixture(scope="module")
def measured() -> dict[str, Density]:
    return {room: density_of(PACKAGE / room) for room in ROOMS}


def test_the_package_does_not_grow(measured: dict[str, Density]) -> None:
    whole = Density()
    for part in (*measured.values(), *map(density_of, PACKAGE.glob("*.py"))):
        whole += part
    changes = {room: measured[room].nodes - ROOMS[room].nodes for room in ROOMS}
    grown = {room: change for room, change in changes.items() if change > 0}
    shrunk = {room: change for room, change in changes.items() if change < 0}
    print(f"{whole.nodes:,} of {CEILING:,} nodes; grown: {grown}; shrunk: {shrunk}")
    assert whole.nodes <= CEILING, f"the package grew: {grown}; what shrinks? so far: {shrunk}"
    assert whole.nested == 0, "a conditional expression is inside another one"
    assert whole.double == 0, "a comprehension has two loops or two tests"


def test_statements_of_a_room_stay_simple(measured: dict[str, Density]) -> None:
    dense = {
        room: round(measured[room].nodes_a_statement, 3)
        for room in ROOMS
        if measured[room].nodes_a_statement > ROOMS[room].nodes_a_statement
    }
    assert dense == {}


def test_every_room_is_measured() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert rooms == set(ROOMS)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", Density()),
        ("x = 1", Density(nodes=2, statements=1)),
        ('"""A module."""\n\n# a comment\nx = y  # more\n', Density(nodes=3, statements=1)),
        ('def f():\n    """Two\n    lines."""\n    return g(1)\n', Density(nodes=4, statements=2)),
        ("x = (a if b else c)", Density(nodes=6, statements=1)),
        ("x = a if b else [c if d else e]", Density(nodes=10, statements=1, nested=1)),
        ("x = [a for a in b]", Density(nodes=6, statements=1)),
        ("x = {a for b in c for a in b}", Density(nodes=8, statements=1, double=1)),
        ("x = any(a for a in b if a if c)", Density(nodes=10, statements=1, double=1)),
    ],
)
def test_density_of_a_source(source: str, expected: Density) -> None:
    assert density(source) == expected
