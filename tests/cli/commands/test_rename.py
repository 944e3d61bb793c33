"""`llm-fsm rename`: a state or a key has another name in a definition, its tests and its texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli_command import Desk
from llm_fsm.documents.check import check
from paths import ROOT

SHIPPED = ROOT / "fsm_definitions"
TESTS = ROOT / "tests" / "conversations" / "shipped"


def copy(folder: Path, name: str) -> Path:
    """Copy a shipped definition with its texts and its tests."""
    for found in SHIPPED.glob(f"{name}.*"):
        shutil.copy(found, folder)
    suite = json.loads((TESTS / f"{name}.test.json").read_text(encoding="utf-8"))
    suite["definition"] = f"{name}.json"
    (folder / f"{name}.test.json").write_text(json.dumps(suite), encoding="utf-8")
    return folder / f"{name}.json"


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("appointment", ("when", "day_and_time")),
        ("appointment", ("phone", "call_back")),
        ("order", ("size", "diameter")),
        ("order", ("address", "place")),
        ("reservation", ("guests", "people")),
        ("returns", ("wish", "wanted")),
        ("support_desk", ("device", "thing")),
    ],
)
def test_the_definition_its_texts_and_its_tests_follow(
    desk: Desk, name: str, words: tuple[str, str]
) -> None:
    file = copy(desk.folder, name)
    old, new = words
    before = [one.code for one in check(str(file))]
    done = desk.run("rename", file.name, old, new)
    assert done.code == 0, done.err
    assert [one.code for one in check(str(file))] == before
    assert desk.run("test", f"{name}.test.json").code == 0
    assert desk.run("rename", file.name, new, old).code == 0
    assert file.read_bytes() == (SHIPPED / file.name).read_bytes()


def test_all_files_that_change_are_named(desk: Desk) -> None:
    said = desk.run("rename", copy(desk.folder, "returns").name, "wish", "wanted").err
    ends = ["returns.json", ".test.json", ".de.po", ".es.po", ".fr.po", ".tr.po"]
    assert [end for end in ends if end not in said] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "x"), "there is no state and no context key 'nowhere'"),
        (("confirm", "placed"), "there is a state 'placed' already"),
        (("size", "pizza"), "there is a key 'pizza' already"),
        (("address", "x", "--key"), "there is no context key 'address'"),
        (("address", ""), "NEW is empty"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    file = copy(desk.folder, "order")
    before = {path: path.read_bytes() for path in desk.folder.iterdir()}
    done = desk.run("rename", file.name, *words)
    assert done.code == 2
    assert said in done.err
    assert {path: path.read_bytes() for path in desk.folder.iterdir()} == before


def test_nothing_is_written_where_one_file_cannot_follow(desk: Desk) -> None:
    file = copy(desk.folder, "order")
    (desk.folder / "order.de.po").write_text('msgid "a\nmsgstr broken', encoding="utf-8")
    before = {path: path.read_bytes() for path in desk.folder.iterdir()}
    done = desk.run("rename", file.name, "address", "place")
    assert done.code == 1
    assert "order.de.po" in done.err
    assert {path: path.read_bytes() for path in desk.folder.iterdir()} == before


def test_positions_of_the_studio_follow_a_state(desk: Desk) -> None:
    file = copy(desk.folder, "order")
    layout = desk.folder / "order.layout.json"
    layout.write_text('{"positions": {"address": {"x": 1, "y": 2}}}', encoding="utf-8")
    assert desk.run("rename", file.name, "address", "place").code == 0
    assert json.loads(layout.read_text())["positions"] == {"place": {"x": 1, "y": 2}}
