"""`validate`: files, folders and standard input; text and JSON; the exit code that --fail-on asks
for.
"""

from __future__ import annotations

import copy
import errno
import json
import os
import subprocess
import sys

import pytest

import cli_command
from cli_command import Desk, desk
from llm_fsm.cli.commands.validate import code, summary
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.config import FailOn, LintConfig

__all__ = ["desk"]

# As the other tests of the command line have it, and collecting all that its transitions demand.
GREETER = copy.deepcopy(cli_command.GREETER)
GREETER["states"]["hello"]["required_context_keys"] = ["name", "age"]

WRONG = {**GREETER, "initial_state": "helo", "colour": 1}


@pytest.fixture(autouse=True)
def good_greeter(desk: Desk) -> None:
    """`greeter.json` has no findings."""
    desk.write("greeter.json", GREETER)


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
    assert code(findings, LintConfig(fail_on=fail_on)) == expected


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


def test_findings_stand_with_their_place_and_their_line(desk: Desk) -> None:
    done = desk.run(
        "validate", desk.write("wrong.json", json.dumps(WRONG, indent=1)), "greeter.json"
    )
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("wrong.json:3:19: error: ")
    assert 'did you mean "hello"?' in lines[0]
    assert lines[1:3] == ['    3 | "initial_state": "helo",', "      |                  ^^^^^^"]
    assert ": warning: " in lines[3]
    assert done.err == "2 files, 1 error, 1 warning\n"


def test_concise_findings_stand_one_a_line(desk: Desk) -> None:
    text = json.dumps(WRONG, indent=1)
    last = len(text.splitlines()) - 1
    done = desk.run("validate", "--format", "concise", desk.write("wrong.json", text))
    assert [line.split(": ")[0:2] for line in done.out.splitlines()] == [
        ["wrong.json:3:19", "error"],
        [f"wrong.json:{last}:2", "warning"],
    ]


@pytest.mark.parametrize(
    ("text", "shown", "marked"),
    [
        ('{"name": "\u65e5\u672c", "initial_state": "b"}', '"b"', "^^^"),
        ("\t\t" + '{"name": "n", "initial_state": "b"}', '"b"', "^^^"),
        ('{"name": "n", "description": "' + "x" * 300 + '", "initial_state": "b"}', '"b"', "^^^"),
        ('{"name": "\x7f", "initial_state": "\x9b2J"}', '"\\x9b2J"', "^" * 8),
    ],
)
def test_the_caret_stands_below_what_is_meant(
    desk: Desk, text: str, shown: str, marked: str
) -> None:
    document = text[:-1] + ', "states": {"a": {}}}'
    out = desk.run(
        "validate", desk.write("odd.json", document), "--select", "unknown-initial-state"
    ).out
    assert "\x9b" not in out
    _, line, caret = out.splitlines()
    assert caret.strip(" |") == marked
    before = line[: line.index(shown)]
    wide = sum(character in "\u65e5\u672c" for character in before)
    assert caret.index("^") == len(before) + wide
    assert len(line) < 125


def test_a_shipped_definition_is_validated_by_its_name(desk: Desk) -> None:
    done = desk.run("validate", "order")
    assert (done.code, done.err) == (0, "1 file, 0 errors, 0 warnings\n")


def test_json_files_that_cannot_be_read_are_reported_in_a_folder(desk: Desk) -> None:
    (desk.folder / "defs").mkdir()
    desk.write("defs/good.json", GREETER)
    desk.write("defs/half.json", '{"name": "x", ')
    desk.write("defs/utf16.json", '{"name": "x"}'.encode("utf-16"))
    desk.write("defs/settings.json", '{"a": 1, // a comment\n}')
    desk.write("defs/other.json", '{"a": 1}')
    done = desk.run("validate", "defs", "--format", "concise")
    assert done.code == 1
    assert [line.split(":")[0] for line in done.out.splitlines()] == [
        "defs/half.json",
        "defs/utf16.json",
    ]


def test_json_has_the_same_findings(desk: Desk) -> None:
    done = desk.run("validate", "--format", "json", desk.write("wrong.json", WRONG))
    document = json.loads(done.out)
    assert list(document) == ["findings"]
    assert [item["level"] for item in document["findings"]] == ["error", "warning"]
    assert {item["file"] for item in document["findings"]} == {"wrong.json"}
    assert set(document["findings"][0]) == set(found("error").to_dict())


def test_json_of_nothing_is_an_empty_list(desk: Desk) -> None:
    assert json.loads(desk.run("validate", "greeter.json", "--format", "json").out) == {
        "findings": []
    }


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
def test_standard_input_is_a_file_like_others(
    desk: Desk, data: bytes, expected: int, said: str
) -> None:
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
    done = desk.run("validate", "defs", "--format", "concise")
    assert done.code == 1
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["defs/broken.json"]
    assert done.err == "2 files, 1 error, 0 warnings\n"


