"""One writer per conversation across processes: operating-system locks, which die with their process.

Linux: byte ranges of one file beside the store (`<file>-lock`), one byte per conversation, at an offset that
is a stable hash of its id; the locks belong to the open file description (F_OFD_SETLK, see fcntl(2)), so
neither threads nor a second store in the same process confuse them. Elsewhere with `flock`: a folder
`<file>-locks` with one file per conversation that is being answered. Without `fcntl` (Windows): none; there
the version check of `save` refuses the second of two writers, which has to begin its turn again.

A lock must not live on in a forked child that never uses the store: the child closes its copy at once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import threading
import weakref
from pathlib import Path
from typing import Protocol

from llm_fsm.stores.place import make_folder, os_fault

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_BUSY = frozenset({errno.EAGAIN, errno.EACCES})


class FileLocks(Protocol):
    """Named locks shared by all processes that use the same file. Not queues: one asks again."""

    def take(self, name: str) -> bool:
        """Take the lock if it is free, without waiting. Raises StoreError when locking is impossible."""
        ...

    def give(self, name: str) -> None:
        """Give a lock back; nothing happens if it is not held (any more)."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class NoLocks:
    """For systems without `fcntl`, and for stores that no other process can see."""

    def take(self, name: str) -> bool:  # noqa: ARG002
        """Always true."""
        return True

    def give(self, name: str) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to close."""


class RangeLocks:
    """Byte ranges of one file. `take` and `give` cost one system call each."""

    def __init__(self, path: Path, beside: Path | None = None) -> None:
        self._path = path
        self._beside = path if beside is None else beside
        self._guard = threading.Lock()
        self._handle: int | None = None

    def take(self, name: str) -> bool:
        """See `FileLocks.take`."""
        handle = self._open() if self._handle is None else self._handle
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_WRLCK, name))
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise os_fault(self._path, error) from error
        return True

    def give(self, name: str) -> None:
        """See `FileLocks.give`."""
        handle = self._handle
        if handle is not None:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_UNLCK, name))

    def close(self) -> None:
        """See `FileLocks.close`."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        with self._guard:
            if self._handle is None:
                self._handle = _open_lock_file(self._path, self._beside)
                _close_in_children(self)
            return self._handle


class FolderLocks:
    """One `flock`ed file per lock that is held, in a folder of their own; the name is a hash of the name."""

    def __init__(self, folder: Path, beside: Path | None = None) -> None:
        self._folder = folder
        self._beside = folder if beside is None else beside
        self._handles: dict[str, int] = {}
        self._watched = False

    def take(self, name: str) -> bool:
        """See `FileLocks.take`."""
        if not self._watched:
            _close_in_children(self)
            self._watched = True
        path = self._path(name)
        handle = _open_lock_file(path, self._beside)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last owner removes the file: a lock on a removed one protects nothing.
            held = os.fstat(handle).st_ino == path.stat().st_ino
        except FileNotFoundError:
            held = False
        except OSError as error:
            os.close(handle)
            if error.errno in _BUSY:
                return False
            raise os_fault(path, error) from error
        if held:
            self._handles[name] = handle
        else:
            os.close(handle)
        return held

    def give(self, name: str) -> None:
        """See `FileLocks.give`."""
        handle = self._handles.pop(name, None)
        if handle is not None:
            self._path(name).unlink(missing_ok=True)
            os.close(handle)

    def close(self) -> None:
        """See `FileLocks.close`. Files of locks still held stay behind, unlocked; they do no harm."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def _path(self, name: str) -> Path:
        return self._folder / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def locks_beside(path: Path) -> FileLocks:
    """The best kind of lock that this system has for the users of the file `path`. Opens nothing yet."""
    if fcntl is None:
        return NoLocks()
    if hasattr(fcntl, "F_OFD_SETLK"):
        return RangeLocks(path.with_name(path.name + "-lock"), path)
    return FolderLocks(path.with_name(path.name + "-locks"), path)


def _one_byte(kind: int, name: str) -> bytes:
    """A `struct flock` over the byte of `name`: 62 bits of its SHA-256, so that an off_t holds it."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    offset = int.from_bytes(digest[:8], "big") >> 2
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, offset, 1, 0)


def _open_lock_file(path: Path, beside: Path) -> int:
    """Open the lock's file, for whoever may use the file that it stands `beside`; faults name that one."""
    make_folder(beside)
    make_folder(path)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _mode(beside))
    except OSError as error:
        raise os_fault(path if path.exists() else beside, error) from error


def _mode(beside: Path) -> int:
    try:
        return beside.stat().st_mode & 0o666
    except OSError:
        return 0o600


def _close_in_children(locks: FileLocks) -> None:
    """Have a forked child close its copies of the handles: they would keep the locks of a dead parent."""
    reference = weakref.ref(locks)

    def close() -> None:
        if (still := reference()) is not None:
            still.close()

    os.register_at_fork(after_in_child=close)
