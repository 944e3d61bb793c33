"""The faults that are planted to measure the checker: known, repeatable, and found."""

from __future__ import annotations

import pytest

from benchmarks.mutations import BAR, KINDS, definitions, false_alarms, main, plant, table
from llm_fsm.lint.registry import BY_NAME


def test_the_untouched_definitions_have_no_findings() -> None:
    assert false_alarms(definitions()) == []


def test_planted_faults_are_found() -> None:
    results = list(plant(definitions(), 120, seed=7))
    assert sum(result.detected for result in results) >= BAR * len(results)
    assert len({result.kind for result in results}) >= 20


def test_the_same_seed_plants_the_same_faults() -> None:
    documents = definitions()
    assert list(plant(documents, 40, seed=3)) == list(plant(documents, 40, seed=3))
    assert list(plant(documents, 40, seed=3)) != list(plant(documents, 40, seed=4))


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
def test_the_rules_that_are_meant_exist(fault) -> None:
    assert set(fault.rules) <= set(BY_NAME)


def test_the_table_counts_by_kind() -> None:
    kinds = str(len(KINDS) + 2)
    lines = table(list(plant(definitions(), int(kinds), seed=1))).splitlines()
    assert lines[-1].split()[:3] == [kinds, "kinds", kinds]


def test_the_command_prints_the_table_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults", "76"]) == 0
    assert f"{len(KINDS) + 2} kinds" in capsys.readouterr().out
