"""One writer per conversation across processes: operating-system locks, which die with their
process.

They are in a folder beside the store, `<file>-locks`. On Linux, they are byte ranges of a few
files, one byte per conversation. Its offset is a stable hash of the id. The locks belong to the
open file description (F_OFD_SETLK, see fcntl(2)). So threads or a second store in the same process
do not confuse them. The kernel searches all locks of a file for each one, hence several files.
Other systems use `flock` on one file per running turn. Without `fcntl` (Windows), there are no
locks. The version check of `save` then refuses the second of two writers, which has to begin its
turn again.

A lock must not survive in a forked child that never uses the store, so the child closes its copy at
once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import threading
from pathlib import Path
from typing import Protocol

from llm_fsm._text import sha256_of
from llm_fsm.stores.errors import denied, no_folder, os_fault
from llm_fsm.stores.locks.forks import in_forked_children

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_BUSY = frozenset({errno.EAGAIN, errno.EACCES})
_FILES = 32
"""The number of lock files. Ten thousand locks cost microseconds each; in a single file, they cost
200.
"""


class FileLocks(Protocol):
    """Named locks, shared by all processes that use the same file. They have no queue, so callers
    poll.
    """

    def take(self, name: str) -> bool:
        """Take the lock if it is free, without waiting. Raises StoreError if locking is impossible."""

    def give(self, name: str) -> None:
        """Release a lock; do nothing if it is not held."""

    def close(self) -> None:
        """Release all locks."""


class NoLocks:
    """No locks: for systems without `fcntl`, and for stores that no other process can see."""

    def take(self, _name: str) -> bool:
        """Return true."""
        return True

    def give(self, name: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class RangeLocks:
    """Byte ranges of the files in `folder`. `take` and `give` cost one system call each."""

    def __init__(self, folder: Path, beside: Path | None = None) -> None:
        self._folder = folder
        self._beside = folder if beside is None else beside
        self._guard = threading.Lock()
        self._handles: dict[int, int] = {}
        self._held: dict[str, tuple[int, bytes]] = {}

    def take(self, name: str) -> bool:
        """See `FileLocks.take`."""
        share, locked, free = _place(name)
        handle = self._handles.get(share)
        if handle is None:
            handle = self._open(share)
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, locked)
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise os_fault(self._path(share), error) from error
        self._held[name] = handle, free
        return True

    def give(self, name: str) -> None:
        """See `FileLocks.give`."""
        held = self._held.pop(name, None)
        if held is not None:
            fcntl.fcntl(held[0], fcntl.F_OFD_SETLK, held[1])

    def close(self) -> None:
        """See `FileLocks.close`."""
        self._held.clear()
        while self._handles:
            os.close(self._handles.popitem()[1])

    def _path(self, share: int) -> Path:
        return self._folder / f"{share:02x}"

    def _open(self, share: int) -> int:
        with self._guard:
            in_forked_children(self, RangeLocks.close)
            if share not in self._handles:
                self._handles[share] = _open_lock_file(self._path(share), self._beside)
            return self._handles[share]


class FolderLocks:
    """One `flock`ed file for each held lock, in its own folder. The file's name is a hash of the
    lock's name.
    """

    def __init__(self, folder: Path, beside: Path | None = None) -> None:
        self._folder = folder
        self._beside = folder if beside is None else beside
        self._handles: dict[str, int] = {}

    def take(self, name: str) -> bool:
        """See `FileLocks.take`."""
        in_forked_children(self, FolderLocks.close)
        path = self._path(name)
        handle = _open_lock_file(path, self._beside)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last owner removes the file, so the lock may be on a removed file, which protects
            # nothing.
            held = os.fstat(handle).st_ino == path.stat().st_ino
        except FileNotFoundError:
            held = False
        except OSError as error:
            os.close(handle)
            if error.errno in _BUSY:
                return False
            raise os_fault(path, error) from error
        # The file may have been removed between opening and locking it, and then another one has
        # its name.
        if held:
            self._handles[name] = handle
        else:
            os.close(handle)
        return held

    def give(self, name: str) -> None:
        """See `FileLocks.give`."""
        handle = self._handles.pop(name, None)
        if handle is not None:
            # Removed while it is locked, so that nobody can lock a file that is about to go.
            self._path(name).unlink(missing_ok=True)
            os.close(handle)

    def close(self) -> None:
        """See `FileLocks.close`. Files of held locks remain, unlocked and harmless."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def _path(self, name: str) -> Path:
        return self._folder / sha256_of(name)


def make_folder(path: Path) -> None:
    """Create the folder of `path` if it is missing, for this user only, and its parents. Raises
    StoreError.
    """
    folder = path.parent
    try:
        if folder.is_dir():
            return
    except PermissionError as error:
        raise denied(folder) from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise no_folder(folder, error) from error


def locks_beside(path: Path) -> FileLocks:
    """Return the best kind of lock that this system has for the users of the file `path`. Opens
    nothing yet.
    """
    if fcntl is None:
        return NoLocks()
    folder = path.with_name(path.name + "-locks")
    return RangeLocks(folder, path) if hasattr(fcntl, "F_OFD_SETLK") else FolderLocks(folder, path)


def _place(name: str) -> tuple[int, bytes, bytes]:
    """Return the file of `name`, and the structs that lock and free its byte, by 62 bits of its
    SHA-256.
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    offset = int.from_bytes(digest[:8], "big") >> 2
    return digest[8] % _FILES, _one_byte(fcntl.F_WRLCK, offset), _one_byte(fcntl.F_UNLCK, offset)


def _one_byte(kind: int, offset: int) -> bytes:
    """Return a `struct flock` over the byte at `offset`."""
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, offset, 1, 0)


def _open_lock_file(path: Path, beside: Path) -> int:
    """Open a lock file for all users of the file `beside`, which error messages name."""
    make_folder(beside)
    mode = _mode(beside)
    try:
        path.parent.mkdir(mode=mode | (mode & 0o444) >> 2, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    except OSError as error:
        raise os_fault(path if os.path.exists(path) else beside, error) from error


def _mode(beside: Path) -> int:
    try:
        return beside.stat().st_mode & 0o666
    except OSError:
        return 0o600
