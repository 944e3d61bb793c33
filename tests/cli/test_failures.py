"""Errors of the host's code in the terminal: one line for each, and HANDLERS in the file of
--tools.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk, desk
from llm_fsm.tools.failures import LOGGER

__all__ = ["desk"]

TOOLS = """from llm_fsm import create_handler


def work(ctx):
    raise ValueError("no such table")


def hook(occasion):
    raise RuntimeError("a hook")


def seen(occasion):
    return {"seen": True}


FUNCTIONS = [work]
HANDLERS = [
    create_handler("hook").at("pre_processing").do(hook),
    create_handler("seen").at("start_conversation").do(seen),
]
"""
ASK = {"purpose": "What is it?", "transitions": [{"target_state": "work"}]}
WORK = {
    "kind": "task",
    "execute": "work",
    "max_retries": 0,
    "transitions": [{"target_state": "end"}],
}
GO = {"transition": {"target_state": "work"}, "message": "One moment."}


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(
        document if isinstance(document, str) else json.dumps(document), encoding="utf-8"
    )
    return path


@pytest.fixture
def bot(tmp_path: Path) -> dict[str, str]:
    document = {
        "name": "shop",
        "initial_state": "ask",
        "states": {"ask": ASK, "work": WORK, "end": {"purpose": "Bye"}},
    }
    alone = {
        "name": "alone",
        "initial_state": "work",
        "states": {"work": {**WORK, "transitions": []}},
    }
    step = {"say": "tea", "reply": {"to": "work", "message": "One moment."}, "expect": "end"}
    case = {"cases": [{"name": "fails", "steps": [step]}]}
    files = {
        "flow": written(tmp_path, "flow.json", document),
        "alone": written(tmp_path, "alone.json", alone),
        "replies": written(tmp_path, "replies.json", [{"message": "Hello."}, GO]),
        "tools": written(tmp_path, "tools.py", TOOLS),
        "case": written(tmp_path, "flow.test.json", {"definition": "flow.json", **case}),
    }
    return {name: str(path) for name, path in files.items()} | {
        "db": f"sqlite:///{tmp_path}/bots.db"
    }


def test_chat_shows_one_line_for_each_failure_and_stays_open(
    desk: Desk, bot: dict[str, str]
) -> None:
    model = f"scripted:{bot['replies']}"
    found = desk.run(
        "chat", bot["flow"], "-m", model, "--tools", bot["tools"], "--db", bot["db"], stdin=b"tea\n"
    )
    assert found.code == 0
    assert "something went wrong" in found.out
    lines = [line for line in found.err.splitlines() if "failed:" in line]
    assert lines == [
        f"handler 'hook' failed: RuntimeError: a hook ({bot['tools']}:9)",
        f"function 'work' failed: ValueError: no such table ({bot['tools']}:5)",
    ]
    assert "Traceback" not in found.err
    shown = desk.run("conversations", "show", "--last", "--db", bot["db"], "--why", "--turn", "1")
    assert f"function work failed: ValueError: no such table ({bot['tools']}:5)" in shown.out
    assert "turn 0" not in shown.out
    as_json = desk.run("conversations", "show", "--last", "--db", bot["db"], "--why", "--json")
    notes = json.loads(as_json.out)["turns"][1]["why"]["notes"]
    failures = [note["error"] for note in notes if note["type"] == "FunctionFailed"]
    assert any("no such table" in error for error in failures)
    assert desk.run("conversations", "show", "--last", "--db", bot["db"], "--turn", "9").code == 2


def test_chat_shows_the_traceback_with_v(desk: Desk, bot: dict[str, str]) -> None:
    model = f"scripted:{bot['replies']}"
    found = desk.run(
        "chat",
        bot["flow"],
        "-v",
        "-m",
        model,
        "--tools",
        bot["tools"],
        "--db",
        "memory",
        stdin=b"tea\n",
    )
    assert 'raise ValueError("no such table")' in found.err
    assert not logging.getLogger(LOGGER).handlers, "the command leaves the log as it was"


def test_run_shows_the_line_and_ends_with_1(desk: Desk, bot: dict[str, str]) -> None:
    found = desk.run(
        "run", bot["alone"], "-m", "offline", "--tools", bot["tools"], "--db", "memory"
    )
    assert found.code == 1
    assert f"function 'work' failed: ValueError: no such table ({bot['tools']}:5)" in found.err


def test_test_shows_the_line_beside_the_capture_of_pytest(desk: Desk, bot: dict[str, str]) -> None:
    found = desk.run("test", bot["case"], "--tools", bot["tools"])
    assert found.code == 1
    assert f"function 'work' failed: ValueError: no such table ({bot['tools']}:5)" in found.err


def test_a_chat_that_ends_as_exhausted_has_the_exit_code_1(
    desk: Desk, bot: dict[str, str], tmp_path: Path
) -> None:
    checked = {"name": "k", "description": "d", "check": {"logic": {"==": [1, 2]}}}
    work = {"kind": "task", "purpose": "Work", "max_retries": 0, "key_results": [checked]}
    document = {"name": "shop", "initial_state": "ask", "states": {"ask": ASK, "work": work}}
    checked["check"] = {"==": [1, 2]}
    flow = written(tmp_path, "exhausted.json", document)
    replies = written(tmp_path, "exhausted.replies.json", [{"message": "Hello."}, GO, "done"])
    found = desk.run(
        "chat", str(flow), "-m", f"scripted:{replies}", "--db", "memory", stdin=b"tea\n"
    )
    assert found.code == 1, found.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("HANDLERS = 3\n", "HANDLERS is a list of handlers, not a int"),
        ("HANDLERS = [print]\n", "HANDLERS holds <built-in function print>, which is no handler"),
        ("", "it has none of TOOLS, FUNCTIONS, HANDLERS"),
    ],
)
def test_a_wrong_list_of_handlers_is_said(
    text: str, said: str, desk: Desk, bot: dict[str, str]
) -> None:
    tools = desk.write("wrong.py", text)
    found = desk.run("chat", bot["flow"], "-m", "offline", "--tools", tools, "--db", "memory")
    assert found.code == 2
    assert said in found.err
