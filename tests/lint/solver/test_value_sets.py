"""Rules about what conditions and replies look for: members, values and states that cannot be
there.
"""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

ZIP = {"type": "string", "pattern": "^[0-9]{5}$"}
SCHEMA = {
    "size": {"type": "string", "enum": ["s", "m"]},
    "qty": {"type": "integer", "minimum": 1},
    "addr": {"type": "object", "properties": {"town": {"type": "string"}, "zip": ZIP}},
    "loose": {"type": "object"},
    "day": {"type": "string", "format": "date"},
    "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
}  # fmt: skip
LOGIC = "/states/a/transitions/0/conditions/0/logic"


def var(name: str) -> Written:
    return {"var": name}


def asks(*conditions: Written, **more: Any) -> Written:
    """A machine that collects every key and leaves under these conditions."""
    states = {
        "a": {
            "purpose": "x",
            "required_context_keys": list(SCHEMA),
            "transitions": [to("b", *conditions)],
        }
    }
    document = machine(states, SCHEMA)
    document["states"]["a"].update(more)
    return document


def said(text: str) -> Written:
    document = asks()
    document["states"]["b"]["reply"] = text
    return document


MEMBERS = [
    ("addr.twn", 'did you mean "addr.town"?'),
    ("size.name", None),
    ("qty.x", None),
    ("tags.first", None),
]


@pytest.mark.parametrize(("name", "hint"), MEMBERS)
def test_a_member_that_cannot_be_there_is_found_wherever_it_is_looked_for(
    name: str, hint: str | None
) -> None:
    by_rule = {
        "unknown-condition-key": asks(when(None, name)),
        "undeclared-key": asks(required_context_keys=[name]),
        "unknown-key-in-reply": said(f"{{{{ {name} }}}}"),
        "unknown-key-in-mapping": asks(context_scope={"read": [name]}),
    }
    for rule, document in by_rule.items():
        [found] = found_by(rule, document)
        assert (found.level, found.hint) == ("warning", hint)
        assert "has no member" in found.message


@pytest.mark.parametrize("name", ["addr.town", "loose.anything", "tags.0", "size", "addr"])
def test_members_that_may_be_there_are_not_found(name: str) -> None:
    for rule in (
        "unknown-condition-key",
        "undeclared-key",
        "unknown-key-in-reply",
        "unknown-key-in-mapping",
    ):
        assert found_by(rule, asks(when(None, name), required_context_keys=[name])) == []
        assert found_by(rule, said(f"{{{{ {name} }}}}")) == []


@pytest.mark.parametrize(
    ("logic", "place"),
    [
        ({"==": [var("addr.zip"), "abc"]}, "/==/1"),
        ({"==": [var("day"), "tomorrow"]}, "/==/1"),
        ({"<": [var("day"), "2026/01/31"]}, "/</1"),
        ({"in": ["c", var("tags")]}, "/in/0"),
        ({"contains": [var("tags"), "c"]}, "/contains/1"),
    ],
)
def test_values_that_the_schema_refuses_are_found(logic: Written, place: str) -> None:
    assert briefly(found_by("value-outside-enum", asks(when(logic)))) == [
        ("warning", LOGIC + place)
    ]


@pytest.mark.parametrize(
    "logic",
    [
        {"==": [var("addr.zip"), "12345"]},
        {"!=": [var("addr.zip"), ""]},
        {"<": [var("day"), "2026-01-31"]},
        {"in": ["a", var("tags")]},
        {"in": ["abc", var("day")]},
        {"contains": [var("loose"), "c"]},
    ],
)
def test_values_that_fit_are_not_found(logic: Written) -> None:
    assert found_by("value-outside-enum", asks(when(logic))) == []


def test_replies_that_ask_for_a_value_that_is_not_listed_are_found() -> None:
    [found] = found_by(
        "value-outside-enum",
        said("{% if size == 'xl' %}x{% endif %}{% if size == 's' %}y{% endif %}"),
    )
    assert (found.pointer, found.hint) == ("/states/b/reply", "the values are s, m")


@pytest.mark.parametrize(
    ("logic", "place", "hint"),
    [
        ({"==": [var("_current_state"), "nowhere"]}, "/==/1", "the states are a, b"),
        ({"==": [var("_previous_state"), "nowhere"]}, "/==/1", "the states are a, b"),
        ({"in": [var("_previous_state"), ["a", "elsewhere"]]}, "/in/1/1", "the states are a, b"),
        (
            {"==": [var("_current_state"), "b"]},
            "/==/1",
            "write the transition in the state that is meant",
        ),
    ],
)
def test_states_that_cannot_be_the_current_or_previous_one_are_found(
    logic: Written, place: str, hint: str
) -> None:
    found = [one for one in check(asks(when(logic))) if one.level == "warning"]
    named = {one.name for one in found}
    assert named <= {"unknown-state-in-condition", "unreachable-by-guards"}
    first = next(one for one in found if one.name == "unknown-state-in-condition")
    assert (first.pointer, first.hint) == (LOGIC + place, hint)


