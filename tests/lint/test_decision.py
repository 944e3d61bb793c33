"""Rules of the family decision: each with a faulty machine and a good one that looks alike."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm.lint.solver.samples import plain_text

TIER = {"tier": {"type": "string", "enum": ["gold", "silver"]}}
AGE = {"age": {"type": "integer", "minimum": 0, "maximum": 130}}
KIND = {"kind": {"enum": ["book", "food"]}, "qty": {"type": "integer"}}
CART: dict[str, dict[str, Any]] = {
    "cart": {"type": "array", "items": {"type": "object", "properties": KIND}},
    "marks": {"type": "array", "items": {"enum": ["a", "b"]}},
}
PART = {"o": {"type": "object", "properties": {"k": {"type": "integer"}}}}
GUESTS = {"guests": {"type": "integer", "minimum": 1}}
TEXT = {"name": {"type": "string"}}
HOST = {"paid": {"type": "boolean", "x-source": "host"}}


def var(name: str) -> Written:
    return {"var": name}


def is_(name: str, value: Any) -> Written:
    return {"==": [var(name), value]}


def above(name: str, value: Any) -> Written:
    return {">=": [var(name), value]}


def below(name: str, value: Any) -> Written:
    return {"<": [var(name), value]}


def one(schema: dict[str, Any] | None, *conditions: Written, **more: Any) -> Written:
    """A state that collects, with one transition under these conditions."""
    collects = list(schema or {})
    return machine(
        {"a": {"required_context_keys": collects, "transitions": [to("b", *conditions, **more)]}},
        schema,
    )


def choice(
    schema: dict[str, Any] | None, *moves: Written, demands: tuple[str, ...] = ()
) -> Written:
    """A state that collects, and a deciding one behind it."""
    states = {
        "a": {
            "required_context_keys": list(schema or {}),
            "transitions": [to("d", *([when(None, *demands)] * bool(demands)))],
        },
        "d": {"kind": "decide", "transitions": list(moves)},
    }
    return machine(states, schema)


def answered(*moves: Written) -> Written:
    """A state that waits for a yes or a no."""
    keys = {"ok": {"type": "boolean", "x-source": "answer"}}
    wait = {
        "kind": "wait",
        "wait_for": "boss",
        "output": {"ok": "$.ok"},
        "transitions": list(moves),
    }
    return machine({"w": wait}, keys)


def chosen(*moves: Written) -> Written:
    """A state that waits for one of two words, kept in a key that takes any text."""
    answer = {"type": "object", "properties": {"a": {"enum": ["yes", "no"]}}}
    wait = {
        "kind": "wait",
        "answer_schema": answer,
        "output": {"a": "$.a"},
        "transitions": list(moves),
    }
    return machine({"w": wait}, {"a": {"type": "string"}})


def confirm(
    *moves: Written, keys: tuple[str, ...] = ("ok",), reply: str = "Shall I book?", **more: Any
) -> Written:
    """A state that asks the user to agree, behind one that collects the city."""
    schema = {"ok": {"type": "boolean"}, "pay": {"enum": ["yes", "no"]}, "city": {"type": "string"}}
    states = {
        "a": {"required_context_keys": ["city"], "transitions": [to("q", when(None, "city"))]},
        "q": {"required_context_keys": list(keys), "reply": reply, "transitions": list(moves)},
    }
    return machine(states, schema, **more)


LOGIC = "/states/a/transitions/0/conditions/0/logic"
Q = "/states/q/transitions"
READ_BACK = {"keys": (), "reply": "To {{ city }}, is that right?"}
D = "/states/d/transitions"

BAD: list[tuple[str, Written, list[tuple[str, str]]]] = [
    ("never-holds", one(AGE, when(above("age", 131))), [("warning", LOGIC)]),
    ("never-holds", one(None, when({"and": [var("x"), {"!": var("x")}]})), [("warning", LOGIC)]),
    (
        "never-holds",
        one(AGE, when(below("age", 18)), when(above("age", 18))),
        [("warning", "/states/a/transitions/0/conditions")],
    ),
    ("never-holds", one(None, when(is_("x", None), "x")), [("warning", LOGIC)]),
    *(
        (
            "never-holds",
            one(None, when(first), when(second)),
            [("warning", "/states/a/transitions/0/conditions")],
        )
        for first, second in (
            (is_("x", "gold"), is_("x", "blue")),
            (is_("x", 5), is_("x", 6)),
            (is_("x", True), is_("x", False)),
            ({">": [var("x"), 5]}, below("x", 4)),
        )
    ),
    (
        "never-holds",
        one(PART, when(above("o.k", 5)), when(below("o.k", 4))),
        [("warning", "/states/a/transitions/0/conditions")],
    ),
    ("always-holds", one(AGE, when(above("age", 0))), [("info", LOGIC)]),
    ("always-holds", one(None, when({"or": [var("x"), {"!": var("x")}]})), [("info", LOGIC)]),
    ("constant-expression", one(TIER, when({"==": ["tier", "gold"]})), [("warning", LOGIC)]),
    ("constant-expression", one(TIER, when(True)), [("warning", LOGIC)]),
    (
        "constant-expression",
        one(TIER, when({"and": [is_("tier", "gold"), {">": [2, 1]}]})),
        [("warning", LOGIC + "/and/1")],
    ),
    (
        "overlapping-transitions",
        choice(
            GUESTS, to("s", when({"<=": [var("guests"), 8]})), to("l", when(above("guests", 8)))
        ),
        [("warning", f"{D}/1")],
    ),
    (
        "overlapping-transitions",
        choice(
            GUESTS,
            to("s", when(above("guests", 9))),
            to("l", when(above("guests", 5))),
            to("x", priority=900),
        ),
        [("info", f"{D}/1")],
    ),
    (
        "overlapping-transitions",
        machine(
            {
                "a": {
                    "transitions": [
                        to("b", when(var("x")), auto=True),
                        to("c", when(var("y")), auto=True),
                    ]
                }
            }
        ),
        [("warning", "/states/a/transitions/1")],
    ),
    (
        "shadowed-transition",
        choice(
            GUESTS,
            to("s", when(above("guests", 5)), priority=1),
            to("l", when(above("guests", 9)), priority=2),
        ),
        [("warning", f"{D}/1")],
    ),
    (
        "shadowed-transition",
        choice(
            TIER,
            to("s", when(is_("tier", "gold"))),
            to("l", when({"!=": [var("tier"), "gold"]})),
            to("x", when(is_("tier", "silver"))),
        ),
        [("warning", f"{D}/2")],
    ),
    (
        "shadowed-transition",
        machine({"a": {"transitions": [to("b", auto=True), to("c", when(None, "x"))]}}),
        [("warning", "/states/a/transitions/1")],
    ),
    (
        "shadowed-transition",
        machine({"a": {"transitions": [to("b", when(None, "x")), to("b", when(None, "x", "y"))]}}),
        [("warning", "/states/a/transitions/1")],
    ),
    (
        "decide-gap",
        choice(TIER, to("g", when(is_("tier", "gold"))), demands=("tier",)),
        [("warning", D)],
    ),
    (
        "decide-gap",
        choice(TIER, to("g", when(is_("tier", "gold"))), to("s", when(is_("tier", "silver")))),
        [("warning", D)],
    ),
    (
        "decide-gap",
        choice(HOST, to("g", when(is_("paid", True))), to("s", when(is_("paid", False)))),
        [("info", D)],
    ),
    (
        "decide-gap",
        choice(
            GUESTS,
            to("g", when(below("guests", 8), "guests")),
            to("s", when({">": [var("guests"), 8]})),
            demands=("guests",),
        ),
        [("warning", D)],
    ),
    (
        "decide-gap",
        choice(None, to("g", when(is_("t", "a"))), to("s", when(is_("t", "b"))), demands=("t",)),
        [("warning", D)],
    ),
    (
        "decide-gap",
        choice(
            {"cart": {**CART["cart"], "minItems": 1}},
            to("g", when({"some": [var("cart"), is_("kind", "food")]})),
            demands=("cart",),
        ),
        [("warning", D)],
    ),
    ("stuck-decide", choice(AGE, to("g", when(below("age", 0)))), [("error", D)]),
    (
        "ordering-on-missing-key",
        one(GUESTS, when({"<=": [var("guests"), 8]})),
        [("warning", LOGIC + "/<=")],
    ),
    ("ordering-on-missing-key", one(None, when({"!": above("n", 8)})), [("info", LOGIC + "/!/>=")]),
    (
        "ordering-on-missing-key",
        choice(
            GUESTS,
            to("u", when({"missing": ["guests"]})),
            to("s", when({"<=": [var("guests"), 8]}), priority=1),
        ),
        [("warning", "/states/d/transitions/1/conditions/0/logic/<=")],
    ),
    ("type-mismatch", one(AGE, when(is_("age", "eighteen"))), [("warning", LOGIC + "/==/1")]),
    ("type-mismatch", one(AGE, when(is_("age", "18"))), [("info", LOGIC + "/==/1")]),
    ("type-mismatch", one(TEXT, when({">": [var("name"), 5]})), [("warning", LOGIC + "/>/1")]),
    ("type-mismatch", one(HOST, when(is_("paid", "true"))), [("warning", LOGIC + "/==/1")]),
    ("value-outside-enum", one(TIER, when(is_("tier", "golden"))), [("warning", LOGIC + "/==/1")]),
    ("value-outside-enum", one(AGE, when(is_("age", 131))), [("warning", LOGIC + "/==/1")]),
    (
        "value-outside-enum",
        one(AGE, when({"or": [{">": [var("age"), 130]}, is_("age", 3)]})),
        [("warning", LOGIC + "/or/0/>/1")],
    ),
    (
        "value-outside-enum",
        one(
            {"cover": {"anyOf": [{"enum": [1, 2]}, {"const": "all"}]}},
            when({"in": [var("cover"), ["any", 2]]}),
        ),
        [("warning", LOGIC + "/in/1/0")],
    ),
    (
        "value-outside-enum",
        one(CART, when({"some": [var("cart"), {"and": [is_("kind", "pen"), above("qty", 2)]}]})),
        [("warning", LOGIC + "/some/1/and/0/==/1")],
    ),
    (
        "value-outside-enum",
        one(CART, when({"none": [var("marks"), {"in": [var(""), ["a", "c"]]}]})),
        [("warning", LOGIC + "/none/1/in/1/1")],
    ),
    (
        "unknown-condition-key",
        one(CART, when({"all": [var("cart"), {"!=": [var("knid"), "food"]}]})),
        [("warning", LOGIC + "/all/1/!=/0/var")],
    ),
    ("type-mismatch", one(None, when(is_("_previous_state", 5))), [("warning", LOGIC + "/==/1")]),
    (
        "impossible-comparison",
        one(None, when({">": [{"len": [var("x")]}, "many"]})),
        [("warning", LOGIC + "/>/1")],
    ),
    (
        "value-outside-enum",
        one(TIER, when({"in": [var("tier"), ["gold", "sliver"]]})),
        [("warning", LOGIC + "/in/1/1")],
    ),
    (
        "case-mismatch",
        one(TIER, when({"!=": ["Gold", var("tier")]})),
        [("warning", LOGIC + "/!=/0")],
    ),
    (
        "unknown-condition-key",
        one(TIER, when(None, "teir")),
        [("warning", LOGIC.replace("logic", "requires_context_keys/0"))],
    ),
    (
        "unknown-condition-key",
        one(TIER, when(is_("Tier", "gold"))),
        [("warning", LOGIC + "/==/0/var")],
    ),
    (
        "unknown-condition-key",
        one(None, when(above("_turn_in_state", 2))),
        [("warning", LOGIC + "/>=/0/var")],
    ),
    (
        "unknown-condition-key",
        machine(
            {
                "a": {
                    "required_context_keys": ["email"],
                    "transitions": [to("b", when(None, "emial"))],
                }
            }
        ),
        [("info", LOGIC.replace("logic", "requires_context_keys/0"))],
    ),
    (
        "unreachable-by-guards",
        machine(
            {
                "a": {"transitions": [to("b", when(above("age", 131))), to("c")]},
                "b": {"transitions": [to("e")]},
            },
            AGE,
        ),
        [("warning", "/states/b")],
    ),
    ("bad-condition", one(None, when({"equals": [1, 2]})), [("error", LOGIC + "/equals")]),
    (
        "bad-check",
        machine(
            {
                "a": {
                    "kind": "task",
                    "key_results": [{"name": "x", "check": {"judge": ""}}],
                    "transitions": [to("b")],
                }
            }
        ),
        [("error", "/states/a/key_results/0/check")],
    ),
    (
        "decide-gap",
        answered(to("b", when(is_("ok", True)))),
        [("warning", "/states/w/transitions")],
    ),
    (
        "shadowed-transition",
        answered(to("b", when(is_("ok", True))), to("c", when(is_("ok", True)))),
        [("warning", "/states/w/transitions/1")],
    ),
    ("odd-operation", one(AGE, when({"==": [var("age"), 1, 2]})), [("warning", LOGIC + "/==/2")]),
    (
        "odd-operation",
        one(AGE, when({"!": [is_("age", 1), is_("age", 2)]})),
        [("warning", LOGIC + "/!/1")],
    ),
    ("odd-operation", one(AGE, when({"<": [0, var("age"), 9, 99]})), [("warning", LOGIC + "/</3")]),
    (
        "odd-operation",
        one(AGE, when({">": [{"-": [var("age"), 1, 2]}, 3]})),
        [("warning", LOGIC + "/>/0/-/2")],
    ),
    (
        "odd-operation",
        one(TEXT, when({"!": {"has_context": var("name")}})),
        [("warning", LOGIC + "/!/has_context")],
    ),
    (
        "odd-operation",
        one(TEXT, when({"missing": ["a", var("name")]})),
        [("warning", LOGIC + "/missing")],
    ),
    ("decide-gap", chosen(to("b", when(is_("a", "yes")))), [("warning", "/states/w/transitions")]),
    ("one-way-confirmation", confirm(to("b", when(is_("ok", True)))), [("warning", Q)]),
    ("one-way-confirmation", confirm(to("b", when(var("ok"))), keys=()), [("warning", Q)]),
    (
        "one-way-confirmation",
        confirm(to("b", when(var("ok"))), to("q", when(is_("ok", False)))),
        [("warning", Q)],
    ),
    (
        "one-way-confirmation",
        confirm(to("b", when(is_("pay", "yes"))), keys=("pay",)),
        [("warning", Q)],
    ),
    ("one-way-confirmation", confirm(to("b"), **READ_BACK), [("warning", Q)]),
    (
        "one-way-confirmation",
        confirm(to("b", when(var("ok"))), global_transitions=[to("b", **{"return": True})]),
        [("warning", Q)],
    ),
]

GOOD: list[tuple[str, Written]] = [
    (
        "one-way-confirmation",
        confirm(to("b", when(is_("ok", True))), to("c", when(is_("ok", False)))),
    ),
    ("one-way-confirmation", confirm(to("b", when(is_("ok", True))), to("c"))),
    ("one-way-confirmation", confirm(to("b", when(None, "ok")))),
    ("one-way-confirmation", confirm(to("b", when(var("ok"))), patterns=["cancel"])),
    ("one-way-confirmation", confirm(to("b", when(var("ok"))), global_transitions=[to("c")])),
    ("one-way-confirmation", confirm(to("b"), to("c"), **READ_BACK)),
    ("one-way-confirmation", confirm(to("b"), keys=(), reply="To {{ city }} it is.")),
    (
        "one-way-confirmation",
        confirm(to("b", when(None, "city")), keys=("city",), reply="Not {{ city }}?"),
    ),
    ("decide-gap", answered(to("b", when(is_("ok", True))), to("c", when(is_("ok", False))))),
    ("decide-gap", answered(to("b", when(is_("ok", True))), to("c"))),
    ("decide-gap", answered(to("b", when(is_("ok", True)), on="yes"))),
    (
        "shadowed-transition",
        answered(to("b", when(is_("ok", True))), to("c", when(is_("ok", False)))),
    ),
    # an empty text is set, and counts as missing
    ("never-holds", one(None, when({"missing": ["x"]}, "x"))),
    ("never-holds", one(AGE, when(above("age", 130)))),
    ("never-holds", one(AGE, when(below("age", 18)), when(above("age", 17)))),
    ("never-holds", one(TIER, when(is_("tier", "golden")))),
    ("never-holds", one(None, when(is_("age", "18")), when(is_("age", 18)))),
    ("never-holds", one(None, when({"<": [var("x"), ""]}, "x"))),
    ("never-holds", one(None, when({"!": below("x", 5)}), when({"!": above("x", 5)}))),
    ("never-holds", one(None, when(is_("x", 0)), when({"contains": [var("x"), "a"]}))),
    (
        "never-holds",
        one(
            {"o": {"type": "object"}},
            when({"==": [{"var": ["o.k", 5]}, None]}),
            when({"!": is_("o.k", 1)}),
        ),
    ),
    ("value-outside-enum", one(AGE, when({"or": [below("age", 1), is_("age", 130)]}))),
    (
        "value-outside-enum",
        one(
            CART,
            when(
                {
                    "some": [
                        var("cart"),
                        {"or": [is_("kind", "food"), is_("qty", "2"), is_("note", "pen")]},
                    ]
                }
            ),
        ),
    ),
    (
        "value-outside-enum",
        one(CART, when({"some": [var("cart"), {"some": [var("lot"), is_("kind", "pen")]}]})),
    ),
    ("unknown-condition-key", one(CART, when({"some": [var("cart"), is_("colour", "red")]}))),
    ("type-mismatch", one(None, when(is_("_user_input", 5)), when(is_("_turn", 3)))),
    ("impossible-comparison", one(None, when({">": [{"len": [var("x")]}, "3"]}))),
    ("never-holds", one(AGE, when({"==": [var("age"), None]}))),
    ("always-holds", one(AGE, when(above("age", 1)))),
    ("always-holds", one(AGE, when({"<": [{"len": [var("age")]}, 5]}))),
    ("constant-expression", one(None, when({">": [{"date": ["2025-01-01"]}, {"now": []}]}))),
    ("constant-expression", one(AGE, when(above("age", {"*": [2, 9]})))),
    (
        "overlapping-transitions",
        choice(GUESTS, to("s", when(below("guests", 8))), to("l", when(above("guests", 8)))),
    ),
    (
        "overlapping-transitions",
        choice(
            GUESTS, to("s", when(below("guests", 9)), priority=1), to("l", when(above("guests", 8)))
        ),
    ),
    ("overlapping-transitions", choice(GUESTS, to("s", when(below("guests", 9))), to("l"))),
    (
        "overlapping-transitions",
        machine({"a": {"transitions": [to("b", when(var("x"))), to("c", when(var("y")))]}}),
    ),
    (
        "shadowed-transition",
        choice(
            GUESTS,
            to("s", when(above("guests", 9)), priority=1),
            to("l", when(above("guests", 5)), priority=2),
        ),
    ),
    ("shadowed-transition", machine({"a": {"transitions": [to("b"), to("c", when(None, "x"))]}})),
    ("shadowed-transition", machine({"a": {"transitions": [to("b"), to("b", when(None, "x"))]}})),
    (
        "decide-gap",
        choice(
            TIER,
            to("g", when(is_("tier", "gold"))),
            to("s", when(is_("tier", "silver"))),
            demands=("tier",),
        ),
    ),
    ("decide-gap", choice(TIER, to("g", when(is_("tier", "gold"))), to("s"))),
    (
        "decide-gap",
        machine(
            {
                "a": {
                    "required_context_keys": ["guests"],
                    "transitions": [to("d", when(above("guests", 9)))],
                },
                "d": {
                    "kind": "decide",
                    "transitions": [
                        to("x", when(above("guests", 20))),
                        to("e", when(below("guests", 20))),
                    ],
                },
            },
            GUESTS,
        ),
    ),
    (
        "decide-gap",
        machine(
            {
                "a": {"transitions": [to("d")]},
                "d": {
                    "kind": "decide",
                    "transitions": [
                        to("x", when({"!": var("p")}), priority=1),
                        to("e", priority=2),
                    ],
                },
                "e": {"kind": "decide", "transitions": [to("y", when(var("p")))]},
            }
        ),
    ),
    (
        "decide-gap",
        choice(None, to("g", when(below("n", 8))), to("s", when(above("n", 8))), demands=("n",)),
    ),
    (
        "decide-gap",
        choice(
            None, to("g", when(is_("ok", True))), to("s", when(is_("ok", False))), demands=("ok",)
        ),
    ),
    ("stuck-decide", choice(AGE, to("g", when(below("age", 1))))),
    ("ordering-on-missing-key", one(GUESTS, when({"<=": [var("guests"), 8]}, "guests"))),
    ("ordering-on-missing-key", one(GUESTS, when(above("guests", 9)))),
    ("ordering-on-missing-key", one(GUESTS, when({"<=": [{"var": ["guests", 99]}, 8]}))),
    (
        "ordering-on-missing-key",
        choice(
            GUESTS,
            to("s", when({"<=": [var("guests"), 8]})),
            to("l", priority=200),
            demands=("guests",),
        ),
    ),
    (
        "ordering-on-missing-key",
        choice(
            GUESTS,
            to("u", when({"missing": ["guests"]}), priority=1),
            to("s", when({"<=": [var("guests"), 8]})),
            to("l", priority=200),
        ),
    ),
    ("type-mismatch", one(AGE, when(is_("age", 18.0)))),
    ("type-mismatch", one(AGE, when(is_("age", None)))),
    ("type-mismatch", one({"any": {}}, when(is_("any", 5)))),
    ("value-outside-enum", one(TIER, when({"in": [var("tier"), ["gold", "silver"]]}))),
    ("value-outside-enum", one(TIER, when({"in": ["old", var("tier")]}))),
    ("case-mismatch", one({"tier": {"enum": ["gold", "Gold"]}}, when(is_("tier", "Gold")))),
    ("unknown-condition-key", one(TIER, when(above("_turns_in_state", 2)), when(None, "tier"))),
    ("unknown-condition-key", one(None, when(None, "loaded_by_the_host"))),
    (
        "unreachable-by-guards",
        machine(
            {
                "a": {
                    "transitions": [
                        to("b", when(above("age", 131))),
                        to("b", when(above("age", 18))),
                    ]
                }
            },
            AGE,
        ),
    ),
    ("odd-operation", one(AGE, when({"<": [0, var("age"), 9]}))),
    ("odd-operation", one(TEXT, when({"has_context": "name"}))),
    ("odd-operation", one(AGE, when({">": [{"+": [var("age"), 1, 2]}, 3]}))),
    ("odd-operation", one(AGE, when({"!": [is_("age", 1)]}))),
    ("odd-operation", one(TEXT, when({"has_context": [var(""), "name"]}))),
    ("odd-operation", one(TEXT, when({"context_length": [{"var": "name"}, "items"]}))),
    ("decide-gap", chosen(to("b", when(is_("a", "yes"))), to("c", when(is_("a", "no"))))),
    ("decide-gap", {**answered(to("b", when(is_("ok", "yes")))), "context_schema": None}),
]


@pytest.mark.parametrize(
    ("rule", "document", "expected"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_faulty_decision_is_found_at_its_place(
    rule: str, document: Written, expected: list[tuple[str, str]]
) -> None:
    assert briefly(found_by(rule, document)) == expected


@pytest.mark.parametrize(
    ("rule", "document"), GOOD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_good_decision_is_left_alone(rule: str, document: Written) -> None:
    assert found_by(rule, document) == []


@pytest.mark.parametrize(
    ("rule", "document", "words"),
    [
        ("decide-gap", BAD[21][1], '"tier" is "silver"'),
        ("decide-gap", BAD[22][1], '"tier" is not set'),
        ("overlapping-transitions", BAD[14][1], '"guests" is 8'),
        ("case-mismatch", one(TIER, when(is_("tier", "Gold"))), '"gold"'),
        ("never-holds", BAD[0][1], '"age"'),
        ("shadowed-transition", BAD[17][1], '"s" (priority 1)'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_messages_name_what_shows_the_fault(rule: str, document: Written, words: str) -> None:
    [finding] = found_by(rule, document)
    assert words in finding.message


def test_hints_guess_what_was_meant() -> None:
    assert (
        found_by("value-outside-enum", one(TIER, when(is_("tier", "golden"))))[0].hint
        == 'did you mean "gold"?'
    )
    assert '{"var": "tier"}' in str(
        found_by("constant-expression", one(TIER, when({"==": ["tier", "gold"]})))[0].hint
    )


def test_the_path_to_a_gap_is_shown() -> None:
    [finding] = found_by("decide-gap", choice(TIER, to("g", when(is_("tier", "gold")))))
    assert finding.path == ("a", "d")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^R-[0-9]{6}$", "R-000000"),
        (r"^\d{2}\.\d{1,2}$", "00.0"),
        ("[A-Z]+x?", "A"),
        (r"^\w{3,}@b\-c$", "aaa@b-c"),
        ("^(a|b)$", None),
        ("^[^a]$", None),
        ("^a{99}b{99}c{99}d{99}$", None),
        ("^a.b$", None),
    ],
)
def test_a_plain_text_is_found_for_a_simple_pattern(pattern: str, text: str | None) -> None:
    assert plain_text(pattern) == text
    assert text is None or re.fullmatch(pattern, text)


def test_a_gap_is_shown_with_a_text_that_the_pattern_of_its_key_matches() -> None:
    number = {"type": "string", "pattern": "^R-[0-9]{6}$"}
    document = machine(
        {
            "ask": {
                "purpose": "Ask",
                "required_context_keys": ["n"],
                "transitions": [to("check", when(None, "n"))],
            },
            "check": {
                "kind": "decide",
                "transitions": [to("good", when({"==": [{"var": "n"}, {"var": "known"}]}))],
            },
        },
        {"n": number, "known": {**number, "x-source": "host"}},
    )
    [found] = found_by("decide-gap", document)
    assert '"n" is "R-000000"' in found.message
