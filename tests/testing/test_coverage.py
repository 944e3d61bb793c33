"""What tests touched of a definition: counted from the events of turns, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk, desk
from llm_fsm.testing.coverage import Coverage
from llm_fsm.testing.generate.generator import KeptConversation
from llm_fsm.testing.scenarios.session import Covered, PlayOptions, play_file

__all__ = ["desk"]

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "ask",
    "states": {
        "ask": {
            "purpose": "Ask",
            "required_context_keys": ["age"],
            "transitions": [
                {"target_state": "sort", "conditions": [{"requires_context_keys": ["age"]}]},
                {"target_state": "left", "description": "Wants to leave"},
            ],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {"target_state": "bar", "conditions": [{"logic": {">=": [{"var": "age"}, 18]}}]},
                {"target_state": "milk"},
            ],
        },
        "bar": {"reply": "Wine?"},
        "milk": {"reply": "Milk?"},
        "left": {"reply": "Bye."},
    },
    "global_transitions": [{"target_state": "left", "description": "Rude"}],
}
WORK: dict[str, Any] = {
    "name": "work",
    "initial_state": "write",
    "states": {
        "write": {
            "kind": "task",
            "max_retries": 0,
            "on_exhausted": "lost",
            "key_results": [{"name": "long", "check": {">": [{"len": [{"var": "output"}]}, 3]}}],
            "transitions": [{"target_state": "sign"}],
        },
        "sign": {
            "kind": "wait",
            "wait_for": "signature",
            "timeout": 60,
            "on_timeout": "lost",
            "transitions": [{"target_state": "lost"}],
        },
        "lost": {"reply": "Lost."},
    },
}


def age(number: int) -> dict[str, Any]:
    return {
        "name": f"age {number}",
        "steps": [{"say": "x", "reply": {"to": "sort", "set": {"age": number}, "message": ""}}],
    }


def covered(folder: Path, definition: dict[str, Any], *cases: Any) -> Covered:
    path = folder / "x.test.json"
    path.write_text(json.dumps({"definition": definition, "cases": list(cases)}))
    done = play_file(path, PlayOptions(cover=True))
    assert done.passed, done
    assert done.covered is not None
    return done.covered


def missing(coverage: Coverage) -> dict[str, list[str]]:
    return {kind: coverage.missing(kind) for kind in coverage.counts if coverage.missing(kind)}


def test_what_was_not_touched_is_listed_with_the_shortest_way_there(tmp_path: Path) -> None:
    found = covered(tmp_path, SHOP, age(20))
    assert missing(found.coverage) == {
        "states": ["/states/milk", "/states/left"],
        "transitions": [
            "/states/ask/transitions/1",
            "/states/sort/transitions/1",
            "/global_transitions/0",
        ],
        "conditions": [
            "/states/ask/transitions/0/conditions/0=false",
            "/states/sort/transitions/0/conditions/0=false",
        ],
    }
    assert found.ways == {
        "/states/milk": ("ask", "sort", "milk"),
        "/states/left": ("ask", "left"),
        "/states/ask/transitions/1": ("ask", "left"),
        "/states/sort/transitions/1": ("ask", "sort", "milk"),
        "/global_transitions/0": ("ask", "left"),
        "/states/ask/transitions/0/conditions/0=false": ("ask",),
        "/states/sort/transitions/0/conditions/0=false": ("ask", "sort"),
    }


def test_a_condition_is_false_only_where_it_stopped_a_move(tmp_path: Path) -> None:
    """That a menu shows it as closed is not enough: the reply picks the move, or the machine would
    make it.
    """
    false = "/states/ask/transitions/0/conditions/0=false"
    stays = {"name": "stays", "steps": [{"say": "x", "reply": {"message": "Hm."}}]}
    assert false in covered(tmp_path, SHOP, stays).coverage.missing("conditions")
    replies = [{"to": "sort", "message": ""}, {"message": "Hm."}]
    picks = {
        "name": "picks",
        "steps": [{"say": "x", "replies": replies, "expect": {"events": ["MoveRefused"]}}],
    }
    assert false not in covered(tmp_path, SHOP, picks).coverage.missing("conditions")
    ask = SHOP["states"]["ask"]
    auto = {
        **ask,
        "transitions": [{**ask["transitions"][0], "auto": True}, *ask["transitions"][1:]],
    }
    by_itself = {**SHOP, "states": {**SHOP["states"], "ask": auto}}
    assert false not in covered(tmp_path, by_itself, stays).coverage.missing("conditions")


def test_where_values_open_one_way_the_conditions_of_the_others_are_false(tmp_path: Path) -> None:
    adult = {">=": [{"var": "age"}, 18]}
    ways = [
        {"target_state": "wine", "conditions": [{"logic": adult}]},
        {"target_state": "milk", "conditions": [{"logic": {"!": [adult]}}]},
    ]
    ask = {**SHOP["states"]["ask"], "transitions": ways}
    plain = {"purpose": "What else?", "transitions": [{"target_state": "left"}]}
    states = {**SHOP["states"], "ask": ask, "wine": plain, "milk": plain}
    opened = {
        "name": "opened",
        "steps": [
            {"say": "x", "reply": {"set": {"age": 20}, "message": ""}, "expect": {"state": "wine"}}
        ],
    }
    missed = covered(tmp_path, {**SHOP, "states": states}, opened).coverage.missing("conditions")
    place = "/states/ask/transitions"
    assert f"{place}/1/conditions/0=false" not in missed
    assert f"{place}/0/conditions/0=false" in missed


def test_a_transition_to_the_state_itself_cannot_be_missed(tmp_path: Path) -> None:
    ask = SHOP["states"]["ask"]
    again = {
        "target_state": "ask",
        "description": "Unsure",
        "conditions": [{"logic": {"<": [{"var": "age"}, 1]}}],
    }
    states = {**SHOP["states"], "ask": {**ask, "transitions": [again, *ask["transitions"]]}}
    found = covered(tmp_path, {**SHOP, "states": states}, age(20), age(3))
    assert missing(found.coverage) == {
        "states": ["/states/left"],
        "transitions": ["/states/ask/transitions/2", "/global_transitions/0"],
        "conditions": ["/states/ask/transitions/1/conditions/0=false"],
    }


def test_conversations_add_up(tmp_path: Path) -> None:
    leave = {"name": "leaves", "steps": [{"say": "x", "reply": {"to": "left"}}]}
    found = covered(tmp_path, SHOP, age(20), age(3), leave)
    assert missing(found.coverage) == {
        "transitions": ["/global_transitions/0"],
        "conditions": ["/states/ask/transitions/0/conditions/0=false"],
    }
    assert found.coverage.counts["states"]["/states/ask"] == 3
    assert found.coverage.share("states") == 100
    assert found.coverage.share() == pytest.approx(100 * 13 / 15)


def test_work_is_covered_with_its_key_results_and_what_happens_by_itself(tmp_path: Path) -> None:
    good = {"name": "good", "start": {"reply": "long enough"}, "steps": [{"answer": {}}]}
    late = {"name": "late", "start": {"reply": "long enough"}, "steps": [{"wait": 61}]}
    assert missing(covered(tmp_path, WORK, good).coverage) == {
        "transitions": ["/states/write/on_exhausted", "/states/sign/on_timeout"],
        "key_results": ["/states/write/key_results/0=failed"],
    }
    assert missing(covered(tmp_path, WORK, good, late).coverage) == {
        "transitions": ["/states/write/on_exhausted"],
        "key_results": ["/states/write/key_results/0=failed"],
    }
    bad = {"name": "bad", "start": {"reply": "bad"}}
    assert missing(covered(tmp_path, WORK, good, late, bad).coverage) == {}


TALK: dict[str, Any] = {
    "name": "talk",
    "initial_state": "ask",
    "patterns": ["correct", "cancel", "repeat", "silence"],
    "states": {
        "ask": {
            "purpose": "Name?",
            "required_context_keys": ["name"],
            "transitions": [{"target_state": "end", "description": "The name is known"}],
        },
        "help": {
            "purpose": "Help?",
            "transitions": [{"target_state": "helped", "description": "It is clear"}],
        },
        "helped": {"reply": "Helped."},
        "end": {"reply": "Bye."},
    },
    "global_transitions": [
        {"target_state": "help", "description": "Asks for help", "return": True}
    ],
}


def test_patterns_and_digressions_are_covered(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"say": "Bob", "reply": {"to": "ask", "set": {"name": "Bob"}, "message": "Hm?"}},
        {
            "say": "what?",
            "reply": {"to": "repeat", "message": ""},
            "expect": {"events": ["Repaired"]},
        },
        {
            "say": "Ada!",
            "reply": {"set": {"name": "Ada"}, "message": "Ah."},
            "expect": {"events": ["Corrected"]},
        },
        {"say": "help", "reply": {"to": "help", "message": "Ok"}, "expect": "help"},
        {
            "say": "ok",
            "reply": {"to": "helped"},
            "expect": {"state": "ask", "events": ["FlowReturned"]},
        },
    ]
    missed = missing(covered(tmp_path, TALK, {"name": "c", "steps": steps}).coverage)
    assert missed["patterns"] == ["/patterns/cancel", "/patterns/silence"]
    assert missed["transitions"] == ["/states/ask/transitions/0"]
    silent = {
        "name": "silent",
        "steps": [steps[0], {"wait": 300}, {"say": "x", "reply": {"to": "cancel"}}],
    }
    assert "patterns" not in missing(
        covered(tmp_path, TALK, {"name": "c", "steps": steps}, silent).coverage
    )


def test_what_is_called_is_covered_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "pay.json").write_text(json.dumps({**SHOP, "name": "pay"}))
    caller = {
        "name": "caller",
        "initial_state": "pay",
        "states": {
            "pay": {
                "kind": "subflow",
                "flow": "pay.json",
                "transitions": [{"target_state": "done"}],
            },
            "done": {"reply": "Done."},
        },
    }
    case = {**age(20), "greet": True, "start": {"reply": {"message": "How old?"}}}
    case["steps"][0]["expect"] = {"state": "done", "ended": True}
    found = covered(tmp_path, caller, case)
    assert missing(found.coverage)["states"] == ["pay.json#/states/milk", "pay.json#/states/left"]
    assert found.coverage.counts["transitions"]["pay.json#/states/ask/transitions/0"] == 1


def test_parts_of_one_file_are_put_together(tmp_path: Path) -> None:
    covered(tmp_path, SHOP, age(20), age(3))
    file = str(tmp_path / "x.test.json")
    options = PlayOptions(cover=True)
    one, other = (play_file(file, options, names=(name,)).covered for name in ("age 20", "age 3"))
    assert one is not None
    assert other is not None
    assert (
        one.plus(Covered.from_dict(json.loads(json.dumps(other.to_dict())))).coverage
        == covered(tmp_path, SHOP, age(20), age(3)).coverage
    )


@pytest.fixture
def shop(desk: Desk) -> Desk:
    desk.write("shop.json", json.dumps(SHOP, indent=1))
    desk.write("a.test.json", {"definition": "shop.json", "cases": [age(20)]})
    return desk


def test_the_table_and_the_file(shop: Desk) -> None:
    lines = (shop.folder / "shop.json").read_text().splitlines()
    milk, left = (lines.index(f'  "{name}": {{') + 1 for name in ("milk", "left"))
    done = shop.run("test", "--coverage", "cov.json")
    assert done.code == 0
    assert "coverage of shop (shop.json)\n  states                3 of 5     60.0 %\n" in done.out
    assert f"    shop.json:{milk}: /states/milk  by ask → sort → milk\n" in done.out
    written = json.loads((shop.folder / "cov.json").read_text())
    [one] = written["definitions"]
    assert (one["file"], one["states"]["/states/bar"], one["percent_by_kind"]["keys"]) == (
        "shop.json",
        1,
        100.0,
    )
    assert {"kind": "states", "name": "/states/left", "line": left, "way": ["ask", "left"]} in one[
        "missing"
    ]


def test_conversations_that_reach_what_is_missing_are_shown_and_written(shop: Desk) -> None:
    shown = shop.run("test", "--coverage", "cov.json").out
    assert '    say → sort {"age": 17}\n      /states/milk, ' in shown
    [one] = json.loads((shop.folder / "cov.json").read_text())["definitions"]
    told = [name for each in one["conversations"] for name in each["reaches"]]
    assert {each["name"] for each in one["missing"]} - set(told) == {"/global_transitions/0"}
    assert "  not reached: /global_transitions/0\n" in shown
    done = shop.run("test", "--generate", "a.test.json")
    assert (done.code, "wrote a.missing.test.json: " in done.err) == (0, True)
    whole = shop.run("test", "--fail-under", "90")
    assert (whole.code, "reached by" in whole.out) == (0, False)
    again = shop.run("test", "--generate", "a.test.json", "a.missing.test.json")
    assert (
        again.err == "llm-fsm: nothing to add for shop.json; not reached: /global_transitions/0\n"
    )


def test_what_no_conversation_reaches_is_said(desk: Desk) -> None:
    states = {**SHOP["states"], "never": {"reply": "Never."}}
    desk.write("a.test.json", {"definition": {**SHOP, "states": states}, "cases": [age(20)]})
    done = desk.run("test", "--generate", "a.test.json", "-o", "more.test.json")
    assert done.err.endswith("; not reached: /states/never, /global_transitions/0\n")
    assert desk.run("test", "more.test.json").code == 0


def test_what_happens_on_the_way_is_told_in_one_line() -> None:
    case = {
        "state": "sign",
        "context": {"age": 3},
        "start": {"reply": {"raw": "[]"}},
        "steps": [
            {"answer": True},
            {"wait": 61.0},
            {"say": "x", "replies": [{"raw": "{"}, {"message": "y"}]},
        ],
    }
    told = KeptConversation(case=case, reaches=()).summary()
    assert told == 'in sign; with {"age": 3}; "[]"; answer true; wait 61 s; say → "{", stays'


def test_files_of_one_definition_are_covered_together(shop: Desk) -> None:
    shop.write("b.test.json", {"definition": "shop.json", "cases": [age(3)]})
    done = shop.run("test", "--coverage", "-")
    assert "  states                4 of 5     80.0 %\n" in done.out


@pytest.mark.parametrize(("least", "code"), [("53", 0), ("54", 1), ("99.9", 1)])
def test_too_little_coverage_fails(shop: Desk, least: str, code: int) -> None:
    done = shop.run("test", "--fail-under", least)
    assert done.code == code
    assert ("coverage is 53.3 %, under" in done.out) == bool(code)


def test_a_picture_shows_what_was_touched(shop: Desk) -> None:
    shop.run("test", "--coverage", "cov.json")
    text = shop.run("show", "shop.json", "--coverage", "cov.json").out
    assert "sort (decide, covered)" in text
    assert "-> milk (missed)" in text
    assert (
        "class milk missed"
        in shop.run("show", "shop.json", "--coverage", "cov.json", "--format", "mermaid").out
    )
    assert (
        'fillcolor="#ffd9d6"'
        in shop.run("show", "shop.json", "--coverage", "cov.json", "--format", "dot").out
    )
    assert (
        "milk (final) (✗)"
        in shop.run("show", "shop.json", "--coverage", "cov.json", "--format", "boxes").out
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.json", None, "none.json: the file cannot be read"),
        ("a.test.json", None, "this is no coverage file"),
        (
            "other.json",
            {"coverage": 1, "definitions": []},
            "no tests of the definition 'shop' were counted in it",
        ),
    ],
)
def test_what_is_no_coverage_file(shop: Desk, name: str, content: object, said: str) -> None:
    if content is not None:
        shop.write(name, content)
    done = shop.run("show", "shop.json", "--coverage", name)
    assert (done.code, said in done.err) == (2, True)
