"""`llm-fsm test`: what is played, how it is reported, and the exit codes, which are those of pytest."""

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

from cli_command import Desk, command, desk
from llm_fsm.testing import HttpReply, serve_scripted
from llm_fsm.testing.scenarios.selection import ExpressionError, wanted

__all__ = ["desk"]

BYE = {"to": "bye", "set": {"name": "Ada"}, "message": "Bye Ada."}
GOOD = {"name": "good", "steps": [{"say": "I'm Ada", "reply": BYE, "expect": "bye"}]}
BAD = {"name": "bad", "steps": [{"say": "I'm Ada", "reply": BYE, "expect": {"text": "Hello <b>"}}]}
SKIPPED = {"name": "later", "skip": "not yet", "steps": []}


def suite(desk: Desk, *cases: Any, name: str = "greeter.test.json") -> str:
    return desk.write(name, json.dumps({"definition": "greeter.json", "cases": list(cases)}, indent=1))


def test_what_passes_and_what_fails_is_counted(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    done = desk.run("test")
    assert done.code == 1
    first, *_, last = done.out.splitlines()
    assert first == "greeter.test.json .Fs"
    assert last.startswith("1 failed, 1 passed, 1 skipped in ")
    assert "FAILED greeter.test.json:20 bad" in done.out
    assert 'greeter.test.json:33:15: step 1: expected the words to contain "Hello <b>"' in done.out
    assert "    user  I'm Ada\n    bot   Bye Ada.  [bye]\n" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("good.test.json",), 0, "1 passed"),
        (("bad.test.json",), 1, "1 failed"),
        (("typo.test.json",), 1, 'typo.test.json:1:32: error: unknown key "steeps"; did you mean "steps"?'),
        (("good.test.json", "typo.test.json"), 1, "1 error, 1 passed"),
        (("none.test.json",), 4, "none.test.json: there is no such file or folder"),
        (("--live", "--record"), 4, "--live and --record exclude one another"),
        (("-n", "3"), 4, "-n is for --live and --simulate"),
        (("--model", "offline"), 4, "--model is for --live, --record and --simulate"),
        (("--user-model", "offline"), 4, "--user-model is for --simulate"),
        (("--coverage", "x.txt"), 4, "--coverage writes a file that ends in .json"),
        (("--live", "--model", "ofline", "good.test.json"), 4, "did you mean 'offline'?"),
        (("--nonsense",), 4, "No such option"),
        (("-k", "good and (", "good.test.json"), 4, "something else is needed at its end"),
        (("--tools", "none.py", "good.test.json"), 4, "none.py: there is no such file"),
        (("empty",), 5, "there is no test in empty"),
        (("-k", "nothing", "good.test.json"), 5, "there is no test that -k nothing chooses in good.test.json"),
        (("--generate", "--live"), 4, "--live is not for --generate"),
        (("--watch", "--record", "--model", "offline"), 4, "--watch is not for --record"),
        (("--simulate", "-x"), 4, "-x is not for --simulate"),
        (("--simulate", "--format", "junit"), 4, "--simulate reports as text or json"),
        (("-k", "not bad"), 1, "1 error, 1 passed"),
        (("-x", "bad.test.json", "good.test.json"), 1, "1 failed in"),
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
    assert "greeter.test.json:35:13: error: unknown model 'offlin'; did you mean 'offline'?" in done.out


def test_an_interrupt_ends_with_2(desk: Desk) -> None:
    suite(desk, GOOD)
    process = subprocess.Popen(
        command("test", "--watch"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=desk.folder
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 2
    process.communicate()


def test_what_was_played_before_an_interrupt_is_reported(desk: Desk) -> None:
    suite(desk, GOOD, {**GOOD, "name": "waits"})
    answer = {"transition": {"target_state": "bye", "context_update": {"name": "Ada"}}, "message": ""}
    with serve_scripted([answer, HttpReply(delay=math.inf)]) as server:
        arguments = ("test", "--live", "--model", "m", "--base-url", server.base_url)
        process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=desk.folder, text=True
        )
        while len(server.requests) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "llm-fsm: interrupted\n")
    assert out.startswith("greeter.test.json .\n\n1 passed in ")


