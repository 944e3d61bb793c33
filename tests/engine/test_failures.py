"""Errors of the host's own code: they are on record with their place, in the log, and end nothing
for good.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import Machine, create_handler
from llm_fsm.engine.conversation import Turn
from llm_fsm.errors import HandlerError
from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM, calls, reply
from llm_fsm.tools.failures import LOGGER, failure_of

HERE = str(Path(__file__))


def price(item: str) -> float:
    """Return a price."""
    raise KeyError(item)


def broken_json(ctx: Any) -> Any:
    return json.loads("{")


def passes(output: Any) -> bool:
    raise ZeroDivisionError("a check")


def picks(output: Any) -> str:
    raise LookupError("a route")


def hooks(occasion: Any) -> None:
    raise RuntimeError("a handler\nin two lines")


def definition(task: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    work = {"kind": "task", "execute": "broken_json", "max_retries": 1, **(task or {})}
    return {
        "name": "shop",
        "initial_state": "ask",
        "tools": {"price": {"registered": "price"}},
        "states": {
            "ask": {
                "purpose": "What do you want to buy?",
                "tools": ["price"],
                "transitions": [{"target_state": "work", "description": "It is named"}],
            },
            "work": {**work, "transitions": [{"target_state": "done", "on": "default"}]},
            "done": {"purpose": "Say goodbye", "reply": "Bye."},
            "sorry": {
                "purpose": "Say sorry",
                "kind": "final",
                "outcome": "failed",
                "reply": "A colleague calls you.",
            },
            "other": {"purpose": "Anything else?", "transitions": [{"target_state": "sorry"}]},
        },
        **more,
    }


GO = reply("work", "One moment.")


def machine(document: dict[str, Any], *replies: Any, **settings: Any) -> Machine:
    functions: list[Callable[..., Any]] = settings.pop("functions", [broken_json, passes, picks])
    return Machine.from_dict(
        document, model=ScriptedLLM(list(replies)), tools=[price], functions=functions, **settings
    )


def failures(turn: Turn) -> list[tuple[str, str, str]]:
    return [
        (event.kind, event.name, event.error)
        for event in turn.events
        if isinstance(event, ev.FunctionFailed)
    ]


# -- on record, with the place in the host's code


@pytest.mark.parametrize(
    ("kind", "document", "replies", "failure"),
    [
        (
            "function", definition({"max_retries": 0}), [GO],
            ("function", "broken_json", "JSONDecodeError: Expecting property name"),
        ),
        (
            "check",
            definition({
                "execute": "fine", "max_retries": 0,
                "key_results": [{"name": "k", "description": "d", "check": {"registered": "passes"}}],
            }),
            [GO], ("check", "passes", "ZeroDivisionError: a check"),
        ),
        ("route", definition({"execute": "fine", "route": "picks"}), [GO], ("route", "picks", "LookupError: a route")),
        ("tool", definition(), [calls(("price", {"item": "tea"})), reply("ask", "Sorry?")],
         ("tool", "price", "KeyError: 'tea'")),
    ],
)  # fmt: skip
def test_each_failure_names_function_file_line_and_error(
    kind: str,
    document: dict[str, Any],
    replies: list[Any],
    failure: tuple[str, str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fine(ctx: Any) -> str:
        return "ok"

    chat = machine(document, *replies, functions=[broken_json, passes, picks, fine]).start(
        greet=False
    )
    turn = chat.send("tea")
    [event] = [event for event in turn.events if isinstance(event, ev.FunctionFailed)]
    function = {"function": broken_json, "check": passes, "route": picks, "tool": price}[kind]
    assert (event.kind, event.name) == failure[:2]
    assert event.error.startswith(failure[2])
    code = function.__code__
    assert event.file == HERE
    assert code.co_firstlineno < event.line <= code.co_firstlineno + 3
    [noted] = [note for note in chat.why(turn.number).notes if isinstance(note, ev.FunctionFailed)]
    assert (noted.name, noted.file, noted.line) == (event.name, HERE, event.line)
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert record.levelno == logging.WARNING
    for said in (event.name, event.error, f"{HERE}:{event.line}"):
        assert said in record.getMessage()


@pytest.mark.parametrize("mode", ["continue", "raise"])
def test_a_handler_that_raises_is_logged_in_one_line_in_every_mode(
    mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    handler = create_handler("hook").at("pre_processing").do(hooks)
    chat = machine(definition(), reply("ask", "Yes?"), handlers=[handler], error_mode=mode).start(
        greet=False
    )
    if mode == "raise":
        with pytest.raises(HandlerError):
            chat.send("tea")
    else:
        turn = chat.send("tea")
        assert failures(turn) == [("handler", "hook", "RuntimeError: a handler in two lines")]
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert "handler 'hook' failed: RuntimeError: a handler in two lines" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert HERE in record.getMessage()


def test_a_handler_at_the_end_of_a_conversation_is_logged_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = create_handler("hook").at("end_conversation").do(hooks)
    chat = machine(definition(), handlers=[handler]).start(greet=False)
    chat.end()
    assert [
        "hook" in record.getMessage() for record in caplog.records if record.name == LOGGER
    ] == [True]


def test_the_traceback_is_logged_at_debug_and_has_the_code_of_the_host_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    machine(definition(), calls(("price", {"item": "tea"})), reply("ask", "?")).start(
        greet=False
    ).send("tea")
    [trace] = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert "raise KeyError(item)" in trace
    assert "tools/executor.py" not in trace


def test_no_line_shows_a_secret_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    schema = {"type": "object", "properties": {"item": {"type": "string", "x-secret": True}}}

    def work(ctx: Any) -> None:
        raise ValueError(f"no such thing: {ctx.context['item']}")

    document = definition({"execute": "work", "max_retries": 0}, context_schema=schema)
    chat = machine(document, GO, functions=[work]).start({"item": "4111-9999"}, greet=False)
    turn = chat.send("tea")
    assert failures(turn)
    assert "4111-9999" not in repr(turn.events) + caplog.text


def test_a_function_without_a_frame_of_its_own_is_named_by_its_definition() -> None:
    found = failure_of("tool", "price", TimeoutError("late"), price)
    assert (found.file, found.line) == (HERE, price.__code__.co_firstlineno)
    assert failure_of("tool", "price", TimeoutError("late")).file == ""


# -- nothing ends for good


def test_a_task_whose_function_fails_stays_open_and_is_tried_again_with_the_next_message() -> None:
    attempts: list[int] = []

    def work(ctx: Any) -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("the database is away")
        return "done"

    chat = machine(definition({"execute": "work", "max_retries": 0}), GO, functions=[work]).start(
        greet=False
    )
    for _ in range(2):
        turn = chat.send("tea")
        assert (turn.state, turn.ended, turn.outcome) == ("work", False, "")
        assert "something went wrong" in turn.text
        assert "One moment" not in turn.text
    turn = chat.send("tea")
    assert (turn.text, turn.ended, len(attempts)) == ("Bye.", True, 3)


def test_the_rule_says_its_reply_and_moves(caplog: pytest.LogCaptureFixture) -> None:
    rule = {"reply": "Our system is down, {{ who }}.", "target_state": "sorry"}
    chat = machine(definition(on_function_error=rule), GO).start({"who": "Ada"}, greet=False)
    turn = chat.send("tea")
    assert turn.text == "Our system is down, Ada.\n\nA colleague calls you."
    assert (turn.state, turn.outcome) == ("sorry", "failed")
    assert len(failures(turn)) == 2, "every attempt is on record"
    [entered] = [
        event
        for event in turn.events
        if isinstance(event, ev.StateEntered) and event.state == "sorry"
    ]
    assert (entered.by, entered.transition) == ("error", "/on_function_error")


def test_the_rule_without_a_target_lets_the_state_stay_open() -> None:
    chat = machine(definition(on_function_error={"reply": "Try later."}), GO).start(greet=False)
    turn = chat.send("tea")
    assert (turn.text, turn.state, turn.ended) == ("Try later.", "work", False)


def test_the_rule_that_leads_to_a_question_asks_it() -> None:
    rule = {"reply": "That did not work.", "target_state": "other"}
    chat = machine(definition(on_function_error=rule), GO, reply("other", "Anything else?")).start(
        greet=False
    )
    turn = chat.send("tea")
    assert turn.text == "That did not work.\n\nAnything else?"
    assert turn.state == "other"


def test_what_the_task_says_about_used_up_attempts_comes_before_the_rule() -> None:
    rule = {"reply": "Down.", "target_state": "sorry"}
    chat = machine(definition({"on_exhausted": "done"}, on_function_error=rule), GO).start(
        greet=False
    )
    assert chat.send("tea").text == "One moment.\n\nBye."


def test_a_tool_that_fails_for_good_follows_the_rule_whatever_the_model_says() -> None:
    rule = {"reply": "Prices are not available now.", "target_state": "sorry"}
    replies = [calls(("price", {"item": "tea"})), reply("work", "It costs 3 euros.")]
    chat = machine(definition(on_function_error=rule), *replies).start(greet=False)
    turn = chat.send("tea")
    assert turn.text == "Prices are not available now.\n\nA colleague calls you."
    assert turn.state == "sorry"


def test_a_tool_that_works_in_the_end_has_not_failed_for_good() -> None:
    asked: list[str] = []

    def price(item: str) -> float:
        """Return a price."""
        asked.append(item)
        if len(asked) == 1:
            raise OSError("busy")
        return 3.0

    again = calls(("price", {"item": "tea"}))
    llm = ScriptedLLM([again, again, reply("ask", "It costs 3 euros. Do you want it?")])
    rule = {"reply": "Down.", "target_state": "sorry"}
    chat = Machine.from_dict(
        definition(on_function_error=rule), model=llm, tools=[price], functions=[broken_json]
    ).start(greet=False)
    assert chat.send("tea").text == "It costs 3 euros. Do you want it?"


def test_a_tool_that_fails_on_arrival_with_tools_first_follows_the_rule() -> None:
    document = definition(on_function_error={"reply": "Down.", "target_state": "sorry"})
    document["states"]["ask"]["tools_first"] = True
    chat = machine(
        document, calls(("price", {"item": "tea"})), {"message": "Here is the price."}
    ).start()
    assert chat.greeting == "Down.\n\nA colleague calls you."
    assert chat.ended


def test_a_rule_that_leads_to_the_failing_state_itself_moves_once() -> None:
    document = definition(on_function_error={"reply": "Down.", "target_state": "work"})
    turn = machine(document, GO).start(greet=False).send("tea")
    assert (turn.text, turn.state, turn.ended) == ("Down.", "work", False)


def test_a_rule_of_the_caller_leads_out_of_a_called_definition() -> None:
    flow = {
        "name": "inner",
        "initial_state": "work",
        "states": {
            "work": {
                "kind": "task", "execute": "broken_json", "max_retries": 0, "transitions": [{"target_state": "end"}],
            },
            "end": {"purpose": "Done"},
        },
    }  # fmt: skip
    document = definition(on_function_error={"reply": "Down.", "target_state": "sorry"})
    document["states"]["work"] = {
        "kind": "subflow",
        "flow": "inner",
        "transitions": [{"target_state": "done"}],
    }
    turn = machine(document, GO, flows={"inner": flow}).start(greet=False).send("tea")
    assert (turn.text, turn.state, turn.outcome) == (
        "Down.\n\nA colleague calls you.",
        "sorry",
        "failed",
    )


def test_a_run_without_a_user_still_ends_as_exhausted() -> None:
    document = {
        "name": "work",
        "initial_state": "work",
        "states": {"work": {"kind": "task", "execute": "broken_json", "max_retries": 0}},
    }
    turn = Machine.from_dict(document, model="offline", functions=[broken_json]).run()
    assert (turn.outcome, turn.ended) == ("exhausted", True)


def test_an_unknown_target_and_a_broken_reply_are_findings() -> None:
    from llm_fsm import DefinitionError, check

    unknown = definition(on_function_error={"target_state": "nowhere"})
    assert [finding.name for finding in check(unknown) if finding.level == "error"] == [
        "unknown-target"
    ]
    for rule in ({"target_state": "nowhere"}, {"reply": "{{ a"}):
        with pytest.raises(DefinitionError):
            machine(definition(on_function_error=rule))
    known = check(definition(on_function_error={"target_state": "sorry"}))
    assert "unreachable-state" not in [
        finding.name for finding in known if "sorry" in finding.message
    ]


def test_an_explanation_of_a_turn_that_is_not_there_is_a_value_error() -> None:
    chat = machine(definition(), reply("ask", "Yes?")).start(greet=False)
    chat.send("hi")
    assert chat.why().turn == chat.why(1).turn == 1
    with pytest.raises(ValueError, match="no turn 7"):
        chat.why(7)
