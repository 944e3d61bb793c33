"""A date or a time that nobody said is no value."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from machines import machine, reply, say, start

DAY = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "time"}
TABLE = machine(
    {"ask": {"purpose": "Your name?", "required_context_keys": ["name"], "transitions": [
        {"target_state": "when", "conditions": [{"requires_context_keys": ["name"]}]}]},
     "when": {"purpose": "On which day?", "required_context_keys": ["day"], "transitions": [
        {"target_state": "end", "conditions": [{"requires_context_keys": ["day"]}]}]},
     "end": {"reply": "Done."}},
    context_schema={"properties": {
        "name": {"type": "string"}, "day": DAY, "at": TIME, "free": {**TIME, "x-said": False}}},
)  # fmt: skip
UPDATE: dict[str, Any] = {"name": "Tom", "day": "1970-01-02", "at": "19:00", "free": "20:00"}
"""The clock of these tests stands at 1970-01-01, a Thursday."""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("My name is Tom Baker", set()),
        ("Tom, and do you have parking", set()),
        ("mañana por la tarde, soy Tom", {"day", "at"}),
        ("Freitag, Tom Baker", {"day"}),
        ("Tom, at seven in the evening", {"at"}),
        ("Tom, 7", {"at"}),
        ("Tom, in 7", {"day", "at"}),
    ],
)
def test_a_day_and_a_time_need_a_message_that_may_name_them(said: str, kept: set[str]) -> None:
    done = say(TABLE, start(TABLE).session, said, reply("when", "", **UPDATE), spare=True)
    assert done.session.context.keys() == {"name", "free", *kept}
    refused = [(one.key, one.reason) for one in done.of(ev.ContextRefused)]
    assert {key for key, _ in refused} == {"day", "at"} - kept
    assert all("not said" in reason for _, reason in refused)


def test_a_day_that_the_words_do_not_mean_is_one_second_call() -> None:
    replies = [reply("when", "", **{**UPDATE, "day": day}) for day in ("1970-01-03", "1970-01-02")]
    done = say(TABLE, start(TABLE).session, "Tom, tomorrow at 7 pm", *replies)
    assert done.session.context == UPDATE
    assert done.usage.calls == 2
    [reason] = [one.reason for one in done.of(ev.ContextRefused)]
    assert reason == "not said: the words of the user mean 1970-01-02; write that, or ask"


def test_a_day_on_which_words_and_model_differ_twice_is_asked_for() -> None:
    wrong = reply("when", "", **{**UPDATE, "day": "1970-01-03"})
    done = say(TABLE, start(TABLE).session, "Tom, tomorrow at 7 pm", wrong, wrong)
    assert done.session.context.keys() == {"name", "at", "free"}
    assert done.text.endswith("On which day?")
    assert done.usage.calls == 2


def test_a_time_beside_a_day_is_dropped_without_a_call() -> None:
    done = say(TABLE, start(TABLE).session, "Tom, tomorrow", reply("when", "", **UPDATE))
    assert done.session.context.keys() == {"name", "day", "free"}
    assert done.usage.calls == 1


def test_the_user_reads_only_the_question() -> None:
    done = say(TABLE, start(TABLE).session, "Tom", reply("when", "", **UPDATE), spare=True)
    assert done.text == "On which day?"


def test_a_date_of_an_earlier_message_counts_until_it_is_asked_for() -> None:
    session = say(TABLE, start(TABLE).session, "on Friday", reply("ask", "Name?")).session
    done = say(TABLE, session, "Tom", reply("when", "", **UPDATE), spare=True)
    assert done.session.context["day"] == "1970-01-02"
