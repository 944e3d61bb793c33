"""`llm-fsm run`: lines of JSON through a pipe, a view on a terminal, parked runs and answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import warm_parent
from cli_command import Desk, Done, command, desk
from llm_fsm.llm.scripted import calls
from llm_fsm.testing.server.server import serve_scripted
from paths import SUPPORT
from pseudo_terminal import Terminal

__all__ = ["desk"]

FINAL = {"kind": "final"}
LONG = {
    "name": "long",
    "description": "At least 3 characters",
    "check": {">": [{"len": [{"var": "output"}]}, 2]},
}
WRITER: dict[str, Any] = {
    "name": "writer",
    "initial_state": "write",
    "states": {
        "write": {
            "kind": "task",
            "purpose": "Write",
            "key_results": [LONG],
            "transitions": [{"target_state": "done"}],
        },
        "done": FINAL,
    },
}
PAYER: dict[str, Any] = {
    "name": "payer",
    "initial_state": "work",
    "tools": {"pay": {"registered": "pay", "approval": True}},
    "states": {"work": {"kind": "task", "purpose": "Pay", "tools": ["pay"]}},
}
FREE = {**PAYER, "tools": {"pay": {"registered": "pay"}}}
TOOLS = """
def pay(amount: int) -> str:
    'Pay.'
    return f'paid {amount}'

TOOLS = [pay]
"""
SLOW = """
import time
from pathlib import Path

def pay(amount: int) -> str:
    'Pay, slowly the second time.'
    with Path('calls.txt').open('a') as file:
        file.write(str(amount))
    while amount == 2 and not Path('go').exists():
        time.sleep(0.05)
    return f'paid {amount}'

