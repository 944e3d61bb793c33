from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_command import GREETER, Desk

LAMP = (
    "stateDiagram-v2\n    [*] --> Off\n    Off --> On : press\n    On --> [*]\n    this is (odd)\n"
)


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, capsys, monkeypatch)
    found.write("flow.json", GREETER)
    found.write("lamp.mmd", LAMP)
    return found


def test_a_diagram_becomes_a_definition_with_a_report(desk: Desk) -> None:
    done = desk.run("convert", "lamp.mmd")
    assert done.code == 0
    assert json.loads(done.out) == {
        "name": "lamp",
        "initial_state": "Off",
        "states": {
            "Off": {"transitions": [{"target_state": "On", "description": "press"}]},
            "On": {"kind": "final"},
        },
    }
    assert done.err == "lamp.mmd:5: not mapped: not understood: this is (odd)\n"


def test_the_report_can_be_json_or_left_out(desk: Desk) -> None:
    told = json.loads(desk.run("convert", "lamp.mmd", "--report", "json").err)
    assert told == {
        "file": "lamp.mmd",
        "report": [{"mapped": False, "message": "not understood: this is (odd)", "line": 5}],
    }
    assert desk.run("convert", "lamp.mmd", "--report", "none").err == ""


@pytest.mark.parametrize("form", ["mermaid", "xstate"])
def test_a_definition_goes_out_and_comes_back(desk: Desk, form: str) -> None:
    out = desk.run("convert", "flow.json", "--to", form)
    assert out.code == 0
    assert "flow.json: not mapped:" in out.err
    back = desk.run("convert", "-", "--report", "none", stdin=out.out.encode())
    assert back.code == 0
    document = json.loads(back.out)
    assert (document["name"], document["initial_state"]) == ("greeter", "hello")
    assert list(document["states"]) == ["hello", "bar", "bye"]


@pytest.mark.parametrize("form", ["mermaid", "dot", "xstate", "scxml"])
def test_what_comes_out_moves_no_cursor_and_hides_nothing(desk: Desk, form: str) -> None:
    unseen = "say\x9b2J \u202egnp.exe"
    states = {
        "a": {"purpose": unseen, "transitions": [{"target_state": "b", "description": unseen}]},
        "b": {},
    }
    desk.write("odd.json", {"name": "odd", "initial_state": "a", "states": states})
    out = desk.run("convert", "odd.json", "--to", form, "--report", "none").out
    assert "\x9b" not in out
    assert "\u202e" not in out


@pytest.mark.parametrize(
    ("form", "kept"), [("mermaid", "say2J gnp.exe"), ("xstate", "say\x9b2J \u202egnp.exe")]
)
def test_hidden_characters_come_back_if_the_notation_can_escape_them(
    desk: Desk, form: str, kept: str
) -> None:
    unseen = "say\x9b2J \u202egnp.exe"
    states = {
        "a": {"purpose": unseen, "transitions": [{"target_state": "b", "description": unseen}]},
        "b": {},
    }
    desk.write("odd.json", {"name": "odd", "initial_state": "a", "states": states})
    out = desk.run("convert", "odd.json", "--to", form, "--report", "none").out
    back = json.loads(desk.run("convert", "-", "--report", "none", stdin=out.encode()).out)
    assert back["states"]["a"]["transitions"][0]["description"] == kept


def test_the_name_of_the_output_chooses_the_form(desk: Desk) -> None:
    done = desk.run("convert", "lamp.mmd", "-o", "lamp.scxml", "--report", "none")
    assert (done.code, done.out, done.err) == (0, "", "llm-fsm: wrote lamp.scxml\n")
    assert (desk.folder / "lamp.scxml").read_text().startswith("<?xml")


def test_an_older_definition_comes_out_in_todays_form(desk: Desk) -> None:
    desk.write("old.json", {"states": {"a": ["b"], "b": []}, "initial_state": "a"})
    done = desk.run("convert", "old.json")
    assert json.loads(done.out)["states"]["a"] == {"transitions": [{"target_state": "b"}]}
    assert (
        "old.json:1: mapped: lists of next states are read as states with transitions" in done.err
    )


@pytest.mark.parametrize(
    ("content", "arguments", "code", "said"),
    [
        ("hello", (), 1, "it is none of the forms that are read"),
        ("stateDiagram\nnote right of A\n", (), 1, "x.txt:2: a note has no"),
        (
            '<!DOCTYPE a [<!ENTITY b "c">]><scxml/>',
            (),
            1,
            "x.txt:1: this is XML such as SCXML, which is written",
        ),
        (
            "digraph { a -> b }",
            (),
            1,
            "x.txt:1: this is a DOT graph, which is written but not read; give a definition",
        ),
        (
            "digraph { a -> b }",
            ("--from", "dot"),
            2,
            "'dot' is not one of 'definition', 'mermaid', 'xstate'",
        ),
        ("<scxml/>", ("--from", "scxml"), 2, "'scxml' is not one of"),
        ("{", ("--from", "xstate"), 1, "the text ends"),
        ("{", ("--from", "definition"), 1, "cannot be used: 1 error"),
        (b"\xff\xfe\x00", (), 1, "UTF-16"),
        ("stateDiagram\nA", ("--to", "nonsense"), 2, "nonsense"),
        ("stateDiagram\nA", ("-o", "no/where.json"), 74, "cannot be written"),
    ],
)
def test_what_goes_wrong_is_said_in_a_sentence(
    desk: Desk, content: str | bytes, arguments: tuple[str, ...], code: int, said: str
) -> None:
    desk.write("x.txt", content)
    done = desk.run("convert", "x.txt", *arguments)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_not_there(desk: Desk) -> None:
    assert desk.run("convert", "none.mmd").code == 2
