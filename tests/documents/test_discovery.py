"""Which files paths stand for, and what `check_folder` says about them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.documents.discovery import (
    NoDefinitionError,
    below,
    definitions,
    looks_like_definition,
    settings_file,
)
from llm_fsm.lint.config import ConfigError
from llm_fsm.testing import check_folder

GOOD: dict[str, Any] = {"name": "n", "initial_state": "a", "states": {"a": {"purpose": "Greet"}}}
ODD: dict[str, Any] = {**GOOD, "colour": 1}
BAD: dict[str, Any] = {**GOOD, "initial_state": "b"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "bots/b.json": GOOD,
        "bots/a.json": GOOD,
        "bots/deep/c.json": GOOD,
        "bots/deep/c.test.json": {"definition": "c.json", "cases": []},
        "bots/deep/notes.txt": GOOD,
        "bots/.hidden/d.json": BAD,
        "bots/node_modules/e.json": BAD,
        "bots/package.json": {"name": "x"},
        "bots/list.json": [GOOD],
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def relative(paths: Any, folder: Path) -> list[str]:
    return [Path(path).relative_to(folder).as_posix() for path in paths]


def test_a_folder_stands_for_the_definitions_below_it(folder: Path) -> None:
    assert relative(below(folder), folder) == ["bots/a.json", "bots/b.json", "bots/deep/c.json"]


def test_a_folder_that_must_not_be_read_stands_for_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir
    closed = str(folder / "bots" / "deep")

    def asked(path: str) -> Any:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", asked)
    assert relative(below(str(folder)), folder) == ["bots/a.json", "bots/b.json", "bots/deep"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("bots/*.json", ["bots/a.json", "bots/b.json", "bots/list.json", "bots/package.json"]),
        ("bots/[ab].json", ["bots/a.json", "bots/b.json"]),
        ("bots/deep/*.json", ["bots/deep/c.json"]),
        ("bots/deep/*.test.json", ["bots/deep/c.test.json"]),
        ("bots/deep/c.test.json", ["bots/deep/c.test.json"]),
        ("bots/**/c.json", ["bots/deep/c.json"]),
        ("bot?", ["bots/a.json", "bots/b.json", "bots/deep/c.json"]),
        ("bots/list.json", ["bots/list.json"]),
        ("missing.json", ["missing.json"]),
    ],
)
def test_patterns_are_expanded_and_files_are_taken_as_they_are(
    folder: Path, pattern: str, expected: list[str]
) -> None:
    assert relative(definitions(str(folder / pattern)), folder) == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    odd = folder / "a[1].json"
    odd.write_text(json.dumps(GOOD), encoding="utf-8")
    assert list(definitions(str(odd))) == [str(odd)]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("bots/.hidden", None),
        ("empty", "no definition in this folder"),
        ("x*", "no file"),
        ("bots/deep/*test.json", "only conversation tests"),
    ],
)
def test_nothing_is_told(folder: Path, path: str, said: str | None) -> None:
    (folder / "empty").mkdir()
    if said is None:
        assert relative(definitions(str(folder / path)), folder) == ["bots/.hidden/d.json"]
        return
    with pytest.raises(NoDefinitionError, match=said):
        list(definitions(str(folder / path)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"states": {}}', True),
        ('{"states" : []}', True),
        ('{"states": 3}', False),
        ('{"states": {', True),
        ('[{"states": {}}]', False),
        ('{"state": {}}', False),
        ("[" * 5000 + '"states":', True),
    ],
)
def test_a_definition_is_an_object_with_states(
    tmp_path: Path, content: str, expected: bool
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    assert looks_like_definition(path) is expected


def test_a_pipe_in_a_folder_is_no_definition_and_nobody_waits_for_it(folder: Path) -> None:
    os.mkfifo(folder / "bots" / "pipe.json")
    assert "bots/pipe.json" not in relative(below(folder / "bots"), folder)


def test_the_nearest_settings_are_those_of_the_folder_or_one_above(folder: Path) -> None:
    (folder / "pyproject.toml").touch()
    assert settings_file(folder / "bots" / "deep") == str(folder / "pyproject.toml")
    (folder / "bots" / "pyproject.toml").touch()
    assert settings_file(folder / "bots" / "deep") == str(folder / "bots" / "pyproject.toml")


def test_check_folder_is_content_with_good_definitions(folder: Path) -> None:
    assert check_folder(folder / "bots") == []


def test_check_folder_raises_with_all_findings(folder: Path) -> None:
    (folder / "bots" / "a.json").write_text(json.dumps({**BAD, "colour": 1}), encoding="utf-8")
    with pytest.raises(AssertionError) as caught:
        check_folder(str(folder))
    assert "2 findings in 3 files:" in str(caught.value)
    assert "unknown-initial-state F102" in str(caught.value)
    assert "unknown-key S101" in str(caught.value)


def test_check_folder_gives_what_does_not_count_and_takes_the_options_of_the_command(
    folder: Path,
) -> None:
    (folder / "bots" / "a.json").write_text(json.dumps(ODD), encoding="utf-8")
    assert [found.name for found in check_folder(folder)] == ["unknown-key"]
    assert check_folder(folder, fail_on="warning", ignore=["S1"]) == []
    with pytest.raises(AssertionError, match="1 finding:"):
        check_folder(folder, fail_on="warning")
    with pytest.raises(ConfigError, match="there is no rule"):
        check_folder(folder, select=["zzz"])


def test_check_folder_does_not_pass_over_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no definition"):
        check_folder(tmp_path)
