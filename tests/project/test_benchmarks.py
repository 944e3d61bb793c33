"""The benchmarks run and print their table; of what they measure, only the sizes of prompts are
judged here.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import certain, claim, form14
from benchmarks.figures import Figure, table
from benchmarks.form import MESSAGES, definition, long_definition, replies
from benchmarks.prompts import figures, requests, sent, shared
from benchmarks.tokens import counter
from benchmarks.words import wrong
from llm_fsm.documents.check import check
from llm_fsm.testing import play
from llm_fsm.testing.scenarios.loader import read_suite
from paths import ROOT


@pytest.mark.parametrize(
    "document",
    [definition(), long_definition(20), certain.definition()],
    ids=["form", "20 states", "visit"],
)
def test_the_measured_definitions_have_no_findings(document: dict) -> None:
    found = [finding.name for finding in check(document)]
    assert set(found) <= {"guard-before-change"}  # nothing acts there: it is a hint, once a file


DIALOGUES = sorted((ROOT / "benchmarks" / "dialogues").rglob("*.json"))


@pytest.mark.parametrize("path", DIALOGUES, ids=lambda path: path.stem)
def test_the_labels_of_a_dialogue_name_what_its_definition_has(path: Path) -> None:
    assert [len(play.case.turns) > 1 for play in read_suite(path).plays] == [True]


def test_the_measured_conversation_visits_every_state_and_keeps_the_correction() -> None:
    played = play(definition(), MESSAGES, replies=replies(), greet=True)
    assert set(played.states) | {"greeting"} == set(definition()["states"])
    assert played.context["email"] == "m.gonzalez@example.org"
    assert played.ended


def test_the_longer_conversation_in_german_ends_as_it_should() -> None:
    played = play(claim.definition(), claim.MESSAGES, replies=claim.replies(), greet=True)
    assert set(played.states) | {"begruessung"} == set(claim.definition()["states"])
    assert (played.context["betrag"], played.ended) == (4800, True)


@pytest.mark.parametrize("said", [certain.SHORT, certain.TALKS], ids=["short", "talks"])
def test_a_conversation_with_turns_without_a_model_ends_as_with_one(
    said: tuple[certain.Said, ...],
) -> None:
    fast, slow = (asyncio.run(certain.held(said, fast=on)) for on in (True, False))
    assert (fast.context, fast.state) == (slow.context, slow.state)
    assert (fast.calls, slow.calls, fast.state) == (len(said) - fast.alone, len(said), "done")


@pytest.mark.parametrize(
    "talk",
    [(definition(), MESSAGES, replies()), (claim.definition(), claim.MESSAGES, claim.replies())],
    ids=["form", "claim"],
)
def test_prompts_begin_as_earlier_ones_did(talk: tuple[Any, Any, Any]) -> None:
    _, whole, share = asyncio.run(figures(*talk, counter()))
    assert share >= 0.7  # a short system message is a smaller part of a prompt
    assert whole * (1 - share) <= 280


@pytest.mark.parametrize("form", ["object", "list"])
def test_a_form_of_14_keys_keeps_its_bars(form: Any) -> None:
    found = form14.figures(form, counter())
    assert all(before <= most for before, most in zip(found.before, found.allowed, strict=True))
    assert found.uncached <= 250
    assert found.share >= 0.7
    assert found.static <= 500


def test_a_turn_takes_no_more_tokens_among_a_thousand_states_as_among_ten() -> None:
    count = counter()

    def mean(states: int) -> float:
        stays = {
            "transition": {"target_state": "step_0", "context_update": {}},
            "message": "Please go on.",
        }
        asked = asyncio.run(requests(long_definition(states), ["an answer"] * 12, [stays]))
        return sum(count(sent(request)) for request in asked[1:]) / 12

    assert mean(1000) <= mean(10) * 1.2


def test_the_table_says_what_is_over_its_bar() -> None:
    lines = table(
        [Figure("quick", 1.0, 2.0), Figure("slow", 3.0, 2.0), Figure("free", 9.0)]
    ).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["quick", "1.000", "2", "pass"],
        ["slow", "3.000", "2", "OVER"],
        ["free", "9.000"],
    ]


def test_random_cuts_of_replies_give_their_words() -> None:
    assert wrong(200, seed=7) == 0


def test_the_share_of_a_prefix_counts_what_an_earlier_text_began_with() -> None:
    assert shared(["abcd", "abxx", "abcdef"], len) == (10, 2 + 4)


@pytest.mark.timeout(600)
def test_one_command_measures_everything() -> None:
    command = (sys.executable, "-m", "benchmarks", "--once")
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert len([line for line in done.stdout.splitlines() if line.endswith(("pass", "OVER"))]) == 17


def test_an_interrupted_run_says_so_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(starts: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.startup, "measure", interrupted)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick"])
    with pytest.raises(SystemExit, match="130"):
        command.main()
    assert capsys.readouterr() == ("", "\ninterrupted before all was measured\n")
