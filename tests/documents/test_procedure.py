"""A definition in plain words: what is asked, what must be true, who agrees, and what happens if
not.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from llm_fsm import load
from llm_fsm.definition.models import Definition
from llm_fsm.documents.procedure import procedure
from paths import ROOT

SHIPPED = sorted((ROOT / "fsm_definitions").glob("*.json"))
OURS = re.compile(
    r"\b(state|transition|context|key|confirms|agrees to|acts|schema|JSON|null|logic|guard)\b"
)

BOOKING: dict[str, Any] = {
    "name": "table_booking",
    "description": "Books a table.",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "day": {
                "type": "string",
                "x-valid": [{"logic": True, "description": "The day is not past"}],
            },
            "guests": {"type": "integer", "title": "Number of guests"},
            "phone": {"type": "string", "x-said": "digits"},
        }
    },
    "states": {
        "ask": {
            "purpose": "For which day, and for how many?",
            "required_context_keys": ["day", "guests"],
            "transitions": [{"target_state": "sure"}],
        },
        "sure": {
            "purpose": "Shall I book it?",
            "confirms": ["day", "guests"],
            "transitions": [
                {
                    "target_state": "book",
                    "agrees": True,
                    "conditions": [{"logic": {"<=": [{"var": "guests"}, 8]}}],
                },
                {"target_state": "none", "description": "The guest does not want it"},
            ],
        },
        "book": {
            "kind": "task",
            "purpose": "The table is booked in our system.",
            "acts": True,
            "on_exhausted": "none",
            "transitions": [{"target_state": "end"}],
        },
        "end": {"reply": "Booked for {{ guests }}{% if day %} on {{ day }}{% endif %}."},
        "none": {"reply": "No table."},
    },
}


def page(**changes: Any) -> str:
    return procedure(Definition.model_validate({**BOOKING, **changes}))


def test_it_says_what_is_asked_what_must_be_true_who_agrees_and_what_happens_if_not() -> None:
    assert (
        page()
        == """\
table booking
=============
Books a table.

What is asked
-------------
1. For which day, and for how many? (day and number of guests)

What must be true of every answer
---------------------------------
- The day is not past.
- Phone: taken only from the user's own words.

What is done
------------
- The table is booked in our system.
    What must be true first: guests is at most 8.
    Who agrees: the user, who has heard day and number of guests and said yes to exactly that.
    If not: a value that changes is read out again, and needs a new yes.
    If not: The guest does not want it: No table.
    If not: if it fails: No table.

How it ends
-----------
- Booked for [number of guests] on [day].
- No table.
"""
    )


def test_an_act_that_nobody_agrees_to_says_so() -> None:
    sure = {**BOOKING["states"]["sure"], "transitions": [{"target_state": "book"}], "confirms": []}
    assert "Who agrees: nobody is asked." in page(states={**BOOKING["states"], "sure": sure})
    both = {**BOOKING["states"]["sure"]}
    both["transitions"] = [*both["transitions"], {"target_state": "book"}]
    assert "On one way there, nobody is" in " ".join(
        page(states={**BOOKING["states"], "sure": both}).split()
    )


def test_a_person_who_approves_is_named() -> None:
    tools = {"pay": {"registered": "pay", "acts": True, "approval": True}}
    states = {
        "ask": {"purpose": "Pay it", "tools": ["pay"], "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    assert "Who agrees: a person of the house, who decides each time." in page(
        states=states, tools=tools
    )


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_definition_is_one_page_without_a_word_of_ours(path: Any) -> None:
    definition = load(path)
    text = procedure(definition)
    lines = text.splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 100
    own = " ".join(definition.canonical.split())
    assert [
        word for word in OURS.findall(text) if f"{word} " not in own and f"{word}." not in own
    ] == []


def test_a_person_is_named_only_where_one_is_asked_on_every_way() -> None:
    states = {
        "ask": {
            "purpose": "What can I do?",
            "transitions": [{"target_state": "human"}, {"target_state": "book"}],
        },
        "human": {"kind": "wait", "wait_for": "clerk", "transitions": [{"target_state": "ask"}]},
        "book": {
            "kind": "task",
            "purpose": "Book it",
            "acts": True,
            "execute": "book",
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    assert "Who agrees: nobody is asked." in page(states=states, initial_state="ask")
    states["ask"]["transitions"] = [{"target_state": "human"}]
    states["human"]["transitions"] = [{"target_state": "book"}]
    assert "Who agrees: a person of the house." in page(states=states, initial_state="ask")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({}, "day was read out as it is."),
        ({"x-said": "quote"}, "day was read out as it is; day: said in the user's own words."),
    ],
)
def test_what_was_proved_and_read_back_is_said(said: dict[str, Any], text: str) -> None:
    states = {
        "check": {
            "purpose": "Is that right?",
            "confirms": ["day"],
            "transitions": [{"target_state": "book", "agrees": True}],
        },
        "book": {
            "kind": "task",
            "purpose": "Book it",
            "acts": True,
            "execute": "book",
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    schema = {"properties": {"day": {"type": "string", **said}}}
    shown = page(states=states, initial_state="check", context_schema=schema)
    assert f"What must be true first: {text}" in " ".join(shown.split())