TOOLS = [pay]
"""
WAITER: dict[str, Any] = {
    "name": "waiter",
    "initial_state": "ask",
    "states": {
        "ask": {
            "kind": "wait",
            "purpose": "Wait for a word.",
            "wait_for": "word",
            "answer_schema": {"type": "string"},
            "timeout": 3600,
            "transitions": [{"target_state": "said"}],
        },
        "said": FINAL,
    },
}


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def types(done: Done) -> list[str]:
    return [line["type"] for line in lines(done)]


@pytest.fixture
def work(desk: Desk) -> Desk:
    for name, document in (
        ("writer", WRITER),
        ("waiter", WAITER),
        ("payer", PAYER),
        ("free", FREE),
    ):
        desk.write(f"{name}.json", document)
    desk.write("tools.py", TOOLS)
    desk.write("slow.py", SLOW)
    return desk


def test_every_event_is_a_line_and_the_last_one_is_the_outcome(work: Desk) -> None:
    done = work.run(
        "run",
        "writer.json",
        *work.replies("ab", "abc"),
        "--input",
        "about",
        "--id",
        "r",
        "--context",
        '{"k": 1}',
    )
    assert (done.code, done.err) == (0, "")
    assert types(done) == [
        *(
            "Started",
            "RunResumed",
            "AttemptBegun",
            "ModelReplied",
            "KeyResultChecked",
            "AttemptFailed",
        ),
        *(
            "AttemptBegun",
            "ModelReplied",
            "KeyResultChecked",
            "TaskPassed",
            "StateEntered",
            "Ended",
            "Outcome",
        ),
    ]
    started, *_, outcome = lines(done)
    assert (started["input"], started["context"]) == ("about", {"k": 1})
    assert {
        key: outcome[key] for key in ("outcome", "conversation", "state", "output", "context")
    } == {
        "outcome": "passed",
        "conversation": "r",
        "state": "done",
        "output": "abc",
        "context": {"k": 1},
    }
    assert outcome["usage"]["calls"] == 2


def test_run_that_failed_all_attempts_is_exit_code_1(work: Desk) -> None:
    done = work.run("run", "writer.json", *work.replies(*["x"] * 4))
    assert (done.code, lines(done)[-1]["outcome"]) == (1, "exhausted")


@pytest.mark.parametrize(("outcome", "code"), [("failed", 1), ("sold", 0)])
def test_an_end_that_declares_a_failure_is_exit_code_1(work: Desk, outcome: str, code: int) -> None:
    states = {**WRITER["states"], "done": {**FINAL, "outcome": outcome}}
    work.write("writer.json", {**WRITER, "states": states})
    done = work.run("run", "writer.json", *work.replies("long enough"))
    assert (done.code, json.loads(done.out.splitlines()[-1])["outcome"]) == (code, outcome)


def test_run_that_reached_a_limit_is_exit_code_1(work: Desk) -> None:
    work.write("writer.json", {**WRITER, "limits": {"llm_calls": 1}})
    done = work.run("run", "writer.json", *work.replies("x"))
    assert (done.code, lines(done)[-1]["outcome"]) == (1, "limited")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("text", "text"),
        ('{"a": [1]}', {"a": [1]}),
        ("[1, 2]", [1, 2]),
        ("[no json", "[no json"),
        ("7", "7"),
        ("@in.json", {"rows": []}),
        ("@in.txt", "grüße\n"),
        ("-", "from a pipe"),
    ],
)
def test_input_is_text_or_a_json_value_from_wherever_it_comes(
    work: Desk, given: str, found: Any
) -> None:
    work.write("in.json", {"rows": []})
    work.write("in.txt", "grüße\n")
    done = work.run(
        "run", "writer.json", *work.replies("abc"), "--input", given, stdin=b"from a pipe"
    )
    assert lines(done)[0]["input"] == found


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "name a definition FILE, once"),
        (("writer.json", "--fsm", "writer.json"), 2, "name a definition FILE, once"),
        (("nowhere.json",), 2, "nowhere.json: there is no such file"),
        (("broken.json",), 1, "broken.json cannot be used"),
        (
            ("greeter.json",),
            2,
            "greeter.json begins by talking to a user: llm-fsm chat greeter.json",
        ),
        (
            ("payer.json",),
            2,
            "'payer' needs the tool pay; --tools FILE.py brings functions of your own",
        ),
        (("needy.json",), 2, "needs the functions f, g, the MCP server files; --tools FILE.py"),
        (("writer.json", "--resume", "x", "--input", "y"), 2, "--input belongs to a new run"),
        (("writer.json", "--resume", "x", "--id", "y"), 2, "--id belongs to a new run"),
        (("writer.json", "--answer", "1"), 2, "--answer goes to a run that waits"),
        (("writer.json", "--resume", "x", "--answer", "{no"), 2, "--answer is not JSON"),
        (("writer.json", "--input", "@nowhere"), 2, "nowhere: no such file"),
        (("writer.json", "--input", "@latin"), 2, "latin: is not UTF-8 at byte 1"),
        (("writer.json", "--context", "[]"), 2, "--context is one JSON object"),
        (
            ("writer.json", "--background", "7"),
            2,
            "--background: one JSON object is needed, not the number 7",
        ),
        (("writer.json", "--background", '{"gaols": []}'), 2, "did you mean 'goals'"),
        (("writer.json", "--tools", "nowhere.py"), 2, "nowhere.py: there is no such file"),
        (
            ("writer.json", "--tools", "raises.py"),
            2,
            "raises.py:2: it could not be run: ValueError: no",
        ),
        (
            ("writer.json", "--tools", "empty.py"),
            2,
            "empty.py: it has none of TOOLS, FUNCTIONS, HANDLERS",
        ),
        (("writer.json", "--tools", "odd.py"), 2, "odd.py: TOOLS is a list of functions"),
        (
            ("writer.json", "--tools", "twice.py"),
            2,
            "twice.py: FUNCTIONS holds two functions of one name",
        ),
        (("writer.json", "--mcp", "list.json"), 2, "list.json: --mcp names a JSON object"),
        (("writer.json", "--mcp", "broken.txt"), 2, "broken.txt is not JSON"),
        (("writer.json", "--model", "scripted:none.json"), 3, "cannot read none.json"),
    ],
)
def test_what_cannot_be_run_says_why(
    work: Desk, arguments: tuple[str, ...], code: int, words: str
) -> None:
    work.write("broken.json", {"name": "x", "initial_state": "a", "states": {}})
    work.write("latin", b"\xfcber")
    work.write("raises.py", "x = 1\nraise ValueError('no')\n")
    work.write("empty.py", "x = 1\n")
    work.write("odd.py", "TOOLS = 7\n")
    work.write("twice.py", "def f(): ...\nFUNCTIONS = [f, f]\n")
    work.write("list.json", [])
    work.write("broken.txt", "{")
    needy = {
        "kind": "task",
        "execute": "f",
        "tools": ["t"],
        "key_results": [{"name": "k", "check": {"registered": "g"}}],
    }
    work.write(
        "needy.json",
        {
            **WRITER,
            "initial_state": "a",
            "tools": {"t": {"mcp": "files", "tool": "t"}},
            "states": {"a": needy},
        },
    )
    options = () if "--model" in arguments else work.replies("abc")
    done = work.run("run", *arguments, *options)
    assert done.code == code
    assert words in done.err
    assert done.out == ""


def test_python_file_brings_tools_and_functions(work: Desk) -> None:
    work.write(
        "mine.py",
        "from llm_fsm import ToolRegistry\n"
        "from pydantic import BaseModel\n"
        "class Sum(BaseModel):\n    a: int\n    b: int = 1\n"
        "TOOLS = ToolRegistry()\n"
        "@TOOLS.register\ndef add(sum: Sum) -> int:\n    '''Add.'''\n    return sum.a + sum.b\n"
        "FUNCTIONS = {'good': lambda output: (output == 3, 'not three')}\n",
    )
    state = {
        "kind": "task",
        "tools": ["add"],
        "key_results": [{"name": "k", "check": {"registered": "good"}}],
    }
    work.write(
        "adder.json",
        {
            **WRITER,
            "initial_state": "a",
            "tools": {"add": {"registered": "add"}},
            "states": {"a": state},
        },
    )
    replies = work.replies(calls(("add", {"sum": {"a": 2}})), "3")
    done = work.run("run", "adder.json", "--tools", "mine.py", *replies)
    assert (done.code, lines(done)[-1]["output"]) == (0, 3)
    returned = next(line for line in lines(done) if line["type"] == "ToolReturned")
    assert (returned["name"], returned["result"]) == ("add", 3)


@pytest.mark.parametrize("wrapped", [False, True])
def test_mcp_servers_come_from_a_file(work: Desk, wrapped: bool) -> None:
    pytest.importorskip("mcp")
    server = {"files": {"command": [sys.executable, str(SUPPORT / "mcp_server.py"), "stdio"]}}
    work.write("mcp.json", {"mcpServers": server} if wrapped else server)
    state = {"kind": "task", "tools": ["add"]}
    tools = {"add": {"mcp": "files", "tool": "add"}}
    work.write(
        "adder.json", {**WRITER, "initial_state": "a", "tools": tools, "states": {"a": state}}
    )
    done = work.run(
        "run",
        "adder.json",
        "--mcp",
        "mcp.json",
        *work.replies(calls(("add", {"a": 2, "b": 3})), "done"),
    )
    assert done.code == 0, done.err
    returned = next(line for line in lines(done) if line["type"] == "ToolReturned")
    assert "5" in json.dumps(returned["result"])


def test_secrets_are_dots(work: Desk) -> None:
    work.write(
        "writer.json",
        {**WRITER, "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}}},
    )
    done = work.run("run", "writer.json", *work.replies("abc"), "--context", '{"pin": "4711"}')
    assert done.code == 0
    assert "4711" not in done.out


# -- pauses


def test_run_that_asks_is_exit_code_5_and_says_how_to_answer(work: Desk) -> None:
    pay = work.replies(calls(("pay", {"amount": 5})))
    done = work.run("run", "payer.json", "--tools", "tools.py", *pay, "--id", "r")
    outcome = lines(done)[-1]
    assert (done.code, outcome["outcome"]) == (5, "paused")
    assert outcome["paused"]["call"]["arguments"] == {"amount": 5}
    assert outcome["paused"]["schema"]["required"] == ["approved"]
    assert (
        "to go on: llm-fsm run payer.json --resume r --model scripted:replies.json --tools tools.py --answer JSON"
        in done.err
    )
    again = work.run("run", "payer.json", "--tools", "tools.py", *pay, "--resume", "r")
    assert (again.code, lines(again)[-1]["paused"]) == (5, outcome["paused"])
    assert "asks for approval of pay (state work)" in again.err
    assert '"approved"' in again.err
    wrong = work.run(
        "run",
        "payer.json",
        "--tools",
        "tools.py",
        *pay,
        "--resume",
        "r",
        "--answer",
        '{"approved": 1}',
    )
    assert wrong.code == 2
    assert "the answer does not fit" in wrong.err
    last = (
        "--tools",
        "tools.py",
        *work.replies("done"),
        "--resume",
        "r",
        "--answer",
        '{"approved": true}',
    )
    end = work.run("run", "payer.json", *last)
    assert (end.code, lines(end)[-1]["output"]) == (0, "done")
    assert [line["result"] for line in lines(end) if line["type"] == "ToolReturned"] == ["paid 5"]
    twice = work.run("run", "payer.json", *last)
    assert twice.code == 2
    assert "was answered already" in twice.err
    over = work.run("run", "payer.json", "--tools", "tools.py", *pay, "--resume", "r")
    assert (over.code, types(over)) == (0, ["Outcome"])


def test_time_outs_fire_when_the_run_is_looked_at(
    work: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert work.run("run", "waiter.json", "--model", "offline", "--id", "w").code == 5
    later = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: later)
    done = work.run("run", "waiter.json", "--model", "offline", "--resume", "w")
    assert (done.code, lines(done)[-1]["outcome"]) == (1, "failed")
    assert "TimedOut" in types(done)


def test_a_new_run_fires_what_others_have_due_and_shows_only_itself(
    work: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert work.run("run", "waiter.json", "--model", "offline", "--id", "w").code == 5
    later = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: later)
    done = work.run("run", "waiter.json", "--model", "offline", "--id", "v")
    assert "TimedOut" not in types(done)
    assert work.run("conversations", "show", "w", "--format", "json").out.count("expired") == 0
    again = work.run("run", "waiter.json", "--model", "offline", "--resume", "w")
    assert (again.code, types(again)) == (1, ["Outcome"])


def test_ids_are_taken_once(work: Desk) -> None:
    assert work.run("run", "writer.json", *work.replies("abc"), "--id", "r").code == 0
    done = work.run("run", "writer.json", *work.replies("abc"), "--id", "r")
    assert done.code == 2
    assert "--resume r goes on with it" in done.err
    assert work.run("run", "writer.json", *work.replies("abc"), "--resume", "other").code == 2


def test_run_that_comes_to_a_user_goes_on_as_a_chat(work: Desk) -> None:
    states = {
        "write": {"kind": "task", "purpose": "Write.", "transitions": [{"target_state": "talk"}]},
        "talk": {"reply": "Shall I?", "transitions": [{"target_state": "talk"}]},
    }
    work.write("talker.json", {**WRITER, "states": states})
    done = work.run("run", "talker.json", *work.replies("abc"), "--id", "t")
    assert (done.code, lines(done)[-1]["outcome"], lines(done)[-1]["text"]) == (
        5,
        "talking",
        "Shall I?",
    )
    assert "it waits for a user: llm-fsm chat talker.json --resume t" in done.err
    again = work.run("run", "talker.json", *work.replies("abc"), "--resume", "t")
    assert again.code == 2
    assert "llm-fsm chat talker.json --resume t" in again.err


def test_nothing_is_promised_of_a_store_that_forgets(work: Desk) -> None:
    done = work.run("run", "waiter.json", "--model", "offline", "--db", "memory")
    assert (done.code, "to go on" in done.err) == (5, False)
    done = work.run("run", "writer.json", *work.replies(), "--db", "memory")
    assert (done.code, "to go on" in done.err) == (3, False)


# -- parked


def test_a_call_of_unknown_outcome_says_how_to_answer(work: Desk) -> None:
    work.write(
        "slow.py",
        "import time\n\ndef pay(amount: int) -> str:\n    time.sleep(30)\n\nTOOLS = [pay]\n",
    )
    lost = {"registered": "pay", "at_most_once": True, "timeout": 0.02}
    work.write("lost.json", {**PAYER, "tools": {"pay": lost}})
    model = work.replies(calls(("pay", {"amount": 5})), "done")
    options = (*model, "--tools", "slow.py", "--db", "sqlite:///runs.db")
    done = work.run("run", "lost.json", "--id", "r", *options)
    assert done.code == 5
    assert (
        'answer {"repeat": true} to make the call again, or what came of it: {"result": '
        in done.err
    )
    work.replies("done")
    assert (
        work.run(
            "run", "lost.json", "--resume", "r", "--answer", '{"result": "paid"}', *options
        ).code
        == 0
    )


def test_model_that_fails_parks_the_run_and_nothing_is_done_twice(work: Desk) -> None:
    options = ("run", "free.json", "--tools", "slow.py")
    done = work.run(*options, *work.replies(calls(("pay", {"amount": 5}))), "--id", "r")
    assert (done.code, lines(done)[-1]["outcome"]) == (3, "parked")
    assert "the run is parked; to go on: llm-fsm run free.json --resume r" in done.err
    end = work.run(*options, *work.replies("done"), "--resume", "r")
    assert (end.code, lines(end)[-1]["output"]) == (0, "done")
    assert (work.folder / "calls.txt").read_text() == "5"
    assert types(end).count("ToolReturned") == 1


def test_a_run_is_not_resumed_with_another_definition(work: Desk) -> None:
    parked = ("run", "free.json", "--tools", "slow.py", "--id", "r")
    work.run(*parked, *work.replies(calls(("pay", {"amount": 5}))))
    done = work.run("run", "writer.json", "--resume", "r", *work.replies("abc"))
    assert done.code == 2
    assert "follows the definition 'payer', and writer.json is 'writer'" in " ".join(
        done.err.split()
    )


def test_ctrl_c_parks_the_run_and_resume_goes_on(work: Desk) -> None:
    replies = work.replies(calls(("pay", {"amount": 1})), calls(("pay", {"amount": 2})))
    process = warm_parent.Popen(
        command("run", "free.json", "--tools", "slow.py", *replies, "--id", "r"),
        cwd=work.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    seen = [process.stdout.readline()]
    while seen[-1] and sum(b"ModelReplied" in line for line in seen) < 2:
        seen.append(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert json.loads(out.decode().splitlines()[-1])["outcome"] == "parked"
    assert b"the run is parked; to go on: llm-fsm run free.json --resume r" in err
    work.write("go", "")
    end = work.run("run", "free.json", "--tools", "slow.py", *work.replies("done"), "--resume", "r")
    assert (end.code, lines(end)[-1]["output"]) == (0, "done")
    assert types(end).count("ToolReturned") == 2
    assert (work.folder / "calls.txt").read_text().count("1") == 1


def test_it_works_over_http(work: Desk) -> None:
    with serve_scripted([calls(("pay", {"amount": 5})), "done"]) as server:
        options = ("--model", "any", "--base-url", server.base_url)
        done = work.run("run", "free.json", "--tools", "tools.py", *options)
    assert (done.code, lines(done)[-1]["output"]) == (0, "done")


def test_a_limit_of_money_that_nothing_counts_towards_is_said_in_one_line(work: Desk) -> None:
    work.write(
        "dear.json", {**PAYER, "tools": {"pay": {"registered": "pay"}}, "limits": {"money": 1}}
    )
    with serve_scripted([calls(("pay", {"amount": 5})), "done"]) as server:
        options = ("--tools", "tools.py", "--model", "any", "--base-url", server.base_url)
        done = work.process("run", "dear.json", *options)
    assert done.returncode == 0
    said = [line for line in done.stderr.decode().splitlines() if "of money" in line]
    assert len(said) == 1
    assert said[0].startswith("llm-fsm: warning: limits of money stop nothing: model ")


# -- on a terminal


def test_terminal_shows_states_attempts_key_results_and_the_output(work: Desk) -> None:
    terminal = Terminal("run", "writer.json", *work.replies("ab", "abc\x1b[31m"), "--input", "x")
    assert terminal.code() == 0
    for part in (
        "● write",
        "✗ long failed (logic): not met: At least 3 characters",
        "attempt 1 failed, once more; not met: long (At least 3 characters)",
        "attempt 2",
        "✓ long (logic)",
        "● done  (by task)",
        "passed · 2 model calls · 0 tool calls · 0 tokens ·",
        r"abc\x1b[31m",
    ):
        assert part in terminal.screen


def test_terminal_asks_the_person_and_goes_on(work: Desk) -> None:
    replies = work.replies(calls(("pay", {"amount": 5})), "done")
    terminal = Terminal("run", "payer.json", "--tools", "tools.py", *replies)
    terminal.wait_for("yes, or no and why (empty: later):")
    assert 'call: pay {"amount": 5}' in terminal.screen
    terminal.type("perhaps\n")
    terminal.wait_for("please begin with yes or no")
    terminal.type("yes\n")
    assert terminal.code() == 0
    assert "pay(amount=5) → paid 5" in terminal.screen
    assert "passed · 2 model calls · 1 tool call" in terminal.screen


def test_terminal_shows_the_purpose_and_the_output_and_asks_field_by_field(work: Desk) -> None:
    fields = {"fine": {"type": "boolean"}, "by": {"type": "string"}, "why": {"type": "string"}}
    ask = {
        **WAITER["states"]["ask"],
        "answer_schema": {"type": "object", "properties": fields, "required": ["fine"]},
    }
    draft = {"kind": "task", "purpose": "Write.", "transitions": [{"target_state": "ask"}]}
    states = {"draft": draft, **WAITER["states"], "ask": ask}
    work.write("signed.json", {**WAITER, "initial_state": "draft", "states": states})
    long = "\n".join(f"line {number}" for number in range(40))
    terminal = Terminal("run", "signed.json", "--id", "w", *work.replies(long))
    terminal.wait_for("fine (1 yes, 2 no; empty: later):")
    shown = terminal.screen
    assert "Wait for a word.\nThe output so far:\n  line 0\n" in shown
    assert "  line 29\n  … 10 more lines\nwaits for word" in shown
    terminal.type("maybe\n")
    terminal.wait_for("please type one of 1 yes, 2 no")
    terminal.type("no\n")
    terminal.wait_for("by (empty: none):")
    terminal.type("Ada\n")
    terminal.wait_for("why (empty: none):")
    terminal.type("\n")
    assert terminal.code() == 0
    assert 'answered: {"fine": false, "by": "Ada"}' in terminal.screen


def test_terminal_leaves_a_question_for_later(work: Desk) -> None:
    terminal = Terminal("run", "waiter.json", "--model", "offline", "--id", "w")
    terminal.wait_for("answer (empty: later):")
    terminal.type("\n")
    assert terminal.code() == 5
    assert "waits for word (state ask)" in terminal.screen
    assert (
        "to go on: llm-fsm run waiter.json --resume w --model offline --answer JSON"
        in terminal.screen
    )
    terminal = Terminal("run", "waiter.json", "--model", "offline", "--resume", "w")
    terminal.wait_for("answer (empty: later):")
    terminal.type("blue\n")
    assert terminal.code() == 0
    assert "answered: blue" in terminal.screen


def test_json_is_printed_on_a_terminal_when_asked_for(work: Desk) -> None:
    terminal = Terminal("run", "writer.json", *work.replies("abc"), "--json")
    assert terminal.code() == 0
    assert terminal.screen.splitlines()[-1].startswith('{"type": "Outcome", "outcome": "passed"')


def test_ctrl_c_on_a_terminal_parks_the_run(work: Desk) -> None:
    replies = work.replies(calls(("pay", {"amount": 2})))
    terminal = Terminal("run", "free.json", "--tools", "slow.py", *replies, "--id", "r")
    terminal.wait_for("1 model call ·")
    terminal.type("\x03")
    assert terminal.code() == 130
    assert "parked · 1 model call" in terminal.screen
    assert "the run is parked; to go on: llm-fsm run free.json --resume r" in terminal.screen
