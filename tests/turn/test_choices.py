"""What a user can choose, and choices that need no model."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.turn.choices import Choice, choices_of, pick
from llm_fsm.turn.pipeline import UserMessage
from llm_fsm.turn.steps import begin
from machines import Played, machine, play, reply, start

KNOWN = [{"requires_context_keys": ["size"]}]


def shop(
    state: dict[str, Any] | None = None, schema: dict[str, Any] | None = None, **more: Any
) -> Any:
    """Asks for one key, `size`."""
    ask = {
        "purpose": "Which size?",
        "required_context_keys": ["size"],
        "transitions": [
            {"target_state": "done", "conditions": KNOWN},
            {"target_state": "help", "description": "The user wants to know more"},
        ],
        **(state or {}),
    }
    states = {
        "ask": ask,
        "done": {"purpose": "Thank", "reply": "Size {{ size }}."},
        "help": {"purpose": "Help"},
    }
    schemas = {"size": {"enum": ["small", "large"]} if schema is None else schema}
    return machine(states, context_schema={"properties": schemas}, **more)


def labels(made: Any, **context: Any) -> list[tuple[str, Any]]:
    return [
        (one.label, one.value) for one in choices_of(made, start(made, context=context).session)
    ]


def picked(made: Any, label: str, *replies: str) -> Played:
    heard = UserMessage(text=label, time=1.0, picked=True)
    return play(begin(made, start(made).session, heard), replies)


def test_the_values_of_the_key_that_is_asked_for_can_be_chosen() -> None:
    assert labels(shop()) == [("small", "small"), ("large", "large")]
    assert labels(shop(), size="small") == []


def test_labels_of_values_are_shown() -> None:
    assert labels(
        shop(schema={"enum": ["s", 2, None], "x-labels": {"s": "Small", "2": "Two"}})
    ) == [("Small", "s"), ("Two", 2)]


@pytest.mark.parametrize(
    ("language", "schema", "found"),
    [
        ("", {}, [("yes", True), ("no", False)]),
        ("de-AT", {}, [("ja", True), ("nein", False)]),
        ("tlh", {}, []),
        (
            "tlh",
            {"x-labels": {"true": "HIja'", "false": "ghobe'"}},
            [("HIja'", True), ("ghobe'", False)],
        ),
    ],
)
def test_yes_and_no_can_be_chosen_in_the_definitions_language(
    language: str, schema: Any, found: Any
) -> None:
    assert labels(shop(schema={"type": "boolean", **schema}, language=language)) == found


@pytest.mark.parametrize("schema", [{"type": "string"}, {"enum": ["a", "b"], "x-secret": True}])
def test_free_text_and_secrets_give_no_choices(schema: dict[str, Any]) -> None:
    assert labels(shop(schema=schema)) == []


def test_several_open_keys_give_no_choices() -> None:
    assert labels(shop({"required_context_keys": ["size", "other"]}, {"enum": ["a"]})) == [
        ("a", "a")
    ]
    two = machine(
        {"ask": {"purpose": "Ask", "required_context_keys": ["a", "b"], "transitions": [{"target_state": "end"}]},
         "end": {"purpose": "End"}},
        context_schema={"properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}}},
    )  # fmt: skip
    assert labels(two) == []


def test_a_state_has_choices_of_its_own() -> None:
    made = shop({"choices": ["small", {"label": "Tell me more", "value": "help"}]})
    assert labels(made) == [("small", "small"), ("Tell me more", "help")]


def test_a_picked_value_needs_no_model_and_is_on_record() -> None:
    done = picked(shop(), "large")
    assert (done.session.state, done.text, done.usage.calls) == ("done", "Size large.", 0)
    assert done.session.origins["size"] == (1, "user")
    assert done.of(ev.UserSaid)[0].picked
    assert done.of(ev.StateEntered)[0].by == "user"


def test_the_same_words_typed_are_read_by_the_model() -> None:
    made = shop()
    heard = UserMessage(text="large", time=1.0)
    done = play(begin(made, start(made).session, heard), [reply("done", size="large")])
    assert done.usage.calls == 1


def test_a_picked_state_is_moved_to() -> None:
    done = picked(
        shop({"choices": [{"label": "Tell me more", "value": "help"}]}),
        "Tell me more",
        reply("help", "So."),
    )
    assert (done.session.state, done.usage.calls, done.text) == ("help", 1, "So.")


def test_a_picked_text_is_read_by_the_model() -> None:
    done = picked(shop({"choices": ["Something else"]}), "Something else", reply("ask", "What?"))
    assert (done.session.state, done.text, done.usage.calls) == ("ask", "What?", 1)


def test_a_value_that_opens_no_move_by_itself_is_kept_and_the_model_goes_on() -> None:
    made = shop({"transitions": [{"target_state": "done", "description": "The size is known"}]})
    done = picked(made, "large", reply("done"))
    assert (done.session.state, done.session.context, done.usage.calls) == (
        "done",
        {"size": "large"},
        1,
    )


def test_a_closed_state_that_was_picked_is_not_moved_to() -> None:
    done = picked(
        shop({"choices": [{"label": "Done", "value": "done"}]}), "Done", reply("ask", "Which size?")
    )
    assert done.session.state == "ask"


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("2", "l"),
        ("2.", "l"),
        ("LARGE", "l"),
        (" small ", "s"),
        ("3", None),
        ("0", None),
        ("large one", None),
    ],
)
def test_a_number_or_a_label_picks(said: str, value: str | None) -> None:
    found = pick([Choice("Small", "s"), Choice("large", "l")], said)
    assert (None if found is None else found.value) == value


def test_numbers_are_values_where_labels_are_numbers() -> None:
    choices = [Choice("4", 4), Choice("2", 2)]
    assert pick(choices, "2") == Choice("2", 2)
    assert pick(choices, "1") is None
