"""`chat` on a terminal: a pseudo-terminal types, and what the screen shows is read back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_command import ASKS, BYE, GREETER, HELLO, TO_BAR, Desk, desk
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.testing import FaultyStream, serve_scripted
from pseudo_terminal import Terminal
from refunds import REFUNDS, TOOLS
from refunds import model as refund_model

__all__ = ["desk"]

ENTER = "\r"
SLOW_TO_STOP = '''
import asyncio

async def wait() -> str:
    """Waits."""
    print("the tool waits", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("the tool does not stop", flush=True)
        await asyncio.sleep(60)

TOOLS = [wait]
'''


@pytest.fixture
def terminals(desk: Desk) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def opened(
    terminals: list[Terminal], *arguments: str, env: dict[str, str] | None = None, job: bool = False
) -> Terminal:
    terminal = Terminal(*arguments, env=env, job=job)
    terminals.append(terminal)
    return terminal


def test_a_conversation_to_its_end(desk: Desk, terminals: list[Terminal]) -> None:
    terminal = opened(
        terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO, ASKS, BYE)
    )
    terminal.wait_for("to go on another time: llm-fsm chat greeter.json --resume x")
    terminal.wait_for("Hello!")
    terminal.wait_for_prompt()
    terminal.type("hi" + ENTER)
    terminal.wait_for("Your name?")
    terminal.wait_for_prompt()
    terminal.type("Ada" + ENTER)
    terminal.wait_for("Bye Ada.")
    terminal.wait_for("The conversation has ended.")
    assert terminal.code() == 0


def test_what_is_typed_while_words_come_stands_behind_them_and_is_taken(
    desk: Desk, terminals: list[Terminal]
) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    slow = FaultyStream(words={**ASKS, "message": words}, size=4, split=400, pause=0.02)
    with serve_scripted([HELLO, slow, BYE]) as server:
        terminal = opened(
            terminals, "chat", "greeter.json", "--model", "any", "--base-url", server.base_url
        )
        terminal.wait_for_prompt()
        terminal.type("hi" + ENTER)
        terminal.wait_for("word1 ")
        terminal.type("/state" + ENTER + "Ada" + ENTER)
        terminal.wait_for("Bye Ada.")
        assert terminal.code() == 0
    screen = " ".join(terminal.screen.split())
    assert screen.index(words) < screen.index("state hello")


def test_ctrl_d_while_words_come_leaves_after_them(desk: Desk, terminals: list[Terminal]) -> None:
    slow = FaultyStream(
        words={**ASKS, "message": "one two three four"}, size=4, split=400, pause=0.05
    )
    with serve_scripted([HELLO, slow, ASKS]) as server:
        terminal = opened(
            terminals, "chat", "greeter.json", "--model", "any", "--base-url", server.base_url
        )
        terminal.wait_for_prompt()
        terminal.type("hi" + ENTER)
        terminal.wait_for("one")
        terminal.type("\x04")
        assert terminal.code() == 0
    assert "one two three four" in terminal.screen


@pytest.mark.parametrize("gone", [True, False], ids=["broken", "interrupted"])
def test_a_greeting_that_breaks_off_is_told_as_no_beginning(
    desk: Desk, terminals: list[Terminal], gone: bool
) -> None:
    words = {
        "transition": {"target_state": "hello"},
        "message": " ".join(f"word{number}" for number in range(100)),
    }
    slow = FaultyStream(
        words=words, size=4, split=400, pause=0.02, cut_after=20_000 if gone else None
    )
    with serve_scripted([slow]) as server:
        arguments = ("greeter.json", "--id", "x", "--model", "any", "--base-url", server.base_url)
        terminal = opened(terminals, "chat", *arguments)
        terminal.wait_for("word1 ")
        terminal.type("" if gone else "\x03")
        assert terminal.code() == (3 if gone else 130)
    assert "word99" not in terminal.screen
    assert "the conversation has not begun: nothing of it is kept" in terminal.screen
    assert desk.run("conversations", "show", "x").code == 2


def test_an_interrupt_in_the_middle_of_words_stops_the_turn_and_a_second_one_leaves(
    desk: Desk, terminals: list[Terminal]
) -> None:
    words = {
        "transition": {"target_state": "hello"},
        "message": " ".join(f"word{number}" for number in range(100)),
    }
    slow = FaultyStream(words=words, size=4, split=400, pause=0.02)
    with serve_scripted([HELLO, slow, ASKS]) as server:
        arguments = ("greeter.json", "--id", "x", "--model", "any", "--base-url", server.base_url)
        terminal = opened(terminals, "chat", *arguments)
        terminal.wait_for_prompt()
        terminal.type("hi there" + ENTER)
        terminal.wait_for("word1 ")
        terminal.type("\x03")
        terminal.wait_for("Stopped. This turn was discarded. Send your message again.")
        terminal.wait_for("Ctrl-C again leaves.")
        terminal.wait_for_prompt()
        terminal.type("who are you" + ENTER)
        terminal.wait_for("Your name?")
        terminal.wait_for_prompt()
        terminal.type("\x03")
        assert terminal.code() == 130
    shown = desk.run("conversations", "show", "x").out
    assert "hi there" not in shown
    assert "who are you" in shown


def test_a_second_interrupt_leaves_a_turn_that_does_not_stop(
    desk: Desk, terminals: list[Terminal]
) -> None:
    desk.write("slow.py", SLOW_TO_STOP)
    hello = {**GREETER["states"]["hello"], "tools": ["wait"]}
    states = {**GREETER["states"], "hello": hello}
    desk.write(
        "slow.json", {**GREETER, "tools": {"wait": {"registered": "wait"}}, "states": states}
    )
    calls = {"tool_calls": [{"name": "wait", "arguments": {}}]}
    arguments = ("slow.json", "--id", "x", "--tools", "slow.py", *desk.replies(HELLO, calls))
    terminal = opened(terminals, "chat", *arguments)
    terminal.wait_for_prompt()
    terminal.type("hi" + ENTER)
    terminal.wait_for("the tool waits")
    terminal.type("\x03")
    terminal.wait_for("the tool does not stop")
    time.sleep(0.5)  # the tool waits now, and prints no more
    terminal.type("\x03")
    assert terminal.code() == 130
    assert "to go on: llm-fsm chat slow.json --resume x" in terminal.screen


def test_a_store_that_forgets_is_told_of_at_the_beginning(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--db", "memory", *desk.replies(HELLO))
    terminal.wait_for("kept in memory alone: it is gone when you leave")
    terminal.wait_for_prompt()
    terminal.type("\x03")
    assert terminal.code() == 130
    assert "--resume" not in terminal.screen


def test_an_interrupt_says_how_to_go_on_and_the_conversation_goes_on(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO, ASKS))
    terminal.wait_for_prompt()
    terminal.type("hi" + ENTER)
    terminal.wait_for("Your name?")
    terminal.wait_for_prompt()
    terminal.type("half a mess\x03")
    assert terminal.code() == 130
    assert "llm-fsm: interrupted" in terminal.screen
    assert "llm-fsm: to go on: llm-fsm chat greeter.json --resume x" in terminal.screen
    assert "Traceback" not in terminal.screen

    again = opened(terminals, "chat", "greeter.json", "--resume", "x", *desk.replies(BYE))
    again.wait_for("Your name?")
    again.wait_for_prompt()
    again.type("Ada" + ENTER)
    again.wait_for("Bye Ada.")
    assert again.code() == 0


def test_a_conversation_that_has_ended_takes_commands_and_goes_on_when_its_end_is_taken_back(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO, BYE))
    terminal.wait_for_prompt()
    terminal.type("Ada" + ENTER)
    assert terminal.code() == 0

    again = opened(terminals, "chat", "greeter.json", "--resume", "x", *desk.replies(BYE))
    again.wait_for("The conversation has ended; /undo takes its last turn back, Ctrl-D leaves.")
    for typed, shown in (
        ("Ada", "llm-fsm: error: "),
        ("/undo", "the state is hello again"),
        ("Ada", "has ended."),
    ):
        again.wait_for_prompt()
        again.type(typed + ENTER)
        again.wait_for(shown)
    assert again.code() == 0


def test_a_conversation_that_ends_with_its_greeting_is_over(
    desk: Desk, terminals: list[Terminal]
) -> None:
    hello = {"purpose": "x", "transitions": [{"target_state": "bye", "auto": True}]}
    states = {"hello": hello, "bye": {"reply": "Bye."}}
    desk.write("bye.json", json.dumps({"name": "bye", "initial_state": "hello", "states": states}))
    terminal = opened(terminals, "chat", "bye.json", *desk.replies(BYE))
    terminal.wait_for("The conversation has ended.")
    assert terminal.code() == 0


def test_the_end_of_input_leaves_and_the_conversation_stays(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO))
    terminal.wait_for_prompt()
    assert terminal.leave() == 0
    assert desk.run("conversations", "show", "x").code == 0


def test_slash_commands_are_answered_without_the_model(
    desk: Desk, terminals: list[Terminal]
) -> None:
    replies = desk.replies(HELLO, TO_BAR, ASKS)
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *replies)
    terminal.wait_for_prompt()
    terminal.type("a drink, pin 4711" + ENTER)
    terminal.wait_for("Your name?")
    for typed, shown in (
        ("/why", "is of age: does not hold (age = 12)"),
        ("/stat", "did you mean /state?"),
        ("/context", "pin = •••"),
        ("/save out.md", "saved to out.md"),
        ("/undo", "the last turn was taken back; the state is hello again"),
    ):
        terminal.wait_for_prompt()
        terminal.type(typed + ENTER)
        terminal.wait_for(shown)
    terminal.wait_for_prompt()
    terminal.type("/quit" + ENTER)
    assert terminal.code() == 0
    assert "a drink" in Path("out.md").read_text(encoding="utf-8")


def test_a_message_that_is_half_typed_is_put_into_the_background_and_goes_on(
    desk: Desk, terminals: list[Terminal]
) -> None:
    arguments = ("chat", "greeter.json", "--id", "x", *desk.replies(HELLO, ASKS))
    terminal = opened(terminals, *arguments, job=True)
    terminal.wait_for_prompt()
    terminal.type("half a ")
    terminal.wait_for("half a")
    terminal.type("\x1a")
    terminal.wait_for("away\n")
    terminal.wait_for("half a", times=2)
    terminal.type("message" + ENTER)
    terminal.wait_for("Your name?")
    assert terminal.leave() == 0
    assert "  user: half a message\n" in desk.run("conversations", "show", "x").out


def test_a_pasted_text_is_one_message(desk: Desk, terminals: list[Terminal]) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO, ASKS))
    terminal.wait_for_prompt()
    terminal.type("\x1b[200~first\nsecond\nthird\x1b[201~")
    terminal.type(ENTER)
    terminal.wait_for("Your name?")
    assert terminal.leave() == 0
    assert "  user: first\n    second\n    third\n" in desk.run("conversations", "show", "x").out


def test_a_model_that_fails_leaves_the_conversation_open(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *desk.replies(HELLO))
    terminal.wait_for_prompt()
    terminal.type("hi" + ENTER)
    terminal.wait_for("llm-fsm: error: the script has 1 reply")
    terminal.wait_for("Nothing has changed; ↑ brings the message back.")
    terminal.wait_for_prompt()
    terminal.type("/quit" + ENTER)
    assert terminal.code() == 0


def test_without_a_file_one_of_the_shipped_definitions_is_chosen(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, "chat", "--model", "offline")
    terminal.wait_for("Which definition?")
    terminal.wait_for("Number or name:")
    terminal.type("greeting\n")
    terminal.wait_for("Ctrl-D leaves")
    terminal.wait_for_prompt()
    assert terminal.leave() == 0


def test_without_a_model_the_menu_has_chosen_offline(desk: Desk, terminals: list[Terminal]) -> None:
    terminal = opened(terminals, "chat", env={"LLM_FSM_MODEL": ""})
    terminal.wait_for("Which definition?")
    terminal.wait_for("no model is configured: `offline` answers; --model names another")
    terminal.wait_for("Number or name:")
    terminal.type("3\n")
    terminal.wait_for("Hello, and welcome! What may I call you?")
    assert terminal.leave() == 0


@pytest.mark.parametrize("file", ["greeting", "bot.json"])
def test_without_a_model_a_named_definition_is_answered_by_offline_too(
    desk: Desk, terminals: list[Terminal], file: str
) -> None:
    desk.write("bot.json", definition_paths()["greeting"].read_text(encoding="utf-8"))
    terminal = opened(terminals, "chat", file, env={"LLM_FSM_MODEL": ""})
    terminal.wait_for("no model is configured: `offline` answers; --model names another")
    terminal.wait_for("Hello, and welcome! What may I call you?")
    assert terminal.leave() == 0


def test_nobody_chooses_a_definition_where_the_model_has_no_key(
    desk: Desk, terminals: list[Terminal]
) -> None:
    terminal = opened(
        terminals, "chat", "--model", "openai/gpt-4o-mini", env={"OPENAI_API_KEY": ""}
    )
    assert terminal.code() == 3
    assert "Which definition?" not in terminal.screen


def test_a_greeting_that_takes_its_time_is_waited_for_and_stands_below_the_head(
    desk: Desk, terminals: list[Terminal]
) -> None:
    with serve_scripted([HELLO], delay=2.2) as server:
        key = {"LLM_FSM_API_KEY": "k"}
        asked = ("--model", "compat/m", "--base-url", server.base_url)
        terminal = opened(terminals, "chat", "greeter.json", "--id", "x", *asked, env=key)
        terminal.wait_for("thinking")
        terminal.wait_for("Hello!")
        terminal.wait_for("first word after 2.")
    shown = terminal.screen
    assert shown.count("Hello!") == 1
    assert shown.index("--resume x") < shown.index("Hello!")
    assert terminal.leave() == 0


def test_what_a_model_says_cannot_move_the_cursor(desk: Desk, terminals: list[Terminal]) -> None:
    evil = {"message": "\x1b]0;title\x07\x1b[2J\x1b[Hgone\u202e"}
    terminal = opened(terminals, "chat", "greeter.json", *desk.replies(evil))
    terminal.wait_for("\\x1b]0;title\\x07\\x1b[2J\\x1b[Hgone\\u202e")
    assert terminal.leave() == 0
    assert "\x1b]0;title" not in terminal.raw
    assert "\u202e" not in terminal.raw


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_obey_no_color(
    desk: Desk, terminals: list[Terminal], env: dict[str, str], coloured: bool
) -> None:
    terminal = opened(terminals, "chat", "greeter.json", *desk.replies(HELLO), env=env)
    terminal.wait_for_prompt()
    terminal.type("hi" + ENTER)
    terminal.wait_for("Nothing has changed")
    assert terminal.leave() == 0
    assert (re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.raw) is not None) is coloured


@pytest.mark.parametrize(("arguments", "env"), [(["--plain"], {}), ([], {"TERM": "dumb"})])
def test_plain_lines_also_on_a_terminal(
    desk: Desk, terminals: list[Terminal], arguments: list[str], env: dict[str, str]
) -> None:
    terminal = opened(
        terminals, "chat", "greeter.json", *arguments, *desk.replies(HELLO, BYE), env=env
    )
    terminal.wait_for("Hello!")
    terminal.type("Ada\n")
    terminal.wait_for("Bye Ada.")
    assert terminal.code() == 0
    assert "\x1b" not in terminal.raw


def test_deleting_asks_first(desk: Desk, terminals: list[Terminal]) -> None:
    desk.run("chat", "greeter.json", "--id", "x", *desk.replies(HELLO))
    for typed, said in (("n\n", "nothing was deleted"), ("y\n", "deleted x")):
        terminal = opened(terminals, "conversations", "delete", "x")
        terminal.wait_for("Delete conversation x for good? [y/N]: ")
        terminal.type(typed)
        assert terminal.code() == 0
        assert f"llm-fsm: {said}" in terminal.screen
    assert desk.run("conversations", "show", "x").code == 2


def test_silence_is_broken_while_the_user_has_begun_to_type(
    terminals: list[Terminal], tmp_path: Path
) -> None:
    file = tmp_path / "quiet.json"
    states = {
        "ask": {"reply": "Your name?", "transitions": [{"target_state": "end"}]},
        "end": {"reply": "Bye."},
        "silence": {
            "kind": "wait",
            "reply": "Hello?",
            "remind": [0.5],
            "timeout": 1.5,
            "on_timeout": "gone",
        },
        "gone": {"reply": "I hang up."},
    }
    document = {"name": "quiet", "initial_state": "ask", "patterns": ["silence"], "states": states}
    file.write_text(json.dumps(document), encoding="utf-8")
    terminal = opened(terminals, "chat", str(file), "--model", "offline")
    terminal.wait_for_prompt()
    terminal.type("A")
    terminal.wait_for("Hello?")
    terminal.wait_for("I hang up.")
    assert terminal.code() == 0
    assert "The conversation has ended." in terminal.screen


def test_a_pause_is_asked_about_and_answered(desk: Desk, terminals: list[Terminal]) -> None:
    desk.write("tools.py", TOOLS)
    desk.write("refunds.json", REFUNDS)
    terminal = opened(
        terminals, "chat", "refunds.json", "--tools", "tools.py", *refund_model(desk), "--id", "x"
    )
    terminal.wait_for("Hello!")
    terminal.type(f"my money back{ENTER}")
    terminal.wait_for("Allow refund(amount=5)? [y, or n and why]")
    terminal.wait_for_prompt()
    terminal.type(f"perhaps{ENTER}")
    terminal.wait_for("please begin with yes or no")
    terminal.wait_for_prompt()
    terminal.type(f"y{ENTER}")
    terminal.wait_for("It is paid.")
    terminal.wait_for("waits for signature")
    terminal.wait_for_prompt()
    terminal.type('/answer {"name": "Ada"}' + ENTER)
    terminal.wait_for('"by" is a required property')
    assert terminal.leave() == 5
    assert terminal.screen.count("waits for signature") == 2
    again = opened(
        terminals,
        "chat",
        "refunds.json",
        "--tools",
        "tools.py",
        *refund_model(desk),
        "--resume",
        "x",
    )
    again.wait_for("waits for signature")
    again.wait_for_prompt()
    assert again.screen.count("Somebody signs") == 1
    again.type("/state" + ENTER)
    again.wait_for("state sign")
    again.wait_for("\nby\n", 2)
    again.wait_for_prompt()
    again.type("Ada" + ENTER)
    again.wait_for("Bye Ada.")
    assert again.code() == 0


def test_a_drawing_has_bold_ids_and_lines_that_break_between_words(
    terminals: list[Terminal],
) -> None:
    terminal = Terminal("show", "order", "--conditions", size=(40, 60))
    terminals.append(terminal)
    assert terminal.code() == 0
    assert "-> \x1b[1mplaced\x1b[0m:" in terminal.raw
    assert "\x1b[1mconfirm\x1b[0m" in terminal.raw
    assert "[handover\n     is delivery]" in terminal.screen
    assert max(map(len, terminal.screen.splitlines())) <= 60


def test_a_report_has_colours_that_obey_no_color(desk: Desk, terminals: list[Terminal]) -> None:
    desk.write("bad.json", {**GREETER, "initial_state": "helo"})
    coloured, bare = (
        opened(terminals, "validate", "bad.json", env={"NO_COLOR": value}) for value in ("", "1")
    )
    assert (coloured.code(), bare.code()) == (1, 1)
    assert "\x1b[1;31merror\x1b[0m" in coloured.raw
    assert "\x1b[1;31m^" in coloured.raw
    assert "\x1b[1;31m" not in bare.raw
    assert coloured.screen == bare.screen


SIZES = {
    "name": "sizes",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "size": {"enum": ["s", "l"], "x-labels": {"s": "small one", "l": "large\x1b[2Jone"}},
            "sure": {"type": "boolean"},
        }
    },
    "states": {
        "ask": {
            "reply": "Which size?",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "sure", "conditions": [{"requires_context_keys": ["size"]}]}
            ],
        },
        "sure": {
            "reply": "Size {{ size }}, then?",
            "required_context_keys": ["sure"],
            "transitions": [
                {"target_state": "done", "conditions": [{"logic": {"==": [{"var": "sure"}, True]}}]}
            ],
        },
        "done": {"reply": "It is on its way."},
    },
}


def test_a_number_chooses_without_a_model(desk: Desk, terminals: list[Terminal]) -> None:
    terminal = opened(
        terminals, "chat", desk.write("sizes.json", SIZES), "--id", "x", *desk.replies()
    )
    terminal.wait_for("Which size?")
    terminal.wait_for("1 small\u00a0one   2 large\\x1b[2Jone")
    terminal.wait_for_prompt()
    terminal.type("2" + ENTER)
    terminal.wait_for("Size large\\x1b[2Jone, then?")
    terminal.wait_for("1 yes   2 no")
    terminal.wait_for_prompt()
    terminal.type("/state" + ENTER)
    terminal.wait_for("state sure")
    terminal.wait_for_prompt()
    assert terminal.screen.count("1 yes   2 no") == 1
    terminal.type("Yes" + ENTER)
    terminal.wait_for("It is on its way.")
    assert terminal.code() == 0
    assert "large\\x1b[2Jone" in desk.run("conversations", "show", "x").out
