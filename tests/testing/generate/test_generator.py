"""Tests made from a definition: they pass, reach every transition, and notice what is changed."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from changes import KINDS as EVERY
from cli_command import Desk, desk
from large_machines import calling, deciding, guarded
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.testing.generate.generator import generated
from llm_fsm.testing.generate.values import matching, samples
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.player import Player
from paths import ROOT

__all__ = ["desk"]

FOLDER = ROOT / "fsm_definitions"

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "hello",
    "context_schema": {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "minimum": 1, "maximum": 20},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
            "known": {"type": "boolean", "x-source": "host"},
        },
    },
    "states": {
        "hello": {
            "purpose": "Ask how many come",
            "required_context_keys": ["guests", "code"],
            "transitions": [
                {
                    "target_state": "sort",
                    "description": "Both are known",
                    "conditions": [
                        {"requires_context_keys": ["guests"]},
                        {"logic": {"matches": [{"var": "code"}, "^AB"]}},
                    ],
                }
            ],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {
                    "target_state": "hall",
                    "priority": 1,
                    "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}],
                },
                {
                    "target_state": "vip",
                    "priority": 2,
                    "conditions": [{"logic": {"==": [{"var": "known"}, True]}}],
                },
                {"target_state": "table", "priority": 3},
            ],
        },
        "hall": {"kind": "final", "reply": "The hall for {{ guests }}."},
        "vip": {"kind": "final", "reply": "Welcome back."},
        "table": {"kind": "final", "reply": "A table for {{ guests }}."},
    },
}


def made_of(document: dict[str, Any]) -> dict[str, Any]:
    return dict(
        generated(load_dict(document).definition, name="shop.json", place="shop.test.json").document
    )


def failures(tests: dict[str, Any], document: dict[str, Any], file: str = "shop.test.json") -> int:
    """How many of the tests fail on a definition."""
    loaded = suite_of(json.dumps({**tests, "definition": document}), file=file)

    async def played() -> int:
        player = Player(loaded)
        try:
            return sum([not (await player.play(play)).passed for play in loaded.plays])
        finally:
            await player.close()

    return asyncio.run(played())


def test_generated_tests_pass_and_reach_every_transition_both_ways() -> None:
    made = generated(load_dict(SHOP).definition, name="shop.json", place="shop.test.json")
    assert made.coverage.missing("transitions") == []
    assert made.coverage.missing("conditions") == []
    assert failures(dict(made.document), SHOP) == 0
    names = [case["name"] for case in made.document["cases"]]
    assert len(set(names)) == len(names)


ADULT = {"some": [{"var": "people"}, {">=": [{"var": "age"}, 18]}]}
RICH = {">": [{"var": "wish"}, {"*": [{"-": [{"var": "income"}, {"var": "debts"}]}, 10]}]}
PEOPLE = {"type": "array", "items": {
    "type": "object", "required": ["name", "age"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
}}  # fmt: skip
WHOLE = {"type": "integer", "minimum": 0}


@pytest.mark.parametrize(("kind", "keys", "rules"), [
    ("converse", {"people": PEOPLE}, [ADULT, {"none": [{"var": "people"}, {">=": [{"var": "age"}, 18]}]}]),
    ("decide", {"wish": WHOLE, "income": WHOLE, "debts": WHOLE}, [RICH, {">=": [{"var": "wish"}, 100_000]}]),
    ("converse", {"said": {"type": "string"}}, [{"contains": [{"lower": [{"var": "said"}]}, "yes"]}]),
    ("converse", {"said": {"type": "string"}}, [{">": [{"var": "_turn"}, 2]}]),
    ("converse", {"said": {"type": "string"}}, [{">": [{"var": "_turns_in_state"}, 3]}]),
], ids=str)  # fmt: skip
def test_values_are_found_for_conditions(kind: str, keys: dict[str, Any], rules: list[Any]) -> None:
    """In a state that talks each transition opens by itself; in one that decides those before it
    must not hold.
    """
    ways = [
        {"target_state": f"way{number}", "conditions": [{"logic": rule}]}
        for number, rule in enumerate(rules)
    ]
    asks = [{"target_state": "sort"}] if kind == "decide" else ways
    document = {
        "name": "finds", "initial_state": "ask", "context_schema": {"type": "object", "properties": keys},
        "states": {
            "ask": {"required_context_keys": list(keys), "transitions": asks},
            **({"sort": {"kind": "decide", "transitions": [*ways, {"target_state": "else"}]}, "else": {}}
               if kind == "decide" else {}),
            **{way["target_state"]: {} for way in ways},
        },
    }  # fmt: skip
    made = generated(load_dict(document).definition, name="x.json", place="x.test.json")
    assert made.coverage.missing("transitions") == []


def test_a_key_and_one_that_is_named_like_a_part_of_it_are_tried_together() -> None:
    """What is tried of the one leaves the values of the other as its schema wants them."""
    only_q = {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "additionalProperties": False,
    }
    document = {
        "name": "parts", "initial_state": "ask",
        "context_schema": {"type": "object", "properties": {"o": only_q, "o.p": {"enum": ["x", "y"]}}},
        "states": {
            "ask": {"required_context_keys": ["o"], "transitions": [
                {"target_state": "sort", "conditions": [{"requires_context_keys": ["o"]}]},
                {"target_state": "end", "conditions": [{"logic": {"==": [{"var": "o.p"}, True]}}]},
            ]},
            "sort": {"kind": "decide", "transitions": [
                {"target_state": "end", "conditions": [{"requires_context_keys": ["o", "o.p"]}]},
                {"target_state": "ask"},
            ]},
            "end": {},
        },
    }  # fmt: skip
    assert failures(made_of(document), document) == 0


def test_an_answer_that_gives_a_whole_and_a_part_of_it_is_tried() -> None:
    document = {
        "name": "answers", "initial_state": "ask",
        "context_schema": {"type": "object", "properties": {
            "whole": {"type": "string", "x-source": "answer"}, "part": {"type": "string", "x-source": "answer"},
        }},
        "states": {
            "ask": {"kind": "wait", "wait_for": "it", "answer_schema": {}, "timeout": 60, "on_timeout": "end",
                    "output": {"whole": "$.x", "part": "$.x.y"}, "transitions": [
                        {"target_state": "end", "conditions": [{"logic": {"==": [{"var": "whole"}, "a"]}}]},
                        {"target_state": "end", "conditions": [{"logic": {"==": [{"var": "part"}, "b"]}}]},
            ]},
            "end": {},
        },
    }  # fmt: skip
    assert failures(made_of(document), document) == 0


def test_a_transition_that_no_conversation_makes_is_left() -> None:
    document = copy.deepcopy(SHOP)
    never = {
        "target_state": "hall",
        "priority": 0,
        "conditions": [{"logic": {"==": [{"var": "guests"}, 99]}}],
    }
    document["states"]["sort"]["transitions"].insert(0, never)
    made = generated(load_dict(document).definition, name="shop.json", place="shop.test.json")
    assert made.left == (
        "/states/sort/transitions/0",
        "/states/sort/transitions/0/conditions/0=true",
    )
    assert made.coverage.untouched() == list(made.left)
    assert failures(dict(made.document), document) == 0


def form(number: int, keys: int) -> dict[str, Any]:
    """A form of so many states, in a row, over so many keys."""
    states: dict[str, Any] = {"end": {"reply": "Done."}}
    for place in range(number):
        key = f"k{place % keys}"
        target = f"s{place + 1}" if place + 1 < number else "end"
        way = {"target_state": target, "conditions": [{"requires_context_keys": [key]}]}
        states[f"s{place}"] = {
            "purpose": "q?",
            "required_context_keys": [key],
            "transitions": [way],
        }
    properties = {f"k{place}": {"type": "string"} for place in range(min(keys, number))}
    schema = {"type": "object", "properties": properties}
    return {"name": "form", "initial_state": "s0", "context_schema": schema, "states": states}


@pytest.mark.parametrize("keys", [1000, 3])
def test_tests_of_a_long_form_grow_with_it_and_not_with_its_square(keys: int) -> None:
    """Each key of its own, or three keys that are asked for again and again."""
    sizes = {number: len(json.dumps(made_of(form(number, keys)))) for number in (20, 80)}
    assert sizes[80] < 6 * sizes[20]


def test_only_what_is_missing_is_reached() -> None:
    definition = load_dict(SHOP).definition
    whole = generated(definition, name="shop.json", place="shop.test.json")
    made = generated(definition, name="shop.json", place="shop.test.json", missing=["/states/vip"])
    [one] = made.conversations
    assert (one.reaches, made.left, len(whole.conversations) > 1) == (("/states/vip",), (), True)


def test_they_are_the_same_each_time() -> None:
    assert made_of(SHOP) == made_of(SHOP)


RULE = ["states", "sort", "transitions", 0, "conditions", 0, "logic"]
CHANGES: list[tuple[str, list[Any], Any]] = [
    ("a bound of a condition", [*RULE, ">", 1], 9),
    ("an operator", RULE, {">=": [{"var": "guests"}, 8]}),
    (
        "an expression",
        ["states", "hello", "transitions", 0, "conditions", 1, "logic", "matches", 1],
        "^AC",
    ),
    ("a target", ["states", "sort", "transitions", 2, "target_state"], "hall"),
    ("an order", ["states", "sort", "transitions", 1, "priority"], 5),
    ("a fixed reply", ["states", "vip", "reply"], "Welcome."),
    ("who writes a key", ["context_schema", "properties", "code", "x-source"], "host"),
    ("where it begins", ["initial_state"], "sort"),
    ("a key that is collected", ["states", "hello", "required_context_keys"], ["guests"]),
    ("a further move", ["global_transitions"], [{"target_state": "vip"}]),
    ("a secret", ["context_schema", "properties", "guests", "x-secret"], True),
    ("a pattern that is switched on", ["patterns"], ["cancel"]),
]


WORKS: dict[str, Any] = {
    "name": "works", "initial_state": "look", "tools": {"find": {"registered": "find"}, "pay": {"registered": "pay"}},
    "states": {
        "look": {"kind": "task", "tools": ["find"], "max_retries": 1, "on_exhausted": "lost", "key_results": [
            {"name": "some", "check": {"and": [
                {">": [{"len": [{"var": "output"}]}, 1]},
                {"==": [{"len": [{"var": "input"}]}, {"len": [{"var": "output"}]}]},
            ]}}], "transitions": [{"target_state": "sign"}]},
        "sign": {"kind": "wait", "wait_for": "signature", "answer_schema": {
            "type": "object", "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"], "additionalProperties": False,
        }, "transitions": [{"target_state": "done"}]},
        "done": {"kind": "final"}, "lost": {"kind": "final"},
    },
}  # fmt: skip


@pytest.mark.parametrize(("path", "value"), [
    (["states", "look", "max_retries"], 2),
    (["states", "look", "key_results", 0, "check", "and", 1], True),
    (["states", "sign", "wait_for"], "stamp"),
], ids=str)  # fmt: skip
def test_what_is_changed_of_work_is_noticed(path: list[Any], value: Any) -> None:
    changed = copy.deepcopy(WORKS)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    tests = made_of(WORKS)
    assert failures(tests, WORKS) == 0
    assert failures(tests, changed) > 0


@pytest.mark.parametrize(("what", "path", "value"), CHANGES, ids=[change[0] for change in CHANGES])
def test_what_is_changed_is_noticed(what: str, path: list[Any], value: Any) -> None:
    changed = copy.deepcopy(SHOP)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]

    place[path[-1]] = value
    assert failures(made_of(SHOP), changed) > 0


@pytest.mark.parametrize("name", ["feedback", "cleanup", "payment", "tickets"])
def test_a_generated_suite_of_a_shipped_definition_passes(name: str) -> None:
    path = str(FOLDER / f"{name}.json")
    made = generated(load(path), name=path, place=path)
    assert made.coverage.missing("transitions") == []
    text = json.dumps(made.document)
    loaded = suite_of(text, file=path)

    async def wrong() -> list[str]:
        player = Player(loaded)
        try:
            return [play.name for play in loaded.plays if not (await player.play(play)).passed]
        finally:
            await player.close()

    assert asyncio.run(wrong()) == []


@pytest.mark.parametrize("make", [guarded, deciding, calling], ids=lambda make: make.__name__)
def test_every_transition_of_a_machine_of_fifty_states_is_reached(
    make: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    files = make()
    for name, document in files.items():
        (tmp_path / name).write_text(json.dumps(document))
    path = str(tmp_path / next(iter(files)))
    definition = load(path)
    assert len(definition.states) == 50
    made = generated(definition, name=path, place=path)
    assert made.coverage.missing("transitions") == []
    assert made.coverage.missing("conditions") == []


@cache
def shipped(name: str) -> dict[str, Any]:
    path = str(FOLDER / f"{name}.json")
    return dict(generated(load(path), name=path, place=path).document)


@pytest.mark.parametrize(
    "kind",
    [
        "a transition is gone",
        "targets are swapped",
        "a condition is negated",
        "a bound is in instead of out",
        "fixed words lack a part",
        "a mapping is another",
        "a setting of a state is another",
        "a key result is gone",
        "a move is new",
        "a state asks for a key less",
        "a pattern is new",
    ],
)
def test_changes_of_the_kinds_that_are_measured_are_noticed(kind: str) -> None:
    for name in ("cleanup", "membership", "refund"):
        path = FOLDER / f"{name}.json"
        document = json.loads(path.read_text())
        changed = next(iter(EVERY[kind](document)), None)
        if changed is not None:
            assert failures(shipped(name), changed[1], str(path)) > 0
            return
    pytest.fail("no definition can be changed so")


@pytest.mark.parametrize(
    "pattern",
    [
        *("^[A-Z]{2}-[0-9]{3}$", "^([01][0-9]|2[0-3]):[0-5][0-9]$", r"^\+?[0-9 ()/-]{6,25}$"),
        *(r"\?$", "^(ab|cd)+x?$", "a.c", "^[äöü]+$"),
    ],
)
def test_texts_are_made_that_an_expression_matches(pattern: str) -> None:
    made = list(matching(pattern))
    assert made
    assert all(re.search(pattern, text) for text in made)


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<x>a", "a{", "\\", "[^ -~]", "[b-a]"])
def test_expressions_that_are_not_understood_give_nothing_or_a_text(pattern: str) -> None:
    assert all(isinstance(text, str) for text in matching(pattern))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": "string", "format": "email"},
        {"type": "string", "minLength": 30},
        {"enum": ["a", 2, None]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        {"type": "boolean"},
        {"const": 7},
    ],
    ids=str,
)
def test_samples_are_accepted_by_their_schema(schema: dict[str, Any]) -> None:
    shape = compile_shape(schema)
    assert any(shape.fault(value) is None for value in samples(schema))


REFUNDS: dict[str, Any] = {
    "name": "refunds",
    "initial_state": "ask",
    "context_schema": {"properties": {"paid": {"type": "number", "x-source": "tool"}}},
    "tools": {
        "look_up": {"registered": "look_up", "output": {"paid": "paid"}},
        "pay_back": {"registered": "pay_back", "approval": True},
    },
    "states": {
        "ask": {
            "purpose": "Which order is it?",
            "tools": ["look_up"],
            "transitions": [{"target_state": "work", "description": "The order is known"}],
        },
        "work": {
            "kind": "task",
            "purpose": "Refund the order",
            "tools": ["pay_back"],
            "transitions": [{"target_state": "done"}],
        },
        "done": {"reply": "Goodbye!"},
    },
}


def test_each_tool_is_called_and_each_approval_is_answered_both_ways() -> None:
    tests = made_of(REFUNDS)
    cases = {case["name"]: case for case in tests["cases"]}
    [call] = cases["ask: calls look_up"]["steps"]
    assert call["replies"][0] == {"tool_calls": [{"name": "look_up", "arguments": {}}]}
    assert call["expect"]["context_exact"] == {"paid": 1}
    for approved, word in ((True, "approved"), (False, "declined")):
        case = cases[f"work: calls pay_back, {word}"]
        assert case["start"]["expect"]["paused"] == {"what": "pay_back", "kind": "approval"}
        [answered] = case["steps"]
        assert answered["answer"] == {"approved": approved}
        ran = {"type": "ToolReturned", "name": "pay_back"} in answered["expect"].get("events", [])
        assert ran is approved
    assert failures(tests, REFUNDS) == 0


def test_a_definition_without_its_approval_fails_the_tests_of_it() -> None:
    tests = made_of(REFUNDS)
    changed = copy.deepcopy(REFUNDS)
    changed["tools"]["pay_back"]["approval"] = False
    assert failures(tests, changed) >= 2


def test_the_command_writes_tests_beside_a_definition_and_plays_them(desk: Desk) -> None:
    desk.write("shop.json", json.dumps(SHOP))
    done = desk.run("test", "--generate", "shop.json")
    assert (done.code, done.out) == (0, "")
    assert re.search(
        r"wrote shop\.generated\.test\.json: \d+ cases, 100 % of transitions\n$", done.err
    )
    played = desk.run("test", "shop.generated.test.json")
    assert played.code == 0
    assert " passed in " in played.out


def test_tasks_and_tools_of_what_is_called_are_played(desk: Desk) -> None:
    inner = {
        "name": "inner",
        "initial_state": "ask",
        "tools": {"look": {"registered": "look", "output": {"size": "size"}}},
        "context_schema": {"properties": {"n": {"type": "integer"}, "size": {"type": "integer", "x-source": "tool"}}},
        "states": {
            "ask": {"purpose": "How many?", "required_context_keys": ["n"], "transitions": [
                {"target_state": "work", "description": "Known", "conditions": [{"requires_context_keys": ["n"]}]}]},
            "work": {"kind": "task", "purpose": "Look", "tools": ["look"], "transitions": [{"target_state": "end"}]},
            "end": {"kind": "final"},
        },
    }  # fmt: skip
    outer = {
        "name": "outer",
        "initial_state": "hello",
        "states": {
            "hello": {
                "purpose": "Hello",
                "transitions": [{"target_state": "call", "description": "Go"}],
            },
            "call": {
                "kind": "subflow",
                "flow": "inner.json",
                "transitions": [{"target_state": "bye"}],
            },
            "bye": {"reply": "Bye."},
            "hours": {"reply": "From nine to five."},
        },
        "global_transitions": [
            {"target_state": "hours", "description": "Asks for the hours", "return": True}
        ],
    }
    desk.write("inner.json", inner)
    desk.write("outer.json", outer)
    done = desk.run("test", "--generate", "outer.json")
    assert done.code == 0
    assert "100 % of transitions" in done.err
    written = json.loads((desk.folder / "outer.generated.test.json").read_text(encoding="utf-8"))
    assert list(written["tools"]) == ["look"]
    assert desk.run("test", "outer.generated.test.json").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.json"], 1, "missing.json"),
        (
            ["shop.json", "shop.json", "-o", "x.test.json"],
            4,
            "-o takes the tests of one definition, here are 2",
        ),
    ],
)
def test_what_cannot_be_generated_is_told(
    desk: Desk, arguments: list[str], code: int, words: str
) -> None:
    desk.write("shop.json", json.dumps(SHOP))
    done = desk.run("test", "--generate", *arguments)
    assert done.code == code
    assert words in done.err