def test_watching_runs_again_when_a_file_changes(desk: Desk) -> None:
    suite(desk, GOOD)
    process = subprocess.Popen(
        command("test", "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=desk.folder,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.05)
    suite(desk, BAD)
    lines = iter(process.stdout.readline, "")
    second = next(line for line in lines if line.startswith("greeter.test.json"))
    process.kill()
    process.communicate()
    assert (first, second) == ("greeter.test.json .\n", "greeter.test.json F\n")


def test_reports_for_programs(desk: Desk) -> None:
    suite(desk, GOOD, BAD, SKIPPED)
    desk.write("typo.test.json", '{"definition": "greeter.json", "steeps": []}')
    report = json.loads(desk.run("test", "--format", "json").out)
    assert {name: report[name] for name in ("passed", "failed", "skipped", "errors")} == {
        "passed": 1,
        "failed": 1,
        "skipped": 1,
        "errors": 1,
    }
    good, bad, later = report["files"][0]["cases"]
    assert (good["status"], bad["status"], later["skipped"]) == ("passed", "failed", "not yet")
    assert (bad["failures"][0]["line"], bad["failures"][0]["pointer"]) == (33, "/cases/1/steps/0/expect/text")
    assert report["files"][1]["errors"][0]["line"] == 1
    root = ET.fromstring(desk.run("test", "--format", "junit").out)
    assert (root.tag, root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == (
        "testsuites",
        "4",
        "1",
        "1",
    )
    failure = root.find(".//failure")
    assert failure is not None
    assert "Hello <b>" in failure.attrib["message"]
    github = desk.run("test", "--format", "github").out
    assert "::error file=greeter.test.json,line=33,col=15,title=bad::step 1: expected the words" in github
    assert "::error file=typo.test.json,line=1,col=32" in github


def test_the_report_goes_to_a_file(desk: Desk) -> None:
    suite(desk, GOOD)
    done = desk.run("test", "--format", "json", "-o", "report.json")
    assert (done.code, done.out) == (0, "")
    assert json.loads((desk.folder / "report.json").read_text())["passed"] == 1


def test_many_processes_give_the_same_report(desk: Desk) -> None:
    suite(desk, *({**(BAD if number == 30 else GOOD), "name": f"case {number}"} for number in range(50)))
    alone, together = desk.run("test"), desk.run("test", "-j", "2")
    assert (together.code, together.out.splitlines()[0]) == (1, alone.out.splitlines()[0])
    assert together.out.splitlines()[2:7] == alone.out.splitlines()[2:7]


def test_tools_of_the_caller_are_used_where_the_case_plays_none(desk: Desk) -> None:
    definition = json.loads(Path("greeter.json").read_text())
    definition["tools"] = {"lookup": {"registered": "look_up"}}
    definition["states"]["hello"]["tools"] = ["lookup"]
    desk.write("greeter.json", definition)
    desk.write("host.py", "def look_up(name: str) -> str:\n    return name * 2\n\nTOOLS = [look_up]\n")
    call = {"calls": [{"name": "lookup", "arguments": {"name": "Ada"}}]}
    expect = {"events": [{"type": "ToolReturned", "result": "AdaAda"}]}
    suite(desk, {"steps": [{"say": "x", "replies": [call, BYE], "expect": expect}]})
    assert desk.run("test", "--tools", "host.py").code == 0
    assert desk.run("test").code == 1


def test_a_thousand_times_the_same(desk: Desk) -> None:
    suite(desk, {**GOOD, "name": "n{{n}}", "table": [{"n": number} for number in range(200)]})
    assert desk.run("test").out.startswith(f"greeter.test.json {'.' * 200}\n")


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("book", ["Booking a table", "booking a room"]),
        ("not book", ["cancel"]),
        ("book and room", ["booking a room"]),
        ("cancel or room", ["booking a room", "cancel"]),
        ("book and not (table or cancel)", ["booking a room"]),
    ],
)
def test_expressions_over_names(expression: str, names: list[str]) -> None:
    fits = wanted(expression)
    assert [name for name in ("Booking a table", "booking a room", "cancel") if fits(name)] == names


@pytest.mark.parametrize("expression", ["", " ", "and", "a b", "(a", "a)", "not", "a or"])
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(ExpressionError):
        wanted(expression)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--coverage", "greeter.json"), "--coverage writes a report, and greeter.json is a definition"),
        (("-o", "good.test.json", "--format", "json"), "-o writes a report, and good.test.json is a file of tests"),
        (("--generate", "greeter.json", "-o", "good.test.json"), "good.test.json is a file of tests that --generate"),
    ],
)
def test_nothing_written_by_hand_is_overwritten(desk: Desk, arguments: tuple[str, ...], words: str) -> None:
    suite(desk, GOOD, name="good.test.json")
    before = {path.name: path.read_text() for path in desk.folder.glob("*.json")}
    done = desk.run("test", *arguments)
    assert (done.code, words in done.err) == (4, True), done.err
    assert {path.name: path.read_text() for path in desk.folder.glob("*.json")} == before


def test_what_was_generated_is_written_anew_and_a_faulty_definition_keeps_no_other_from_it(desk: Desk) -> None:
    desk.write("a_bad.json", {"name": "bad", "initial_state": "x", "states": {"y": {"kind": "x"}}})
    for _ in range(2):
        done = desk.run("test", "--generate", ".")
        assert (done.code, "wrote ./greeter.generated" in done.err) == (1, True)
        assert len([line for line in done.err.splitlines() if line.startswith("llm-fsm: error: ./a_bad.json")]) == 3
        assert desk.run("test", "--generate", "greeter.json", "-o", "mine.test.json").code == 0
    assert desk.run("test", "mine.test.json").code == 0
    assert desk.run("test", "mine.test.json", "--coverage", "c.json").code == 0
    assert desk.run("test", "mine.test.json", "--coverage", "c.json").code == 0
