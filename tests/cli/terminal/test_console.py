"""The one place that writes: styles on a terminal, the text alone elsewhere, and escapes
everywhere.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cli_command import Desk, desk
from llm_fsm.cli.terminal import console
from paths import ROOT

__all__ = ["desk"]

EVIL = "a\x1b[2J\u202e\x07\x9b\ud83db"
SHOWN = r"a\x1b[2J\u202e\x07\x9b\ud83db"
LINE = [("bad.json", "bold"), (": ", ""), ("error", "bold red"), (EVIL, "")]
WRITERS: dict[str, Callable[[str], None]] = {
    "out": lambda said: console.out(said, [(said, "bold")]),
    "wrapped": lambda said: console.out(said, wrapped=True),
    "err": lambda said: console.err(said, style="dim"),
    "note": console.note,
    "error": console.error,
    "text": console.text,
    "piece": console.piece,
    "json": lambda said: console.json({said: [said]}),
    "table": lambda said: console.table([(said, said)], (said, said)),
    "grid": lambda said: console.table([(said, said)], to=sys.stderr),
}


ROWS = [("k3f9x2mw", "3", "a text that goes on and on and on for a while"), ("b", "12", "short")]
HEAD = ("id", "turns", "text")


class Screen(io.StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True


KINDS = ("pipe", "terminal", "NO_COLOR", "dumb")


def written(kind: str, write: Callable[[], None]) -> str:
    """What somebody sees, on both streams, where they are of this kind and 40 characters wide."""
    made = io.StringIO() if kind == "pipe" else Screen()
    settings = {"TERM": "dumb" if kind == "dumb" else "xterm-256color", "COLUMNS": "40"}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(made), redirect_stderr(made):
        for name, value in {**settings, "NO_COLOR": "1" if kind == "NO_COLOR" else ""}.items():
            patch.setenv(name, value)
        write()
    return made.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
def test_no_function_writes_a_character_that_moves_the_cursor(name: str, kind: str) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", written(kind, lambda: WRITERS[name](EVIL)))
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text) is None
    assert "[2J" in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(WRITERS.keys() - {"text", "piece"}))
def test_a_message_of_one_line_stays_one(name: str, kind: str) -> None:
    assert r"one\ntwo" in written(kind, lambda: WRITERS[name]("one\ntwo"))


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_terminal_with_colours_gets_styles(kind: str) -> None:
    def write() -> None:
        console.note("that")
        console.error("this")
        console.out(LINE)

    shown = written(kind, write)
    plain = f"llm-fsm: that\nllm-fsm: error: this\nbad.json: error{SHOWN}\n"
    if kind != "terminal":
        assert shown == plain
        return
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain
    assert "\x1b[2mllm-fsm: that\x1b[0m" in shown
    assert "llm-fsm: \x1b[1;31merror\x1b[0m: this" in shown
    assert f"\x1b[1mbad.json\x1b[0m: \x1b[1;31merror\x1b[0m{SHOWN}" in shown


def test_a_terminal_breaks_long_lines_between_words_and_indents_the_rest() -> None:
    long = ("  a line that is longer than forty characters", "short")
    shown = written("NO_COLOR", lambda: console.out(*long, wrapped=True))
    assert shown == "  a line that is longer than forty\n     characters\nshort\n"
    assert written("pipe", lambda: console.out(*long, wrapped=True)).splitlines() == list(long)


def test_a_command_to_copy_is_not_broken() -> None:
    command = "to go on: llm-fsm chat order.json --resume k3f9x2mw"
    assert (
        written("terminal", lambda: console.note(command, to_copy=True))
        == f"\x1b[2mllm-fsm: {command}\x1b[0m\n"
    )
    assert written("NO_COLOR", lambda: console.note(command)).count("\n") == 2


@pytest.mark.parametrize("kind", ["pipe", "dumb"])
def test_a_table_elsewhere_has_one_line_a_row(kind: str) -> None:
    assert written(kind, lambda: console.table(ROWS, HEAD, right=(1,))).splitlines() == [
        "id        turns  text",
        "k3f9x2mw      3  a text that goes on and on and on for a while",
        "b            12  short",
    ]


def test_a_table_on_a_narrow_terminal_breaks_its_last_column() -> None:
    lines = written("NO_COLOR", lambda: console.table(ROWS, HEAD, right=(1,))).splitlines()
    assert [line.rstrip() for line in lines] == [
        "id        turns  text",
        "k3f9x2mw      3  a text that goes on and",
        "                 on and on for a while",
        "b            12  short",
    ]


def test_lines_stand_above_what_is_under_way() -> None:
    def write() -> None:
        with console.working(lambda: f"busy{EVIL}") as stop:
            console.err("a line")
            stop()
            console.out("another")

    shown = written("terminal", write)
    assert shown.index("a line") < shown.index("another")
    assert f"busy{SHOWN}" in shown
    assert shown.endswith("another\n")


def test_nothing_else_writes() -> None:
    writes = re.compile(
        r"\bprint\(|\.s?echo\(|std(out|err)\.write\(|Console\(|^(from|import) rich(?!\.cells)", re.M
    )
    files = [path for path in (ROOT / "src/llm_fsm/cli").rglob("*.py") if path.name != "console.py"]
    found = [path.name for path in files if writes.search(path.read_text(encoding="utf-8"))]
    assert (found, len(files) > 40) == ([], True)


@pytest.mark.parametrize("arguments", [("--help",), ("-V",), ("validate", "greeter.json")])
def test_what_has_no_style_does_not_wait_for_rich(desk: Desk, arguments: tuple[str, ...]) -> None:
    done = desk.process(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert b"llm_fsm.cli.terminal.console" in done.stderr
    assert b"rich.console" not in done.stderr
    assert b"prompt_toolkit" not in done.stderr


def test_the_program_is_called_as_the_user_can_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "here" / "bin" / "llm-fsm"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert console.program() == os.path.join("bin", "llm-fsm")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    assert console.program() == str(script)
    monkeypatch.setattr("sys.argv", ["/usr/lib/python3/site-packages/llm_fsm/__main__.py"])
    assert console.program() == "llm-fsm"
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent))
    assert console.program() == "llm-fsm"