def test_a_folder_without_definitions_is_no_success(desk: Desk) -> None:
    (desk.folder / "none").mkdir()
    done = desk.run("validate", "none")
    assert done.code == 2
    assert done.out.startswith("none: error: there is no definition in this folder")


def test_what_stands_for_no_file_does_not_hide_what_is_found_elsewhere(desk: Desk) -> None:
    done = desk.run("validate", desk.write("wrong.json", WRONG), "none*.json", "--format", "json")
    files = {found["file"]: found["name"] for found in json.loads(done.out)["findings"]}
    assert done.code == 2
    assert set(files) == {"wrong.json", "none*.json"}
    assert files["none*.json"] == "unreadable-file"


def test_a_file_of_conversation_tests_is_told_from_a_definition(desk: Desk) -> None:
    done = desk.run("validate", desk.write("x.test.json", {"definition": "x.json", "cases": []}))
    assert done.code == 1
    assert done.out.splitlines()[0] == (
        "x.test.json:1:1: error: this is a file of conversation tests, not a definition; llm-fsm test plays it "
        "(not-a-definition E008)"
    )


def test_fail_on_makes_warnings_count(desk: Desk) -> None:
    name = desk.write("odd.json", {**GREETER, "colour": 1})
    assert desk.run("validate", name).code == 0
    assert desk.run("validate", name, "--fail-on", "warning").code == 1
    assert desk.run("validate", desk.write("wrong.json", WRONG), "--fail-on", "never").code == 0


def test_a_page_is_printed_without_a_file(desk: Desk) -> None:
    done = desk.run("validate", "--explain", "F105")
    assert (done.code, done.out.splitlines()[0]) == (0, "trap (F105, warning)")
    wrong = desk.run("validate", "--explain", "trp")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean 'trap'" in wrong.err


def test_the_rules_are_listed(desk: Desk) -> None:
    done = desk.run("validate", "--rules")
    assert done.code == 0
    assert "F105  warning  trap" in done.out.splitlines()


def test_rules_are_selected_and_left_out(desk: Desk) -> None:
    name = desk.write("wrong.json", WRONG)
    assert "unknown-key" not in desk.run("validate", name, "--select", "F").out
    assert desk.run("validate", name, "--ignore", "F102,S1").code == 0
    assert desk.run("validate", name, "--select", "zzz").code == 2


def test_settings_of_the_project_hold_until_an_option_says_otherwise(desk: Desk) -> None:
    name = desk.write("odd.json", {**GREETER, "colour": 1})
    settings = '[tool.llm-fsm.lint]\nfail-on = "warning"\nper-file-ignores = {"old_*" = ["S"]}\n'
    (desk.folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    assert desk.run("validate", name).code == 1
    assert desk.run("validate", name, "--fail-on", "error").code == 0
    assert desk.run("validate", desk.write("old_one.json", {**GREETER, "colour": 1})).code == 0
    (desk.folder / "pyproject.toml").write_text(
        "[tool.llm-fsm.lint]\nfail-at = 1\n", encoding="utf-8"
    )
    wrong = desk.run("validate", name)
    assert wrong.code == 2
    assert "has no setting 'fail-at'" in wrong.err


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("github", "::error file=wrong.json,line=1,col="),
        ("sarif", "{"),
        ("junit", "<?xml"),
        ("json", "{"),
    ],
)
def test_findings_are_printed_for_other_programs(desk: Desk, form: str, begins: str) -> None:
    done = desk.run("validate", desk.write("wrong.json", WRONG), "--format", form)
    assert done.code == 1
    assert done.out.startswith(begins)


def test_findings_are_written_to_a_file(desk: Desk) -> None:
    name = desk.write("wrong.json", WRONG)
    done = desk.run("validate", name, "--format", "sarif", "--output", "out.sarif")
    assert (done.code, done.out) == (1, "")
    document = json.loads((desk.folder / "out.sarif").read_text(encoding="utf-8"))
    assert document["runs"][0]["results"][0]["ruleId"] == "F102"


def test_fix_mends_the_file_and_reports_what_is_left(desk: Desk) -> None:
    text = json.dumps({**WRONG, "persna": "x"}, indent=1)
    name = desk.write("wrong.json", text)
    shown = desk.run("validate", name, "--diff")
    assert '- "persna": "x"' in shown.out
    assert (desk.folder / name).read_text(encoding="utf-8") == text
    done = desk.run("validate", name, "--fix")
    assert (desk.folder / name).read_text(encoding="utf-8") == text.replace("persna", "persona")
    assert (done.code, "persona" in done.out) == (1, False)
    assert 'key "persna" renamed to "persona" (mended)' in done.err


