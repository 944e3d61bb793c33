"""`llm-fsm test`: selection, reports, options of its own, and the exit codes of pytest."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import warm_parent
from cli_command import Desk, command, desk
from llm_fsm.testing import HttpReply, serve_scripted

__all__ = ["desk"]

BYE = {"to": "bye", "set": {"name": "Ada"}, "message": "Bye Ada."}
GOOD = {"name": "good", "steps": [{"say": "I'm Ada", "reply": BYE, "expect": "bye"}]}
BAD = {"name": "bad", "steps": [{"say": "I'm Ada", "reply": BYE, "expect": {"text": "Hello <b>"}}]}
SKIPPED = {"name": "later", "skip": "not yet", "steps": []}


def suite(desk: Desk, *cases: Any, name: str = "greeter.test.json") -> str:
    return desk.write(
        name, json.dumps({"definition": "greeter.json", "cases": list(cases)}, indent=1)
    )


def test_a_failed_case_shows_what_differs_where_and_the_conversation(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    done = desk.run("test")
    assert done.code == 1
    assert "\ngreeter.test.json .Fs " in done.out
    assert " 1 failed, 1 passed, 1 skipped in " in done.out
    assert (
        'greeter.test.json:33:15: step 1: expected the words to contain "Hello <b>", but the'
        in done.out
    )
    assert "    user  I'm Ada\n    bot   Bye Ada.  [bye]\n" in done.out
    assert "FAILED greeter.test.json::bad" in done.out


def test_verbose_names_the_cases(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    lines = desk.run("test", "-v").out.splitlines()
    named = [" ".join(line.split()[:2]) for line in lines if line.startswith("greeter.test.json::")]
    assert [name.partition("::")[2] for name in named] == [
        "good PASSED",
        "bad FAILED",
        "later SKIPPED",
    ]


def test_cases_are_chosen_by_name_and_by_expression(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    for arguments in (
        ("greeter.test.json::good",),
        (".", "-k", "good"),
        (".", "-k", "not (bad or later)"),
    ):
        done = desk.run("test", *arguments)
        assert (done.code, "1 passed" in done.out, "failed" in done.out) == (0, True, False), (
            done.out
        )


def test_only_conversation_tests_are_collected_whatever_lies_beside_them(desk: Desk) -> None:
    suite(desk, GOOD)
    desk.write("conftest.py", "raise RuntimeError\n")
    desk.write("test_mine.py", "def test_it():\n    assert False\n")
    desk.write("pytest.ini", "[pytest]\naddopts = --nonsense\n")
    (desk.folder / "bots").mkdir()
    desk.write("bots/__init__.py", "raise RuntimeError\n")
    desk.write("bots/b.test.json", {"definition": "../greeter.json", "cases": [GOOD]})
    done = desk.run("test", ".")
    assert (done.code, " 2 passed in " in done.out) == (0, True), done.out


def test_a_control_character_does_not_reach_the_terminal(desk: Desk) -> None:
    reply = {"to": "bye", "set": {"name": "Ada"}, "message": "\x1b[2JBye"}
    suite(
        desk, {"name": "a\x1b[31m", "steps": [{"say": "\x07", "reply": reply, "expect": "hello"}]}
    )
    done = desk.run("test")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert "    user  \\x07\n    bot   \\x1b[2JBye  [bye]\n" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("good.test.json",), 0, "1 passed"),
        (("bad.test.json",), 1, "1 failed"),
        (
            ("typo.test.json",),
            1,
            'typo.test.json:1:32: error: unknown key "steeps"; did you mean "steps"?',
        ),
        (("--live", "--record"), 4, "--live and --record exclude one another"),
        (("--user-model", "offline"), 4, "--user-model is for --simulate"),
        (("--coverage", "x.txt"), 4, "--coverage writes a file that ends in .json"),
        (("--live", "--model", "ofline", "good.test.json"), 4, "did you mean 'offline'?"),
        (("--tools", "none.py", "good.test.json"), 4, "none.py: there is no such file"),
        (("-x", "bad.test.json", "good.test.json"), 1, "1 failed in"),
        (("good.test.json", "typo.test.json"), 1, "1 passed, 1 error"),
        (
            ("greeter.json",),
            1,
            "greeter.json:1:1: error: this is a definition, not a file of tests",
        ),
        (("none.test.json",), 4, "file or directory not found: none.test.json"),
        (("--nonsense",), 4, "unrecognized arguments: --nonsense"),
        (("-k", "good and (", "good.test.json"), 4, "Wrong expression passed to '-k'"),
        (("empty",), 5, "no tests ran"),
        (("-k", "nothing", "good.test.json"), 5, "1 deselected"),
        (("--times", "3"), 4, "--times is for --live and --simulate"),
        (("--model", "offline"), 4, "--model is for --live, --record and --simulate"),
        (("-o", "x.json"), 4, "--output is for --generate"),
        (("--generate", "--live"), 4, "--live and --generate exclude one another"),
        (("--generate", "--fail-under", "9"), 4, "--fail-under is not for --generate"),
        (("--generate", "-k", "x"), 4, "-k is not for --generate"),
        (
            ("--record", "--model", "offline", "-n", "2"),
            4,
            "--record plays in one process: leave out -n",
        ),
    ],
)
def test_exit_codes(desk: Desk, arguments: tuple[str, ...], code: int, says: str) -> None:
    suite(desk, GOOD, name="good.test.json")
    suite(desk, BAD, name="bad.test.json")
    desk.write("typo.test.json", '{"definition": "greeter.json", "steeps": []}')
    (desk.folder / "empty").mkdir()
    done = desk.run("test", *arguments)
    assert (done.code, says in done.out + done.err) == (code, True), done.out + done.err


def test_a_model_that_there_is_not_is_told_with_its_line(desk: Desk) -> None:
    suite(desk, GOOD, {**GOOD, "name": "other", "model": "offlin"})
    done = desk.run("test")
    assert done.code == 1
    assert (
        "greeter.test.json:35:13: error: unknown model 'offlin'; did you mean 'offline'?"
        in done.out
    )


def test_what_was_played_before_an_interrupt_is_reported(desk: Desk) -> None:
    suite(desk, GOOD, {**GOOD, "name": "waits"})
    answer = {
        "transition": {"target_state": "bye", "context_update": {"name": "Ada"}},
        "message": "",
    }
    with serve_scripted([answer, HttpReply(delay=math.inf)]) as server:
        arguments = ("test", "--live", "--model", "m", "--base-url", server.base_url)
        process = warm_parent.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=desk.folder,
            text=True,
        )
        while len(server.requests) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "")
    assert "greeter.test.json ." in out
    assert " 1 passed in " in out
    assert "KeyboardInterrupt" in out


def test_pytest_writes_the_report_for_programs(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    desk.write("typo.test.json", '{"definition": "greeter.json", "steeps": []}')
    assert desk.run("test", "--junitxml=r.xml").code == 1
    [found] = ET.parse(desk.folder / "r.xml").iter("testsuite")
    assert [found.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "4",
        "1",
        "1",
        "1",
    ]
    assert [case.get("name") for case in found.iter("testcase")][1:] == ["good", "bad", "later"]
    [failure] = found.iter("failure")
    assert "greeter.test.json:33:15: step 1: expected the words" in str(failure.text)


def test_on_github_failures_stand_beside_their_lines(desk: Desk) -> None:
    suite(desk, GOOD, BAD)
    desk.write("typo.test.json", '{"definition": "greeter.json", "steeps": []}')
    assert "::error" not in desk.run("test").out
    desk.patch.setenv("GITHUB_ACTIONS", "true")
    out = desk.run("test").out
    assert (
        "::error file=greeter.test.json,line=33,col=15,title=greeter.test.json%3A%3Abad::step 1: expected"
        in out
    )
    assert (
        "::error file=typo.test.json,line=1,col=32,title=typo.test.json::error: unknown key" in out
    )


def test_several_processes_report_the_same_and_share_their_coverage(desk: Desk) -> None:
    suite(
        desk,
        *({**(BAD if number == 30 else GOOD), "name": f"case {number}"} for number in range(50)),
    )
    alone, together = (
        desk.run("test", "--coverage", "a.json"),
        desk.run("test", "-n", "2", "--coverage", "b.json"),
    )
    assert (alone.code, together.code) == (1, 1)
    assert " 1 failed, 49 passed in " in together.out
    assert "greeter.test.json::case 30" in together.out
    assert json.loads((desk.folder / "a.json").read_text()) == json.loads(
        (desk.folder / "b.json").read_text()
    )


def test_live_runs_are_counted(desk: Desk) -> None:
    suite(desk, {**GOOD, "steps": [{"say": "I'm Ada", "expect": "bye"}]})
    good = {"transition": {"target_state": "bye", "context_update": {"name": "Ada"}}, "message": ""}
    bad = {"transition": {"target_state": "hello", "context_update": {}}, "message": "Hm?"}
    for threshold, code in (("0.5", 0), ("0.75", 1)):
        with serve_scripted([good, bad]) as server:
            live = ("--live", "--model", "m", "--base-url", server.base_url, "--times", "2")
            done = desk.run("test", *live, "--threshold", threshold)
        assert (done.code, "     1 of 2   50%  greeter.test.json::good\n" in done.out) == (
            code,
            True,
        ), done.out


def test_a_recording_is_reported_and_replayed(desk: Desk) -> None:
    suite(desk, {**GOOD, "steps": [{"say": "I'm Ada", "expect": "bye"}]})
    good = {"transition": {"target_state": "bye", "context_update": {"name": "Ada"}}, "message": ""}
    with serve_scripted([good]) as server:
        done = desk.run("test", "--record", "--model", "m", "--base-url", server.base_url)
    assert (done.code, "recorded 1 of 1 case in greeter.cassette.jsonl\n" in done.out) == (
        0,
        True,
    ), done.out
    assert desk.run("test").code == desk.run("test", "--replay").code == 0


def test_tools_of_the_caller_are_used_where_the_case_plays_none(desk: Desk) -> None:
    definition = json.loads(Path("greeter.json").read_text())
    definition["tools"] = {"lookup": {"registered": "look_up"}}
    definition["states"]["hello"]["tools"] = ["lookup"]
    desk.write("greeter.json", definition)
    desk.write(
        "host.py", "def look_up(name: str) -> str:\n    return name * 2\n\nTOOLS = [look_up]\n"
    )
    call = {"tool_calls": [{"name": "lookup", "arguments": {"name": "Ada"}}]}
    expect = {"events": [{"type": "ToolReturned", "result": "AdaAda"}]}
    suite(desk, {"steps": [{"say": "x", "replies": [call, BYE], "expect": expect}]})
    assert desk.run("test", "--tools", "host.py").code == 0
    assert desk.run("test").code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--coverage", "greeter.json"),
            "--coverage writes a report, and greeter.json is a definition",
        ),
        (
            ("--generate", "greeter.json", "-o", "good.test.json"),
            "good.test.json is a file of tests that --generate",
        ),
    ],
)
def test_nothing_written_by_hand_is_overwritten(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    suite(desk, GOOD, name="good.test.json")
    before = {path.name: path.read_text() for path in desk.folder.glob("*.json")}
    done = desk.run("test", *arguments)
    assert (done.code, words in done.err) == (4, True), done.err
    assert {path.name: path.read_text() for path in desk.folder.glob("*.json")} == before


def test_what_was_generated_is_written_anew_and_a_faulty_definition_keeps_no_other_from_it(
    desk: Desk,
) -> None:
    desk.write("a_bad.json", {"name": "bad", "initial_state": "x", "states": {"y": {"kind": "x"}}})
    for _ in range(2):
        done = desk.run("test", "--generate", ".")
        assert (done.code, "wrote ./greeter.generated" in done.err) == (1, True)
        assert (
            len(
                [
                    line
                    for line in done.err.splitlines()
                    if line.startswith("llm-fsm: error: ./a_bad.json")
                ]
            )
            == 3
        )
        assert desk.run("test", "--generate", "greeter.json", "-o", "mine.test.json").code == 0
    assert desk.run("test", "mine.test.json").code == 0
    assert desk.run("test", "mine.test.json", "--coverage", "c.json").code == 0
    assert desk.run("test", "mine.test.json", "--coverage", "c.json").code == 0


def test_generated_tests_keep_what_the_own_handlers_did(desk: Desk) -> None:
    code = """
from llm_fsm import create_handler
HANDLERS = [create_handler("note").at("pre_processing").do(lambda _: {"note": "seen"})]
"""
    (desk.folder / "own.py").write_text(code)
    done = desk.run(
        "test", "--generate", "greeter.json", "--tools", "own.py", "-o", "mine.test.json"
    )
    assert done.code == 0, done.err
    assert '"note": "seen"' in (desk.folder / "mine.test.json").read_text()
    assert desk.run("test", "mine.test.json").code == 0


def test_a_wrong_option_is_told_in_the_name_of_this_command(desk: Desk) -> None:
    done = desk.run("test", "--format", "json")
    assert done.code == 4
    assert "llm-fsm test: error: unrecognized arguments: --format" in done.out + done.err
    assert "pytest.main()" not in done.out + done.err
