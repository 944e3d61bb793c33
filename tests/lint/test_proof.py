"""Values of keys with `x-said` that no words of a user can prove."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when


def hotel(schema: dict[str, Any], **more: Any) -> Written:
    state = {"purpose": "Which?", "required_context_keys": ["v"],
             "transitions": [to("done", when(None, "v"))], **more}  # fmt: skip
    return machine({"ask": state}, {"v": {**schema, "x-said": "quote"}})


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["small", "large"]},
        {"enum": ["2", "4"]},
        {"enum": [1, 2]},
        {"enum": ["dbl2", "sgl1"], "x-labels": {"dbl2": "Double", "sgl1": "Single"}},
        {"type": "boolean"},
        {"type": "string", "format": "date"},
    ],
)
def test_values_that_people_say_are_no_finding(schema: dict[str, Any]) -> None:
    assert found_by("unprovable-value", hotel(schema)) == []


@pytest.mark.parametrize("enum", [["dbl2", "single"], ["s", "l"], ["double", "X9"]])
def test_a_code_without_words_is_found(enum: list[str]) -> None:
    found = found_by("unprovable-value", hotel({"enum": enum}))
    place = "/context_schema/properties/v/x-said"
    assert briefly(found) == [("warning", place)]


def test_a_code_that_a_choice_names_is_said_by_its_label() -> None:
    choices = [{"label": "Double", "value": "dbl2"}]
    found = hotel({"enum": ["dbl2", "single"]}, choices=choices)
    assert found_by("unprovable-value", found) == []


@pytest.mark.parametrize("language", ["en", "de", "xx"])
@pytest.mark.parametrize("more", [{}, {"x-labels": {"true": "yes", "false": "no"}}])
def test_no_digits_prove_true_or_false(language: str, more: dict[str, Any]) -> None:
    schema = {"type": "boolean", "x-said": "digits", **more}
    document = machine({"ask": {"purpose": "Pets?", "transitions": [to("done")]}}, {"v": schema})
    found = found_by("unprovable-value", {**document, "language": language})
    assert [(one.level, one.hint) for one in found] == [("warning", 'write "x-said": "quote"')]


@pytest.mark.parametrize(
    "schema",
    [{"type": "string"}, {"type": "integer"}, {"enum": ["dbl2", "12"]}, {"type": "object"}],
)
def test_what_has_digits_may_be_proved_by_them(schema: dict[str, Any]) -> None:
    document = machine({"ask": asks_for("v")}, {"v": {**schema, "x-said": "digits"}})
    assert found_by("unprovable-value", document) == []


def asks_for(key: str) -> dict[str, Any]:
    return {"purpose": "Which?", "required_context_keys": [key], "transitions": [to("done")]}


def test_yes_and_no_need_words_of_the_language() -> None:
    written = hotel({"type": "boolean"})
    for language, count in (("de", 0), ("xx", 1)):
        document = {**written, "language": language} if isinstance(written, dict) else written
        assert len(found_by("unprovable-value", document)) == count
