"""Names of a definition in its tests: found by the marks of the models, and changed alone."""

import json
from pathlib import Path

import pytest

from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.patch import PatchError
from llm_fsm.documents.renaming import Renaming, composed
from llm_fsm.testing.scenarios.names import places, renamed

SHIPPED = Path(__file__).parents[2] / "conversations" / "shipped"
STATE = Renaming("state", "pay", "till")
KEY = Renaming("key", "city", "town")
MOVE = {"transition": {"target_state": "pay", "context_update": {"city": 1}}, "message": "pay city"}
RULE = {
    "and": [
        {"==": [{"var": "_current_state"}, "pay"]},
        {"in": [{"var": ["city.zip", "city"]}, ["pay"]]},
    ]
}


def step(**parts):
    return {"cases": [{"steps": [{"say": "pay city", **parts}]}]}


@pytest.mark.parametrize(
    "document",
    [
        {"state": "pay", "context": {"city": "pay"}},
        {"cases": [{"state": "pay", "context": {"city": "city"}}]},
        {"users": [{"persona": "pay", "goal": "city", "state": "pay", "success": RULE}]},
        {"start": {"reply": {"to": "pay", "set": {"city": {"city": 1}}}, "expect": "pay"}},
        {"handlers": [{"at": "error", "state": ["pay"], "when": RULE, "set": {"city": 1}}]},
        {"functions": {"pay": {"set": {"city": 1}}, "city": [{"set": {"city": 1}}]}},
        step(replies=[{"to": "pay", "clear": ["city"]}, "pay", MOVE]),
        step(reply={"target_state": "pay", "message": "pay", "fault": "city"}),
        step(expect=["pay"]),
        step(
            expect={
                "path": ["pay"],
                "open": ["pay"],
                "missing": ["city"],
                "shown": ["city"],
                "absent": "city",
            }
        ),
        step(
            expect={
                "not": {"state": "pay", "logic": RULE},
                "any_of": ["pay", {"context_exact": {"city": 1}}],
            }
        ),
        step(
            expect={
                "events": [
                    "pay",
                    {"type": "pay", "previous": "pay", "key": "city", "reason": "city"},
                ]
            }
        ),
        step(
            expect={"events": [{"type": "StateEntered", "transition": "/states/pay/transitions/0"}]}
        ),
        step(expect={"text": "pay", "tools": ["pay", {"name": "city", "arguments": {"city": 1}}]}),
        {
            "turns": [
                {"say": "pay", "state": "pay", "values": {"city": {"like": "city"}}, "text": "pay"}
            ]
        },
        {"table": [{"to": "pay"}, {"to": "ask"}], "steps": [{"say": "{{to}}", "expect": "{{to}}"}]},
        {"x-own": {"state": "pay"}, "cases": [4, {"steps": "pay"}]},
    ],
)
def test_names_are_changed_and_words_are_not(document):
    text = json.dumps(document, indent=1)
    new = renamed(text, [STATE, KEY])
    back = renamed(new, [Renaming("state", "till", "pay"), Renaming("key", "town", "city")])
    assert back == text
    words = (
        "x-own",
        "name",
        "say",
        "message",
        "fault",
        "persona",
        "goal",
        "reason",
        "like",
        "type",
        "arguments",
    )
    for old, after in zip(text.splitlines(), new.splitlines(), strict=True):
        key = old.strip().partition(":")[0].strip('"')
        if key in words:
            assert after == old
    assert ("till" in new or "town" in new) == any(
        True for _ in places(document) if "x-own" not in document
    )


def test_names_that_are_swapped_stay_apart():
    text = '{"path": 1, "cases": [{"expect": {"path": ["a", "b"]}}]}'
    swap = composed(
        [Renaming("state", "a", "x"), Renaming("state", "b", "a"), Renaming("state", "x", "b")]
    )
    assert renamed(text, swap) == text.replace('["a", "b"]', '["b", "a"]')
    assert composed([*swap, *swap]) == []


def test_a_key_beside_its_new_name_is_refused():
    with pytest.raises(PatchError, match="town"):
        renamed('{"context": {"city": 1, "town": 2}}', [KEY])


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.test.json")), ids=lambda path: path.name)
def test_renamed_states_of_shipped_tests_are_only_texts_of_states(path):
    text = path.read_text(encoding="utf-8")
    name = json.loads(text)["definition"]
    states = json.loads(definition_paths()[name].read_text(encoding="utf-8"))["states"]
    there = [Renaming("state", one, f"{one} (2)") for one in states]
    back = [Renaming("state", one.to, one.name) for one in there]
    new = renamed(text, there)
    assert new != text
    assert renamed(new, back) == text
