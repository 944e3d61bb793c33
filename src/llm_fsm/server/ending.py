"""The end of a server: one deadline for its turns, its connections and its stores."""

from __future__ import annotations

import time

from llm_fsm.server.problems import Problem

TURNS = 0.9
"""The share of the time in which turns may finish. Later ones are stopped, and their clients are
told.
"""
CONNECTIONS = 0.95
"""The share of the time in which answers may be read. The rest is for closing stores."""


class Ending:
    """The deadline of a server that was told to end. It is set once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None

    @property
    def is_begun(self) -> bool:
        """True if the server was told to end."""
        return self._began is not None

    def begin(self) -> None:
        """Set the deadline, unless it is set. A signal handler may call it."""
        if self._began is None:
            self._began = time.monotonic()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until a share of the time is over; all of them before the end has
        begun.
        """
        seconds = self._seconds * share
        if self._began is None:
            return seconds
        return max(0.0, self._began + seconds - time.monotonic())


def cut_off() -> Problem:
    """Return the problem for the sender of a turn that was not finished before the deadline."""
    return Problem(
        "unavailable", "the server ended before the turn was finished; send it again, with its key"
    )
