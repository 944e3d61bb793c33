"""Tests that are played in the studio use its models alone, and files of its folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_fsm.editor.folder import Folder
from llm_fsm.editor.models import RunTestsBody
from llm_fsm.editor.scenarios import run_tests
from llm_fsm.editor.studio import Studio
from llm_fsm.server.problems import Problem

BOT = {
    "name": "bot",
    "initial_state": "hello",
    "states": {
        "hello": {
            "purpose": "Greet",
            "transitions": [{"target_state": "bye", "description": "Done"}],
        },
        "bye": {"kind": "final", "reply": "Bye."},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "bots"
    place.mkdir()
    (place / "bot.json").write_text(json.dumps(BOT), encoding="utf-8")
    (tmp_path / "outside.json").write_text(json.dumps(BOT), encoding="utf-8")
    return place


def written(folder: Path, **setup: object) -> None:
    case = {"name": "one", "steps": [{"say": "Hi"}]}
    document = {"definition": "bot.json", "cases": [case], **setup}
    (folder / "bot.test.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    "model",
    ["openai/gpt-4o-mini", "ollama/llama3", "scripted:../secret.json", "http://evil.example"],
)
@pytest.mark.parametrize("path", ["bot.json", "bot.test.json"])
def test_a_test_that_names_another_model_is_not_played(folder: Path, model: str, path: str) -> None:
    written(folder, model=model)
    found = run_tests(Studio(folder=Folder(str(folder))), RunTestsBody(path=path))
    assert found.results == []
    assert found.reason is not None
    assert "names no model" in found.reason
    allowed = Studio(folder=Folder(str(folder)), models=["offline", "other"])
    assert "names no model" in str(run_tests(allowed, RunTestsBody(path=path)).reason)


def test_a_test_may_name_a_model_of_the_studio(folder: Path) -> None:
    written(folder, model="offline")
    found = run_tests(Studio(folder=Folder(str(folder))), RunTestsBody(path="bot.json"))
    assert [row.passed for row in found.results] == [True]


@pytest.mark.parametrize(
    "setup",
    [
        {"definition": "../outside.json"},
        {"definition": "/etc/hostname.json"},
        {"definition": "../bots/../outside.json"},
        {"flows": {"sub": "../outside.json"}},
    ],
)
def test_a_test_that_names_a_file_out_of_the_folder_is_403(
    folder: Path, setup: dict[str, object]
) -> None:
    written(folder, model="offline", **setup)
    with pytest.raises(Problem) as caught:
        run_tests(Studio(folder=Folder(str(folder))), RunTestsBody(path="bot.test.json"))
    assert caught.value.status == 403
