"""`llm-fsm test --watch`: every change that matters is seen, wherever the file lies; what it writes itself is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk, desk
from llm_fsm.cli.commands.test import watch as test_watch
from llm_fsm.cli.commands.test.watch import followed

__all__ = ["desk"]

STEPS = [
    {"say": "a", "reply": {"to": "inner"}, "expect": {"text": "Ask"}},
    {"say": "b", "reply": {"to": "end"}, "expect": {"text": "Over"}},
]
INNER = {
    "name": "inner",
    "initial_state": "ask",
    "states": {"ask": {"reply": "Ask", "transitions": [{"target_state": "end", "description": "e"}]}, "end": {}},
}
OUTER = {
    "name": "outer",
    "initial_state": "hello",
    "states": {
        "hello": {"purpose": "Greet", "transitions": [{"target_state": "inner", "description": "i"}]},
        "inner": {"kind": "subflow", "flow": "inner.json", "transitions": [{"target_state": "bye"}]},
        "bye": {"reply": "Over"},
    },
}


@pytest.fixture
def shop(desk: Desk) -> Desk:
    for folder in ("flows", "tests"):
        (desk.folder / folder).mkdir()
    desk.write("flows/outer.json", OUTER)
    desk.write("flows/inner.json", INNER)
    desk.write("tests/a.test.json", {"definition": "../flows/outer.json", "cases": [{"name": "a", "steps": STEPS}]})
    return desk


def watched(shop: Desk, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], Any]) -> list[str]:
    """What the command says of the file at its start and after each change; then the user ends it."""
    waiting, looks = list(changes), 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks % 2:  # one look in between, at which nothing may happen
            return
        if not waiting:
            raise KeyboardInterrupt
        waiting.pop(0)()

    monkeypatch.setattr(test_watch.time, "sleep", sleep)
    done = shop.run("test", "tests", "--watch", "--coverage", "tests/coverage.json")
    assert done.code == 2
    return [line for line in done.out.splitlines() if line.startswith("tests") or "error:" in line]


def test_every_file_that_the_tests_read_is_looked_at(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, outer = Path("flows/inner.json"), Path("flows/outer.json")
    text, words = inner.read_text(), outer.read_text()
    seen = watched(
        shop,
        monkeypatch,
        lambda: outer.write_text(words.replace("Over", "Finished")),
        lambda: outer.write_text(words + "}"),
        lambda: outer.write_text(words),
        lambda: inner.write_text(text[:-1]),
        inner.unlink,
        lambda: inner.write_text(text),
        lambda: os.utime("tests/a.test.json", (1, 1)),
    )
    good, bad, none = "tests/a.test.json .", "tests/a.test.json F", "tests/a.test.json E"
    assert [line for line in seen if line.startswith("tests")] == [good, bad, none, good, none, none, good, good]


def test_files_of_tests_that_come_and_go_are_noticed(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    test, new = Path("tests/a.test.json"), Path("tests/deep/b.test.json")
    text = test.read_text()
    new.parent.mkdir()
    seen = watched(
        shop,
        monkeypatch,
        lambda: new.write_text(text.replace("../flows", "../../flows")),
        test.unlink,
        new.unlink,
        lambda: test.write_text(text),
    )
    a, b = "tests/a.test.json .", "tests/deep/b.test.json ."
    assert seen == [a, a, b, b, a]


def test_what_is_followed_stands_in_files_that_may_be_broken(shop: Desk) -> None:
    here = [os.path.join("flows", "outer.json"), os.path.join("flows", "inner.json")]
    assert followed(["tests/a.test.json"]) == here
    Path("flows/inner.json").write_text("{")
    assert followed(["tests/a.test.json"]) == here
    Path("flows/outer.json").unlink()
    assert followed(["tests/a.test.json", "tests/gone.test.json"]) == here[:1]
    shop.write("tests/inline.test.json", {"definition": OUTER, "steps": []})
    assert followed(["tests/inline.test.json"]) == [os.path.join("tests", "inner.json")]
