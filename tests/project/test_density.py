"""Code stays written out: each room has limits for the size and the density of its syntax tree.

Lower a limit when a room got better. Raise one only if the room gained a purpose, not because code
got denser.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from density import Density, density, density_of
from paths import ROOT

PACKAGE = ROOT / "src" / "llm_fsm"


class Limits(NamedTuple):
    """Upper limits of a room.

    `nodes`: statements and expressions without constants. `nodes_a_line`: the same for each line of
    code. `nested`: conditional expressions inside another one. `double`: comprehensions with two
    loops or two tests. `long`: lines of more than 100 characters.
    """

    nodes: int
    nodes_a_line: float
    nested: int = 0
    double: int = 0
    long: int = 0


# room: nodes, nodes a line, long lines; nested and double expressions are in no room
LIMITS = {
    "cli": Limits(33_600, 4.8, long=510),
    "conditions": Limits(6_800, 5.5, long=60),
    "definition": Limits(13_000, 4.8, long=20),
    "documents": Limits(22_200, 5.25, long=12),
    "editor": Limits(25_000, 4.8, long=40),
    "durable": Limits(2_800, 4.2, long=10),
    "engine": Limits(27_500, 3.95, long=24),
    "lint": Limits(46_900, 4.9, long=35),
    "llm": Limits(20_600, 5.2, long=360),
    "records": Limits(5_800, 4.1, long=10),
    "server": Limits(27_500, 4.7, long=455),
    "session": Limits(18_100, 4.8, long=45),
    "statechart": Limits(3_700, 4.7, long=70),
    "stores": Limits(22_200, 4.6, long=400),
    "telemetry": Limits(1_900, 4.7, long=40),
    "testing": Limits(40_100, 5.15, long=20),
    "tools": Limits(8_750, 5.2, long=130),
    "turn": Limits(46_000, 5.2, long=430),
    "workflow": Limits(7_400, 4.9, long=125),
}
WHOLE = Limits(364_300, 4.8, long=2_710)


@pytest.fixture(scope="module")
def measured() -> dict[str, Density]:
    return {room: density_of(PACKAGE / room) for room in LIMITS}


def over(found: Density, limits: Limits) -> list[str]:
    """Say which limits a room exceeds."""
    return [
        f"{name}: {getattr(found, name):.5g}, at most {limit}"
        for name, limit in limits._asdict().items()
        if getattr(found, name) > limit
    ]


@pytest.mark.parametrize("room", LIMITS)
def test_a_room_keeps_its_limits(room: str, measured: dict[str, Density]) -> None:
    assert over(measured[room], LIMITS[room]) == []


def test_the_package_keeps_its_limits() -> None:
    assert over(density_of(PACKAGE), WHOLE) == []


def test_every_room_has_limits() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert rooms == set(LIMITS)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", Density()),
        ("x = 1", Density(nodes=2, code_lines=1)),
        ('"""A module."""\n\n# a comment\nx = y  # more\n', Density(nodes=3, code_lines=1)),
        ('def f():\n    """Two\n    lines."""\n    return g(1)\n', Density(nodes=4, code_lines=2)),
        ("x = (a if b else c)", Density(nodes=6, code_lines=1, conditionals=1)),
        (
            "x = a if b else [c if d else e]",
            Density(nodes=10, code_lines=1, conditionals=2, nested=1),
        ),
        ("x = [a for a in b]", Density(nodes=6, code_lines=1, comprehensions=1)),
        (
            "x = {a for b in c for a in b}",
            Density(nodes=8, code_lines=1, comprehensions=1, double=1),
        ),
        (
            "x = any(a for a in b if a if c)",
            Density(nodes=10, code_lines=1, comprehensions=1, double=1),
        ),
        (f"x = '{'a' * 100}'", Density(nodes=2, code_lines=1, long=1)),
        (f"# {'a' * 100}", Density(long=1)),
        (f'x = """A prompt\n{"a" * 101}"""', Density(nodes=2, code_lines=2)),
        (
            f'@lint_rule("F1")\ndef f():\n    """A page\n{"a" * 101}"""\n',
            Density(nodes=3, code_lines=2),
        ),
        (f'def f():\n    """A text\n{"a" * 101}"""\n', Density(nodes=1, code_lines=1, long=1)),
    ],
)
def test_density_of_a_source(source: str, expected: Density) -> None:
    assert density(source) == expected
