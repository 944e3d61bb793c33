"""Guards: they stop a planted regression, and let a harmless change live, however often they look."""

from __future__ import annotations

import random

import pytest

from llm_fsm.releases.figures import ArmFigures
from llm_fsm.releases.file import Release
from llm_fsm.releases.guards import broken
from llm_fsm.releases.intervals import ShareInterval, difference, share

RUNS = 100
GUARDS = [
    {"figure": "handover_share", "worse_by": 0.05, "after": 200},
    {"figure": "outcome:booked", "worse_by": 0.03, "after": 200},
    {"figure": "errors", "above": 3},
]


def release(*guards):
    given = {"release": "shop", "stable": "a.json", "candidate": "b.json", "share": 0.1}
    return Release.model_validate({**given, "guards": guards})


def arm(settled, errors=0, **hits):
    found = ArmFigures(conversations=settled, settled=settled, errors=errors)
    found.hits.update({name.replace("__", ":"): count for name, count in hits.items()})
    return found


def stops(seed, candidate, stable=None, begins=30_000, part=0.1):
    """Simulate a release, with a look after each 20 conversations of the candidate."""
    chance = random.Random(seed)
    stable = stable or {"handover_share": 0.1, "outcome:booked": 0.5}
    guarded = release(*GUARDS)
    figures = {"stable": ArmFigures(), "candidate": ArmFigures()}
    for _ in range(begins):
        name = "candidate" if chance.random() < part else "stable"
        found = figures[name]
        found.conversations += 1
        found.settled += 1
        for figure, rate in (candidate if name == "candidate" else stable).items():
            found.hits[figure] = found.hits.get(figure, 0) + (chance.random() < rate)
        if name == "candidate" and found.settled % 20 == 0 and broken(guarded, figures):
            return True
    return False


@pytest.mark.parametrize(
    "planted",
    [
        {"handover_share": 0.2, "outcome:booked": 0.5},
        {"handover_share": 0.1, "outcome:booked": 0.4},
    ],
)
def test_a_planted_regression_is_stopped_in_95_of_100_runs(planted):
    assert sum(stops(seed, planted) for seed in range(RUNS)) >= 95


def test_a_harmless_change_is_stopped_in_at_most_5_of_100_runs():
    harmless = {"handover_share": 0.1, "outcome:booked": 0.5}
    assert sum(stops(seed, harmless) for seed in range(RUNS)) <= 5


def test_the_interval_of_a_difference_holds_the_truth():
    chance = random.Random(7)
    missed = 0
    for _ in range(2000):
        one, other = chance.choice([0.01, 0.1, 0.5]), chance.choice([0.01, 0.3, 0.9])
        many = chance.choice([20, 200]), chance.choice([50, 1000])
        hits = [
            sum(chance.random() < p for _ in range(n))
            for p, n in zip((one, other), many, strict=True)
        ]
        found = difference(share(hits[0], many[0]), share(hits[1], many[1]))
        missed += not found.low <= one - other <= found.high
    assert missed <= 2000 * 0.006


def test_intervals_at_the_borders():
    assert share(0, 0) == ShareInterval(0.0, 0.0, 1.0)
    assert share(0, 10).low == 0
    assert share(10, 10).high == 1
    found = difference(share(5, 10), share(5, 10))
    assert found.value == 0
    assert found.low == pytest.approx(-found.high)


@pytest.mark.parametrize(
    ("guard", "candidate", "is_broken"),
    [
        ({"figure": "errors", "above": 3}, arm(2, errors=4), True),
        ({"figure": "errors", "above": 3}, arm(2, errors=3), False),
        ({"figure": "errors", "above": 3, "after": 5}, arm(2, errors=4), False),
        ({"figure": "missed_share", "above": 0.5}, arm(4, missed_share=3), True),
        ({"figure": "missed_share", "above": 0.5}, arm(4, missed_share=2), False),
        ({"figure": "missed_share", "above": 0.5, "after": 5}, arm(4, missed_share=3), False),
        ({"figure": "outcome:lost", "worse_by": 0.1}, arm(500, outcome__lost=0), True),
        ({"figure": "outcome:given_up", "worse_by": 0.1}, arm(500, outcome__given_up=0), False),
        ({"figure": "outcome:given_up", "worse_by": 0.1}, arm(500, outcome__given_up=400), True),
        ({"figure": "error_share", "worse_by": 0.1}, arm(500, error_share=249), False),
        ({"figure": "error_share", "worse_by": 0.1}, arm(500, error_share=350), True),
    ],
)
def test_each_kind_of_guard(guard, candidate, is_broken):
    stable = arm(1000, error_share=500, outcome__lost=500, outcome__given_up=500)
    said = broken(release(guard), {"stable": stable, "candidate": candidate})
    assert bool(said) == is_broken
    assert not said or said.startswith(guard["figure"])


def test_without_conversations_no_guard_is_broken():
    empty = {"stable": ArmFigures(), "candidate": ArmFigures()}
    assert broken(release(*GUARDS), empty) == ""
