# ruff: noqa: E501
import copy
import functools
import json
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from llm_fsm import check
from llm_fsm.definition.models import Definition
from llm_fsm.definition.published import published_schema
from llm_fsm.definition.validation import _NOUNS, describe, examine
from paths import TESTS

DATA = TESTS / "data" / "definitions"


def said(document):
    return [
        (found.name, found.pointer, found.message, found.hint)
        for found in examine(document).findings
    ]


def state(**keys):
    return {"name": "n", "initial_state": "a", "states": {"a": keys}}


A = "/states/a"


@pytest.mark.parametrize(
    ("keys", "name", "pointer", "message", "hint"),
    [
        ({"purpose": 3}, "wrong-type", "/purpose", '"purpose": expected text or a list of lines of text, found the number 3', "put it in quotes"),
        ({"purpose": ["a", 3]}, "wrong-type", "/purpose", '"purpose": expected text or a list of lines of text, found a list', None),
        ({"max_retries": "2"}, "wrong-type", "/max_retries", '"max_retries": expected a whole number, found the text "2"', "write 2 without quotes"),
        ({"timeout": "0.5"}, "wrong-type", "/timeout", '"timeout": expected a number, found the text "0.5"', "write 0.5 without quotes"),
        ({"max_retries": "2.5"}, "wrong-type", "/max_retries", '"max_retries": expected a whole number, found the text "2.5"', None),
        ({"timeout": "007"}, "wrong-type", "/timeout", '"timeout": expected a number, found the text "007"', None),
        ({"max_retries": 1.5}, "wrong-type", "/max_retries", '"max_retries": expected a whole number, found the number 1.5', None),
        ({"max_retries": True}, "wrong-type", "/max_retries", '"max_retries": expected a whole number, found true', None),
        ({"max_retries": -1}, "bad-value", "/max_retries", '"max_retries": expected a number of at least 0, found the number -1', None),
        ({"timeout": "high"}, "wrong-type", "/timeout", '"timeout": expected a number, found the text "high"', None),
        ({"timeout": 0}, "bad-value", "/timeout", '"timeout": expected a number greater than 0, found the number 0', None),
        ({"memory": "yes"}, "wrong-type", "/memory", '"memory": expected true or false, found the text "yes"', "write true without quotes"),
        ({"tools": "x"}, "wrong-type", "/tools", '"tools": expected a list, found the text "x"', "put it in brackets: [ … ]"),
        ({"tools": ["x", None]}, "wrong-type", "/tools/1", 'item 2 of "tools": expected text, found null', None),
        ({"transitions": [3]}, "wrong-type", "/transitions/0", 'item 1 of "transitions": expected an object, found the number 3', None),
        ({"model": []}, "wrong-type", "/model", '"model": expected an object, found an empty list', None),
        ({"context_scope": {}}, "missing-key", "/context_scope", '"context_scope" needs the key "read"', 'add "read": …'),
        ({"transitions": [{}]}, "missing-key", "/transitions/0", 'a transition needs the key "target_state"', 'add "target_state": …'),
        ({"key_results": [{}]}, "missing-key", "/key_results/0", 'a key result needs the key "name"', 'add "name": …'),
        ({"kind": "end"}, "bad-value", "/kind", '"kind": expected one of converse, decide, final, task, wait, subflow, found the text "end"', None),
        ({"kind": "Final"}, "bad-value", "/kind", '"kind": expected one of converse, decide, final, task, wait, subflow, found the text "Final"', 'did you mean "final"?'),
        ({"kind": 3}, "wrong-type", "/kind", '"kind": expected one of converse, decide, final, task, wait, subflow, found the number 3', None),
    ],
)  # fmt: skip
def test_one_fault_is_one_finding_in_plain_words(keys, name, pointer, message, hint):
    assert said(state(**keys)) == [(name, A + pointer, message, hint)]


def test_a_misspelt_required_key_is_to_be_renamed():
    unknown, missing = said(state(transitions=[{"targetState": "a"}]))
    assert unknown[:2] == ("unknown-key", "/states/a/transitions/0/targetState")
    assert missing[3] == 'rename "targetState"'


