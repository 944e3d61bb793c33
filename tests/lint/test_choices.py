"""Choices that stand for nothing, and labels of values that do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

SIZE = {"size": {"enum": ["s", "l"]}}


def shop(*choices: Any, schema: Any = SIZE, **more: Any) -> Written:
    state = {
        "purpose": "Which size?",
        "required_context_keys": ["size"],
        "choices": list(choices),
        "transitions": [to("done", when(None, "size")), to("help")],
    }
    return machine({"ask": {**state, **more}}, schema)


@pytest.mark.parametrize(
    "choice",
    [
        "Something else",
        {"label": "Small", "value": "s"},
        {"label": "Help", "value": "help"},
        {"label": "Hm"},
    ],
)
def test_choices_that_stand_for_something_are_no_finding(choice: Any) -> None:
    assert [found.code for found in check(shop(choice)) if "/choices" in found.pointer] == []


@pytest.mark.parametrize("value", ["hlep", "m", 3])
def test_a_value_that_nothing_takes_is_found(value: Any) -> None:
    found = found_by("bad-choice", shop({"label": "One", "value": value}))
    assert briefly(found) == [("warning", "/states/ask/choices/0/value")]


def test_a_misspelt_state_is_named() -> None:
    [found] = found_by("bad-choice", shop({"label": "One", "value": "hlep"}))
    assert found.hint == 'did you mean "help"?'


def test_choices_where_nobody_talks_are_found() -> None:
    document = shop("a", kind="decide", required_context_keys=[])
    assert [found.name for found in check(document) if "/choices" in found.pointer] == [
        "setting-without-effect"
    ]


@pytest.mark.parametrize(
    ("choice", "name"),
    [(3, "wrong-type"), ({"value": 1}, "missing-key"), ({"label": 1}, "wrong-type")],
)
def test_choices_of_a_wrong_form_are_told(choice: Any, name: str) -> None:
    assert name in [found.name for found in check(shop(choice))]


def test_labels_of_unknown_values_and_labels_without_words_are_found() -> None:
    labels = {"s": "Small", "m": "Medium", "l": 3}
    found = found_by(
        "bad-key-setting", shop(schema={"size": {"enum": ["s", "l"], "x-labels": labels}})
    )
    place = "/context_schema/properties/size/x-labels"
    assert [one.pointer for one in found] == [place + "/m", place + "/l"]
    assert (
        len(
            found_by(
                "bad-key-setting", shop(schema={"size": {"enum": ["s"], "x-labels": ["Small"]}})
            )
        )
        == 1
    )
