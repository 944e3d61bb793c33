"""A process that is forked from the warm parent is a process like one that starts cold."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warm_parent
import warm_shell
from llm_fsm.cli.group import COMMANDS

TELLS = """
import asyncio, json, os, signal, sys, threading
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "pid": os.getpid() == int(os.readlink("/proc/self")),
    "leads": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
    "folder": os.getcwd(),
    "environment": {name: value for name, value in os.environ.items() if name != "_"},
    "arguments": sys.argv,
    "path": sys.path,
    "streams": [[one.encoding, one.errors, one.line_buffering, one.write_through, one.isatty(), one.name, one.fileno()]
                for one in streams],
    "said": sys.stdin.read() if not sys.stdin.isatty() else "",
    "signals": {one: repr(signal.getsignal(getattr(signal, one)))[:40]
                for one in ("SIGINT", "SIGTERM", "SIGCHLD", "SIGPIPE", "SIGHUP")},
    "threads": threading.active_count(),
    "descriptors": [fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")],
    "tests": [name for name in ("pytest", "hypothesis", "_pytest") if name in sys.modules],
    "main": __name__ + str(sys.modules["__main__"].__dict__ is globals()),
    "loop": repr(asyncio._get_running_loop()),
}))
"""
WAITS = "import time; print('waits', flush=True); time.sleep(60)"
KINDS: dict[str, Callable[..., subprocess.Popen[Any]]] = {
    "cold": subprocess.Popen,
    "warm": warm_parent.Popen,
}


def command(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def begun(kind: str, code: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
    process = KINDS[kind](command(code, *arguments), text=True, **options)
    assert getattr(process, "is_warm", False) is (kind == "warm")
    return process


def told(kind: str, folder: Path, **options: Any) -> dict[str, Any]:
    environment = {**os.environ, "OF_THE_TEST": "é", "TZ": "Asia/Tokyo"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with begun(kind, TELLS, "a", "b c", cwd=folder, env=environment, **streams, **options) as one:
        out, err = one.communicate("to its input: é", timeout=60)
    assert (one.returncode, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("options", [{}, {"process_group": 0}, {"start_new_session": True}])
def test_it_is_told_what_a_cold_one_is_told(tmp_path: Path, options: dict[str, Any]) -> None:
    cold, warm = (told(kind, tmp_path, **options) for kind in KINDS)
    assert warm == cold
    assert warm["pid"]
    assert warm["leads"] == [bool(options), "start_new_session" in options]
    assert warm["folder"] == str(tmp_path)


def test_nothing_stays_from_one_to_the_next(tmp_path: Path) -> None:
    leaves = "import os, sys; os.environ['LEFT'] = '1'; os.chdir('/'); sys.modules['left'] = sys"
    with begun("warm", leaves) as one:
        assert one.wait(60) == 0
    looks = "import os, sys; print('LEFT' in os.environ, 'left' in sys.modules, os.getcwd())"
    with begun("warm", looks, cwd=tmp_path, stdout=subprocess.PIPE) as other:
        assert other.communicate(timeout=60)[0] == f"False False {tmp_path}\n"
    assert one.pid != other.pid


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it(kind: str, number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    with begun(kind, WAITS, stdout=pipe, stderr=pipe) as one, begun(kind, WAITS) as other:
        assert one.stdout.readline() == "waits\n"
        assert one.poll() is None
        os.kill(one.pid, number)
        assert one.wait(60) == -number
        assert ("KeyboardInterrupt" in one.stderr.read()) is (number == signal.SIGINT)
        assert other.poll() is None
        other.kill()
        assert other.wait(60) == -signal.SIGKILL
        one.kill()  # it is gone: no other process gets the signal


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('words')", 1),
        ("raise ValueError", 1),
        ("import os; os._exit(9)", 9),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_its_exit_code_is_its_own(kind: str, code: str, expected: int) -> None:
    with begun(kind, code, stderr=subprocess.DEVNULL) as one:
        assert one.wait(60) == expected
        assert one.poll() == expected


def test_it_ends_as_an_interpreter_does() -> None:
    code = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\n"
        "print('main')\n"
    )
    with begun("warm", code, stdout=subprocess.PIPE) as one:
        assert one.communicate(timeout=60)[0] == "main\nthread\nat exit\n"


def test_a_terminal_is_its_own_and_sends_it_signals() -> None:
    master, own = pty.openpty()
    tells = "import os; print(os.ttyname(0), os.tcgetpgrp(0) == os.getpid(), os.isatty(1))\n"
    with warm_parent.Popen(
        command(tells + WAITS), stdin=own, stdout=own, stderr=own, terminal=True
    ) as one:
        assert one.is_warm
        name = os.ttyname(own)
        os.close(own)
        shown = b""
        while b"waits" not in shown:
            shown += os.read(master, 1000)
        assert shown.decode().startswith(f"{name} True True")
        os.write(master, b"\x03")
        assert one.wait(60) == -signal.SIGINT
    os.close(master)


@pytest.mark.parametrize(
    "options",
    [
        {"env": {**os.environ, "PYTHONUTF8": "1"}},
        {"env": {**os.environ, "LC_ALL": "C"}},
        {"env": {**os.environ, "PYTHONWARNINGS": "error"}},
        {"preexec_fn": lambda: None},
        {"umask": 0o77},
    ],
)
def test_what_a_fork_cannot_give_starts_cold(options: dict[str, Any]) -> None:
    with warm_parent.Popen(command("pass"), **options) as one:
        assert not one.is_warm
        assert one.wait(60) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_starts_cold(name: str, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "llm_fsm", name, "--help"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: llm-fsm {name} ")


def in_shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script whose `llm-fsm` is forked from the warm parent."""
    with tempfile.TemporaryDirectory() as programs, warm_shell.commands(Path(programs)):
        environment = {**os.environ, **variables, "PATH": f"{programs}:{os.environ['PATH']}"}
        command = ("bash", "-c", script)
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )


def test_a_command_in_a_shell_has_its_folder_streams_variables_and_exit_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_text('{"name": "a", "initial_state": "x", "states": {"y": {}}}')
    done = in_shell(
        "cat a.json | llm-fsm validate - > found.txt; echo $?; llm-fsm --version", tmp_path
    )
    assert done.stdout.splitlines()[0] == "1"
    assert done.stdout.splitlines()[1].startswith("llm-fsm")
    assert "unknown-initial-state" in (tmp_path / "found.txt").read_text()
    greets = "printf 'Ada\\n' | llm-fsm chat greeting"
    assert "no model" not in in_shell(greets, tmp_path, LLM_FSM_MODEL="offline").stderr


def test_a_command_in_a_shell_gets_signals_and_ends_by_them(tmp_path: Path) -> None:
    script = (
        "mkfifo typed; (sleep 60 > typed) & llm-fsm chat greeting -m offline < typed > said & "
        "until [ -s said ]; do sleep 0.1; done; kill -TERM $!; wait $!; echo $?; kill %1"
    )
    assert in_shell(script, tmp_path).stdout.split() == ["143"]
