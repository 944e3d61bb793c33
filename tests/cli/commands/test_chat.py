"""`chat` through a pipe: replies and nothing else on standard output, one sentence for every bad
input.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from loguru import logger

import warm_parent
from cli_command import ASKS, BYE, GREETER, HELLO, TO_BAR, Desk, command, desk
from llm_fsm.cli.commands.chat import ChatOptions, chat, resume_command
from llm_fsm.engine.observers import is_observed

__all__ = ["desk"]

APPLICATION_ID = int.from_bytes(b"LFSM", "big")


def listed(desk: Desk) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(desk.run("conversations", "list", "--json").out)[
        "conversations"
    ]
    return found


def test_one_message_a_line_and_replies_separated_by_blank_lines(desk: Desk) -> None:
    done = desk.process(
        "chat", "greeter.json", *desk.replies(HELLO, ASKS, BYE), stdin=b"hi\n\nI am Ada\n"
    )
    assert done.stdout == b"Hello!\n\nYour name?\n\nBye Ada.\n"
    assert done.stderr == b"llm-fsm: the conversation has ended\n"
    assert done.returncode == 0


def test_fsm_is_another_word_for_file(desk: Desk) -> None:
    done = desk.run("chat", "--fsm", "greeter.json", *desk.replies(HELLO))
    assert (done.code, done.out, done.err) == (0, "Hello!\n", "")


@pytest.mark.parametrize("typed", [("--fsm", "greeter.json"), ("--fsm=greeter.json",)])
def test_a_file_without_a_command_is_chatted_with(desk: Desk, typed: tuple[str, ...]) -> None:
    done = desk.run(*typed, *desk.replies(HELLO))
    assert (done.code, done.out, done.err) == (0, "Hello!\n", "")


def test_logging_ends_with_the_command(desk: Desk) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="INFO")
    desk.run("-v", "chat", "greeter.json", *desk.replies(HELLO))
    logger.remove(sink)
    assert "Started state=hello" in "".join(lines)
    assert not is_observed()


def test_the_name_of_a_shipped_definition_stands_for_its_file(desk: Desk) -> None:
    done = desk.run("chat", "greeting", "--model", "offline")
    assert done.code == 0
    assert done.out


def test_what_follows_the_end_is_counted_and_not_read(desk: Desk) -> None:
    done = desk.process(
        "chat", "greeter.json", *desk.replies(HELLO, BYE), stdin=b"Ada\nmore\n\nand more\n"
    )
    assert done.stderr == b"llm-fsm: the conversation has ended; 2 further lines were not read\n"
    assert done.returncode == 0


def test_control_characters_of_a_reply_are_shown_and_line_breaks_kept(desk: Desk) -> None:
    evil = {"message": "a\x1b[2Jb\x07\n\tc\u202e\ud800"}
    done = desk.process(
        "chat", "greeter.json", *desk.replies(evil), env={"PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout.startswith(b"a\\x1b[2Jb\\x07\n\tc\\u202e")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_line_that_is_no_message_is_refused_and_the_rest_goes_on(desk: Desk) -> None:
    stdin = b"a\xff\n" + b"x" * 100_001 + b"\n" + b"y" * 1_000_000 + b"\nhi\n"
    done = desk.run("chat", "greeter.json", *desk.replies(HELLO, ASKS), stdin=stdin)
    assert (done.code, done.out) == (2, "Hello!\n\nYour name?\n")
    assert [line.split(" it was")[0] for line in done.err.splitlines()] == [
        "llm-fsm: error: line 1 is not UTF-8 at byte 2;",
        "llm-fsm: error: line 2 is no message: the message is 100001 characters long; at most 100000 are read;",
        "llm-fsm: error: line 3 is longer than 100,000 characters;",
    ]


def test_a_conversation_is_resumed_where_it_was(desk: Desk) -> None:
    desk.run("chat", "greeter.json", "--id", "a b", *desk.replies(HELLO, ASKS), stdin=b"hi\n")
    done = desk.run("chat", "greeter.json", "--resume", "a b", *desk.replies(BYE), stdin=b"Ada\n")
    assert (done.code, done.out) == (0, "Bye Ada.\n")
    assert [(item["id"], item["state"], item["ended"]) for item in listed(desk)] == [
        ("a b", "bye", True)
    ]


def test_a_shipped_definition_is_found_again_by_its_name(desk: Desk) -> None:
    desk.run("chat", "greeting", "--model", "offline", "--id", "x")
    assert desk.run("chat", "--resume", "x", "--model", "offline").code == 0


def test_a_conversation_is_not_resumed_with_another_definition(desk: Desk) -> None:
    desk.run("chat", "greeter.json", *desk.replies(HELLO), "--id", "x")
    done = desk.run("chat", "greeting", "--resume", "x", "--model", "offline", stdin=b"Ada\n")
    assert (done.code, done.out) == (2, "")
    said = "conversation 'x' follows the definition 'greeter', and greeting is 'greeting'"
    assert said in " ".join(done.err.split())
    assert [item["state"] for item in listed(desk)] == ["hello"]
    assert (
        desk.run("chat", "greeter.json", "--resume", "x", *desk.replies(BYE), stdin=b"Ada\n").code
        == 0
    )


def test_a_shipped_definition_without_a_model_is_answered_by_offline(desk: Desk) -> None:
    desk.patch.delenv("LLM_FSM_MODEL", raising=False)
    done = desk.run("chat", "greeting", "--id", "x")
    assert done.code == 0
    assert done.out
    assert "no model is configured: `offline` answers; --model names another" in " ".join(
        done.err.split()
    )
    resumed = desk.run("chat", "greeting", "--resume", "x")
    assert resumed.code == 3
    assert "no model is chosen" in resumed.err


def test_a_model_that_is_named_is_not_replaced_by_offline(desk: Desk) -> None:
    desk.patch.setenv("LLM_FSM_MODEL", "")
    desk.patch.setenv("OPENAI_API_KEY", "")
    assert desk.run("chat", "greeting", "--model", "openai/gpt-4o-mini").code == 3
    desk.write("named.json", {**GREETER, "model": {"name": "openai/gpt-4o-mini"}})
    assert desk.run("chat", "named.json").code == 3


def test_a_piped_help_is_no_message_and_says_what_a_pipe_takes(desk: Desk) -> None:
    done = desk.run(
        "chat", "greeter.json", *desk.replies(HELLO, BYE), "--id", "x", stdin=b"/help\nAda\n"
    )
    assert (done.code, done.out) == (0, "Hello!\n\nBye Ada.\n")
    assert "one message a line" in done.err
    assert "work in a terminal" in done.err


def test_a_conversation_of_a_file_wants_its_file(desk: Desk) -> None:
    desk.run("chat", "greeter.json", *desk.replies(HELLO), "--id", "x")
    done = desk.run("chat", "--resume", "x", *desk.replies(HELLO))
    assert done.code == 2
    assert "follows the definition 'greeter': name its FILE too" in done.err


def test_the_context_is_there_from_the_start(desk: Desk) -> None:
    drink = {"transition": {"target_state": "bar", "context_update": {}}, "message": "Cheers!"}
    done = desk.run(
        "chat",
        "greeter.json",
        "--context",
        '{"age": 40}',
        *desk.replies(HELLO, drink),
        stdin=b"A beer\n",
    )
    assert (done.code, done.out) == (0, "Hello!\n\nCheers!\n")


def test_show_prompt_shows_each_call_with_the_size_of_its_sections(desk: Desk) -> None:
    options = desk.replies(HELLO, TO_BAR, ASKS)
    done = desk.run("chat", "greeter.json", *options, "--show-prompt", stdin=b"drink \x1b[2J<\n")
    assert done.out == "Hello!\n\nYour name?\n"
    assert done.err.count("── call ") == 3
    assert "\x1b" not in done.err
    lines = done.err.splitlines()
    assert any(line.startswith("system: ") and " tokens" in line for line in lines)
    assert any(line.split()[:1] == ["user_input"] for line in lines)
    assert any(line.startswith("reply schema: ") for line in lines)
    assert any(line.startswith("assistant: ") for line in lines), (
        "the second call quotes the refused reply"
    )


def test_verbose_tells_what_happens_on_standard_error(desk: Desk) -> None:
    done = desk.process("chat", "greeter.json", *desk.replies(HELLO, BYE), "-v", stdin=b"Ada\n")
    assert b"StateEntered" in done.stderr
    assert done.stdout == b"Hello!\n\nBye Ada.\n"


BAD_FILES = {
    "empty.json": (b"", 1, "empty.json: error: the file is empty"),
    "garbage.json": (b"garbage{", 1, "garbage.json:1:1: error: "),
    "binary.json": (b"\x00\xff\xfe", 1, "binary.json"),
    "latin.json": ('{"name": "ä"}'.encode("latin-1"), 1, "latin.json:1:11: error: byte 0xe4"),
    "deep.json": (b'{"a":' * 10_000, 1, "deep.json:1:"),
    "large.json": (b" " * 10_000_001, 1, "large.json: error: the file is larger than 10 MB"),
    "other.json": (b"[1, 2]", 1, "other.json:1:1: error: "),
    "escape.json": (b'{"name": "a\x1b[2J"}', 1, "escape.json:1:12: error: "),
    "task.json": (
        json.dumps(
            {**GREETER, "states": {**GREETER["states"], "sub": {"kind": "subflow", "flow": "x"}}}
        ).encode(),
        1,
        "task.json:1:",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_at_fault_is_exit_1_with_its_findings(desk: Desk, name: str) -> None:
    data, code, said = BAD_FILES[name]
    done = desk.run("chat", desk.write(name, data), *desk.replies(HELLO))
    assert (done.code, done.out) == (code, "")
    lines = [line for line in done.err.splitlines() if "validate` shows" not in line]
    first, second = lines[:2]
    assert first.startswith(f"llm-fsm: error: {name} cannot be used: ")
    assert second.startswith(said)
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat"], "name a definition FILE"),
        (["chat", "missing.json"], "missing.json: there is no such file"),
        (["chat", "greeting.json"], "a shipped definition is named without its ending: greeting"),
        (["chat", "greetin"], "did you mean the shipped definition greeting?"),
        (["chat", "."], ". cannot be used"),
        (["chat", "greeter.json", "--fsm", "greeter.json"], "FILE is given twice"),
        (["chat", "greeter.json", "--id", "a", "--resume", "b"], "give one of them"),
        (
            ["chat", "greeter.json", "--context", "{}", "--resume", "b"],
            "--context belongs to a new conversation",
        ),
        (["chat", "greeter.json", "--context", '{"a": tru}'], "line 1, column 7"),
        (["chat", "greeter.json", "--context", "[1]"], "--context is one JSON object"),
        (["chat", "greeter.json", "--context", ""], "--context is not JSON"),
        (["chat", "greeter.json", "--context", '{"age": "x"}'], "context key 'age'"),
        (["chat", "greeter.json", "--context", '{"_turn": 1}'], "context key '_turn'"),
        (
            ["chat", "greeter.json", "--id", ""],
            "a conversation id is a text of 1 to 200 characters",
        ),
        (["chat", "greeter.json", "--id", "a\x1b"], "control characters"),
        (["chat", "greeter.json", "--resume", "zz"], "`llm-fsm conversations list` shows"),
        (["chat", "--resume", "zz"], "`llm-fsm conversations list` shows"),
        (["chat", "greeter.json", "--db", "foo://x"], "--db: unknown store"),
        (["chat", "greeter.json", "--db", "x\0.db"], "--db: "),
        (["chat", "greeter.json", "--nope"], "--nope"),
    ],
)
def test_a_wrong_command_line_is_exit_2(desk: Desk, arguments: list[str], said: str) -> None:
    done = desk.run(*arguments, *desk.replies(HELLO), stdin=b"hi\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("llm-fsm: error: ")
    assert said in done.err
    assert "\x1b" not in done.err


def test_an_id_that_exists_can_be_resumed(desk: Desk) -> None:
    desk.run("chat", "greeter.json", "--id", "x y", *desk.replies(HELLO))
    done = desk.run("chat", "greeter.json", "--id", "x y", *desk.replies(HELLO))
    assert done.code == 2
    assert done.err.endswith(
        "exists already; resume it, or choose another id; --resume 'x y' goes on with it\n"
    )


def test_a_conversation_that_has_ended_is_not_resumed(desk: Desk) -> None:
    desk.run("chat", "greeter.json", "--id", "x", *desk.replies(HELLO, BYE), stdin=b"Ada\n")
    done = desk.run("chat", "greeter.json", "--resume", "x", *desk.replies(ASKS), stdin=b"hi\n")
    assert (done.code, done.out) == (2, "")
    assert "has ended" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "The model `offline`"),
        (["--model", "oflline"], "did you mean 'offline'?"),
        (["--model", "openai/gpt-4o-mini"], "set OPENAI_API_KEY"),
        (["--model", "openai/gpt-4o-mini"], "offline"),
        (["--model", "scripted:none.json"], "cannot read none.json"),
        (["--model", "x", "--base-url", "nonsense"], "nonsense"),
        (["--model", "http://localhost"], "--base-url"),
    ],
)
def test_a_model_that_cannot_be_used_is_exit_3(desk: Desk, options: list[str], said: str) -> None:
    done = desk.run("chat", "greeter.json", *options, stdin=b"hi\n")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("llm-fsm: error: ")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert listed(desk) == []


def test_nothing_is_promised_of_a_store_that_forgets(desk: Desk) -> None:
    done = desk.run("chat", "greeter.json", "--db", "memory", *desk.replies(HELLO), stdin=b"hi\n")
    [error] = done.err.splitlines()
    assert (done.code, error.startswith("llm-fsm: error: the script has 1 reply")) == (3, True)


def test_a_model_that_fails_in_the_middle_keeps_the_conversation(desk: Desk) -> None:
    done = desk.run("chat", "greeter.json", "--id", "x", *desk.replies(HELLO), stdin=b"hi\n")
    assert (done.code, done.out) == (3, "Hello!\n")
    error, hint = done.err.splitlines()
    assert error.startswith("llm-fsm: error: the script has 1 reply")
    assert (
        hint
        == "llm-fsm: to go on: llm-fsm chat greeter.json --resume x --model scripted:replies.json"
    )
    assert [item["turns"] for item in listed(desk)] == [1]


class _Answers(BaseHTTPRequestHandler):
    """Gives every request the same answer; `status` 0 hangs."""

    status = 500
    body = b"<html>no</html>"
    asked = Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.asked.set()
        if self.status == 0:
            time.sleep(60)
        self.send_response(self.status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[tuple[type[_Answers], str]]:
    handler = type("Answers", (_Answers,), {"asked": Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        thread = Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()


@pytest.mark.parametrize(("status", "said"), [(401, "401"), (404, "404"), (200, "")])
def test_a_server_that_refuses_is_exit_3(
    desk: Desk, server: tuple[type[_Answers], str], status: int, said: str
) -> None:
    handler, address = server
    handler.status = status
    done = desk.run("chat", "greeter.json", "--model", "m", "--base-url", address, stdin=b"hi\n")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("llm-fsm: error: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_an_interrupt_while_the_model_hangs_is_exit_130(
    desk: Desk, server: tuple[type[_Answers], str]
) -> None:
    handler, address = server
    handler.status = 0
    desk.run("chat", "greeter.json", "--id", "x", *desk.replies(HELLO))
    arguments = ("chat", "greeter.json", "--resume", "x", "--model", "m", "--base-url", address)
    with warm_parent.Popen(
        command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"hi\n")
        process.stdin.flush()
        assert handler.asked.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert (
        err.decode()
        .splitlines()[-1]
        .startswith("llm-fsm: to go on: llm-fsm chat greeter.json --resume x")
    )
    assert b"Traceback" not in err
    assert [item["turns"] for item in listed(desk)] == [1], "the conversation is as it was"


def test_an_interrupt_while_waiting_for_input_is_exit_130(desk: Desk) -> None:
    arguments = ("chat", "greeter.json", *desk.replies(HELLO))
    with warm_parent.Popen(
        command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"Hello!\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"to go on: llm-fsm chat greeter.json --resume" in err
    assert b"Traceback" not in err


def test_a_conversation_that_is_deleted_meanwhile_is_not_offered_to_go_on_with(desk: Desk) -> None:
    arguments = ("chat", "greeter.json", "--id", "x", *desk.replies(HELLO, ASKS))
    with warm_parent.Popen(
        command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"Hello!\n"
        assert desk.run("conversations", "delete", "x", "--yes").code == 0
        _, err = process.communicate(b"hi\n", timeout=30)
    assert (process.returncode, err.decode()) == (
        2,
        "llm-fsm: error: there is no conversation 'x' in this store\n",
    )


def test_silence_is_noticed_while_no_line_comes(desk: Desk) -> None:
    quiet = {
        "name": "quiet",
        "initial_state": "number",
        "patterns": ["silence"],
        "states": {
            "number": {"reply": "Which number?", "transitions": [{"target_state": "found", "description": "Known"}]},
            "found": {"reply": "Found."},
            "silence": {"kind": "wait", "reply": "Still there?", "remind": [0.1], "timeout": 0.3,
                        "on_timeout": "closed", "transitions": [{"target_state": "closed"}]},
            "closed": {"reply": "I close."},
        },
    }  # fmt: skip
    desk.write("quiet.json", quiet)
    with warm_parent.Popen(
        command("chat", "quiet.json", *desk.replies()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read().splitlines() == [
            b"Which number?",
            b"",
            b"Still there?",
            b"",
            b"I close.",
        ]
        assert process.wait(30) == 0


def database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize("command_line", [["chat", "greeter.json"], ["conversations", "list"]])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("garbage.db", "is not an SQLite database"),
        ("newer.db", "this llm-fsm reads only"),
        ("folder.db", "is a folder"),
        ("other.db", "is a database of another program"),
    ],
)
def test_a_store_that_cannot_be_used_is_exit_4(
    desk: Desk, name: str, said: str, command_line: list[str]
) -> None:
    desk.write("garbage.db", "this is no database, and long enough to be sure of it")
    (desk.folder / "folder.db").mkdir()
    database(desk.folder / "other.db", "CREATE TABLE t (x)")
    newer = (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "PRAGMA user_version = 99",
        "CREATE TABLE t (x)",
    )
    database(desk.folder / "newer.db", *newer)
    model = desk.replies(HELLO) if command_line[0] == "chat" else ()
    done = desk.run(*command_line, *model, "--db", f"sqlite:///{name}", stdin=b"hi\n")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("llm-fsm: error: ")
    assert said in done.err


def test_a_file_that_is_no_store_is_exit_4_and_a_word_that_is_none_is_usage(desk: Desk) -> None:
    desk.write("garbage.json", "{}")
    done = desk.run("chat", "greeter.json", *desk.replies(HELLO), "--db", "garbage.json")
    assert (done.code, done.out, "garbage.json: is no store" in done.err) == (4, "", True)
    assert desk.run("chat", "greeter.json", *desk.replies(HELLO), "--db", "nothing.json").code == 2


def test_a_machine_in_which_nobody_talks_is_for_run(desk: Desk) -> None:
    done = desk.run("chat", "research", "--model", "offline")
    assert (done.code, done.out) == (2, "")
    assert "nobody talks in research; it works by itself: llm-fsm run research" in done.err


def test_a_store_that_another_program_locks_is_exit_4(desk: Desk) -> None:
    with closing(sqlite3.connect("locked.db", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        done = desk.run("chat", "greeter.json", *desk.replies(HELLO), "--db", "sqlite:///locked.db")
    assert (done.code, done.out) == (4, "")
    assert "locked" in done.err


def test_looking_for_a_conversation_makes_no_database(desk: Desk) -> None:
    done = desk.run(
        "chat", "greeter.json", *desk.replies(HELLO), "--resume", "x", "--db", "sqlite:///typo.db"
    )
    assert done.code == 4
    assert done.err.endswith("typo.db: there is no such file\n")
    assert not Path("typo.db").exists()


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed_is_no_crash(desk: Desk, closed: str) -> None:
    number = {"stdin": 0, "stdout": 1, "stderr": 2}[closed]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {number}{"<" if number == 0 else ">"}&-', "sh",
         *command("chat", "greeter.json", *desk.replies(HELLO))],
        capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == b""


def test_a_reader_that_has_gone_ends_the_chat_quietly(desk: Desk) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command("chat", "greeter.json", *desk.replies(HELLO)),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"colour": 1}, "1 warning"),
        ({"properties": [{"never": "bye"}]}, "1 error"),
        (
            {"properties": [{"never": "bye"}, {"never": ["bye"]}], "colour": 1},
            "2 errors, 1 warning",
        ),
    ],
)
def test_what_the_checker_finds_in_the_file_is_counted_on_standard_error(
    desk: Desk, more: dict[str, object], found: str
) -> None:
    done = desk.run("chat", desk.write("odd.json", {**GREETER, **more}), *desk.replies(HELLO))
    assert (done.code, done.out) == (0, "Hello!\n")
    assert done.err == f"llm-fsm: odd.json: {found}; `llm-fsm validate` shows each\n"


def wanted(**changes: object) -> ChatOptions:
    return ChatOptions(**{**chat.make_context("chat", []).params, **changes})


@pytest.mark.parametrize(
    ("changes", "file", "expected"),
    [
        ({}, "a b.json", "llm-fsm chat 'a b.json' --resume x"),
        ({}, "quiz", "llm-fsm chat quiz --resume x"),
        (
            {"db": "sqlite:///x.db", "model": "m", "base_url": "http://h/v1"},
            "f.json",
            "llm-fsm chat f.json --resume x --db sqlite:///x.db --model m --base-url http://h/v1",
        ),
        ({"reply": "prompt"}, "f.json", "llm-fsm chat f.json --resume x --reply prompt"),
        ({"base_url": "http://user:secret@h/v1"}, "f.json", "llm-fsm chat f.json --resume x"),
    ],
)
def test_the_command_to_go_on_can_be_pasted(
    changes: dict[str, object], file: str, expected: str
) -> None:
    assert resume_command(wanted(**changes), file, "x") == expected


def test_a_disk_that_is_full_is_exit_4_and_nothing_is_lost(desk: Desk) -> None:
    url = "sqlite:///kept.db"
    desk.run("chat", "greeter.json", *desk.replies(HELLO), "--id", "x", "--db", url)
    limited = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"]
    arguments = ("chat", "greeter.json", *desk.replies(HELLO), "--id", "y", "--db", url)
    done = subprocess.run([*limited, *command(*arguments)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"the disk is full or the file has reached its size limit" in done.stderr
    assert desk.run("conversations", "show", "x", "--db", url).code == 0


def test_the_context_may_have_comments() -> None:
    given = chat.make_context("chat", ["--context", '{"a": 1, /* so */ "b": [null],}'])
    assert given.params["context"] == {"a": 1, "b": [None]}


def test_chat_fires_what_is_due_of_other_conversations(desk: Desk) -> None:
    waits = {
        "name": "waits",
        "initial_state": "ask",
        "states": {
            "ask": {"transitions": [{"target_state": "parked"}]},
            "parked": {"kind": "wait", "wait_for": "payment", "timeout": 1, "on_timeout": "late"},
            "late": {"reply": "It took too long.", "transitions": [{"target_state": "ask"}]},
        },
    }
    Path("waits.json").write_text(json.dumps(waits), encoding="utf-8")
    parks = {"transition": {"target_state": "parked", "context_update": {}}, "message": "Wait."}
    first = desk.process(
        "chat", "waits.json", "--id", "one", *desk.replies(HELLO, parks), stdin=b"pay\n"
    )
    assert first.returncode == 5, first.stderr
    time.sleep(1.1)
    assert desk.process("chat", "waits.json", "--id", "two", *desk.replies(HELLO)).returncode == 0
    shown = desk.run("conversations", "show", "one", "--json")
    assert '"late"' in shown.out
