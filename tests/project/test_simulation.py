"""The simulation of shards agrees with the arithmetic of queues, and loses no turn."""

from __future__ import annotations

import pytest

from benchmarks.simulation import Plan, simulate


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_the_wait_at_a_shard_is_that_of_the_formula(load: float) -> None:
    plan = Plan(turns=1_000 * load, shards=1, commits=1_000)
    assert simulate(plan, 60.0).wait == pytest.approx(plan.wait, rel=0.15)


@pytest.mark.parametrize("load", [0.25, 0.5])
def test_a_shard_that_was_away_works_its_backlog_off_as_calculated(load: float) -> None:
    plan = Plan(turns=4_000 * load, shards=4, commits=1_000, fails=3.0, away=5.0)
    found = simulate(plan, 25.0)
    assert found.backlog == pytest.approx(plan.backlog, rel=0.15)
    assert found.recovery == pytest.approx(plan.recovery, rel=0.25)
    assert found.committed == found.turns


def test_the_other_shards_do_not_feel_a_shard_that_is_away() -> None:
    well = Plan(turns=2_000, shards=4, commits=1_000)
    failing = Plan(turns=2_000, shards=4, commits=1_000, fails=3.0, away=5.0)
    assert simulate(failing, 20.0).wait == pytest.approx(simulate(well, 20.0).wait, rel=0.15)
