"""Conversation tests under pytest: every case of a `*.test.json` file is a test."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import warm_parent
from paths import ROOT

CASES = [
    {"name": "good", "steps": [{"say": "x", "reply": {"to": "done"}, "expect": "done"}]},
    {
        "name": "bad one",
        "steps": [{"say": "x", "reply": {"to": "done"}, "expect": {"ended": False}}],
    },
    {"name": "later", "skip": "not yet", "steps": []},
]
DEFINITION = {
    "name": "d",
    "initial_state": "ask",
    "states": {
        "ask": {"reply": "x", "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Bye."},
    },
}


COMMAND = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest as a user runs it: the plugin comes by its entry point."""
    command = (*COMMAND, *arguments)
    return warm_parent.run(command, cwd=folder, capture_output=True, text=True)


def test_cases_are_tests_and_failures_have_their_line(tmp_path: Path) -> None:
    text = json.dumps({"definition": DEFINITION, "cases": CASES}, indent=1)
    (tmp_path / "a.test.json").write_text(text)
    done = run(tmp_path)
    column = 16
    line = text.splitlines().index('      "ended": false') + 1
    assert done.returncode == 1
    assert (
        f"a.test.json:{line}:{column}: step 1: expected ended false, but it is true" in done.stdout
    )
    assert "1 failed, 1 passed, 1 skipped" in done.stdout
    assert "not yet" in done.stdout
    assert "Traceback" not in done.stdout
    assert "1 passed, 2 deselected" in run(tmp_path, "-k", "good").stdout
    assert "1 passed" in run(tmp_path, "a.test.json::good").stdout


def test_cases_of_several_files_pass_in_any_order(tmp_path: Path) -> None:
    cases = [{**CASES[0], "name": f"good {number}"} for number in range(3)]
    text = json.dumps({"definition": DEFINITION, "cases": cases})
    for name in ("a", "b"):
        (tmp_path / f"{name}.test.json").write_text(text)
    # Sorted by the name of the case, the files take turns.
    (tmp_path / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items.sort(key=lambda item: item.name)\n"
    )
    done = run(tmp_path)
    assert "6 passed" in done.stdout, done.stdout


def test_a_file_that_cannot_be_used_is_an_error_of_collection(tmp_path: Path) -> None:
    (tmp_path / "a.test.json").write_text('{"definition": "order",\n "steeps": []}')
    done = run(tmp_path)
    assert done.returncode == 2
    assert 'a.test.json:2:2: error: unknown key "steeps"; did you mean "steps"?' in done.stdout


SHOP = {
    "name": "shop",
    "initial_state": "help",
    "tools": {"stock": {"registered": "stock"}},
    "context_schema": {"type": "object", "properties": {"left": {"type": "integer"}}},
    "states": {
        "help": {"purpose": "Help", "tools": ["stock"], "transitions": [{"target_state": "bye"}]},
        "bye": {"reply": "Bye."},
    },
}
ASKS_THE_STOCK = {
    "name": "asks the stock",
    "steps": [
        {
            "say": "mugs?",
            "replies": [
                {"calls": [{"name": "stock", "arguments": {"item": "mug"}}]},
                {"to": "bye"},
            ],
            "expect": {"tools": [{"name": "stock", "error": False}]},
        }
    ],
}
STOCK = "def stock(item: str) -> int:\n    return 7\n\n\nTOOLS = [stock]\n"


def shop(folder: Path, settings: str) -> Path:
    """Write a test whose tool the case does not play, and the settings of pytest."""
    (folder / "shop.test.json").write_text(
        json.dumps({"definition": SHOP, "cases": [ASKS_THE_STOCK]})
    )
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}\n")
    return folder


def test_a_tool_that_nobody_brings_is_named_with_the_ways_to_bring_it(tmp_path: Path) -> None:
    done = run(shop(tmp_path, ""))
    assert done.returncode == 1
    assert "the tool 'stock' was called, and the case says nothing of it" in done.stdout
    assert "--tools FILE.py (with plain pytest: the setting llm_fsm_tools)" in done.stdout


