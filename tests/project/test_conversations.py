"""The conformance set: conversations as people have them, played as `llm-fsm test
tests/conversations` plays them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_fsm.cli import main
from llm_fsm.definition.names import PATTERNS
from llm_fsm.testing.scenarios.loader import read_suite
from paths import TESTS

FOLDER = TESTS / "conversations"
FILES = sorted(FOLDER.glob("*.test.json"))
CATEGORIES = (
    "happy", "corrections_at_once", "corrections_later", "corrections_after_confirmation", "corrections_dependent",
    "cancellations", "digressions_one", "digressions_nested", "digressions_several_open", "clarifications",
    "repetitions", "skipped", "handover", "silence", "chit_chat", "refusals", "several_answers", "out_of_order",
    "misses", "restarts", "back",
)  # fmt: skip


def cases() -> Sequence[str]:
    """Every conversation, as file and name."""
    return [f"{file.name}::{play.name}" for file in FILES for play in read_suite(file).plays]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.json"))
def test_conversations_go_as_they_should(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["test", str(file)])
    assert code == 0, capsys.readouterr().out


def test_every_category_has_several_conversations() -> None:
    found = cases()
    assert len(found) >= 60
    assert [name for name in CATEGORIES if sum(one.startswith(name) for one in found) < 2] == []


def test_every_pattern_is_switched_on_somewhere() -> None:
    machines = [read_suite(file) for file in FILES]
    assert {name for loaded in machines for name in loaded.definition.patterns} == set(PATTERNS)


def test_a_conversation_that_goes_otherwise_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / "cancellations.test.json").read_text(encoding="utf-8")
    place = tmp_path / "x.test.json"
    place.write_text(
        text.replace("machines/", f"{FOLDER}/machines/").replace(
            '"outcome": "cancelled"', '"outcome": "final"'
        ),
        encoding="utf-8",
    )
    assert main(["test", str(place)]) == 1
    assert "cancelled" in capsys.readouterr().out
