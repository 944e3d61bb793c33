from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk
from llm_fsm.testing import reply, serve_scripted

ASKS: dict[str, Any] = {
    "name": "asks",
    "initial_state": "ask",
    "context_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "states": {
        "ask": {
            "purpose": "What is your name?",
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["name"]}]}
            ],
        },
        "done": {"reply": "Thank you."},
    },
}
CASE: dict[str, Any] = {
    "definition": ASKS,
    "turns": [{"say": "Ada", "state": "done", "values": {"name": "Ada"}}],
}
RIGHT = reply("done", "", name="Ada")
WRONG = reply("ask", "What?")


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys, monkeypatch)


def scripted(desk: Desk, name: str, *replies: Any) -> str:
    desk.write(name, list(replies))
    return f"scripted:{name}"


def test_the_table_and_the_turns_that_are_wrong_are_shown(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    done = desk.run("evaluate", ".", "--model", scripted(desk, "wrong.json", WRONG))
    assert done.code == 0
    first, *table = done.out.splitlines()
    assert first == 'asks.test.json: asks: "Ada" -> ask: the state should be done; wrong: name'
    assert [line.split() for line in table if line.startswith("turns right")] == [
        ["turns", "right", "0", "of", "1"]
    ]


def test_two_models_are_compared_side_by_side(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    models = (scripted(desk, "wrong.json", WRONG), scripted(desk, "right.json", RIGHT))
    done = desk.run("evaluate", "asks.test.json", "--model", models[0], "--model", models[1])
    assert "difference of the shares: +100% (+100% to +100%)" in done.out
    assert ["turns", "right", "0", "of", "1", "1", "of", "1"] in [
        line.split() for line in done.out.splitlines()
    ]


def test_two_definitions_are_compared(desk: Desk) -> None:
    shut = copy.deepcopy(ASKS)
    shut["states"]["ask"]["transitions"] = [
        {"target_state": "done", "conditions": [{"logic": False}]}
    ]
    desk.write("shut.json", shut)
    desk.write("asks.json", ASKS)
    desk.write("asks.test.json", {**CASE, "definition": "asks.json"})
    model = scripted(desk, "right.json", RIGHT, RIGHT)
    done = desk.run(
        "evaluate",
        "asks.test.json",
        "-m",
        model,
        "--definition",
        "asks.json",
        "--definition",
        "shut.json",
    )
    assert ["turns", "right", "1", "of", "1", "0", "of", "1"] in [
        line.split() for line in done.out.splitlines()
    ]


def test_a_threshold_decides_the_exit_code(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    model = scripted(desk, "wrong.json", WRONG)
    assert desk.run("evaluate", ".", "-m", model, "--threshold", "0.5").code == 1
    model = scripted(desk, "right.json", RIGHT)
    assert desk.run("evaluate", ".", "-m", model, "--threshold", "0.5").code == 0


def test_json_and_page_hold_every_turn(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    model = scripted(desk, "wrong.json", WRONG)
    done = desk.run("evaluate", ".", "-m", model, "-o", "out.json", "--page", "out.html")
    assert done.code == 0
    written = json.loads(Path("out.json").read_text("utf-8"))
    [way] = written["ways"]
    assert (way["figures"]["turns"], way["figures"]["right"]) == (1, 0)
    assert way["dialogues"][0]["turns"][0]["wrong"] == ["name"]
    assert "the state should be done" in Path("out.html").read_text("utf-8")


def test_a_server_tells_tokens_and_each_case_is_played_several_times(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    with serve_scripted([RIGHT, RIGHT]) as server:
        done = desk.run(
            "evaluate", ".", "-m", "local", "--base-url", server.base_url, "--times", "2", "-o", "-"
        )
    [way] = json.loads(done.out)["ways"]
    assert (way["figures"]["turns"], way["figures"]["right"]) == (2, 2)
    assert way["figures"]["input_tokens"] > 0
    assert [dialogue["name"] for dialogue in way["dialogues"]] == ["asks, run 1", "asks, run 2"]


@pytest.mark.parametrize(
    ("document", "arguments", "code", "said"),
    [
        ({"definition": ASKS, "steps": [{"say": "hi", "reply": {}}]}, (), 2, "no case has labels"),
        ({"definition": ASKS, "turns": [{"say": "x", "state": "no"}]}, (), 2, "no state 'no'"),
        (CASE, ("--model", "nobody/at-all-9", "--base-url", "x"), 3, "base_url"),
        (CASE, ("--definition", "missing.json"), 2, "missing.json"),
        (CASE, ("--threshold", "2"), 2, "--threshold"),
    ],
)
def test_bad_input_is_one_message(
    desk: Desk, document: dict[str, Any], arguments: tuple[str, ...], code: int, said: str
) -> None:
    desk.write("asks.test.json", document)
    done = desk.run("evaluate", "asks.test.json", "--model", "offline", *arguments)
    assert (done.code, said in done.err, "Traceback" in done.err) == (code, True, False)


def test_a_folder_without_tests_is_named(desk: Desk) -> None:
    done = desk.run("evaluate", ".", "--model", "offline")
    assert (done.code, "no file that ends in .test.json" in done.err) == (2, True)


def test_labelled_turns_are_skipped_where_replies_are_scripted(desk: Desk) -> None:
    desk.write("asks.test.json", CASE)
    done = desk.run("test", ".")
    assert done.code == 0
    assert re.search(r"1 skipped", done.out), done.out
