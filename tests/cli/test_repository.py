"""Names of files from the root of the repository, wherever a command runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_command import Desk, desk
from llm_fsm.cli.repository import from_root

__all__ = ["desk"]

BROKEN = {
    "name": "g",
    "initial_state": "a",
    "states": {"a": {"purpose": "?", "transitions": [{"target_state": "c"}]}},
}


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a repository, in which the test runs."""
    folder = tmp_path / "services" / "bot"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return folder


def test_a_file_is_named_from_the_folder_that_holds_the_repository(below: Path) -> None:
    assert from_root("flow.json") == "services/bot/flow.json"
    assert from_root(str(below / "flow.json")) == "services/bot/flow.json"
    assert from_root("../flow.json") == "services/flow.json"


def test_the_workspace_comes_first_where_the_file_is_in_it(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(below.parent))
    assert from_root("flow.json") == "bot/flow.json"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(below / "elsewhere"))
    assert from_root("flow.json") == "services/bot/flow.json"


def test_a_file_in_no_repository_keeps_its_name(below: Path) -> None:
    (below.parent.parent / ".git").rmdir()
    assert from_root("flow.json") == "flow.json"


def test_annotations_and_sarif_of_validate_name_files_from_the_root(desk: Desk) -> None:
    Path(".git").mkdir()
    Path("bot").mkdir()
    Path("bot/flow.json").write_text(json.dumps(BROKEN))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GITHUB_WORKSPACE", raising=False)
        patch.chdir("bot")
        assert "file=bot/flow.json," in desk.run("validate", "flow.json", "--format", "github").out
        sarif = json.loads(desk.run("validate", "flow.json", "--format", "sarif").out)
        assert "flow.json:1:" in desk.run("validate", "flow.json", "--format", "concise").out
    assert sarif["runs"][0]["artifacts"][0]["location"]["uri"] == "bot/flow.json"