def test_what_fix_cannot_write_whole_is_left_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    name = desk.write("odd.json", {**GREETER, "persna": "x"})
    before = (desk.folder / name).read_text(encoding="utf-8")
    done = desk.run("validate", name, "--fix")
    assert (done.code, "cannot be written: no space left on device" in done.err) == (74, True)
    assert (desk.folder / name).read_text(encoding="utf-8") == before


def test_what_is_left_out_is_not_mended(desk: Desk) -> None:
    name = desk.write("odd.json", {**GREETER, "persna": "x"})
    before = (desk.folder / name).read_text(encoding="utf-8")
    assert desk.run("validate", name, "--fix", "--ignore", "S101").code == 0
    assert (desk.folder / name).read_text(encoding="utf-8") == before


def test_standard_input_has_the_name_that_is_given_and_cannot_be_mended(desk: Desk) -> None:
    data = json.dumps(WRONG).encode()
    assert desk.run("validate", "-", "--stdin-filename", "bot.json", stdin=data).out.startswith(
        "bot.json:1:"
    )
    refused = desk.run("validate", "-", "--fix", stdin=data)
    assert (refused.code, refused.out) == (2, "")


def test_statistics_count_the_rules(desk: Desk) -> None:
    done = desk.run("validate", "--statistics", desk.write("wrong.json", WRONG))
    assert [line.split() for line in done.out.splitlines()] == [
        ["1", "error", "unknown-initial-state", "F102"],
        ["1", "warning", "unknown-key", "S101"],
    ]


def test_patterns_are_expanded_and_no_file_is_checked_twice(desk: Desk) -> None:
    desk.write("one.json", GREETER)
    done = desk.run("validate", "o*.json", "one.json")
    assert done.err == "1 file, 0 errors, 0 warnings\n"
    assert desk.run("validate", "zzz*.json").code == 2


def test_no_path_is_a_usage_error(desk: Desk) -> None:
    assert desk.run("validate").code == 2


@pytest.mark.parametrize("asked", [("validate", "--explain", "F101"), ("schema",)])
def test_words_that_python_left_out_are_not_printed_empty(asked: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "llm_fsm", *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "PYTHONOPTIMIZE=2" in done.stderr


def test_a_file_that_is_named_in_several_ways_is_checked_once(desk: Desk) -> None:
    desk.write("wrong.json", WRONG)
    ways = ("wrong.json", "./wrong.json", ".", str(desk.folder / "wrong.json"))
    done = desk.run("validate", *ways, "--select", "unknown-initial-state", "--format", "json")
    assert [found["file"] for found in json.loads(done.out)["findings"]] == ["wrong.json"]
    assert done.err.startswith("2 files, 1 error,")


END = {"purpose": "Say goodbye"}
BOOK = {
    "name": "book",
    "initial_state": "do",
    "states": {
        "do": {
            "kind": "task",
            "purpose": "Book",
            "acts": True,
            "transitions": [{"target_state": "end"}],
        },
        "end": END,
    },
}


def _calls(flow: str, *, agrees: bool) -> dict[str, object]:
    yes = {"target_state": "call", **({"agrees": True} if agrees else {})}
    asks = {
        "purpose": "Shall I?",
        "transitions": [yes],
        **({"confirms": ["day"]} if agrees else {}),
    }
    call = {"kind": "subflow", "flow": flow, "transitions": [{"target_state": "end"}]}
    return {
        "name": "caller",
        "initial_state": "ask",
        "context_schema": {"properties": {"day": {"type": "string"}}},
        "states": {"ask": asks, "call": call, "end": END},
    }


@pytest.mark.parametrize(
    ("callers", "paths", "places"),
    [
        ({}, ("bots",), ["bots/book.json"]),
        ({"a.json": ("book.json", True)}, ("bots",), []),
        ({"a.json": ("./book.json", True)}, ("bots/a.json", "./bots/book.json"), []),
        ({"a.json": ("book.json", True)}, ("bots/book.json",), ["bots/book.json"]),
        ({"a.json": ("book.json", False)}, ("bots",), ["bots/a.json"]),
        (
            {"a.json": ("book.json", True), "b.json": ("book.json", False)},
            ("bots",),
            ["bots/b.json"],
        ),
        ({"sub/a.json": ("../book.json", False)}, ("bots",), ["bots/sub/a.json"]),
    ],
)
def test_an_act_of_a_called_file_is_reported_at_its_callers_alone(
    desk: Desk, callers: dict[str, tuple[str, bool]], paths: tuple[str, ...], places: list[str]
) -> None:
    os.makedirs("bots/sub")
    desk.write("bots/book.json", BOOK)
    for name, (flow, agrees) in callers.items():
        desk.write(f"bots/{name}", _calls(flow, agrees=agrees))
    answer = desk.run("validate", *paths, "--format", "json", "--select", "F120")
    found = json.loads(answer.out)["findings"]
    assert [os.path.normpath(one["file"]) for one in found] == places
