"""The schema that the package brings is read as the models mean it."""

import pytest

from llm_fsm.definition.names import ALIASES, LANGUAGE_PATTERN
from llm_fsm.definition.published import ROOT, ValueForm, published_schema, shape_of

WORDS = {
    *("$schema", "$id", "$defs", "$ref", "title", "description", "default", "examples"),
    *(
        "type",
        "enum",
        "anyOf",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "patternProperties",
    ),
    *("minimum", "exclusiveMinimum", "maximum", "minProperties", "pattern"),
}


def words_of(schema):
    """The words of JSON Schema that occur in a schema."""
    for word, value in schema.items():
        yield word
        if word in ("properties", "$defs", "patternProperties"):
            for key, inner in value.items():
                # read as a map of anything, see below: its words have a check of their own
                if key != "context_schema":
                    yield from words_of(inner)
        elif word == "anyOf":
            for inner in value:
                yield from words_of(inner)
        elif word in ("items", "additionalProperties") and isinstance(value, dict):
            yield from words_of(value)


def test_the_schema_has_no_word_that_the_check_does_not_understand():
    assert set(words_of(published_schema())) <= WORDS


@pytest.mark.parametrize(
    ("shape", "key", "part"),
    [
        (ROOT, "name", ValueForm("string")),
        (ROOT, "persona", ValueForm("text")),
        (ROOT, "language", ValueForm("string", pattern=LANGUAGE_PATTERN, examples=("en", "pt-BR"))),
        (ROOT, "ui", ValueForm("any")),
        (ROOT, "context_schema", ValueForm("map", ValueForm("any"))),
        (ROOT, "tools", ValueForm("map", ValueForm("object", shape="ToolRef"))),
        (ROOT, "limits", ValueForm("object", shape="Limits")),
        ("Limits", "tokens", ValueForm("integer", least=1, most=10**12)),
        ("Limits", "seconds", ValueForm("number", above=0, most=315_360_000)),
        ("HistorySettings", "strategy", ValueForm("choice", choices=("window", "summary"))),
        ("State", "transitions", ValueForm("list", ValueForm("object", shape="Transition"))),
        ("State", "example_dialogue", ValueForm("list", ValueForm("map", ValueForm("text")))),
        ("State", "memory", ValueForm("boolean")),
    ],
)
def test_a_key_is_read_as_what_may_stand_there(shape, key, part):
    assert shape_of(shape).keys[key] == part


def test_states_have_names_of_one_form_and_there_is_at_least_one():
    states = shape_of(ROOT).keys["states"]
    assert (states.kind, states.size, states.model) == ("map", 1, "State")
    assert states.pattern is not None


def test_every_shape_can_be_read_and_second_names_are_left_out():
    for name, shape in published_schema()["$defs"].items():
        if "properties" in shape:
            assert shape_of(name).required == frozenset(shape.get("required", ()))
            assert not set(shape_of(name).keys) & set(ALIASES.get(name, ()))
    assert "$schema" not in shape_of(ROOT).keys
