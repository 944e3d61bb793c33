"""`validate`: files, folders and standard input; text and JSON; the exit code that --fail-on asks for."""

from __future__ import annotations

import json

import pytest

from cli_command import GREETER, Desk, desk
from llm_fsm.cli.validate import code, summary
from llm_fsm.findings import Finding, Level
from llm_fsm.lint.config import Config, FailOn

__all__ = ["desk"]

WRONG = {**GREETER, "initial_state": "helo", "colour": 1}


def found(level: Level, finding_code: str = "F101", name: str = "unknown-target") -> Finding:
    return Finding(code=finding_code, name=name, level=level, message="m")


@pytest.mark.parametrize(
    ("findings", "fail_on", "expected"),
    [
        ([], "info", 0),
        ([found("info")], "info", 1),
        ([found("info")], "warning", 0),
        ([found("warning")], "warning", 1),
        ([found("warning")], "error", 0),
        ([found("error")], "error", 1),
        ([found("error"), found("warning")], "never", 0),
        ([found("error", "E005", "bad-json")], "never", 1),
        ([found("error"), found("error", "E001", "unreadable-file")], "never", 2),
    ],
)
def test_the_exit_code_follows_the_worst_finding(
    findings: list[Finding], fail_on: FailOn, expected: int
) -> None:
    assert code(findings, Config(fail_on=fail_on)) == expected


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([], "2 files, 0 errors, 0 warnings"),
        (["error", "warning", "warning"], "2 files, 1 error, 2 warnings"),
        (["info"], "2 files, 0 errors, 0 warnings, 1 note"),
    ],
)
def test_the_summary_counts(levels: list[Level], text: str) -> None:
    assert summary(2, [found(level) for level in levels]) == text


def test_a_clean_file_says_nothing_but_the_count(desk: Desk) -> None:
    done = desk.run("validate", "greeter.json")
    assert (done.code, done.out, done.err) == (0, "", "1 file, 0 errors, 0 warnings\n")


def test_findings_stand_one_a_line_with_their_place(desk: Desk) -> None:
    done = desk.run("validate", desk.write("wrong.json", json.dumps(WRONG, indent=1)), "greeter.json")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("wrong.json:3:19: error: ")
    assert 'did you mean "hello"?' in lines[0]
    assert ": warning: " in lines[1]
    assert done.err == "2 files, 1 error, 1 warning\n"


def test_json_has_the_same_findings(desk: Desk) -> None:
    done = desk.run("validate", "--format", "json", desk.write("wrong.json", WRONG))
    document = json.loads(done.out)
    assert list(document) == ["findings"]
    assert [item["level"] for item in document["findings"]] == ["error", "warning"]
    assert {item["file"] for item in document["findings"]} == {"wrong.json"}
    assert set(document["findings"][0]) == set(found("error").to_dict())


def test_json_of_nothing_is_an_empty_list(desk: Desk) -> None:
    assert json.loads(desk.run("validate", "greeter.json", "--format", "json").out) == {"findings": []}


@pytest.mark.parametrize(
    ("data", "expected", "said"),
    [
        (json.dumps(GREETER).encode(), 0, ""),
        (json.dumps(WRONG).encode(), 1, "<stdin>:1:"),
        (b"", 1, "<stdin>: error: the file is empty"),
        (b"\xff\xfe", 1, "<stdin>: error: "),
        (b"[" * 10_000, 1, "<stdin>:1:201: error: "),
        (b" " * 10_000_001, 1, "<stdin>: error: the file is larger than 10 MB"),
        (b'{"name": "\x1b[2J"}', 1, "<stdin>:1:11: error: "),
    ],
)
def test_standard_input_is_a_file_like_others(desk: Desk, data: bytes, expected: int, said: str) -> None:
    done = desk.run("validate", "-", stdin=data)
    assert done.code == expected
    assert done.out.startswith(said)
    assert "\x1b" not in done.out


@pytest.mark.parametrize("path", ["missing.json", "greeter.json/x", "a\x1b[2J.json"])
def test_what_cannot_be_read_is_exit_2(desk: Desk, path: str) -> None:
    done = desk.run("validate", path, "greeter.json")
    assert done.code == 2
    assert "the file cannot be read" in done.out
    assert "\x1b" not in done.out
    assert done.err == "2 files, 1 error, 0 warnings\n"


def test_a_folder_stands_for_the_definitions_below_it(desk: Desk) -> None:
    for name in ("defs/a", "defs/.git", "defs/node_modules"):
        (desk.folder / name).mkdir(parents=True)
    desk.write("defs/a/good.json", GREETER)
    desk.write("defs/broken.json", '{"states": {')
    desk.write("defs/replies.json", [{"states": 1}])
    desk.write("defs/schema.json", {"properties": {"states": {}}})
    desk.write("defs/.git/hidden.json", WRONG)
    desk.write("defs/node_modules/other.json", WRONG)
    done = desk.run("validate", "defs")
    assert done.code == 1
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["defs/broken.json"]
    assert done.err == "2 files, 1 error, 0 warnings\n"


def test_a_folder_without_definitions_is_no_success(desk: Desk) -> None:
    (desk.folder / "none").mkdir()
    done = desk.run("validate", "none")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("llm-fsm: error: none: there is no definition in this folder")


def test_fail_on_makes_warnings_count(desk: Desk) -> None:
    name = desk.write("odd.json", {**GREETER, "colour": 1})
    assert desk.run("validate", name).code == 0
    assert desk.run("validate", name, "--fail-on", "warning").code == 1
    assert desk.run("validate", desk.write("wrong.json", WRONG), "--fail-on", "never").code == 0
