"""Pauses in a chat: what is asked, which line is an answer, and what is left waiting."""

from __future__ import annotations

from typing import Any

import pytest

from cli_command import Desk, desk
from desks import DESK
from llm_fsm.cli.terminal import answers
from llm_fsm.session.messages import Paused
from refunds import PAID, REFUNDS, SIGNED, TOOLS, model

__all__ = ["desk"]

OPTIONS = ("--tools", "tools.py", "--db", "sqlite:///chats.db")


@pytest.fixture
def refunds(desk: Desk) -> Desk:
    desk.write("tools.py", TOOLS)
    desk.write("refunds.json", REFUNDS)
    return desk


def calls_made(desk: Desk) -> str:
    path = desk.folder / "calls.txt"
    return path.read_text() if path.exists() else ""


def paused(kind: Any = "wait", schema: Any = None, call: Any = None) -> Paused:
    return Paused(id="p", kind=kind, what="word", state="s", schema=schema or {}, call=call)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("y", {"approved": True}),
        ("Yes.", {"approved": True}),
        ("n, the card is lost", {"approved": False, "reason": "the card is lost"}),
        ("no because of me", {"approved": False, "reason": "because of me"}),
    ],
)
def test_approval_is_a_word_and_a_reason(line: str, value: object) -> None:
    assert answers.typed(paused("approval"), line) == value


@pytest.mark.parametrize("line", ["perhaps", "yesterday", '{"approved": true}', "ok"])
def test_what_is_neither_yes_nor_no_approves_nothing(line: str) -> None:
    with pytest.raises(ValueError, match="begin with yes or no"):
        answers.typed(paused("approval"), line)


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, "17", "17"),
        ({"type": "integer"}, "17", 17),
        ({"enum": ["red", "blue"]}, "red", "red"),
        ({}, "red", "red"),
        ({}, '{"a": 1}', {"a": 1}),
        (SIGNED, '{"by": "Ada"}', {"by": "Ada"}),
    ],
)
def test_typed_answer_is_text_or_json_as_the_schema_says(
    schema: object, line: str, value: object
) -> None:
    assert answers.typed(paused(schema=schema), line) == value


@pytest.mark.parametrize("line", ["Ada", "[" * 100_000, "", '{"by": 1', "NaN"])
def test_what_is_no_json_is_refused_in_words(line: str) -> None:
    with pytest.raises(ValueError, match="that is not JSON"):
        answers.typed(paused(schema=SIGNED), line)
    with pytest.raises(ValueError, match="that is not JSON"):
        answers.piped(paused(schema=SIGNED), line)


LEVELS = {"ok": {"type": "boolean"}, "level": {"enum": ["low", "high"]}, "note": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (SIGNED, '{"by": "…"}'),
        ({"type": "integer", "maximum": 5}, "1"),
        (
            {"type": "object", "properties": LEVELS, "required": ["ok", "level"]},
            '{"ok": true, "level": "low"}',
        ),
        (
            {"properties": {"any": True, "all": {"type": "array"}}, "type": "object"},
            '{"any": true, "all": []}',
        ),
        ({"type": "integer", "minimum": 7}, None),
        ({"type": ["object", "array"]}, None),
    ],
)
def test_an_example_of_an_answer_is_one_that_fits(schema: object, example: str | None) -> None:
    with pytest.raises(ValueError, match="that is not JSON") as caught:
        answers.typed(paused(schema=schema), "what?")
    said, _, shown = str(caught.value).partition("; an answer is such as ")
    assert said.endswith("texts need double quotes")
    assert shown == (example or "")


def test_question_shows_the_call_and_no_control_character() -> None:
    call = {"name": "pay", "arguments": {"amount": 5, "to": "a\x1b[2J"}}
    assert answers.shown(paused("approval", call=call)) == [
        r"Allow pay(amount=5, to=a\x1b[2J)? [y, or n and why]"
    ]


