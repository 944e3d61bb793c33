"""Calls that must not run twice, when a function is run again: each on record is given once."""

from __future__ import annotations

import asyncio
from typing import Any

from llm_fsm.engine.exactly_once import ExactlyOnce, fingerprint
from llm_fsm.turn.effects import PlannedCall, ToolResult, ToolResults


def planned(key: str, amount: int = 1, *, once: bool = True) -> PlannedCall:
    return PlannedCall(id="p", name="pay", arguments={"amount": amount}, key=key, at_most_once=once)


def of(receipt: str) -> ToolResult:
    return ToolResult(id="p", name="pay", value=receipt)


def made(once: ExactlyOnce, call: PlannedCall, receipt: str) -> str:
    """Make a call; gives the key that it was made under."""
    keys: list[str] = []

    async def perform(calls: tuple[PlannedCall, ...]) -> ToolResults:
        keys.extend(each.key for each in calls)
        return ToolResults(results=(of(receipt),))

    assert asyncio.run(once.made([call], lambda each: each, perform)) == {"p": of(receipt)}
    return keys[0]


def before(*calls: tuple[PlannedCall, str]) -> dict[str, Any]:
    """The log of calls that were made."""
    once = ExactlyOnce({})
    for call, receipt in calls:
        made(once, call, receipt)
    return once.log


def test_alike_are_calls_of_one_tool_with_the_same_arguments() -> None:
    assert fingerprint(planned("a")) == fingerprint(planned("b"))
    assert fingerprint(planned("a")) != fingerprint(planned("a", 2))


def test_a_call_of_a_fresh_question_has_the_result_of_one_like_it_that_nobody_comes_back_for() -> (
    None
):
    once = ExactlyOnce(before((planned("a"), "1"), (planned("b"), "2")))
    assert once.known([planned("x", 2)], (), fresh=True) == {}
    assert once.known([planned("x")], (), fresh=False) == {}
    assert once.known([planned("x")], (), fresh=True) == {"p": of("1")}
    assert once.known([planned("y")], (), fresh=True) == {"p": of("2")}
    assert once.known([planned("z")], (), fresh=True) == {}


def test_whoever_comes_back_for_a_result_that_was_given_away_makes_another_call() -> None:
    log = before((planned("a"), "1"))
    once = ExactlyOnce(log)
    assert once.known([planned("x")], (), fresh=True) == {"p": of("1")}
    assert once.known([planned("a")], [log["a"][1]], fresh=False) == {}
    assert made(once, planned("a"), "2") == "a+"


def test_a_result_that_was_given_away_is_not_given_again_after_another_answer() -> None:
    once = ExactlyOnce(before((planned("a"), "1")))
    assert once.known([planned("x")], (), fresh=True) == {"p": of("1")}
    later = ExactlyOnce(once.log)
    assert later.known([planned("x")], [once.log["x"][1]], fresh=False) == {"p": of("1")}
    assert later.known([planned("y")], (), fresh=True) == {}
    assert later.known([planned("a")], [once.log["x"][1]], fresh=False) == {}
    assert made(later, planned("a"), "2") == "a+"


def test_a_call_that_was_begun_in_this_turn_is_itself_and_no_other() -> None:
    once = ExactlyOnce(before((planned("a"), "1")), begun={"x"})
    assert once.known([planned("x")], (), fresh=True) == {}
    assert once.known([planned("y")], (), fresh=True) == {"p": of("1")}


def test_a_call_that_a_person_repeats_is_made_under_the_key_that_it_had() -> None:
    log = before((planned("a"), "1"), (planned("b"), "2"))
    once = ExactlyOnce(log)
    assert once.known([planned("a")], [log["a"][1]], fresh=False) == {"p": of("1")}
    assert once.known([planned("x")], (), fresh=True) == {"p": of("2")}
    for key, had in (("a", "a"), ("x", "b")):
        assert once.known([planned(key)], (), fresh=True) == {}
        assert made(once, planned(key), "again") == had


def test_calls_that_may_run_twice_are_not_kept() -> None:
    assert before((planned("a", once=False), "1")) == {}
    assert (
        ExactlyOnce(before((planned("a"), "1"))).known([planned("x", once=False)], (), fresh=True)
        == {}
    )
