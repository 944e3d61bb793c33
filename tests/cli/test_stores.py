"""The store that the command line uses: an option, a variable, a file, or the user's data folder."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.stores import FILE_VARIABLE, VARIABLE, open_existing, open_store


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_FSM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)


def path_of(store: object) -> str:
    return os.path.basename(getattr(store, "path", "memory"))


def test_the_option_comes_before_a_variable_and_that_before_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert path_of(open_store(None)) == "conversations.db"
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path}/variable.db")
    assert path_of(open_store(None)) == "variable.db"
    assert path_of(open_store(f"sqlite:///{tmp_path}/option.db")) == "option.db"


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  \n"])
def test_a_file_holds_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    (tmp_path / "secret").write_text(f"sqlite:///{tmp_path}/file.db{end}", newline="")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "secret"))
    assert path_of(open_store(None)) == "file.db"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"sqlite:///a.db\nsqlite:///b.db", b"\xff\xfe", None]
)
def test_a_file_without_one_url_is_a_usage_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    place = tmp_path / "secret"
    if content is not None:
        place.write_bytes(content)
    monkeypatch.setenv(FILE_VARIABLE, str(place))
    with pytest.raises(click.UsageError, match=FILE_VARIABLE) as caught:
        open_store(None)
    assert str(place) in caught.value.message


def test_both_variables_at_once_are_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "memory")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "secret"))
    with pytest.raises(click.UsageError, match="set one of them"):
        open_store(None)


def test_an_error_names_the_variable_and_not_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "postgrsql://bots:hunter2@db/bots")
    with pytest.raises(click.UsageError, match=VARIABLE) as caught:
        open_store(None)
    assert "hunter2" not in caught.value.message
    assert "--db" not in caught.value.message


def test_reading_makes_no_file_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_existing(None) is None
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path}/missing.db")
    with pytest.raises(Failure, match="no such file"):
        open_existing(None)
    assert not (tmp_path / "missing.db").exists()
