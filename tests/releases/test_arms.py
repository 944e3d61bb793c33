"""The arm of a conversation: a share of all, the same for the same value, and no other."""

from __future__ import annotations

import pytest

from llm_fsm.releases.arms import arm_of, place_of
from llm_fsm.releases.file import Release

BEGINS = 100_000


def release(**changes):
    given = {"release": "shop", "stable": "a.json", "candidate": "b.json", "share": 0.1}
    return Release.model_validate({**given, **changes})


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_a_share_of_conversations_gets_the_candidate(share):
    places = [place_of("2026-12", f"visitor-{number}") for number in range(BEGINS)]
    assert abs(sum(place < share for place in places) / BEGINS - share) < 0.01


def test_two_salts_shuffle_independently():
    both = sum(
        place_of("one", number) < 0.5 and place_of("two", number) < 0.5 for number in range(10_000)
    )
    assert abs(both / 10_000 - 0.25) < 0.02


def test_a_greater_share_keeps_everybody_who_has_the_candidate():
    for number in range(1000):
        few = arm_of(release(share=0.1), str(number), {}, None)
        many = arm_of(release(share=0.3), str(number), {}, None)
        assert few == "stable" or many == "candidate"


@pytest.mark.parametrize(
    ("changes", "arm"),
    [({"share": 1}, "candidate"), ({"share": 0}, None), ({"candidate": None}, None)],
)
def test_the_ends_of_the_share(changes, arm):
    assert {arm_of(release(**changes), str(number), {}, None) for number in range(200)} == {arm}


@pytest.mark.parametrize("by", ["metadata.user", "context.user", "context.user.name"])
def test_by_gives_all_conversations_of_one_value_one_arm(by):
    known = {"user": "ada"} if by == "metadata.user" else {"user": {"name": "ada"}}
    metadata, context = (known, None) if by.startswith("metadata") else ({}, known)
    arms = {
        arm_of(release(share=0.5, by=by), str(number), metadata, context) for number in range(200)
    }
    assert len(arms) == 1


def test_without_the_value_the_id_chooses():
    split = release(share=0.5, by="metadata.user")
    same = release(share=0.5)
    for number in range(100):
        assert arm_of(split, str(number), {}, None) == arm_of(same, str(number), {}, None)


@pytest.mark.parametrize(
    ("metadata", "context", "takes_part"),
    [
        ({"country": "DE"}, None, True),
        ({"country": "FR"}, None, False),
        ({}, {"vip": True}, True),
        ({}, None, False),
    ],
)
def test_where_says_who_takes_part(metadata, context, takes_part):
    where = {"or": [{"==": [{"var": "metadata.country"}, "DE"]}, {"var": "context.vip"}]}
    found = arm_of(release(share=1, where=where), "c", metadata, context)
    assert found == ("candidate" if takes_part else None)


def test_a_condition_that_fails_takes_nobody():
    where = {"<": [{"var": "context.age"}, {"map": [1, 2]}]}
    assert arm_of(release(share=1, where=where), "c", {}, {"age": 3}) is None
