"""Standard output as a caller reads it: what tools and their programs print does not stand between
the lines.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from cli_command import ASKS, HELLO, Desk, command, desk
from llm_fsm.llm.scripted import calls

__all__ = ["desk"]

NOISY: dict[str, Any] = {
    "name": "noisy",
    "initial_state": "work",
    "tools": {"shout": {"registered": "shout"}},
    "states": {"work": {"kind": "task", "purpose": "Shout", "tools": ["shout"]}},
}
TOOLS = """
import os, subprocess, sys
print("imported")

def shout() -> str:
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-c", "print('started')"])
    return "ok"

TOOLS = [shout]
"""


def noisy(desk: Desk) -> tuple[str, ...]:
    desk.write("noisy.json", NOISY)
    desk.write("mine.py", TOOLS)
    model = desk.replies(calls(("shout", {})), "é")
    return ("run", "noisy.json", "--tools", "mine.py", *model, "--db", "memory")


def test_what_tools_print_goes_to_standard_error(desk: Desk) -> None:
    done = desk.process(*noisy(desk))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, told[-1]["outcome"], told[-1]["output"]) == (0, "passed", "é")
    for word in (b"imported", b"printed", b"written", b"started"):
        assert word in done.stderr


def test_the_same_where_streams_have_no_descriptors(desk: Desk) -> None:
    done = desk.run(*noisy(desk))
    assert json.loads(done.out.splitlines()[-1])["outcome"] == "passed"
    assert "printed" in done.err


def test_replies_of_a_conversation_stand_alone(desk: Desk) -> None:
    done = desk.process(
        "chat", "greeter.json", *desk.replies(HELLO, ASKS), "--db", "memory", stdin=b"hi\n"
    )
    assert (done.returncode, done.stdout) == (0, b"Hello!\n\nYour name?\n")


def test_an_output_that_takes_nothing_is_said_once(desk: Desk) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*noisy(desk)), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr.count(b"no space left")) == (74, 1)


@pytest.mark.parametrize(
    ("form", "read"), [("json", json.loads), ("sarif", json.loads), ("junit", fromstring)]
)
def test_what_goes_into_a_pipe_is_utf_8_whatever_the_console_has(
    desk: Desk, form: str, read: Any
) -> None:
    states = {
        "a": {"purpose": "?", "transitions": [{"target_state": "b\u00e9"}]},
        "b": {"reply": "b"},
    }
    desk.write("fl\u00fc.json", {"name": "g", "initial_state": "a", "states": states})
    done = subprocess.run(
        command("validate", "fl\u00fc.json", "--format", form),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
    )
    read(done.stdout)
    assert "b\u00e9" in done.stdout.decode()
