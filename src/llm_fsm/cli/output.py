"""The places for the results of a command: a file, or standard output.

`write_output` replaces a file at once. `own_output` keeps standard output for replies alone. Tools,
handlers and programs that they start may print. A caller that reads replies line by line must not
see that in between.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

from llm_fsm.cli.exit_codes import OUTPUT, Failure
from llm_fsm.documents.files import write

_NOT_BESIDE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""Errors after which a file is written in its place: another user's folder, or a file mounted by
itself.
"""
_OPEN = ("/dev/std", "/dev/fd/", "/proc/")
"""Beginnings of the names of files that are open already, for example standard output that a shell
redirects.
"""


def write_output(path: str, data: str | bytes) -> None:
    """Put a result in a file, all or nothing.

    A file that is there keeps its symbolic links, owner and rights. Another name of it, by a hard
    link, keeps the old
    content: such names are made to keep copies. A file that cannot be replaced is written to as it
    stands. So is a device, a pipe, or standard output by name.

    Raises:
        Failure: The file cannot be written.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    try:
        if not _is_replaced(path, content):
            with open(path, "ab" if is_special(path) else "wb") as stream:
                stream.write(content)
    except OSError as error:
        raise _unwritten(path, error) from error


def write_new(path: str, text: str) -> None:
    """Put a text in a file that is not there yet, all or nothing. Raises Failure."""
    try:
        with open(path, "x", encoding="utf-8", errors="backslashreplace") as stream:
            try:
                stream.write(text)
                stream.flush()
            except BaseException:
                with suppress(OSError):
                    os.unlink(path)
                raise
    except FileExistsError as error:
        raise Failure(
            f"{path} exists already and is not overwritten; name another file", OUTPUT
        ) from error
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from error


def _unwritten(path: str, error: Exception) -> Failure:
    said = getattr(error, "strerror", None) or str(error)
    return Failure(f"{path}: cannot be written: {said.lower()}", OUTPUT)


def is_special(path: str) -> bool:
    """Return true for a file that must not be replaced: a rename over `/dev/null` would remove it."""
    return path.startswith(_OPEN) or (os.path.exists(path) and not os.path.isfile(path))


def _is_replaced(path: str, content: bytes) -> bool:
    """Write a temporary file and rename it. Return False if that is not wanted or not permitted."""
    if not path or is_special(path):
        return False
    try:
        write(os.path.realpath(path), content)
    except OSError as error:
        if error.errno in _NOT_BESIDE:
            return False
        raise
    return True


@contextmanager
def own_output() -> Iterator[TextIO]:
    """The stream for replies; meanwhile `print`, and file descriptor 1 for started programs, go to
    standard error.
    """
    stdout = sys.stdout
    stdout.flush()
    try:
        place, other = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):
        # streams of memory, which have no descriptor that a program could write to
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
