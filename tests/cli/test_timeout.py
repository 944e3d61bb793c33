"""`--timeout`: how long a turn may wait for a model, from its last sign of life."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_command import Desk, desk
from llm_fsm.testing import HttpReply, reply, serve_scripted

__all__ = ["desk"]


def streamed(text: str, seconds: float) -> HttpReply:
    """A reply that arrives evenly over some seconds."""
    pieces = [text[start : start + 10] for start in range(0, len(text), 10)]
    lines = [
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': piece}}]})}\n\n"
        for piece in pieces
    ]
    whole = "".join((*lines, "data: [DONE]\n\n"))
    return HttpReply(
        body=whole, headers={"content-type": "text/event-stream"}, pace=seconds / len(whole)
    )


def chat(desk: Desk, address: str, timeout: str) -> Any:
    """A chat through a pipe with one message."""
    model = ("--model", "m", "--base-url", address, "--db", "memory")
    return desk.run("chat", "greeter.json", *model, "--timeout", timeout, stdin=b"hi\n")


def test_a_piped_chat_waits_for_a_slow_model_that_is_alive(desk: Desk) -> None:
    said: list[Any] = [
        reply("hello", "Hello!"),
        streamed(json.dumps(reply("hello", "Your name?")), 3.0),
    ]
    with serve_scripted(said) as server:
        done = chat(desk, server.base_url, "2")
    assert (done.code, done.out) == (0, "Hello!\n\nYour name?\n"), done.err


def test_a_model_that_says_nothing_in_time_is_an_error_that_names_the_option(desk: Desk) -> None:
    with serve_scripted([HttpReply(delay=30)], loop=True) as server:
        done = chat(desk, server.base_url, "0.3")
    assert done.code == 3
    assert "--timeout" in done.err


@pytest.mark.parametrize("command", ["chat", "run", "serve", "mcp", "test"])
def test_the_commands_that_ask_a_model_take_a_time(desk: Desk, command: str) -> None:
    assert "--timeout" in desk.run(command, "--help").out
    wrong = desk.run(command, "--timeout", "-1")
    assert wrong.code in (2, 4)
    assert "timeout" in wrong.err
