"""`llm-fsm conversations stats`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.cli import main
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER

DAY = 86_400.0


def test_counts_per_state_and_per_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'bots.db'}"
    moment = [0.0]
    replies = [
        reply("hello", "Hm?"),
        reply("bar"),
        reply("bye", "Bye.", name="Ada"),
        reply("hello", "Hm?"),
    ]
    with Machine.from_dict(
        GREETER, model=ScriptedLLM(replies), store=url, clock=lambda: moment[0]
    ) as machine:
        first = machine.start(conversation_id="a", greet=False)
        first.send("x")
        moment[0] = DAY
        first.send("Ada")
        machine.start(conversation_id="b", greet=False).send("y")
    assert main(["conversations", "stats", "--db", url, "--json"]) == 0
    found: Any = json.loads(capsys.readouterr().out)
    assert (found["conversations"], found["ended"]) == (2, 1)
    states = {line["state"]: line for line in found["states"]}
    assert (states["hello"]["turns"], states["hello"]["dropped"]) == (5, 1)
    assert states["hello"]["refusals"] >= 1
    assert [(line["day"], line["turns"]) for line in found["days"]] == [
        ("1970-01-01", 2),
        ("1970-01-02", 3),
    ]
    assert main(["conversations", "stats", "--db", url, "--since", "1970-01-02"]) == 0
    text = capsys.readouterr().out
    assert "2 conversations, 1 of them ended" in text
    assert "1970-01-01" not in text
