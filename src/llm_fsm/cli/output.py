"""Standard output for replies alone: whatever else is written there comes out on standard error.

Tools, handlers and programs that they start may print. Where a caller reads replies or events line by line,
what they print must not stand in between.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO


@contextmanager
def own_output() -> Iterator[TextIO]:
    """The stream for replies; meanwhile `print`, and file descriptor 1 for started programs, go to standard error."""
    stdout = sys.stdout
    stdout.flush()
    try:
        place, other = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # streams of memory, which have no descriptor that a program could write to
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    kept = os.dup(place)
    own = open(kept, "w", encoding=stdout.encoding, errors="backslashreplace")  # noqa: SIM115 - closed below
    os.dup2(other, place)
    try:
        with redirect_stdout(sys.stderr):
            yield own
    finally:
        os.dup2(kept, place)
        with suppress(OSError, ValueError):  # whoever read it is gone, and the command has said so
            own.close()
