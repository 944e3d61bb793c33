from __future__ import annotations

import subprocess
from pathlib import Path

import grimp
import pytest

from changed_rooms import changed_files, rooms_of


@pytest.fixture
def graph() -> grimp.ImportGraph:
    made = grimp.ImportGraph()
    for user, used in (
        ("llm_fsm.turn.course", "llm_fsm.session.values"),
        ("llm_fsm.engine.shell", "llm_fsm.turn.course"),
        ("llm_fsm.session.other", "llm_fsm.session.values"),
        ("llm_fsm.turn.course", "llm_fsm._json"),
    ):
        made.add_import(importer=user, imported=used)
    return made


@pytest.mark.parametrize(
    ("files", "own", "users"),
    [
        (["src/llm_fsm/session/values.py"], {"session"}, {"turn"}),
        (["src/llm_fsm/turn/course.py"], {"turn"}, {"engine"}),
        (["src/llm_fsm/_json.py"], set(), {"turn"}),
        (["src/llm_fsm/turn/new.py", "tests/lint/rules/test_x.py"], {"turn", "lint"}, set()),
        (["README.md", "src/llm_fsm/editor/static/index.html", "tests/conftest.py"], set(), set()),
    ],
)
def test_rooms_of_a_change_are_its_own_and_those_that_import_it(
    files: list[str], own: set[str], users: set[str], graph: grimp.ImportGraph
) -> None:
    assert rooms_of(files, graph) == (own, users)


def test_commits_edits_and_new_files_since_the_base_are_the_change(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("kept", "edited"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "base")
    git("switch", "-c", "work")
    (tmp_path / "committed").write_text("2")
    git("add", ".")
    git("commit", "-m", "work")
    (tmp_path / "edited").write_text("3")
    (tmp_path / "new").write_text("4")
    assert changed_files(tmp_path) == ["committed", "edited", "new"]
