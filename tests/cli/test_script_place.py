"""A scripted model goes on after the replies that a resumed conversation has used."""

from __future__ import annotations

import json

import pytest

from cli_command import ASKS, BYE, HELLO, Desk, desk
from llm_fsm.llm.scripted import calls

__all__ = ["desk"]

PAY = calls(("pay", {"amount": 5}))
PAYER = {
    "name": "payer",
    "initial_state": "work",
    "tools": {"pay": {"registered": "pay", "approval": True}},
    "states": {"work": {"kind": "task", "purpose": "Pay", "tools": ["pay"]}},
}
TOOLS = "def pay(amount: int) -> str:\n    'Pay.'\n    return f'paid {amount}'\n\nTOOLS = [pay]\n"


@pytest.mark.parametrize("naming", [("--resume", "x"), ("--last",)])
@pytest.mark.parametrize("shown", [(), ("--show-prompt",)])
def test_a_chat_goes_on_with_the_reply_after_those_used(
    desk: Desk, naming: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    script = desk.replies(HELLO, ASKS, BYE)
    first = desk.run("chat", "greeter.json", *script, "--id", "x", stdin=b"hi\n")
    assert first.out == "Hello!\n\nYour name?\n"
    second = desk.run("chat", "greeter.json", *script, *shown, *naming, stdin=b"I am Ada\n")
    assert second.out == "Bye Ada.\n"


def test_a_run_goes_on_with_the_reply_after_those_used(desk: Desk) -> None:
    desk.write("payer.json", PAYER)
    options = ("--tools", desk.write("tools.py", TOOLS), *desk.replies(PAY, "done"))
    assert desk.run("run", "payer.json", *options, "--id", "r").code == 5
    end = desk.run("run", "payer.json", *options, "--resume", "r", "--answer", '{"approved": true}')
    assert (end.code, json.loads(end.out.splitlines()[-1])["output"]) == (0, "done")


def test_another_script_begins_with_its_first_reply(desk: Desk) -> None:
    desk.run("chat", "greeter.json", *desk.replies(HELLO, ASKS), "--id", "x", stdin=b"hi\n")
    done = desk.run(
        "chat", "greeter.json", *desk.replies(BYE), "--resume", "x", stdin=b"I am Ada\n"
    )
    assert done.out == "Bye Ada.\n"


@pytest.mark.parametrize("naming", [("--resume", "x"), ("--last",)])
@pytest.mark.parametrize("command", ["chat", "run"])
def test_context_belongs_to_a_new_conversation_only(
    desk: Desk, command: str, naming: tuple[str, ...]
) -> None:
    done = desk.run(command, "greeter.json", "--context", "{}", *naming, *desk.replies(HELLO))
    assert done.code == 2
    assert f"--context belongs to a new {'run' if command == 'run' else 'conversation'}" in done.err
    assert f"not to {naming[0]}" in done.err
