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
UPDATE: dict[str, Any] = {"name": "Tom", "day": "2026-12-04", "at": "19:00", "free": "20:00"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("My name is Tom Baker", False),
        ("Tom, and do you have parking", False),
        ("mañana por la tarde, soy Tom", True),
        ("Freitag, Tom Baker", True),
        ("Tom, around noon", True),
        ("Tom, 7", True),
    ],
)
def test_a_date_needs_a_message_that_may_name_one(said: str, kept: bool) -> None:
    done = say(TABLE, start(TABLE).session, said, reply("when", "", **UPDATE), spare=True)
    assert done.session.context.keys() == ({*UPDATE} if kept else {"name", "free"})
    refused = [(one.key, one.reason) for one in done.of(ev.ContextRefused)]
    assert [key for key, _ in refused] == ([] if kept else ["day", "at"])
    assert all("not said" in reason for _, reason in refused)


def test_the_user_reads_only_the_question() -> None:
    done = say(TABLE, start(TABLE).session, "Tom", reply("when", "", **UPDATE), spare=True)
    assert done.text == "On which day?"


def test_a_date_of_an_earlier_message_counts_until_it_is_asked_for() -> None:
    session = say(TABLE, start(TABLE).session, "on Friday", reply("ask", "Name?")).session
    done = say(TABLE, session, "Tom", reply("when", "", **UPDATE), spare=True)
    assert done.session.context["day"] == "2026-12-04"
