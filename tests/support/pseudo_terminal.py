"""A pseudo-terminal with the command on it."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import warm_parent

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07")
_PATIENCE = 20.0


class Terminal:
    """The command on a pseudo-terminal. `screen` is everything shown so far, without escape
    sequences.
    """

    def __init__(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        job: bool = False,
        size: tuple[int, int] = (40, 200),
    ) -> None:
        """`job`: it runs in a shell, which says when it is put into the background and takes it
        back.
        """
        command = [sys.executable, "-m", "llm_fsm", *arguments]
        if job:
            command = ["/bin/sh", "-c", f"set -m; {shlex.join(command)}; echo away; fg"]
        self.raw = ""
        self._answered = 0
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
        self._master, own = pty.openpty()
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        try:
            self._process = warm_parent.Popen(
                command,
                env={**environment, **(env or {})},
                stdin=own,
                stdout=own,
                stderr=own,
                terminal=True,
            )
        finally:
            os.close(own)

    @property
    def screen(self) -> str:
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read until the screen has shown a text so many times."""
        deadline = time.monotonic() + _PATIENCE
        while self.screen.count(text) < times:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not appear {times} times on:\n{self.screen}")

    def leave(self) -> int:
        """Ctrl-D at the next prompt, and the exit code."""
        self.wait_for_prompt()
        self.type("\x04")
        return self.code()

    def wait_for_prompt(self) -> None:
        """Read until the last thing on the screen is an empty line editor."""
        deadline = time.monotonic() + _PATIENCE
        while re.search(r"›[\s\x08]*\Z", self.screen) is None:
            if not self._read(deadline):
                raise AssertionError(f"no prompt on:\n{self.screen}")

    def code(self) -> int:
        """Read to the end and give the exit code."""
        deadline = time.monotonic() + _PATIENCE
        while self._read(deadline):
            pass
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command goes on, after:\n{self.screen}") from None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _read(self, deadline: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux: the other end is closed
            return False
        self.raw += data.decode("utf-8", "replace")
        asked = self.raw.count("\x1b[6n")
        if asked > self._answered:  # where is the cursor?
            self._answered = asked
            self.type("\x1b[1;1R")
        return bool(data)
