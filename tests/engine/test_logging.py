"""Logging for those who ask: names and numbers, never what people, models or tools wrote."""

from __future__ import annotations

import pytest

from llm_fsm import enable_logging
from llm_fsm.engine.observers import is_observed, observe, publish
from llm_fsm.engine.outbox.sinks import SinkFailed
from llm_fsm.session.events import Event
from llm_fsm.testing import play
from machines import GREETER, reply


def test_logging_shows_events_without_anybodys_words() -> None:
    from loguru import logger

    lines: list[str] = []
    logger.remove()
    sink = logger.add(
        lambda message: lines.append(str(message).strip()), format="{level} {message}", level=0
    )
    stop = enable_logging("debug")
    try:
        play(
            GREETER,
            ["my name is SECRETNAME"],
            replies=[reply("bye", "Bye SECRETNAME", name="SECRETNAME")],
        )
    finally:
        stop()
    heard = len(lines)
    play(GREETER, ["m"], replies=[reply("hello")])
    logger.remove(sink)
    assert len(lines) == heard
    text = "\n".join(lines)
    assert "SECRETNAME" not in text
    assert "StateEntered previous=hello state=bye by=model" in text
    assert "ContextSet keys=['name']" in text
    assert [line.split()[0] for line in lines][:2] == ["INFO", "DEBUG"]


def test_logging_that_is_enabled_twice_logs_once_at_the_last_level() -> None:
    from loguru import logger

    lines: list[str] = []
    logger.remove()
    sink = logger.add(
        lambda message: lines.append(str(message).split()[0]), format="{level}", level=0
    )
    stops = [enable_logging("DEBUG"), enable_logging("INFO")]
    try:
        stops[0]()  # its place was taken
        play(GREETER, ["Ada"], replies=[reply("bye", "Bye", name="Ada")])
    finally:
        stops[1]()
    heard = len(lines)
    play(GREETER, ["Ada"], replies=[reply("bye", "Bye", name="Ada")])
    logger.remove(sink)
    assert set(lines) == {"INFO"}
    assert lines.count("INFO") == heard == len(lines)
    assert not is_observed()


def test_level_is_the_least_that_is_logged() -> None:
    from loguru import logger

    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), level=0)
    stop = enable_logging("WARNING")
    try:
        play(GREETER, ["m"], replies=[reply("bye"), reply("hello")])
    finally:
        stop()
        logger.remove(sink)
    assert len([line for line in lines if "MoveRefused" in line]) == 1
    assert not [line for line in lines if "StateEntered" in line or "UserSaid" in line]


def test_sink_that_fails_is_a_warning_with_its_name_the_reason_and_when_it_is_tried_again() -> None:
    from loguru import logger

    lines: list[str] = []
    logger.remove()
    heard = logger.add(
        lambda message: lines.append(str(message).strip()), format="{level} {message}", level=0
    )
    stop = enable_logging("warning")
    try:
        publish(
            "c", SinkFailed(sink="hook", error="RefusedError: answered 500", again=0.5, failures=1)
        )
    finally:
        stop()
        logger.remove(heard)
    assert lines == [
        "WARNING c SinkFailed sink=hook error=RefusedError: answered 500 again=0.5 failures=1"
    ]


def test_an_observer_that_fails_is_passed_over_with_a_warning() -> None:
    def broken(_: str, __: Event) -> None:
        raise ValueError("full")

    told: list[str] = []
    stops = [observe(broken), observe(lambda _, event: told.append(type(event).__name__))]
    try:
        with pytest.warns(
            RuntimeWarning, match="broken, which observes events, failed: ValueError: full"
        ):
            done = play(GREETER, ["m"], replies=[reply("bye", "Bye", name="Ada")])
    finally:
        for stop in stops:
            stop()
    assert (done.state, told[-2:]) == ("bye", ["Ended", "TurnSaved"])


def test_nobody_is_told_before_somebody_observes_nor_after() -> None:
    told: list[str] = []
    assert not is_observed()
    stop = observe(lambda conversation_id, _: told.append(conversation_id))
    assert is_observed()
    publish("c", SinkFailed(sink="hook", error="refused", again=0.5, failures=1))
    stop()
    publish("d", SinkFailed(sink="hook", error="refused", again=0.5, failures=1))
    assert (is_observed(), told) == (False, ["c"])
