"""States that talk and get no message: reminders, and where they lead when the time is over."""

from __future__ import annotations

from typing import Any

from llm_fsm.session import events as ev
from llm_fsm.session.session import Silence
from llm_fsm.turn.pipeline import Due, Update, UserMessage
from llm_fsm.turn.steps import begin
from llm_fsm.turn.turn_state import HostCapabilities
from machines import machine, play, reply, start


def desk(ask: dict[str, Any] | None = None, **more: Any) -> Any:
    states = {
        "ask": {
            "purpose": "What is your name?",
            "remind": [60],
            "timeout": 300,
            "on_timeout": "sort",
            "transitions": [{"target_state": "done"}],
            **(ask or {}),
        },
        "sort": {"kind": "decide", "transitions": [{"target_state": "late"}]},
        "late": {"reply": "Call us.", "transitions": [{"target_state": "done"}]},
        "done": {"purpose": "Done"},
    }
    return machine(states, **more)


def test_times_count_from_the_last_words_and_begin_anew_with_each_message() -> None:
    made = desk()
    begun = start(made).session
    assert begun.silence == Silence(reminders=(begun.time + 60,), closes=begun.time + 300)
    heard = play(
        begin(made, begun, UserMessage(text="hm", time=1000.0)), [reply("ask", "Your name?")]
    )
    assert heard.session.silence == Silence(reminders=(1060.0,), closes=1300.0)
    done = play(begin(made, heard.session, UserMessage(text="Ada", time=2000.0)), [reply("done")])
    assert done.session.silence is None


def test_a_reminder_asks_the_question_again() -> None:
    made = desk()
    begun = start(made).session
    done = play(begin(made, begun, Due(time=begun.time + 60)), [])
    assert (done.text, done.session.state, done.usage.calls) == ("What is your name?", "ask", 0)
    assert [event.id for event in done.of(ev.Reminded)] == ["silence"]
    assert done.session.silence == Silence(closes=begun.time + 300)
    fixed = desk({"reply": "Name, please?"})
    begun = start(fixed).session
    assert play(begin(fixed, begun, Due(time=begun.time + 60)), []).text == "Name, please?"


def test_when_the_time_is_over_it_goes_where_the_state_leads() -> None:
    made = desk()
    begun = start(made).session
    done = play(begin(made, begun, Due(time=begun.time + 301)), [])
    assert (done.session.state, done.text, done.usage.calls) == ("late", "Call us.", 0)
    assert done.of(ev.StateEntered)[0].by == "timeout"
    assert (done.session.silence, done.session.ended) == (None, False)


def test_without_a_state_to_go_to_the_conversation_ends() -> None:
    made = desk({"on_timeout": None})
    begun = start(made).session
    assert play(begin(made, begun, Due(time=begun.time + 301)), []).session.outcome == "expired"


def test_its_own_times_stand_for_the_pattern_and_elsewhere_the_pattern_holds() -> None:
    made = desk(patterns=["silence"])
    begun = start(made).session
    assert begun.silence is not None
    assert begun.silence.closes == begun.time + 300
    late = play(begin(made, begun, Due(time=begun.time + 301)), []).session
    assert late.silence is not None
    assert late.silence.closes != late.time + 300


def test_a_word_of_the_program_begins_the_time_anew() -> None:
    made = desk()
    said = play(
        begin(
            made, start(made).session, Update(time=500.0, text="One moment."), HostCapabilities()
        ),
        [],
    )
    assert said.session.silence == Silence(reminders=(560.0,), closes=800.0)


def test_a_machine_with_such_a_state_waits() -> None:
    assert desk().waits
    assert not desk({"remind": [], "timeout": None, "on_timeout": None}).waits
