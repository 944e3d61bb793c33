"""Choosing among the shipped definitions: by number, name, or the beginning of a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from llm_fsm.cli import pick as choice
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.documents.discovery import definition_paths

NAMES = ["order", "orders_old", "quiz"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("1", "order"),
        ("3", "quiz"),
        ("0", None),
        ("4", None),
        ("99999999", None),
        ("-1", None),
        ("²", None),
        ("order", "order"),
        ("ord", None),
        ("orders", "orders_old"),
        ("Q", "quiz"),
        ("", None),
        ("zzz", None),
    ],
)
def test_what_is_picked(typed: str, expected: str | None) -> None:
    assert choice.picked_from(NAMES, typed) == expected


def test_the_menu_names_every_shipped_definition_with_its_description() -> None:
    shipped = definition_paths()
    head, *lines = choice.menu(shipped, 80).splitlines()
    assert head == "Which definition?"
    assert [line.split()[:2] for line in lines] == [
        [str(n), name] for n, name in enumerate(shipped, start=1)
    ]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(("columns", "longest"), [(200, 92), (80, 80), (60, 60), (30, 38)])
def test_the_lines_of_the_menu_fit_the_terminal(columns: int, longest: int) -> None:
    assert max(map(len, choice.menu(definition_paths(), columns).splitlines())) == longest


def chosen(typed: str) -> Path | None:
    """The definition that somebody chooses who types this."""
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
        keyboard.send_text(typed)
        return choice.chosen(definition_paths(), "offline")


def test_a_wrong_choice_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen("nonsense\n1\n") == definition_paths()["appointment"]
    assert "Please type a number from 1 to" in capsys.readouterr().err


def test_only_definitions_that_talk_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen("research\ncleanup\ngreeting\n") == definition_paths()["greeting"]
    shown = capsys.readouterr().err
    assert "code_review" not in shown
    assert "troubleshooting" in shown
    assert shown.count("Please type a number") == 2


def test_the_tab_key_completes_a_name() -> None:
    assert chosen("trou\t\n") == definition_paths()["troubleshooting"]


def test_the_end_of_input_is_no_choice() -> None:
    assert chosen("\x04") is None


def test_a_file_wins_over_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choice.located("quiz") == definition_paths()["quiz"]
    Path("quiz").touch()
    assert choice.located("quiz") == Path("quiz")
    with pytest.raises(Failure, match="a shipped definition is named without its ending: quiz"):
        choice.located("quiz.json")


@pytest.mark.parametrize("name", definition_paths())
def test_every_shipped_definition_is_found_by_the_name_in_it(name: str) -> None:
    shipped = definition_paths()
    inside = choice.opened(shipped[name]).name
    assert choice.named(inside, shipped) == shipped[name]
    assert choice.called(shipped[name], shipped) == name