@pytest.mark.parametrize(
    "logic", [{"==": [var("_previous_state"), "b"]}, {"!=": [var("_previous_state"), ""]}]
)
def test_states_that_exist_are_not_found(logic: Written) -> None:
    assert found_by("unknown-state-in-condition", asks(when(logic))) == []


def test_global_transitions_may_test_the_current_state() -> None:
    document = asks()
    document["global_transitions"] = [to("b", when({"==": [var("_current_state"), "a"]}))]
    assert found_by("unknown-state-in-condition", document) == []


@pytest.mark.parametrize(
    ("logic", "place"),
    [
        ({"<": [{"len": [var("size")]}, 0]}, "/</1"),
        ({"==": [var("day"), var("day")]}, "/==/1"),
        ({">": [var("qty"), {"var": ["qty"]}]}, "/>/1"),
        ({">=": [{"len": [var("tags")]}, 0]}, "/>=/1"),
        ({"==": [{"context_length": "tags"}, -1]}, "/==/1"),
        ({"==": [{"count": [var("tags"), "a"]}, 1.5]}, "/==/1"),
        ({">": [{"now": []}, 1700000000000]}, "/>/1"),
        ({">": [{"now": []}, "2026-01-31"]}, "/>/1"),
        ({">": [{"now": []}, var("day")]}, "/>/1"),
        ({">": [{"date": [var("day")]}, "2026-01-31"]}, "/>/1"),
        ({"<": [{"date": ["tomorrow"]}, {"now": []}]}, "/</0/date"),
        ({"==": [{"lower": [var("day")]}, "XL"]}, "/==/1"),
    ],
)
def test_comparisons_of_computed_values_that_test_nothing_are_found(
    logic: Written, place: str
) -> None:
    found = [
        one
        for one in check(asks(when(logic)))
        if one.code.startswith("C2") and one.name != "unreachable-by-guards"
    ]
    assert [(one.name, one.pointer) for one in found] == [("impossible-comparison", LOGIC + place)]


@pytest.mark.parametrize(
    "logic",
    [
        {">": [{"len": [var("tags")]}, 0]},
        {"==": [{"len": [var("size")]}, 1]},
        {">": [{"now": []}, {"date": [var("day")]}]},
        {">": [{"now": []}, 1767225600]},
        {"<": [{"-": [{"now": []}, {"date": [var("day")]}]}, 86400]},
        {"==": [{"lower": [var("day")]}, "straße 5"]},
        {"<": [{"date": ["2026-01-31"]}, {"now": []}]},
    ],
)
def test_comparisons_of_computed_values_that_test_something_are_not_found(logic: Written) -> None:
    assert found_by("impossible-comparison", asks(when(logic))) == []


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1"])
def test_what_re2_lacks_is_said_so(pattern: str) -> None:
    [found] = found_by("bad-condition", asks(when({"matches": [var("size"), pattern]})))
    assert "look-around" in (found.hint or "")


@pytest.mark.parametrize(
    ("schema", "logic", "found"),
    [
        ({"type": "string", "maxLength": 20}, {">": [{"len": [var("k")]}, 20]}, ["/>/1"]),
        ({"type": "string", "maxLength": 20}, {"<": [50, {"len": var("k")}]}, ["/</0"]),
        (
            {"type": "array", "items": {}, "maxItems": 3},
            {"==": [{"len": [var("k")]}, 4]},
            ["/==/1"],
        ),
        ({"type": "integer"}, {">": [{"len": [var("k")]}, 3]}, ["/>/1"]),
        ({"type": "string", "maxLength": 20}, {">": [{"len": [var("k")]}, 19]}, []),
        ({"type": "string", "maxLength": 20}, {"<=": [{"len": [var("k")]}, 20]}, []),
        ({"type": "string", "maxLength": 20}, {"!": [{">": [{"len": [var("k")]}, 20]}]}, []),
        ({"type": "string"}, {">": [{"len": [var("k")]}, 2000]}, []),
        ({"type": ["string", "array"], "maxLength": 20}, {">": [{"len": [var("k")]}, 30]}, []),
    ],
)
def test_a_length_that_the_schema_of_the_key_does_not_allow_is_found(schema, logic, found) -> None:
    document = machine(
        {"a": {"purpose": "x", "transitions": [to("b", when(logic))]}}, {"k": schema}
    )
    assert [one.pointer for one in found_by("impossible-comparison", document)] == [
        LOGIC + place for place in found
    ]
