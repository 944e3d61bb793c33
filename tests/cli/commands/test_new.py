"""`new`: what it writes works as it stands, and nothing is overwritten."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from cli_command import Desk, Done, desk
from llm_fsm import check, load
from llm_fsm.cli import templates as starter
from llm_fsm.documents.discovery import definition_paths

__all__ = ["desk"]

FILES = (".github/workflows/llm-fsm.yml", "my-bot.json", "my-bot.test.json")


def test_the_definition_has_no_findings_and_the_test_passes(desk: Desk) -> None:
    done = desk.run("new", "my-bot")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == [f"my-bot/{name}" for name in FILES]
    assert check("my-bot/my-bot.json") == []
    tested = desk.run("test", "my-bot", "--fail-under", "100")
    assert (tested.code, "8 passed" in tested.out) == (0, True), tested.out


def test_the_starter_shows_the_best_habits(desk: Desk) -> None:
    assert desk.run("new", "my-bot").code == 0
    typed = b"Ada\n2030-05-17\nhm\nday 2030-05-18\nno\nBob\n2030-06-01\nyes\n"
    done = desk.run("chat", "my-bot/my-bot.json", "-m", "offline", stdin=typed)
    assert "A booking for Ada on 2030-05-18. Shall I book it like this?" in done.out
    assert done.out.endswith("It is booked, Bob. See you on 2030-06-01!\n")
    assert done.out.count("It is booked") == 1
    left = desk.run("chat", "my-bot/my-bot.json", "-m", "offline", stdin=b"Ada\nstop\n")
    assert left.out.endswith("\n\nAll right, nothing is booked.\n")


def test_every_shipped_definition_can_be_started_from(desk: Desk) -> None:
    need_tools = {"code_review", "cleanup", "refund", "research"}
    templates = definition_paths()
    for template in templates:
        folder = f"my-{template.replace('_', '-')}"
        done = desk.run("new", folder, "--template", template)
        assert done.code == 0, done.err
        assert load(f"{folder}/{folder}.json").name == folder
        assert ("--tools FILE.py" in done.err) is (template in need_tools), template
    tested = desk.run("test", ".")
    assert tested.code == 0, tested.out


def test_a_template_that_is_not_shipped_is_said(desk: Desk) -> None:
    said = "llm-fsm: error: there is no shipped definition 'ordre'; did you mean order?\n"
    assert desk.run("new", "my-bot", "--template", "ordre") == Done(2, "", said)
    done = desk.run("new", "payment", "--template", "tickets")
    assert (done.code, done.err) == (
        2,
        "llm-fsm: error: tickets calls the definition payment.json: choose another name\n",
    )
    assert not Path("payment").exists()


def test_the_workflow_runs_commands_that_exist(desk: Desk) -> None:
    desk.run("new", "my-bot")
    workflow = Path("my-bot/.github/workflows/llm-fsm.yml").read_text(encoding="utf-8")
    commands = [
        shlex.split(line.partition("run: ")[2])
        for line in workflow.splitlines()
        if "run: llm-fsm" in line
    ]
    assert [command[1] for command in commands] == ["validate", "test"]
    desk.patch.chdir("my-bot")
    assert [desk.run(*command[1:]).code for command in commands] == [0, 0]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_workflow_brings_the_functions_of_tools_py_if_there_is_one(
    desk: Desk, *, is_there: bool
) -> None:
    desk.run("new", "my-bot")
    workflow = Path("my-bot/.github/workflows/llm-fsm.yml").read_text(encoding="utf-8")
    [step] = [line.partition("run: ")[2] for line in workflow.splitlines() if "GITHUB_ENV" in line]
    if is_there:
        Path("my-bot/tools.py").write_text("TOOLS = []\n")
    written = Path("environment").absolute()
    environment = {"PATH": os.environ["PATH"], "GITHUB_ENV": str(written)}
    subprocess.run(("bash", "-e", "-c", step), cwd="my-bot", env=environment, check=True)
    assert written.exists() is is_there
    if is_there:
        assert written.read_text() == "LLM_FSM_TOOLS=tools.py\n"


def test_another_folder_can_be_named(desk: Desk) -> None:
    assert desk.run("new", "bot", "--dir", "deep/er").code == 0
    assert Path("deep/er/bot/bot.json").is_file()


def test_the_name_of_a_folder_moves_no_cursor(desk: Desk) -> None:
    done = desk.run("new", "bot", "--dir", "a\x1b[2J")
    assert done.code == 0
    assert "a\\x1b[2J/bot/bot.json\n" in done.out
    assert "\x1b" not in done.out + done.err


def test_nothing_is_overwritten(desk: Desk) -> None:
    desk.run("new", "bot")
    Path("bot/bot.json").write_text("mine", encoding="utf-8")
    done = desk.run("new", "bot")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("llm-fsm: error: bot: exists already")
    assert Path("bot/bot.json").read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_way_is_said(desk: Desk) -> None:
    desk.write("bot", "a file")
    done = desk.run("new", "bot")
    assert done.code == 2
    assert done.err.startswith("llm-fsm: error: bot: exists already")
    assert desk.run("new", "x", "--dir", "bot").err.startswith(
        "llm-fsm: error: bot/x: cannot be made: not a directory"
    )


def test_where_a_file_cannot_be_written_nothing_is_left_half_made(desk: Desk) -> None:
    with desk.patch.context() as patch:
        files = {"bot.json": "{}", ".ci/x.yml": "x", "n" * 300: "too long"}
        patch.setattr(starter, "files", lambda *_: files)
        done = desk.run("new", "bot")
    assert (done.code, done.out) == (2, "")
    assert "cannot be made: file name too long" in done.err
    assert not Path("bot").exists()
    assert desk.run("new", "bot").code == 0


@pytest.mark.parametrize(
    "name", ["", "Bot", "1bot", "a b", "../x", "a/b", "-x", "a" * 41, "ä", "a\x1b", "bot\n"]
)
def test_a_name_is_checked(desk: Desk, name: str) -> None:
    done = desk.run("new", "--", name)
    assert done.code == 2
    assert done.err.startswith("llm-fsm: error: ")
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in desk.folder.iterdir()) == ["greeter.json"]
