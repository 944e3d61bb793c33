"""One rule for the names of states and tools, at every door."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.session.meant import meant_name
from llm_fsm.testing import ScriptedLLM, calls, reply
from llm_fsm.tools.registry import ToolRegistry

NAMES = ("stock", "opening_hours", "Bye")


def forms(name: str) -> list[str]:
    """Ways in which models and their servers write a name."""
    return [
        *(
            name,
            f" {name}",
            f"{name} ",
            name.title(),
            name.upper(),
            f"\u200b{name}",
            f"`{name}`",
            f"**{name}**",
        ),
        *(
            f'"{name}"',
            f"<{name}>",
            f"{name}.",
            f"functions.{name}",
            f"default_api.{name}",
            f"default_api:{name}",
        ),
        *(
            f"functions.{name}:0",
            f"functions.{name}:12",
            f"tools/{name}",
            f"{name}<|channel|>commentary",
        ),
        *(
            f"{name}()",
            f'{name}({{"item": 1}})',
            f"functions.{name.title()}()",
            f"a.b.c.{name}",
            f"#{name}",
        ),
        "".join(chr(ord(letter) + 0xFEE0) for letter in name),
    ]


HOURS = ["opening hours", "Opening-Hours", "functions.opening_hours:1", "OPENING_HOURS<|message|>"]
OTHERS = [
    "",
    ".",
    "stocks",
    "sto",
    "functions.",
    "hours",
    "stock and hours",
    "functions.other",
    "<|channel|>",
]


@pytest.mark.parametrize(
    ("said", "name"),
    [*((form, "stock") for form in forms("stock")), *((form, "opening_hours") for form in HOURS)],
)
def test_a_name_is_meant_whatever_stands_around_it(said: str, name: str) -> None:
    assert meant_name(said, NAMES) == name


@pytest.mark.parametrize("said", OTHERS)
def test_another_name_means_none(said: str) -> None:
    assert meant_name(said, NAMES) is None


def test_a_name_that_may_mean_two_means_none() -> None:
    assert meant_name("STOCK", ["stock", "Stock"]) is None
    assert meant_name("x.Stock", ["stock", "Stock"]) == "Stock"
    assert meant_name("files.read", ["files.read", "read"]) == "files.read"
    assert meant_name("functions.files.read", ["files.read", "read"]) == "files.read"


SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "help",
    "tools": {"stock": {"registered": "stock"}, "hours": {"registered": "hours"}},
    "states": {
        "help": {
            "purpose": "Help",
            "tools": ["stock", "hours"],
            "transitions": [{"target_state": "bye", "description": "done"}],
        },
        "bye": {"reply": "Bye"},
    },
}


def stock(item: str) -> str:
    """How many there are."""
    return f"three {item}"


def hours() -> str:
    """Opening hours."""
    return "9 to 5"


def events_of(name: str, definition: dict[str, Any] = SHOP) -> list[Any]:
    model = ScriptedLLM([calls((name, {"item": "lamp"})), reply("help", "Three.")])
    with Machine.from_dict(definition, model=model, tools=[stock, hours]) as machine:
        turn = machine.start(greet=False).send("lamps?")
    return [
        event for event in turn.events if type(event).__name__ in ("ToolReturned", "ToolRefused")
    ]


@pytest.mark.parametrize("form", forms("stock"))
def test_a_call_means_a_tool_of_the_state_whatever_stands_around_its_name(form: str) -> None:
    (event,) = events_of(form)
    assert event.name == "stock"
    assert event.result == "three lamp"
    assert ToolRegistry([stock, hours]).execute(form, {"item": "lamp"}) == "three lamp"


@pytest.mark.parametrize("form", forms("bye"))
def test_a_reply_means_a_state_by_the_same_rule(form: str) -> None:
    model = ScriptedLLM([reply(form, "Goodbye.")])
    with Machine.from_dict(SHOP, model=model, tools=[stock, hours]) as machine:
        assert machine.start(greet=False).send("bye").state == "bye"


@pytest.mark.parametrize("form", ["pay", "functions.pay", "stocks"])
def test_a_tool_that_is_not_offered_is_refused_by_the_name_that_was_written(form: str) -> None:
    (event,) = events_of(form)
    assert event.name == form
    assert type(event).__name__ == "ToolRefused"
