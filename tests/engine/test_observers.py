"""What observers are told beside the events of a turn's record."""

from __future__ import annotations

import pytest

from llm_fsm import ModelError, observe
from llm_fsm.engine.observers import TurnAborted, TurnSaved
from llm_fsm.session.events import Event
from llm_fsm.testing import play
from machines import GREETER, reply


def test_observers_are_told_when_a_turn_is_on_record() -> None:
    saved: list[TurnSaved] = []
    stop = observe(lambda _, event: saved.append(event) if isinstance(event, TurnSaved) else None)
    try:
        play(GREETER, ["my name is Ada"], replies=[reply("bye", "Bye Ada", name="Ada")])
    finally:
        stop()
    assert [(item.kind, item.turn, item.state, item.ended) for item in saved][-1] == (
        "message",
        1,
        "bye",
        True,
    )
    assert saved[-1].usage.calls == 1
    assert saved[-1].definition == "greeter"


def test_observers_are_told_of_a_turn_that_was_not_finished() -> None:
    told: list[Event] = []
    stop = observe(lambda _, event: told.append(event))
    try:
        with pytest.raises(ModelError):
            play(GREETER, ["m"], replies=[ModelError("the provider is down")])
    finally:
        stop()
    assert isinstance(told[-1], TurnAborted)
    assert told[-1].error == "ModelError"
