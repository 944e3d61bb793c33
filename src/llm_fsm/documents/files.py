"""Read files as text, and replace them. No other module of documents opens a file."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from contextlib import suppress
from dataclasses import replace

from llm_fsm.definition.codes import finding
from llm_fsm.errors import DefinitionError

FilePath = str | os.PathLike[str]

MAX_BYTES = 10_000_000
"""The largest size of a definition file, in bytes."""

MAX_REPLIES = 100_000_000
"""The largest size of a file of replies, in bytes, because devices and pipes may never end."""

_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read(path: FilePath) -> str:
    """Return the text of a file of at most 10 MB in UTF-8. Raises DefinitionError with one
    finding.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise _refused(
            name, "unreadable-file", "this is a directory", "name one JSON file in it"
        ) from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise _refused(name, "unreadable-file", f"the file cannot be read: {reason}") from error
    return decoded(data, name)


def write(path: FilePath, data: bytes, mode: int = 0o666) -> None:
    """Replace a file at once, so that a crash leaves the old file or the new one.

    It keeps its owner and rights; a new one has those of `mode`. Raises OSError.
    """
    name = os.fspath(path)
    fresh = os.path.join(os.path.dirname(name), f".llm-fsm.{os.urandom(8).hex()}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(name):
            _alike(fresh, os.stat(name))
        os.replace(fresh, name)
    except BaseException:  # an interrupt must not leave the unfinished file behind
        with suppress(OSError):
            os.unlink(fresh)
        raise


def _alike(fresh: str, old: os.stat_result) -> None:
    with suppress(OSError):  # who may write to a file of somebody else cannot give one away
        os.chown(fresh, old.st_uid, old.st_gid)
    os.chmod(fresh, stat.S_IMODE(old.st_mode))


def read_replies(path: FilePath) -> bytes:
    """Read a file of replies. Raises OSError, also if the file is too long."""
    with open(path, "rb") as stream:
        data = stream.read(MAX_REPLIES + 1)
    if len(data) > MAX_REPLIES:
        raise OSError(errno.EFBIG, f"it is longer than {MAX_REPLIES // 1_000_000} MB")
    return data


def read_called(path: str, home: str) -> str:
    """Read a file that a machine calls whose first file is `home`, as `read` does.

    It must be a regular file, and no link may lead out of the folder tree of `home`. `home` itself
    may be a link.
    """
    folder = os.path.dirname(home)
    roots = (os.path.realpath(folder), os.path.dirname(os.path.realpath(home)))
    within = _lies_in(os.path.abspath(path), os.path.abspath(folder))
    if within and not any(_lies_in(os.path.realpath(path), root) for root in roots):
        hint = "keep a machine's files in one folder tree"
        raise _refused(path, "unreadable-file", f"a link leads out of the folder of {home}", hint)
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        mode = 0  # reading reports its fault
    if mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise _refused(path, "unreadable-file", "this is no regular file", "name a JSON file")
    return read(path)


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def decoded(data: bytes, name: str) -> str:
    """Return the bytes of a file as text. Raises DefinitionError with one finding that carries the
    file's name.
    """
    if len(data) > MAX_BYTES:
        message = (
            f"the file is larger than {MAX_BYTES // 1_000_000} MB, the most that a"
            " definition may be"
        )
        raise _refused(name, "too-large", message)
    for mark, encoding in _WIDE:
        if data.startswith(mark):
            raise _refused(
                name, "not-utf8", f"the file is encoded in {encoding}", "save it as UTF-8"
            )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
        before = data[:offset]
        message = f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8"
        [found] = _refused(name, "not-utf8", message, "save the file as UTF-8").findings
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8-sig", "replace")) + 1
        raise DefinitionError([replace(found, line=line, column=column)]) from error


def name_of(what: object) -> str | None:
    """Return the path of a file as text; None for anything that is no path."""
    if isinstance(what, str | os.PathLike):
        return os.fspath(what)
    return None


def stem_of(name: str) -> str:
    """Return a file's name without folder and ending."""
    return os.path.splitext(os.path.basename(name))[0]


def beside(name: str, path: str) -> str:
    """Resolve a path in a file, relative to that file's folder."""
    return os.path.normpath(os.path.join(os.path.dirname(name), path))


def _refused(file: str, name: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError([replace(finding(name, message, hint=hint), file=file)])
