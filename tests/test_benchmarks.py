"""The benchmarks run and print their table; what they measure is not judged here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Figure, table
from benchmarks.form import MESSAGES, definition, long_definition, replies
from benchmarks.prompts import shared
from benchmarks.words import wrong
from llm_fsm.checking import check
from llm_fsm.testing import play

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("document", [definition(), long_definition(20)], ids=["form", "20 states"])
def test_the_measured_definitions_have_no_findings(document: dict) -> None:
    assert check(document) == []


def test_the_measured_conversation_visits_every_state_and_keeps_the_correction() -> None:
    played = play(definition(), MESSAGES, replies=replies(), greet=True)
    assert set(played.states) | {"greeting"} == set(definition()["states"])
    assert played.context["email"] == "m.gonzalez@example.org"
    assert played.ended


def test_the_table_says_what_is_over_its_bar() -> None:
    lines = table([Figure("quick", 1.0, 2.0), Figure("slow", 3.0, 2.0), Figure("free", 9.0)]).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["quick", "1.000", "2", "pass"],
        ["slow", "3.000", "2", "OVER"],
        ["free", "9.000"],
    ]


def test_random_cuts_of_replies_give_their_words() -> None:
    assert wrong(200, seed=7) == 0


def test_the_share_of_a_prefix_counts_what_an_earlier_text_began_with() -> None:
    assert shared(["abcd", "abxx", "abcdef"], len) == (10, 2 + 4)


def test_one_command_measures_everything() -> None:
    command = (sys.executable, "-m", "benchmarks", "--quick")
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert len([line for line in done.stdout.splitlines() if line.endswith(("pass", "OVER"))]) == 9