@pytest.mark.parametrize(
    ("keys", "pointer", "hint"),
    [
        ({"tranistions": 1}, "/tranistions", 'did you mean "transitions"?'),
        ({"type": 1}, "/type", 'did you mean "kind"?'),
        ({"zzz": 1}, "/zzz", 'it is ignored; keys of your own may begin with "x-"'),
        ({"Purpose": 1, "purpose": "x"}, "/Purpose", 'did you mean "purpose"?'),
        ({"model": {"temprature": 1}}, "/model/temprature", 'did you mean "temperature"?'),
        (
            {"transitions": [{"target_state": "a", "desc": "x"}]},
            "/transitions/0/desc",
            'did you mean "description"?',
        ),
        (
            {"transitions": [{"target_state": "a", "conditions": [{"keys": ["x"]}]}]},
            "/transitions/0/conditions/0/keys",
            'did you mean "requires_context_keys"?',
        ),
        ({"//": "x"}, "/~1~1", 'it is ignored; keys of your own may begin with "x-"'),
    ],
)
def test_unknown_keys_are_found_at_every_level_with_the_nearest_known_one(keys, pointer, hint):
    assert [(found[0], found[1], found[3]) for found in said(state(**keys))] == [
        ("unknown-key", A + pointer, hint)
    ]


def test_free_keys_are_silent():
    assert (
        said(
            {
                **state(**{"x-note": 1, "input": {"any": "thing"}}),
                "$schema": "s",
                "x-a": 1,
                "ui": {"zzz": 1},
            }
        )
        == []
    )


@pytest.mark.parametrize(
    ("key", "value", "such_as"),
    [
        ("language", "English (British)", '"en" or "pt-BR"'),
        ("timezone", "Europe/Atlantis", '"Europe/Berlin"'),
        ("timezone", "../../etc/passwd", '"Europe/Berlin"'),
        ("timezone", "GMT+25", '"Europe/Berlin"'),
    ],
)
def test_a_language_is_a_tag_and_a_time_zone_one_that_exists(key, value, such_as):
    text = f'"{key}": expected a name such as {such_as}, found the text "{value}"'
    assert [(found[0], found[2]) for found in said({**state(), key: value})] == [
        ("bad-value", text)
    ]


@pytest.mark.parametrize(
    "keys", [{"language": "zh-Hant-TW", "timezone": "UTC"}, {"timezone": "America/New_York"}]
)
def test_a_language_and_a_time_zone_that_exist_are_taken(keys):
    assert said({**state(), **keys}) == []
    assert Definition.model_validate({**state(), **keys}).timezone == keys["timezone"]


def test_what_is_missing_at_the_top():
    assert [(found[0], found[2], found[3]) for found in said({"states": {"first": {}}})] == [
        ("missing-key", 'a definition needs the key "name"', 'add "name": …'),
        (
            "missing-key",
            'a definition needs the key "initial_state"',
            'add "initial_state": "first"',
        ),
    ]
    assert [found[0] for found in said({"name": None, "initial_state": "a", "states": {}})] == [
        "wrong-type",
        "bad-value",
    ]


def test_a_state_whose_id_is_not_its_key_is_an_error():
    [found] = said({"name": "n", "initial_state": "a", "states": {"a": {"id": "b"}}})
    assert found[0] == "bad-value"
    assert said({"name": "n", "initial_state": "a", "states": {"a": {"id": "a"}}}) == []


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("two words", "two_words"),
        ("1st", "state_1st"),
        ("é", "state"),
        ("", "state"),
        ("x" * 65, "x" * 60),
        ("a\n", "a"),
    ],
)
def test_a_bad_state_id_comes_with_a_good_one(name, better):
    [found] = said({"name": "n", "initial_state": "a", "states": {name: {}}})
    assert (found[0], found[3]) == ("bad-state-id", f'write "{better}"')


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        ("a" * 50, 'the text "' + "a" * 40 + '…"'),
        ('"', 'the text "\\""'),
        (10**30, "the number 100000000000000…"),
        ([], "an empty list"),
        ({}, "an empty object"),
        ({"a": 1}, "an object"),
    ],
)
def test_values_are_described_shortly(value, words):
    assert describe(value) == words


