"""`llm-fsm run --batch`: results in order, broken lines, files that exist, kills, and several
processes at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import warm_parent
from cli_command import Desk, command, desk
from llm_fsm.testing.server.http import HttpReply
from llm_fsm.testing.server.server import ScriptedServer, serve_scripted
from services import open_folder

__all__ = ["desk"]

WRITER: dict[str, Any] = {
    "name": "writer",
    "initial_state": "write",
    "states": {
        "write": {"kind": "task", "purpose": "Write", "transitions": [{"target_state": "done"}]},
        "done": {"kind": "final"},
    },
}
ECHO: dict[str, Any] = {
    "name": "echo",
    "initial_state": "hear",
    "context_schema": {
        "type": "object",
        "properties": {"pin": {"type": "string", "x-secret": True}, "city": {"type": "string"}},
    },
    "states": {
        "hear": {
            "purpose": "Listen.",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye."},
    },
}
USER = re.compile(r"<user_input>\n(.*)\n</user_input>")


def said(body: dict[str, Any]) -> str:
    """The last message of the user, as a prompt shows it; "" in a greeting."""
    found = USER.findall("\n".join(message["content"] for message in body["messages"]))
    return str(json.loads(found[-1])) if found else ""


def echo(body: dict[str, Any]) -> dict[str, Any]:
    """Stay, or leave on a goodbye; a message `pin: N` gives the secret key."""
    text = said(body)
    update = {"pin": text[5:]} if text.startswith("pin: ") else {}
    target = "bye" if text == "bye" else "hear"
    return {"transition": {"target_state": target, "context_update": update}, "message": "I see."}


def write(body: dict[str, Any]) -> str:
    return "written"


@pytest.fixture
def work(desk: Desk) -> Desk:
    desk.write("writer.json", WRITER)
    desk.write("echo.json", ECHO)
    return desk


def inputs(work: Desk, *lines: object) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return work.write("inputs.jsonl", "".join(f"{text}\n" for text in texts))


def results(work: Desk, name: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work.folder / name).read_text().splitlines()]


def options(
    server: ScriptedServer, *, db: str | None = "sqlite:///b.db", out: str = "results.jsonl"
) -> list[str]:
    place = [] if db is None else ["--db", db]
    return [
        "--batch",
        "inputs.jsonl",
        "-o",
        out,
        "--model",
        "m",
        "--base-url",
        server.base_url,
        *place,
    ]


def test_runs_are_written_in_the_order_of_the_inputs(work: Desk) -> None:
    inputs(work, *({"input": f"about {number}"} for number in range(20)))
    with serve_scripted(write) as server:
        done = work.run("run", "writer.json", *options(server), "--json")
        assert (done.code, len(server.requests)) == (0, 20)
    found = results(work)
    assert [result["line"] for result in found] == list(range(1, 21))
    assert {result["outcome"] for result in found} == {"passed"}
    assert {result["output"] for result in found} == {"written"}
    assert {result["usage"]["calls"] for result in found} == {1}
    summary = json.loads(done.out)
    assert (summary["done"], summary["failed"], summary["usage"]["calls"]) == (20, 0, 20)
    assert "20 of 20" in done.err


def test_conversations_say_all_their_messages_and_hide_secrets(work: Desk) -> None:
    inputs(
        work,
        {"messages": ["one", "pin: 4711", "it is 4711"], "context": {"city": "Rome"}},
        {"messages": [{"role": "user", "content": "bye"}, "never sent"]},
    )
    with serve_scripted(echo) as server:
        assert work.run("run", "echo.json", *options(server), "--id", "visits").code == 0
    first, second = results(work)
    assert (
        next(message["content"] for message in first["messages"] if message["role"] == "user")
        == "one"
    )
    assert "4711" not in json.dumps(first)
    assert (first["outcome"], first["context"]["city"], first["conversation"]) == (
        "talking",
        "Rome",
        "visits/1",
    )
    assert (second["outcome"], second["state"]) == ("passed", "bye")
    assert "never sent" not in json.dumps(second)


BROKEN = [
    ("{", "is no JSON"),
    ("[]", "is no object"),
    ("{}", "needs one of input and messages"),
    ('{"messages": ["a"]}', "begins with work"),
    ('{"input": 1, "messages": ["a"]}', "needs one of input and messages"),
    ('{"input": 1, "inptu": 2}', "'inptu'"),
    ('{"input": 1, "context": 2}', "context"),
    ("[" * 50_000, "is no JSON"),
]


def test_broken_lines_are_told_with_their_numbers_and_the_rest_goes_on(work: Desk) -> None:
    inputs(work, {"input": "first"}, "", *(line for line, _ in BROKEN), {"input": "last"})
    with serve_scripted(write) as server:
        done = work.run("run", "writer.json", *options(server))
    assert done.code == 1
    for number, (_, reason) in enumerate(BROKEN, 3):
        assert any(f"line {number} " in line and reason in line for line in done.err.splitlines())
    found = results(work)
    assert [result["line"] for result in found] == [1, *range(3, 4 + len(BROKEN))]
    assert [result["outcome"] for result in found] == [
        "passed",
        *["invalid"] * len(BROKEN),
        "passed",
    ]


@pytest.mark.parametrize(
    "given", [5, [], [1], [" "], [{"role": "assistant", "content": "x"}], [{"role": "user"}]]
)
def test_messages_that_are_none_are_a_broken_line(work: Desk, given: object) -> None:
    inputs(work, {"messages": given}, {"messages": ["one"]})
    with serve_scripted(echo) as server:
        assert work.run("run", "echo.json", *options(server)).code == 1
    assert [result["outcome"] for result in results(work)] == ["invalid", "talking"]


def test_the_same_command_again_calls_nothing_again(work: Desk) -> None:
    inputs(work, *({"messages": ["one", "two"]} for _ in range(5)))
    with serve_scripted(echo) as server:
        work.run("run", "echo.json", *options(server))
        before, calls = results(work), len(server.requests)
        assert work.run("run", "echo.json", *options(server)).code == 0
        assert (results(work), len(server.requests)) == (before, calls)
        (work.folder / "results.jsonl").unlink()
        assert work.run("run", "echo.json", *options(server)).code == 0
        assert (results(work), len(server.requests)) == (before, calls)


def test_a_line_that_failed_is_played_again_by_the_next_call(work: Desk) -> None:
    inputs(work, {"messages": ["one"]}, {"messages": ["two"]})
    broken = [True]

    def answer(body: dict[str, Any]) -> Any:
        return "no reply" if broken[0] and said(body) == "two" else echo(body)

    def refuse(body: dict[str, Any]) -> Any:
        found = answer(body)
        return HttpReply(status=400) if found == "no reply" else found

    with serve_scripted(refuse) as server:
        done = work.run("run", "echo.json", *options(server))
        assert done.code == 1
        assert [result["outcome"] for result in results(work)] == ["talking", "error"]
        assert "ModelError" in results(work)[1]["error"]
        broken[0] = False
        assert work.run("run", "echo.json", *options(server)).code == 0
    assert [result["outcome"] for result in results(work)] == ["talking", "talking"]


OTHER = '{"line": 1, "conversation": "other/1", "outcome": "passed"}\n'


@pytest.mark.parametrize("content", ["notes\n", OTHER, "[]\n"])
def test_a_results_file_of_something_else_is_left_alone(work: Desk, content: str) -> None:
    inputs(work, {"input": "a"})
    work.write("results.jsonl", content)
    with serve_scripted(write) as server:
        done = work.run("run", "writer.json", *options(server))
        assert (done.code, len(server.requests)) == (74, 0)
    assert "exists already" in done.err
    assert (work.folder / "results.jsonl").read_text() == content


def test_inputs_are_not_overwritten_by_results(work: Desk) -> None:
    inputs(work, {"input": "a"})
    with serve_scripted(write) as server:
        done = work.run("run", "writer.json", *options(server, out="./inputs.jsonl"))
    assert (done.code, "the same file" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--batch", "inputs.jsonl"], "-o RESULTS.jsonl"),
        (["-o", "x"], "-o belongs to --batch"),
        (["--limit", "3"], "--limit belongs to --batch"),
        (["--batch", "inputs.jsonl", "-o", "x", "--input", "a"], "--input belongs to a single run"),
        (["--batch", "inputs.jsonl", "-o", "x", "--last"], "--last belongs to a single run"),
        (["--batch", "nothing.jsonl", "-o", "x"], "nothing.jsonl"),
        (["--batch", "inputs.jsonl", "-o", "no/x"], "no/x"),
        (["--batch", "empty.jsonl", "-o", "x"], "there is no line"),
        (["--batch", "inputs.jsonl", "-o", "x", "--id", "a" * 190], "--id"),
    ],
)
def test_options_that_do_not_fit_are_refused(work: Desk, arguments: list[str], reason: str) -> None:
    inputs(work, {"input": "a"})
    work.write("empty.jsonl", "\n\n")
    done = work.run("run", "writer.json", *arguments, *work.replies("a"), "--db", "memory")
    assert done.code in (2, 74)
    assert reason in done.err


def test_without_a_named_store_it_says_where_the_batch_is_kept(work: Desk) -> None:
    inputs(work, {"input": "a"})
    with serve_scripted(write) as server:
        done = work.run("run", "writer.json", *options(server, db=None))
        assert "no --db" in done.err
        assert "other machines cannot share" in done.err
        done = work.run("run", "writer.json", *options(server, db="memory", out="more.jsonl"))
        assert "a kill begins it again" in done.err


def test_another_input_under_the_name_of_a_batch_is_an_error_of_its_line(work: Desk) -> None:
    inputs(work, {"input": "a"}, {"input": "b"})
    with serve_scripted(write) as server:
        assert work.run("run", "writer.json", *options(server), "--id", "n").code == 0
        inputs(work, {"input": "a"}, {"input": "c"})
        done = work.run("run", "writer.json", *options(server, out="second.jsonl"), "--id", "n")
    assert done.code == 1
    first, second = results(work, "second.jsonl")
    assert (first["outcome"], second["outcome"]) == ("passed", "error")
    assert "another input" in second["error"]


# -- kills, and several processes

LINES = int(os.environ.get("CRASH_LINES", "36"))


@contextmanager
def slow_echo() -> Iterator[tuple[ScriptedServer, Counter[str]]]:
    """A model that takes 0.1 s, and the times that each message was answered."""
    answered: Counter[str] = Counter()
    guard = threading.Lock()

    def answer(body: dict[str, Any]) -> Any:
        with guard:
            answered[said(body)] += 1
        return echo(body)

    with serve_scripted(answer, delay=0.1) as server:
        yield server, answered


def begin(
    work: Desk, server: ScriptedServer, db: str, out: str, *more: str
) -> subprocess.Popen[bytes]:
    arguments = command("run", "echo.json", *options(server, db=db, out=out), "--limit", "4", *more)
    pipe = subprocess.PIPE
    return warm_parent.Popen(arguments, cwd=work.folder, stdout=pipe, stderr=pipe)


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def talks(work: Desk) -> None:
    inputs(work, *({"messages": [f"{number} a", f"{number} b"]} for number in range(1, LINES + 1)))


def check_whole(work: Desk, out: str, db: str) -> None:
    """Each line has its result, and each conversation its two messages, once and in order."""
    found = results(work, out)
    assert [result["line"] for result in found] == list(range(1, LINES + 1))
    for result in found:
        spoken = [message["content"] for message in result["messages"] if message["role"] == "user"]
        assert spoken == [f"{result['line']} a", f"{result['line']} b"]
    listed = json.loads(
        work.run("conversations", "list", "--db", db, "--json", "--limit", "999").out
    )
    assert len(listed["conversations"]) == LINES


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a store of its own, by its kind."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql_url")
        return
    with open_folder() as folder:
        yield f"sqlite:///{folder}/b.db"


@pytest.mark.parametrize(
    ("place", "number"),
    [("sqlite", signal.SIGKILL), ("postgresql", signal.SIGINT)],
    indirect=["place"],
)
def test_two_processes_share_a_batch_and_one_dies(work: Desk, number: int, place: str) -> None:
    talks(work)
    with slow_echo() as (server, answered):
        first = begin(work, server, place, "first.jsonl")
        second = begin(work, server, place, "second.jsonl")
        wait_for_lines(work.folder / "second.jsonl", 1)
        wait_for_lines(work.folder / "first.jsonl", 1)
        first.send_signal(number)
        _, told = first.communicate(timeout=300)
        if number == signal.SIGINT:
            assert (first.returncode, b"goes on with what is left" in told) == (130, True)
        _, told = second.communicate(timeout=300)
        assert second.returncode == 0, told
        check_whole(work, "second.jsonl", place)
        again = sum(count - 1 for text, count in answered.items() if text)
        # calls that were under way in the process that died, of which nothing was on record
        assert again <= 4
        before = sum(answered.values())
        third = begin(work, server, place, "first.jsonl")
        _, told = third.communicate(timeout=300)
        assert third.returncode == 0, told
        check_whole(work, "first.jsonl", place)
        assert sum(answered.values()) == before
