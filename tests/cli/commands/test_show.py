from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli_command import GREETER, Desk
from llm_fsm.cli.commands.show import with_bold_ids


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, capsys, monkeypatch)
    found.write("flow.json", GREETER)
    return found


FAULTY = {
    "name": "x",
    "initial_state": "a",
    "states": {"a": {"transitions": [{"target_state": "gone"}]}},
}
graphviz = pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz is not installed (apt-get install graphviz)"
)


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("text", "greeter"),
        ("outline", "greeter"),
        ("mermaid", "stateDiagram-v2"),
        ("dot", 'digraph "greeter" {'),
        ("boxes", "┌"),
    ],
)
def test_each_form(desk: Desk, form: str, first: str) -> None:
    done = desk.run("show", "flow.json", "--format", form)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(first)


@pytest.mark.parametrize(
    "command", [("show",), ("convert", "--to", "mermaid"), ("diff", "flow.json")]
)
def test_a_shipped_definition_is_meant_by_its_name_where_no_file_has_it(
    desk: Desk, command: tuple[str, ...]
) -> None:
    done = desk.run(*command, "order")
    assert (done.code, "choose" in done.out) == (0, True)
    desk.write("order", "{")
    assert desk.run(*command, "order").code != 0


def test_details_are_shown_when_asked_for(desk: Desk) -> None:
    plain = desk.run("show", "flow.json").out
    assert "Name known" not in plain
    assert "needs name" not in plain
    told = desk.run("show", "--fsm", "flow.json", "--conditions", "--keys").out
    assert "  -> bye: The name is known [Name known]" in told.splitlines()
    assert "  needs name" in told.splitlines()


def test_the_name_of_the_output_chooses_the_form(desk: Desk) -> None:
    done = desk.run("show", "flow.json", "-o", "flow.mmd")
    assert (done.code, done.out, done.err) == (0, "", "llm-fsm: wrote flow.mmd\n")
    assert (desk.folder / "flow.mmd").read_text().startswith("stateDiagram-v2\n")


@graphviz
def test_svg_and_png_come_from_graphviz(desk: Desk) -> None:
    assert desk.run("show", "flow.json", "-o", "flow.svg").code == 0
    assert ElementTree.parse(desk.folder / "flow.svg").getroot().tag.endswith("svg")
    assert desk.run("show", "flow.json", "-o", "flow.png").code == 0
    assert (desk.folder / "flow.png").read_bytes().startswith(b"\x89PNG")


def test_without_graphviz_the_package_to_install_is_named(desk: Desk) -> None:
    desk.patch.setenv("PATH", str(desk.folder))
    done = desk.run("show", "flow.json", "--format", "svg")
    assert done.code == 2
    assert "apt-get install graphviz" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_faulty_definition_is_drawn_as_far_as_it_goes(desk: Desk) -> None:
    desk.write("bad.json", FAULTY)
    done = desk.run("show", "bad.json", "--findings")
    assert done.code == 1
    assert "  -> gone (error)" in done.out.splitlines()
    assert "unknown-target" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("flow.json", "--state", "nope"), 2, "there is no state 'nope'"),
        (("flow.json", "--path", "hello,bar"), 0, ""),
        (("flow.json", "--path", "bar,hello"), 2, "no transition leads from 'bar' to 'hello'"),
        (("none.json",), 2, "no such file"),
        ((), 2, "one FILE is needed"),
        (("flow.json", "--fsm", "flow.json"), 2, "FILE is given twice"),
        (("text.json",), 1, "expected a value"),
        (("empty.json",), 1, ""),
        (("-", "--watch"), 2, "--watch needs a file"),
        (("flow.json", "-o", "no/such/folder.svg", "--format", "dot"), 74, "cannot be written"),
    ],
)
def test_what_goes_wrong_is_said_in_a_sentence(
    desk: Desk, arguments: tuple[str, ...], code: int, said: str
) -> None:
    desk.write("text.json", "hello")
    desk.write("empty.json", {})
    done = desk.run("show", *arguments)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_standard_input_is_drawn(desk: Desk) -> None:
    assert desk.run("show", "-", stdin=(desk.folder / "flow.json").read_bytes()).out.startswith(
        "greeter"
    )


def test_watching_draws_again_and_ends_with_130(desk: Desk) -> None:
    """A change is drawn, a broken file does not end the watch, and Ctrl-C does."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "llm_fsm", "show", "flow.json", "--watch"]
    with subprocess.Popen(
        command,
        cwd=desk.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        line = ""
        while "goodbye by name" not in line:
            line = process.stdout.readline()
        desk.write("flow.json", "{")
        while "bad-json" not in line:
            line = process.stdout.readline()
        time.sleep(0.05)
        desk.write("flow.json", {**GREETER, "name": "second"})
        while line != "second\n":
            line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130


def test_what_is_called_is_drawn_behind_it(desk: Desk) -> None:
    inner = {"name": "inner", "initial_state": "ask", "states": {"ask": {"purpose": "What?"}}}
    outer = {
        "name": "outer",
        "initial_state": "call",
        "states": {"call": {"kind": "subflow", "flow": "inner.json"}},
    }
    desk.write("inner.json", inner)
    desk.write("outer.json", outer)
    alone, both = desk.run("show", "outer.json").out, desk.run("show", "outer.json", "--called").out
    assert both == f"{alone.rstrip()}\n\n\n{desk.run('show', 'inner.json').out}"
    assert desk.run("show", "outer.json", "--called", "--format", "dot").code == 2


def test_ids_stand_out_in_titles_and_in_moves() -> None:
    drawing = 'a (initial)\n  says "b a"\n  -> a b: b\n  *-> b\n    -> a ^\n* (in every state)'
    bold = [
        part for line in with_bold_ids(drawing, {"a", "a b", "b"}) for part, style in line if style
    ]
    assert bold == ["a", "a b", "b", "a"]
    lines = [
        "".join(part for part, _ in line) for line in with_bold_ids(drawing, {"a", "a b", "b"})
    ]
    assert "\n".join(lines) == drawing