def test_piped_lines_of_json_answer_and_the_conversation_goes_on(refunds: Desk) -> None:
    stdin = b'my money back\n{"approved": true}\n{"by": "Ada"}\nmore\n'
    done = refunds.run("chat", "refunds.json", *model(refunds), *OPTIONS, stdin=stdin)
    assert done.code == 0
    assert done.out.endswith("\n\nIt is paid.\n\nBye Ada.\n")
    assert done.err == "llm-fsm: the conversation has ended; 1 further line was not read\n"
    assert calls_made(refunds) == "5\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"yes", "that is not JSON"),
        (b'{"approve": true}', '"approved" is a required property'),
        (b"true", "does not fit"),
    ],
)
def test_piped_line_that_is_no_answer_ends_the_chat_and_says_how_to_answer(
    refunds: Desk, line: bytes, why: str
) -> None:
    stdin = b"my money back\n" + line + b"\nmore\n"
    done = refunds.run("chat", "refunds.json", *model(refunds), *OPTIONS, "--id", "r", stdin=stdin)
    fault, *rest = done.err.splitlines()
    assert done.code == 5
    assert fault.startswith("llm-fsm: error: line 2 is no answer: ")
    assert why in fault
    assert fault.endswith("; it was not sent; 1 further line was not read")
    assert 'llm-fsm: call: refund {"amount": 5}' in rest
    options = "--db sqlite:///chats.db --model scripted:replies.json --tools tools.py"
    again = f"llm-fsm chat refunds.json --resume r {options}"
    assert rest[-1] == f"llm-fsm: to go on, with the answer as a line of JSON: {again}"
    assert calls_made(refunds) == ""


def test_input_that_ends_at_a_question_is_exit_code_5_and_resume_answers_it(refunds: Desk) -> None:
    first = refunds.run(
        "chat", "refunds.json", *model(refunds), *OPTIONS, "--id", "r", stdin=b"my money back\n"
    )
    assert (first.code, "asks for approval of refund" in first.err) == (5, True)
    answer = b'{"approved": true}\n'
    second = refunds.run(
        "chat", "refunds.json", *refunds.replies(PAID), *OPTIONS, "--resume", "r", stdin=answer
    )
    assert (second.code, "waits for signature" in second.err) == (5, True)
    assert calls_made(refunds) == "5\n"
    third = refunds.run(
        "chat", "refunds.json", *model(refunds), *OPTIONS, "--resume", "r", stdin=b'{"by": "Ada"}\n'
    )
    assert (third.code, third.out) == (0, "Bye Ada.\n")


def test_an_answer_that_comes_too_late_is_not_taken_for_one(refunds: Desk) -> None:
    late = {**REFUNDS["states"]["sign"], "timeout": 0.0001, "on_timeout": "bye"}
    refunds.write(
        "late.json",
        {**REFUNDS, "initial_state": "sign", "states": {**REFUNDS["states"], "sign": late}},
    )
    done = refunds.run("chat", "late.json", *model(refunds), *OPTIONS, stdin=b'{"by": "Ada"}\n')
    assert (done.code, done.out) == (0, "Somebody signs.\n\nBye .\n")


@pytest.mark.parametrize("option", ["--tools", "--mcp"])
def test_what_the_host_does_not_bring_is_said_before_the_first_word(
    refunds: Desk, option: str
) -> None:
    needed = {
        "--tools": {"refund": {"registered": "refund"}},
        "--mcp": {"refund": {"mcp": "bank", "tool": "refund"}},
    }
    refunds.write("lacking.json", {**REFUNDS, "tools": needed[option]})
    done = refunds.run("chat", "lacking.json", *model(refunds))
    assert (done.code, done.out) == (2, "")
    assert "needs the" in done.err
    assert f"{option} FILE" in done.err


def test_lines_are_messages_while_a_person_has_taken_over(refunds: Desk) -> None:
    refunds.write("desk.json", DESK)
    asks = {"transition": {"target_state": "human", "context_update": {}}, "message": "Of course."}
    replies = refunds.replies({"message": "Hello?"}, asks)
    done = refunds.run(
        "chat",
        "desk.json",
        *replies,
        *OPTIONS,
        stdin=b'A person\nAre you there?\n{"settled": true}\n',
    )
    assert done.code == 5
    assert done.out.endswith(
        "Of course.\n\nA colleague will be with you soon.\n\nA colleague will be with you soon.\n"
    )
    assert "waits for colleague" in done.err
    held = Paused(id="p", kind="wait", what="colleague", state="human", messages="record")
    assert answers.shown(held)[-1].endswith("/answer JSON hands back.")
