"""Findings in each format: what is there, what is escaped, what stays the same when lines move."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from llm_fsm import __version__
from llm_fsm.documents.check import check_data
from llm_fsm.errors import Finding
from llm_fsm.lint.registry import RULES
from llm_fsm.lint.report.formats import FORMATS, as_json, github, junit, statistics, text
from llm_fsm.lint.report.sarif import sarif, uri
from paths import TESTS

TRAP = Finding(
    code="F105",
    name="trap",
    level="warning",
    message='no way leads out of the states "b", "c"',
    hint="add a transition",
    file="bots/a b.json",
    line=4,
    column=9,
    pointer="/states/b",
    path=("a", "b", "c", "b"),
)
EMPTY = Finding(
    code="E003", name="empty-file", level="error", message="the file is empty", file="e.json"
)
NOTE = replace(
    TRAP, code="F107", name="no-final-state", level="info", message="x", hint=None, path=()
)
FILES = ["bots/a b.json", "e.json", "good.json"]


def test_text_has_one_finding_a_line_and_its_path_below() -> None:
    assert text([TRAP, EMPTY], FILES).splitlines() == [
        'bots/a b.json:4:9: warning: no way leads out of the states "b", "c"; add a transition (trap F105)',
        "    path: a → b → c → b",
        "e.json: error: the file is empty (empty-file E003)",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_lets_a_control_character_through(name: str) -> None:
    hostile = replace(
        TRAP, message='\x1b[2J\u202e\ud800<&">]]>\n::error::x', file="\x1b.json", path=("\x07",)
    )
    printed = FORMATS[name]([hostile], ["\x1b.json"])
    assert not {
        char for char in printed if char < "\n" or "\x0b" <= char < " " or char in "\u202e\ud800"
    }
    printed.encode("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_something_for_nothing(name: str) -> None:
    printed = FORMATS[name]([], ["good.json"])
    assert name in ("text", "github") or printed


def test_json_is_the_shape_that_is_promised() -> None:
    document = json.loads(FORMATS["json"]([TRAP], FILES))
    assert document == {"findings": [TRAP.to_dict()]}
    assert as_json({"a": "\u2028"}) == '{\n  "a": "\\u2028"\n}'


def test_github_commands_escape_what_would_end_them() -> None:
    odd = replace(TRAP, file="a,b:c.json", message="50% done\n::error::x", path=())
    assert github([odd, NOTE], FILES).splitlines() == [
        "::warning file=a%2Cb%3Ac.json,line=4,col=9,title=trap F105::50%25 done%0A::error::x; add a transition",
        "::notice file=bots/a b.json,line=4,col=9,title=no-final-state F107::x",
    ]
    assert github([TRAP], FILES).endswith("; add a transition%0Apath: a → b → c → b")


def test_junit_has_a_suite_a_file_and_a_case_a_finding() -> None:
    tree = ElementTree.fromstring(junit([TRAP, NOTE, EMPTY], FILES))
    assert tree.attrib == {"name": "llm-fsm validate", "tests": "4", "failures": "2", "errors": "0"}
    assert [(suite.attrib["name"], len(suite)) for suite in tree] == [
        ("bots/a b.json", 2),
        ("e.json", 1),
        ("good.json", 1),
    ]
    failure = tree[0][0][0]
    assert (failure.tag, failure.attrib["type"], failure.attrib["message"]) == (
        "failure",
        "warning",
        TRAP.message,
    )
    assert tree[0][0].attrib["name"] == "trap F105 4:9"
    assert tree[0][1][0].tag == "system-out"
    assert len(tree[2][0]) == 0


def test_statistics_count_the_most_frequent_first() -> None:
    assert statistics([NOTE, TRAP, TRAP]).split("\n") == [
        "     2  warning  trap F105",
        "     1  info     no-final-state F107",
    ]


def run_of(*findings: Finding) -> dict[str, Any]:
    document = sarif(findings, FILES)
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_sarif_describes_every_rule_and_points_at_it() -> None:
    run = run_of(TRAP, EMPTY)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["semanticVersion"]) == ("llm-fsm", __version__)
    assert [rule["id"] for rule in driver["rules"]] == [rule.code for rule in RULES]
    assert all(
        rule["help"]["text"] and rule["shortDescription"]["text"] for rule in driver["rules"]
    )
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == [
        "bots/a%20b.json",
        "e.json",
        "good.json",
    ]


def test_sarif_has_the_place_and_the_path_as_a_code_flow() -> None:
    [trap, empty] = run_of(TRAP, EMPTY)["results"]
    assert (trap["level"], trap["message"]["text"]) == ("warning", f"{TRAP.message}; {TRAP.hint}")
    place = trap["locations"][0]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "bots/a%20b.json"},
        "region": {"startLine": 4, "startColumn": 9},
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "/states/b", "kind": "member"}]
    steps = trap["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == [
        "state a",
        "state b",
        "state c",
        "state b",
    ]
    assert "region" not in empty["locations"][0]["physicalLocation"]
    assert "codeFlows" not in empty


DOCUMENT = """{
  "name": "loop", "initial_state": "hello",
  "states": {
    "hello": {"purpose": "Greet", "transitions": [{"target_state": "ask", "description": "on"}]},
    "ask": {"purpose": "Ask", "transitions": [
      {"target_state": "pay", "description": "on"}, {"target_state": "bye", "description": "no"}]},
    "pay": {"purpose": "Take the payment", "transitions": [{"target_state": "bye", "description": "on"}]},
    "bye": {"purpose": "Say goodbye"}
  },
  "properties": [{"never": "pay"}]
}
"""


def test_each_step_of_a_code_flow_stands_where_its_state_stands() -> None:
    findings = check_data(DOCUMENT.encode(), file="loop.json")
    [result] = [
        one for one in sarif(findings, ["loop.json"])["runs"][0]["results"] if "codeFlows" in one
    ]
    assert result["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 10,
        "startColumn": 18,
    }
    steps = [step["location"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    assert [
        (
            step["message"]["text"],
            step["physicalLocation"]["region"]["startLine"],
            step["logicalLocations"][0]["fullyQualifiedName"],
        )
        for step in steps
    ] == [
        ("state hello", 4, "/states/hello"),
        ("state ask", 5, "/states/ask"),
        ("state pay", 7, "/states/pay"),
    ]


def test_steps_stand_in_the_document_as_it_was_written() -> None:
    commented = "// the machine\n" + DOCUMENT
    [found] = [one for one in check_data(commented.encode(), file="x.json") if one.path]
    assert [place.line for place in found.where] == [5, 6, 8]


def test_a_log_is_what_the_published_schema_of_sarif_asks_for() -> None:
    text = (TESTS / "data" / "sarif" / "sarif-2.1.0-rtm.5.json").read_text("utf-8")
    # the stray bracket is no regular expression to strict readers
    schema = json.loads(text.replace("{2}]?$", "{2}$"))
    validator = jsonschema_rs.Draft4Validator(schema)
    for findings in ([], [TRAP, EMPTY, NOTE], check_data(DOCUMENT.encode(), file="a b/ü.json")):
        log = sarif(findings, FILES)
        assert [error.message for error in validator.iter_errors(log)] == []
    broken = sarif([TRAP], FILES)
    broken["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(broken)


def marks(*findings: Finding) -> list[str]:
    return [
        result["partialFingerprints"]["llmFsmFinding/v1"] for result in run_of(*findings)["results"]
    ]


def test_fingerprints_do_not_move_with_lines_and_places_in_lists() -> None:
    before = replace(
        TRAP, pointer="/states/b/transitions/0/target_state", message='unknown state "x"'
    )
    moved = replace(before, line=90, column=1, pointer="/states/b/transitions/7/target_state")
    assert marks(before) == marks(moved)


def test_fingerprints_tell_findings_apart() -> None:
    others = [
        replace(TRAP, pointer="/states/c"),
        replace(TRAP, name="auto-loop", code="F108"),
        replace(TRAP, message='no way leads out of the states "b", "d"'),
        replace(TRAP, file="other.json"),
        TRAP,
    ]
    found = marks(TRAP, *others)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.json", "a.json"),
        ("./a b/ü.json", "a%20b/%C3%BC.json"),
        ("a\\b.json", "a/b.json"),
        ("/x/y#.json", "file:///x/y%23.json"),
    ],
)
def test_paths_become_uri_references(path: str, expected: str) -> None:
    assert uri(path) == expected
