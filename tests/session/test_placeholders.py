"""Placeholders: values that a model made up, which nobody said."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session.events import ContextRefused
from llm_fsm.session.placeholders import is_dots, placeholder_in
from llm_fsm.turn.key_results import output_of
from machines import machine, reply, talk

STATES: dict[str, Any] = {
    "ask": {
        "purpose": "Your name?",
        "required_context_keys": ["name"],
        "transitions": [
            {"target_state": "sure", "conditions": [{"requires_context_keys": ["name"]}]}
        ],
    },
    "sure": {"purpose": "Is that right?", "transitions": [{"target_state": "done"}]},
    "done": {"purpose": "Goodbye."},
}
KEYS = {
    "properties": {
        "name": {"type": "string"},
        "phone": {"type": "string"},
        "size": {"enum": ["string", "…"]},
    }
}


@pytest.mark.parametrize("text", ["…", "...", " ... ", "____", "……"])
def test_dots_are_no_value(text: str) -> None:
    assert is_dots(text)
    assert placeholder_in(text, {}, [(1, text)]) == text


@pytest.mark.parametrize("text", ["", ".", "_", "-", "a...", "… and more", "?"])
def test_other_marks_are_values(text: str) -> None:
    assert not is_dots(text)


MADE_UP = ["John Doe", "123-456-7890", "john.doe@example.com", {"a": ["Jane Doe"]}]
WRITTEN = "I am John Doe or Jane Doe, john.doe@example.com, 123-456-7890"


@pytest.mark.parametrize("value", [*MADE_UP, "[name]", "<phone>", "Your Name"])
def test_a_placeholder_that_nobody_wrote_is_found(value: Any) -> None:
    assert placeholder_in(value, {}, [(1, "hello")]) is not None


@pytest.mark.parametrize(
    "value", [*MADE_UP, "Ada", "030 1234567", "[1] and [2]", "ada@example.org"]
)
def test_what_the_user_wrote_and_what_looks_real_is_none(value: Any) -> None:
    assert placeholder_in(value, {}, [(1, WRITTEN)]) is None


def test_a_listed_value_is_no_placeholder() -> None:
    assert placeholder_in("string", KEYS["properties"]["size"], []) is None


def test_a_made_up_value_is_refused_as_not_said_and_asked_for() -> None:
    made = machine(STATES, context_schema=KEYS)
    done = talk(
        made, "hi", reply("ask", "Hello! What is your name?", name="John Doe", phone="123-456-7890")
    )
    assert done.session.context == {}
    refused = done.of(ContextRefused)
    assert [event.reason.partition(":")[0] for event in refused] == ["not said", "not said"]
    assert done.usage.calls == 1
    assert (done.session.state, done.text) == ("ask", "Hello! What is your name?")


def test_dots_are_no_message() -> None:
    done = talk(machine(STATES, context_schema=KEYS), "hi", reply("ask", "…"))
    assert "…" not in done.text


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("```json\n[1, 2]\n```", [1, 2]),
        ("```\nOne.\nTwo.\n```", "One.\nTwo."),
        ('```json\n{"a": "```"}\n```', {"a": "```"}),
        ("~~~\ntext\n~~~", "text"),
        ("```json\n[1, 2]", [1, 2]),
        ("[1, 2]", [1, 2]),
        ("As `code`.", "As `code`."),
        ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
    ],
)
def test_the_output_of_a_task_in_a_code_fence_is_what_stands_in_it(text: str, output: Any) -> None:
    assert output_of(text) == output
