"""Much that would be taken back at once is asked about first, as the whole conversation is."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.languages import language_of
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.turn.choices import choices_of
from llm_fsm.turn.compiled import CompiledMachine
from machines import machine, reply, say, start

LANGUAGES = ["", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja"]
KNOWN = {"name": "Ada", "date": "Monday", "time": "18:00", "wish": "cake"}


def form(language: str = "", *patterns: str) -> CompiledMachine:
    states: dict[str, Any] = {
        "ask": {
            "purpose": "Who comes, and when?",
            "required_context_keys": ["name", "date", "time"],
            "transitions": [
                {
                    "target_state": "check",
                    "conditions": [{"requires_context_keys": ["name", "date", "time"]}],
                }
            ],
        },
        "check": {"purpose": "Shall I book it?", "transitions": [{"target_state": "end"}]},
        "end": {"reply": "Done."},
    }
    keys = {key: {"type": "string"} for key in KNOWN}
    return machine(
        states, context_schema={"properties": keys}, language=language, patterns=list(patterns)
    )


def full(made: CompiledMachine) -> Session:
    begun = start(made).session
    return say(made, begun, "all", reply("check", "", "Shall I book it?", **KNOWN)).session


def cleared(*names: str, **more: Any) -> str:
    return reply("check", "Sure.", "", _clear=list(names), _quotes={"_clear": "forget"}, **more)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("patterns", [(), ("correct", "cancel")])
def test_three_keys_are_cleared_after_a_plain_yes(language: str, patterns: tuple[str, ...]) -> None:
    made, words = form(language, *patterns), language_of(language)
    asked = say(made, full(made), "forget it all", cleared("name", "date", "time"))
    question = words.sentences["forget"].format("name, date", "time")
    assert (asked.text, asked.usage.calls) == (f"Sure.\n\n{question}", 1)
    assert (asked.session.state, asked.session.context) == ("check", KNOWN)
    labels = [choice.label for choice in choices_of(made, asked.session)]
    assert labels == [words.yes[0], words.no[0]]
    done = say(made, asked.session, words.yes[0], reply("ask", "", "Who comes?"), spare=True)
    assert done.session.context == {"wish": "cake"}
    assert done.text


@pytest.mark.parametrize("said", ["yes please", "Yes!", "ok", "yes", "do it"])
def test_the_yes_is_read_as_elsewhere(said: str) -> None:
    made = form()
    asked = say(made, full(made), "forget it all", cleared("name", "date", "time"))
    done = say(made, asked.session, said, reply("check", "", "And now?"), spare=True)
    assert done.session.context == {"wish": "cake"}


@pytest.mark.parametrize("said", ["no", "No", "yes?", "yes, but not the name", "hm", "what?"])
def test_anything_else_clears_nothing(said: str) -> None:
    made = form()
    asked = say(made, full(made), "forget it all", cleared("name", "date", "time"))
    done = say(made, asked.session, said, reply("check", "", "And now?"), spare=True)
    assert done.session.context == KNOWN
    late = say(made, done.session, "yes", reply("check", "", "And now?"))
    assert late.session.context == KNOWN


@pytest.mark.parametrize("names", [("name",), ("name", "time"), ("name", "time", "unknown")])
def test_two_keys_are_cleared_at_once(names: tuple[str, ...]) -> None:
    made = form()
    done = say(
        made, full(made), "forget that", cleared(*names), reply("check", "", "?"), spare=True
    )
    assert done.session.context.keys() == KNOWN.keys() - {*names}


def test_a_value_that_is_replaced_is_not_lost() -> None:
    made = form()
    update = {"name": "Eda", "_clear": [], "date": "Friday"}
    given = cleared("name", "date", "time", **{k: v for k, v in update.items() if k != "_clear"})
    done = say(made, full(made), "forget that", given, reply("check", "", "?"), spare=True)
    assert done.session.context == {"name": "Eda", "date": "Friday", "wish": "cake"}


def test_what_the_reply_gives_besides_is_kept_while_it_asks() -> None:
    made = form()
    asked = say(made, full(made), "forget it, a pie", cleared("name", "date", "time", wish="pie"))
    assert asked.session.context == {**KNOWN, "wish": "pie"}


@pytest.mark.parametrize("quotes", [None, {}, {"_clear": "delete everything"}])
def test_without_the_words_of_the_user_nobody_is_asked(quotes: Any) -> None:
    made = form()
    chatty = reply("check", "Gone.", _clear=list(KNOWN), _quotes=quotes)
    done = say(made, full(made), "thanks", chatty, reply("check", "", "Shall I book it?"))
    assert (done.text, done.session.context) == ("Shall I book it?", KNOWN)
    assert len(done.of(ev.ContextRefused)) == len(KNOWN)