def test_the_setting_brings_functions_from_beside_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(STOCK)
    inner = tmp_path / "bots"
    inner.mkdir()
    shop(tmp_path, "llm_fsm_tools = tools.py")
    (tmp_path / "shop.test.json").rename(inner / "shop.test.json")
    assert "1 passed" in run(tmp_path).stdout
    assert "1 passed" in run(tmp_path, "bots").stdout


def test_the_variable_brings_functions_to_plain_pytest_and_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my tools.py").write_text(STOCK)
    monkeypatch.setenv("LLM_FSM_TOOLS", "my tools.py")
    assert "1 passed" in run(shop(tmp_path, "")).stdout
    command = (sys.executable, "-m", "llm_fsm", "test", ".")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout


def test_a_file_of_the_setting_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    shop(tmp_path, "llm_fsm_tools = tools.py")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "the setting llm_fsm_tools: " in done.stdout
    assert "tools.py: there is no such file" in done.stdout
    (tmp_path / "tools.py").write_text("x = 1\n1 / 0\n")
    assert "tools.py:2: it could not be run: ZeroDivisionError" in run(tmp_path).stdout


def test_nothing_is_loaded_before_there_is_such_a_file() -> None:
    loaded = "print([m for m in sys.modules if m.startswith('llm_fsm.')])"
    program = f"import sys; import llm_fsm.testing.pytest_plugin; {loaded}"
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['llm_fsm.testing', 'llm_fsm.testing.pytest_plugin']"


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["entry-points"]["pytest11"] == {
            "llm_fsm": "llm_fsm.testing.pytest_plugin"
        }


def test_a_case_that_expects_nothing_is_a_warning(tmp_path: Path) -> None:
    case = {"name": "idle", "steps": [{"say": "x", "reply": {"to": "done"}}]}
    (tmp_path / "a.test.json").write_text(json.dumps({"definition": DEFINITION, "cases": [case]}))
    done = run(tmp_path)
    assert done.returncode == 0
    assert "CaseWarning: a.test.json:1:" in done.stdout
    # Warm modules make warnings of pytest's own, so an interpreter that has none is started.
    strict = subprocess.run((*COMMAND, "-W", "error"), cwd=tmp_path, check=False)
    assert strict.returncode == 2


FOREIGN = {
    "tsconfig": '{"compilerOptions": {"noEmit": true}}',
    "comments": '{\n  // of TypeScript\n  "compilerOptions": {},\n}',
    "appsettings": '{"Logging": {"LogLevel": {"Default": "Warning"}}}',
    "fixtures": "[1, 2]",
    "words": '"definition"',
    "empty": "",
    "binary": "\ufffd\x00",
    "cases": '{"cases": [{"input": 1}], "schemaVersion": 2, "authors": []}',
    "definition": '{"definition": {"a": 1}, "runner": "jest"}',
    "machine": json.dumps(DEFINITION),
    "deep": "[" * 100_000,
}


def test_files_of_other_programs_are_passed_over_in_plain_pytest(tmp_path: Path) -> None:
    for name, text in FOREIGN.items():
        (tmp_path / f"{name}.test.json").write_text(text, encoding="utf-8")
    (tmp_path / "latin.test.json").write_bytes(b'{"a": "\xe9"}')
    (tmp_path / "ours.test.json").write_text(
        json.dumps({"definition": DEFINITION, "cases": CASES[:1], "x-by": "me"})
    )
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    done = run(tmp_path)
    assert done.returncode == 0
    assert "2 passed" in done.stdout


def test_a_file_that_is_named_or_probably_meant_is_ours(tmp_path: Path) -> None:
    (tmp_path / "tsconfig.test.json").write_text(FOREIGN["tsconfig"])
    assert run(tmp_path, "tsconfig.test.json").returncode != 0
    (tmp_path / "half.test.json").write_text('{"definition": "order", "cases": [')
    done = run(tmp_path)
    assert done.returncode == 2
    assert "half.test.json:1" in done.stdout
    assert "tsconfig" not in done.stdout
