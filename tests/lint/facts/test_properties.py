"""The author's statements about paths, and the rules that check them."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, found_by, machine, to, when

AGE = {"age": {"type": "integer", "minimum": 0, "maximum": 130}, "consent": {"type": "boolean"}}
AGREED = when({"==": [{"var": "consent"}, True]})

SHOP = {
    "hello": {"required_context_keys": ["consent"], "transitions": [to("ask"), to("pay", AGREED)]},
    "ask": {
        "required_context_keys": ["consent"],
        "transitions": [to("pay", when(None, "consent")), to("bye")],
    },
    "pay": {"transitions": [to("bye"), to("ask")]},
    "old": {"transitions": [to("bye")]},
}


def shop(*properties: Any, **states: Any) -> Written:
    return machine({**SHOP, **states}, AGE, properties=list(properties))


HOLDS: list[Any] = [
    {"never": "old"},
    {"never": "pay", "before": {"key": "consent"}},
    {"never": "pay", "before": "hello"},
    {"eventually": "bye"},
    {"eventually": ["bye", "pay"]},
    {"always": "bye", "after": "pay"},
    {"always": {"key": "consent"}, "after": "pay"},
    {"always": "hello", "after": "old"},
    {"eventually": "hello"},
]
BROKEN: list[tuple[Any, tuple[str, ...]]] = [
    ({"never": "pay"}, ("hello", "pay")),
    ({"never": ["old", "bye"]}, ("hello", "ask", "bye")),
    ({"never": "bye", "before": "pay"}, ("hello", "ask", "bye")),
    ({"never": "bye", "before": {"key": "consent"}}, ("hello", "ask", "bye")),
    ({"never": {"key": "consent"}}, ("hello",)),
    ({"eventually": "pay"}, ("hello", "ask", "bye")),
    ({"eventually": {"key": "consent"}}, ("hello", "ask", "bye")),
    ({"always": "ask", "after": "pay"}, ("hello", "pay", "bye")),
    ({"always": "ask", "after": {"key": "consent"}}, ("hello", "pay", "bye")),
    ({"always": "pay", "after": "bye"}, ("hello", "ask", "bye")),
]


@pytest.mark.parametrize("statement", HOLDS, ids=str)
def test_a_statement_that_holds_is_left_alone(statement: Any) -> None:
    assert found_by("property-violated", shop(statement)) == []


@pytest.mark.parametrize(("statement", "path"), BROKEN, ids=str)
def test_a_broken_statement_is_answered_with_a_shortest_path(
    statement: Any, path: tuple[str, ...]
) -> None:
    [finding] = found_by("property-violated", shop({"never": "old"}, statement))
    assert (finding.level, finding.pointer, finding.path) == ("error", "/properties/1", path)
    assert " → ".join(path) in finding.message


def test_transitions_that_can_never_be_taken_are_no_path() -> None:
    dead = {"transitions": [to("old", when({">": [{"var": "age"}, 200]})), to("bye")]}
    assert found_by("property-violated", shop({"never": "old"}, ask=dead)) == []
    alive = {"transitions": [to("old", when({">": [{"var": "age"}, 100]})), to("bye")]}
    assert len(found_by("property-violated", shop({"never": "old"}, ask=alive))) == 1


def test_what_covers_a_transition_takes_it_from_all_paths() -> None:
    covered = {"kind": "decide", "transitions": [to("bye", priority=1), to("old", priority=2)]}
    assert found_by("property-violated", shop({"never": "old"}, ask=covered)) == []


def test_a_trap_breaks_what_must_come_at_last() -> None:
    trapped = {
        "pay": {"transitions": [to("loop")]},
        "loop": {"transitions": [to("loop2")]},
        "loop2": {"transitions": [to("loop")]},
    }
    [finding] = found_by("property-violated", shop({"always": "bye", "after": "pay"}, **trapped))
    assert finding.path == ("hello", "pay")


def test_a_digression_that_comes_back_is_no_end() -> None:
    help_ = {"target_state": "help", "return": True, "description": "Help"}
    document = shop(
        {"eventually": "bye"}, {"never": "help"}, help={"kind": "final", "purpose": "Help"}
    )
    document["global_transitions"] = [help_]
    [finding] = found_by("property-violated", document)
    assert (finding.pointer, finding.path) == ("/properties/1", ("hello", "help"))


def test_what_cannot_be_told_breaks_nothing() -> None:
    parts = [
        {"or": [{"==": [{"var": f"k{n}"}, 1]}, {"==": [{"var": f"m{n}"}, 1]}]} for n in range(9)
    ]
    unclear = {"transitions": [to("pay", when({"and": parts}))]}
    document = machine(
        {
            "hello": unclear,
            "pay": {"required_context_keys": ["consent"], "transitions": [to("bye")]},
        },
        properties=[{"never": "pay", "before": {"key": "consent"}}],
    )
    assert found_by("property-violated", document) == []


@pytest.mark.parametrize(
    ("statement", "pointer"),
    [
        ({}, "/properties/0"),
        ({"never": "pay", "eventually": "bye"}, "/properties/0"),
        ({"always": "bye"}, "/properties/0"),
        ({"never": "pay", "after": "bye"}, "/properties/0/after"),
        ({"always": "pay", "before": "bye"}, "/properties/0/before"),
        ({"never": 5}, "/properties/0/never"),
        ({"never": []}, "/properties/0/never"),
        ({"never": {"state": "pay"}}, "/properties/0/never"),
        ({"never": "pay", "before": [{"key": 1}]}, "/properties/0/before"),
    ],
    ids=str,
)
def test_a_statement_that_says_nothing_is_an_error(statement: Any, pointer: str) -> None:
    [finding] = found_by("property-malformed", shop(statement))
    assert (finding.level, finding.pointer) == ("error", pointer)
    assert finding.hint
    assert found_by("property-violated", shop(statement)) == []


def test_well_formed_statements_pass() -> None:
    document = shop(*HOLDS, *(statement for statement, _ in BROKEN))
    assert found_by("property-malformed", document) == []
    assert found_by("property-unknown-name", document) == []


@pytest.mark.parametrize(
    ("statement", "pointer", "hint"),
    [
        ({"never": "payy"}, "/properties/0/never", 'did you mean "pay"?'),
        (
            {"always": "bye", "after": ["pay", "hallo"]},
            "/properties/0/after",
            'did you mean "hello"?',
        ),
        (
            {"never": "pay", "before": {"key": "consnet"}},
            "/properties/0/before",
            'did you mean "consent"?',
        ),
        (
            {"never": "pay", "before": "consent"},
            "/properties/0/before",
            'write {"key": "consent"} for the key of this name',
        ),
    ],
    ids=str,
)
def test_an_unknown_name_is_an_error_and_its_statement_is_not_judged(
    statement: Any, pointer: str, hint: str
) -> None:
    [finding] = found_by("property-unknown-name", shop(statement))
    assert (finding.level, finding.pointer, finding.hint) == ("error", pointer, hint)
    assert found_by("property-violated", shop(statement)) == []


def test_without_a_schema_a_key_is_known_by_its_use() -> None:
    document = machine(
        SHOP, properties=[{"eventually": {"key": "consent"}}, {"eventually": {"key": "iban"}}]
    )
    assert [finding.pointer for finding in found_by("property-unknown-name", document)] == [
        "/properties/1/eventually"
    ]


def test_always_after_asks_for_it_on_each_way_on_and_not_only_on_one() -> None:
    states = {
        "hello": {"transitions": [to("pay"), to("receipt")]},
        "pay": {"transitions": [to("receipt"), to("bye")]},
        "receipt": {"transitions": [to("bye"), to("pay")]},
    }
    document = machine(states, properties=[{"always": "receipt", "after": "pay"}])
    [finding] = found_by("property-violated", document)
    assert finding.path == ("hello", "pay", "bye")
    closed = {**states, "pay": {"transitions": [to("receipt"), to("hello")]}}
    assert found_by("property-violated", machine(closed, properties=document["properties"])) == []


def test_what_is_called_offers_the_digressions_of_its_caller() -> None:
    document = machine(
        {
            "check": {"kind": "subflow", "flow": "check", "transitions": [to("ask")]},
            "ask": {"transitions": [to("bye")]},
            "help": {"transitions": [to("shown")]},
        },
        properties=[{"never": "shown", "before": "ask"}],
        global_transitions=[{**to("help"), "return": True}],
    )
    (found,) = found_by("property-violated", document)
    assert found.path == ("check", "help", "shown")