EVERY_KEY = json.loads((DATA / "every_key.json").read_text(encoding="utf-8"))
SMALL = {
    "name": "n",
    "initial_state": "a",
    "states": {"a": {"transitions": [{"target_state": "a"}]}},
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.sampled_from([0, 1, -1, 0.0, 1.0, -1.0, 1.5, 2.0**62, 1e300]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.sampled_from(["a", "final", "window", "silence", "1", "true", "a\n"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "read", "name", "target_state", "a b"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def places(value, path=()):
    """The path of everything below a value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@st.composite
def documents(draw):
    """Definitions in which some values are others, are gone, or have another name."""
    document = copy.deepcopy(draw(st.sampled_from([EVERY_KEY, SMALL])))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(document)) or [("name",)]))
        holder = functools.reduce(operator.getitem, path[:-1], document)
        change = draw(st.sampled_from(["set", "set", "set", "drop", "rename"]))
        if change == "set":
            holder[path[-1]] = draw(VALUES)
        elif change == "drop" or isinstance(holder, list):
            del holder[path[-1]]
        else:
            holder[draw(st.text(max_size=3))] = holder.pop(path[-1])
    return document


def test_every_part_of_a_definition_has_a_name_for_messages():
    objects = {name for name, shape in published_schema()["$defs"].items() if "properties" in shape}
    assert objects <= set(_NOUNS)


@settings(max_examples=300, deadline=None)
@given(documents())
def test_what_fits_is_exactly_what_the_models_accept(document):
    form = examine(document)
    refused = 0
    try:
        Definition.model_validate(form.document)
    except ValidationError as error:
        refused = error.error_count()
    errors = [found for found in form.findings if found.level == "error"]
    # no model sees both
    misnamed = [found for found in errors if "a state's id is its key" in found.message]
    assert refused == len(errors) - len(misnamed)
    assert form.sound is (not errors)


@pytest.mark.parametrize(
    ("owner", "key", "written"),
    [
        (("states", "a"), "transitions", "transistions"),
        (("states", "a"), "purpose", "porpose"),
        (("states", "a", "transitions", 0), "conditions", "guards"),
        (("states", "b"), "kind", "type"),
        ((), "context_schema", "schema"),
    ],
)
def test_a_misspelt_key_is_one_finding_without_consequences(owner, key, written):
    document = {
        "name": "n",
        "initial_state": "a",
        "context_schema": {"type": "object", "properties": {"x": {"type": "string"}}},
        "states": {
            "a": {
                "purpose": "Ask for x",
                "required_context_keys": ["x"],
                "transitions": [
                    {
                        "target_state": "b",
                        "description": "x is known",
                        "conditions": [{"requires_context_keys": ["x"]}],
                    }
                ],
            },
            "b": {"kind": "final", "purpose": "End", "reply": "{{ x }}"},
        },
    }
    assert check(document) == []
    place = document
    for step in owner:
        place = place[step]
    place[written] = place.pop(key)
    assert [(found.name, found.hint) for found in check(document)] == [
        ("unknown-key", f'did you mean "{key}"?')
    ]


def test_what_stands_under_a_misspelt_key_is_not_judged():
    document = {"name": "n", "initial_state": "a", "states": {"a": {"purpose": "x"}}}
    document["states"]["a"]["transistions"] = [{"target_state": "nowhere"}]
    assert [found.name for found in check(document) if found.level != "info"] == ["unknown-key"]


def test_a_key_whose_value_does_not_fit_is_not_taken_for_another():
    document = {
        "name": "n",
        "initial_state": "a",
        "states": {"a": {"purpose": "x", "type": "question"}},
    }
    assert examine(document).renamed == ()
