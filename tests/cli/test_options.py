"""A class of options becomes the options of a command, and an object of the class its argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import pytest

from llm_fsm.cli.options import argument, command, option


@dataclass(frozen=True, kw_only=True)
class Shared:
    quiet: bool = option("--quiet", is_flag=True, help="Say less.")


@dataclass(frozen=True, kw_only=True)
class Sums(Shared):
    numbers: tuple[int, ...] = argument("numbers", nargs=-1, type=int)
    times: int = option("--times", default=1, help="A factor.")
    name: str = option("--as", "name", default="sum", help="A name.")
    total: int = 0


@command("sums 1 2", "sums 1 --quiet", options=Sums)
def sums(ctx: click.Context, wanted: Sums) -> int:
    """Add numbers."""
    ctx.meta["wanted"] = wanted
    return wanted.times * sum(wanted.numbers)


@pytest.mark.parametrize(
    ("arguments", "code", "changes"),
    [
        ([], 0, {}),
        (["1", "2", "--times", "3"], 9, {"numbers": (1, 2), "times": 3}),
        (["--quiet", "--as", "all"], 0, {"quiet": True, "name": "all"}),
    ],
)
def test_the_function_gets_an_object_and_gives_the_exit_code(
    arguments: list[str], code: int, changes: dict[str, Any]
) -> None:
    ctx = sums.make_context("sums", arguments)
    assert sums.invoke(ctx) == code
    given: dict[str, Any] = {"numbers": (), "times": 1, "name": "sum", "quiet": False, **changes}
    assert ctx.meta["wanted"] == Sums(**given)


def test_the_help_shows_own_options_first_and_ends_with_the_examples() -> None:
    text = sums.get_help(click.Context(sums, info_name="sums"))
    order = ["Add numbers.", "--times", "--as", "--quiet", "--verbose", "Examples:", "sums 1 2"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "--total" not in text
