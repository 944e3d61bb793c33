"""Real processes without the price of their imports: forked from a parent that has them already.

`Popen` is `subprocess.Popen` for commands of this interpreter: `-m MODULE`, `-c CODE` and scripts.
The first one in a test process starts the parent, which is this file as a program: an interpreter
with one thread that imports the package, its commands, server and stores, and waits at a socket.
Each wish carries arguments, folder, environment and the three streams. The parent forks, and the
child becomes what a cold start would be: its own pid, group or session, folder, environment,
streams or terminal, signals, `sys.argv`, `__main__` and exit. It inherits no event loop, thread or
descriptor, and nothing of pytest or hypothesis, which the parent never sees.

What only a cold start shows stays cold, and `Popen` starts it so by itself: variables that the
interpreter reads when it starts (`PYTHON…`, locale, loader), options of the interpreter, and
options of `subprocess.Popen` that a fork cannot give. A test of imports, warnings or start-up uses
`subprocess` itself.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import importlib.util
import io
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import ioctl
from functools import cache
from pathlib import Path
from typing import IO, Any

_LENGTH = struct.Struct("!Q")
_NUMBER = struct.Struct("!i")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OPENSSL_", "SSL_")
"""Beginnings of the variables that decide how the interpreter and its libraries start."""
_BASE = dict(os.environ)
"""The environment before any test changed it. The parent starts in it."""
_COMMANDS = "llm_fsm.cli.commands."
_IMPORTED = (
    *("llm_fsm.cli", "llm_fsm.cli.group", "llm_fsm.cli.run_report", "llm_fsm.cli.pipe"),
    *(f"{_COMMANDS}{name}" for name in ("chat", "convert", "diff", "new", "prompt", "run")),
    *(f"{_COMMANDS}{name}" for name in ("schema", "serve", "show", "validate", "worker")),
    *(f"{_COMMANDS}{name}" for name in ("conversations.listing", "test.run", "studio", "mcp")),
    *("llm_fsm.cli.chat_session", "llm_fsm.cli.terminal.console", "prompt_toolkit", "rich.live"),
    *("llm_fsm", "llm_fsm.engine.machine", "llm_fsm.testing", "llm_fsm.durable"),
    *("llm_fsm.llm.offline", "llm_fsm.llm.openai", "llm_fsm.llm.scripted"),
    *("llm_fsm.server", "llm_fsm.server.run", "uvicorn", "llm_fsm.stores.registry"),
    *(f"llm_fsm.stores.{name}" for name in ("sqlite", "file", "memory", "postgresql", "redis")),
)
"""What most processes of tests import. litellm, Temporal and the SDK of MCP are dear and seldom."""


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, forked from the warm parent where that gives the same process.

    `terminal`: the streams are a terminal, which becomes the one of the process's new session.
    """

    def __init__(self, *args: Any, terminal: bool = False, **options: Any) -> None:
        self._line: socket.socket | None = None
        self._terminal = terminal
        if terminal:
            options["start_new_session"] = True
        super().__init__(*args, **options)

    @property
    def is_warm(self) -> bool:
        """True if the process was forked from the warm parent."""
        return self._line is not None

    # the private interface that subprocess itself has one implementation of for each system

    def _execute_child(  # noqa: PLR0917
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Mapping[str, str] | None,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        *further: Any,
    ) -> None:
        pipes, (_, *ids, new_session, group) = further[:6], further[6:]
        environment = dict(os.environ if env is None else env)
        plain = (executable, preexec_fn, *pass_fds) == (None, None) and close_fds and not shell
        if not plain or ids != [None, None, None, -1] or not _is_warm(args, environment):
            if self._terminal:
                preexec_fn = _take_terminal
            found = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env)
            super()._execute_child(*found, startupinfo, creationflags, shell, *further)  # type: ignore[misc]
            return
        wish = {
            "arguments": [os.fspath(part) for part in args[1:]],
            "folder": os.fspath(cwd or os.getcwd()),
            "environment": environment,
            "session": new_session,
            "group": -1 if group is None else group,
            "terminal": self._terminal,
        }
        given = zip((pipes[0], pipes[3], pipes[5]), (0, 1, 2), strict=True)
        streams = [own if pipe == -1 else pipe for pipe, own in given]
        self._line = _asked(wish, streams)
        (self.pid,) = _NUMBER.unpack(_exactly(self._line, _NUMBER.size))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        line = self._line
        if line is None:
            found: tuple[int, int] = super()._try_wait(wait_flags)  # type: ignore[misc]
            return found
        if wait_flags and not select.select([line], [], [], 0)[0]:
            return 0, 0
        (code,) = _NUMBER.unpack(_exactly(line, _NUMBER.size))
        line.close()  # from now on the parent may give the pid to another process
        return self.pid, -code if code < 0 else code << 8

    def _internal_poll(self, _deadstate: Any = None, **_: Any) -> int | None:
        if getattr(self, "_line", None) is None:
            found: int | None = super()._internal_poll(_deadstate)  # type: ignore[misc]
            return found
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run(
    args: Sequence[str | Path],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run` does, by `Popen` of this module."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _is_warm(args: Any, environment: Mapping[str, str]) -> bool:
    if isinstance(args, str | bytes | os.PathLike) or args[0] != sys.executable or len(args) < 2:
        return False
    changed = {
        name
        for name in {*environment, *_BASE}
        if name.startswith(_READ_AT_START) and environment.get(name) != _BASE.get(name)
    }
    return not changed and (args[1] in ("-m", "-c") or not os.fspath(args[1]).startswith("-"))


@cache
def _parent(_: int) -> tuple[subprocess.Popen[bytes], socket.socket, threading.Lock]:
    """The parent for the process with this id: a child of a test starts one of its own."""
    ours, theirs = socket.socketpair()
    with theirs:
        fd = theirs.fileno()
        command = [sys.executable, __file__, str(fd)]
        process = subprocess.Popen(
            command, env=_BASE, pass_fds=(fd,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    atexit.register(_end, os.getpid(), process, ours)
    return process, ours, threading.Lock()


def _end(owner: int, process: subprocess.Popen[bytes], control: socket.socket) -> None:
    if os.getpid() == owner:
        control.close()
        process.wait(30)


def _asked(wish: Mapping[str, Any], streams: Sequence[int]) -> socket.socket:
    """The line to a new process: its id comes first, and its exit code at its end."""
    _, control, lock = _parent(os.getpid())
    ours, theirs = socket.socketpair()
    body = os.fsencode(json.dumps(wish, ensure_ascii=False))
    fds = array.array("i", [*streams, theirs.fileno()])
    with theirs, lock:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
        control.sendmsg([_LENGTH.pack(len(body))], rights)
        control.sendall(body)
    return ours


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = line.recv(count - len(found))
        if not part:
            raise ChildProcessError("the warm parent has ended")
        found += part
    return found


def _take_terminal() -> None:
    ioctl(0, termios.TIOCSCTTY, 0)


# --- the parent


class _Children:
    """The children of the parent, each with the line to the test that wished for it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lines: dict[int, socket.socket] = {}
        self._told: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    def serve(self) -> tuple[dict[str, Any], list[int]]:
        """Fork children until no test is left, which ends the parent. Returns in each child."""
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for one in (self._control, self._woken):
            self._selector.register(one, selectors.EVENT_READ, 0)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    wish = self._wish()
                    if wish is None:
                        os._exit(0)
                    pid = os.fork()
                    if pid == 0:
                        return self._left(*wish)
                    self._keep(pid, wish[1])
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._tell()
                else:
                    self._forget(key.data)

    def _wish(self) -> tuple[dict[str, Any], list[int]] | None:
        try:
            head, fds, _, _ = socket.recv_fds(self._control, _LENGTH.size, 4)
            if len(head) < _LENGTH.size:
                return None
            body = _exactly(self._control, _LENGTH.unpack(head)[0])
        except (ChildProcessError, ConnectionError):
            return None
        return json.loads(os.fsdecode(body)), fds

    def _left(self, wish: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Leave everything of the parent, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for one in (self._control, self._woken, self._wake, *self._lines.values()):
            one.close()
        return wish, fds

    def _keep(self, pid: int, fds: list[int]) -> None:
        for fd in fds[:3]:
            os.close(fd)
        self._lines[pid] = line = socket.socket(fileno=fds[3])
        self._selector.register(line, selectors.EVENT_READ, pid)
        self._tell()  # it may have ended before it was known

    def _tell(self) -> None:
        """Tell the exit codes of children that have ended, and keep their ids until that is read."""
        for pid in self._lines.keys() - self._told:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            if self._lines[pid].fileno() == -1:  # nobody asks for it
                os.waitpid(pid, 0)
                del self._lines[pid]
                continue
            self._told.add(pid)
            is_exit = ended.si_code == os.CLD_EXITED
            code = ended.si_status if is_exit else -ended.si_status
            with suppress(OSError):
                self._lines[pid].sendall(_NUMBER.pack(code))

    def _forget(self, pid: int) -> None:
        """Nobody asks for a child any more. Its id is free when it has ended."""
        line = self._lines[pid]
        self._selector.unregister(line)
        line.close()
        if pid in self._told:
            self._told.remove(pid)
            del self._lines[pid]
            os.waitpid(pid, 0)


def _become(wish: Mapping[str, Any], fds: Sequence[int]) -> None:
    """Make a fresh child the process that a test wished for, and say its id."""
    if wish["session"]:
        os.setsid()
    elif wish["group"] >= 0:
        os.setpgid(0, wish["group"])
    line = socket.socket(fileno=fds[3])
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    if wish["terminal"]:
        _take_terminal()
    os.chdir(wish["folder"])
    os.environ.clear()
    os.environ.update(wish["environment"])
    time.tzset()
    tempfile.tempdir = None
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)  # type: ignore[misc]
    line.sendall(_NUMBER.pack(os.getpid()))
    line.close()


def _stream(fd: int, mode: str, like: Any) -> IO[str]:
    """A standard stream as the interpreter makes it when it starts."""
    raw = io.FileIO(fd, mode, closefd=False)
    raw.name = like.name
    buffer: Any = raw
    if mode == "r":
        buffer = io.BufferedReader(raw)
    elif not like.write_through:  # without PYTHONUNBUFFERED
        buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        encoding=like.encoding,
        errors=like.errors,
        newline="\n" if mode == "w" else None,
        line_buffering=not like.write_through and (fd == 2 or raw.isatty()),
        write_through=like.write_through,
    )


def _main_of(arguments: Sequence[str]) -> tuple[types.ModuleType, Any]:
    """The module `__main__` of a command, and its code. Sets `sys.argv` and `sys.path`."""
    module = types.ModuleType("__main__")
    sys.orig_argv = [sys.executable, *arguments]
    if arguments[0] == "-c":
        sys.argv, sys.path[:0] = ["-c", *arguments[2:]], [""]
        return module, compile(arguments[1], "<string>", "exec")
    if arguments[0] == "-m":
        sys.path[:0] = [os.getcwd()]
        spec = importlib.util.find_spec(f"{arguments[1]}.__main__")
        assert spec is not None
        assert spec.origin is not None
        module.__spec__, module.__package__, module.__file__ = spec, spec.parent, spec.origin
        sys.argv = [spec.origin, *arguments[2:]]
        return module, spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    module.__file__ = arguments[0]
    sys.argv, sys.path[:0] = list(arguments), [str(Path(arguments[0]).resolve().parent)]
    return module, compile(Path(arguments[0]).read_bytes(), arguments[0], "exec")


def _warmed(control: socket.socket) -> _Children:
    """Import everything, and see that nothing of it began a thread, which a fork would lose."""
    del sys.path[0]
    for name in _IMPORTED:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    return _Children(control)


if __name__ == "__main__":
    wished, streams = _warmed(socket.socket(fileno=int(sys.argv[1]))).serve()
    _become(wished, streams)
    this = sys.modules["__main__"]  # which goes on to its end
    sys.modules["__main__"], code = _main_of(wished["arguments"])
    exec(code, sys.modules["__main__"].__dict__)
