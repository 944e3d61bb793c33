"""Generated tests fail when a machine does something else: a guard, target, `auto`, `set`, bound or
kind is another.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.documents.loader import load
from llm_fsm.testing.generate.generator import generated
from mutants import Mutant, fails, measured
from paths import ROOT

BAR = 0.95
SHIPPED = ("membership", "payment", "order", "cleanup")
FOREIGN = ("runtime_3", "workflow_2", "table")
AGE: dict[str, Any] = {"var": "age"}
ADULT: dict[str, Any] = {">=": [AGE, 18]}
CLUB: dict[str, Any] = {
    "name": "club",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "member": {"type": "boolean"},
            "guests": {"type": "integer", "minimum": 0, "maximum": 9},
            "banned": {"type": "boolean", "x-source": "host"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}$"},
            "told": {"type": "string"},
        },
    },
    "states": {
        "ask": {
            "purpose": "How old are you, and are you a member?",
            "required_context_keys": ["age", "member"],
            "transitions": [
                {
                    "target_state": "in",
                    "description": "An adult member, or an adult with few guests",
                    "conditions": [
                        {"requires_context_keys": ["age", "member"], "logic": ADULT},
                        {
                            "logic": {
                                "or": [
                                    {"==": [{"var": "member"}, True]},
                                    {"<": [{"var": "guests"}, 3]},
                                ]
                            }
                        },
                        {"logic": {"!=": [{"var": "banned"}, True]}},
                    ],
                    "set": {"told": {"if": [{"var": "member"}, "a member", "a guest"]}},
                },
                {
                    "target_state": "desk",
                    "description": "Too young",
                    "auto": True,
                    "conditions": [{"logic": {"and": [{"<": [AGE, 18]}, {">": [AGE, 0]}]}}],
                },
                {"target_state": "out", "description": "Leaves"},
            ],
        },
        "desk": {
            "purpose": "Which code?",
            "required_context_keys": ["code"],
            "transitions": [
                {
                    "target_state": "in",
                    "description": "The code is known",
                    "conditions": [{"logic": {"matches": [{"var": "code"}, "^AB"]}}],
                    "clear": ["member"],
                },
                {"target_state": "out", "description": "No code"},
            ],
        },
        "in": {"reply": "Come in, {{ told or code }}."},
        "out": {"reply": "Bye."},
    },
}


@pytest.fixture
def club(tmp_path: Path) -> str:
    path = tmp_path / "club.json"
    path.write_text(json.dumps(CLUB))
    return str(path)


def missed(found: list[Mutant]) -> list[str]:
    return [
        f"{mutant.file}: {mutant.kind}: {mutant.place}" for mutant in found if not mutant.noticed
    ]


def test_nearly_every_mutant_of_shipped_and_foreign_definitions_is_noticed(club: str) -> None:
    files = [str(ROOT / "fsm_definitions" / f"{name}.json") for name in SHIPPED]
    files += [str(ROOT / "tests" / "data" / "definitions" / f"{name}.json") for name in FOREIGN]
    found: list[Mutant] = []
    for file in files:
        found += measured(file, sample=1, seed=11)
    found += measured(club, sample=6, seed=11)
    assert len(found) > 100
    assert sum(mutant.noticed for mutant in found) >= BAR * len(found), missed(found)


def test_the_tests_of_the_original_pass(club: str) -> None:
    tests = dict(generated(load(club), name=club, place=club).document)
    assert not fails(tests, CLUB, club)


def test_each_half_of_a_guard_is_tried_by_itself(club: str) -> None:
    tests = dict(generated(load(club), name=club, place=club).document)
    refused = [
        case
        for case in tests["cases"]
        for step in case["steps"]
        if {"type": "MoveRefused", "target": "in"} in step["expect"].get("events", [])
    ]
    assert len(refused) >= 5
    guards = CLUB["states"]["ask"]["transitions"][0]["conditions"]
    for number, _ in enumerate(guards):
        changed = copy.deepcopy(CLUB)
        changed["states"]["ask"]["transitions"][0]["conditions"].pop(number)
        assert fails(tests, changed, club), number
    for half in (0, 1):
        changed = copy.deepcopy(CLUB)
        changed["states"]["ask"]["transitions"][0]["conditions"][1]["logic"]["or"].pop(half)
        assert fails(tests, changed, club), half


@pytest.mark.parametrize(("key", "word", "value"), [
    ("age", "maximum", 121), ("age", "maximum", 119), ("age", "minimum", -1), ("age", "minimum", 1),
    ("guests", "maximum", 10), ("code", "pattern", "^[A-Z]{2}[0-9]{2}"), ("age", "x-source", "host"),
])  # fmt: skip
def test_bounds_of_keys_are_tried_on_both_sides(club: str, key: str, word: str, value: Any) -> None:
    tests = dict(generated(load(club), name=club, place=club).document)
    changed = copy.deepcopy(CLUB)
    changed["context_schema"]["properties"][key][word] = value
    assert fails(tests, changed, club)


@pytest.mark.parametrize("number", [0, 1])
def test_a_guarded_way_that_needs_no_pick_any_more_is_noticed(club: str, number: int) -> None:
    tests = dict(generated(load(club), name=club, place=club).document)
    changed = copy.deepcopy(CLUB)
    way = changed["states"]["ask"]["transitions"][number]
    way["auto"] = not way.get("auto", False)
    assert fails(tests, changed, club)
