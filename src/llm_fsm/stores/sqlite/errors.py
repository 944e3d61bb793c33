"""The faults of SQLite: the table of result codes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from llm_fsm.errors import StoreError
from llm_fsm.stores.errors import (
    DriverFault,
    cannot_open,
    denied,
    disk_full,
    fault_of,
    read_only,
    server_fault,
)

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# The system cut a write for another reason than ENOSPC, such as a limit of the file's size.
_CUT_SHORT = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)
_UNSETTLED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_REOPEN = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
)
_OF_THE_FILE = {
    sqlite3.SQLITE_FULL: disk_full,
    **dict.fromkeys(_CUT_SHORT, disk_full),
    sqlite3.SQLITE_READONLY: read_only,
    sqlite3.SQLITE_PERM: denied,
    sqlite3.SQLITE_AUTH: denied,
}
TABLE = (
    DriverFault(
        "the database is locked by another program: try again, or end that program", True, _BUSY
    ),
    DriverFault(
        "is not an SQLite database: use another file, or move this one away",
        codes=(sqlite3.SQLITE_NOTADB,),
    ),
)


def fault(path: str, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """Return the error of SQLite. Python raises UnicodeDecodeError for messages that quote a
    damaged name.
    """
    code = _code(error)
    primary = code & 0xFF
    of_the_file = _OF_THE_FILE.get(code) or _OF_THE_FILE.get(primary)
    if of_the_file is not None:
        return of_the_file(Path(path))
    if primary == sqlite3.SQLITE_CANTOPEN:
        return cannot_open(Path(path), error)
    if primary == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
        return StoreError(
            f"{path}: the database is damaged ({error}): restore it from a backup, or move it away"
        )
    unknown = DriverFault(f"the database cannot be used ({error}): see to the cause and try again")
    return server_fault(path, fault_of(TABLE, error, primary) or unknown, error)


def is_busy(error: BaseException) -> bool:
    """Return true if another program locked the database for too long. The next statement would
    also fail.
    """
    return isinstance(error, sqlite3.Error) and _code(error) & 0xFF in _BUSY


def is_unsettled(error: BaseException) -> bool:
    """Return true if a commit is written, but perhaps not on the disk, so that it may reappear."""
    return isinstance(error, sqlite3.Error) and _code(error) in _UNSETTLED


def is_lasting(error: BaseException) -> bool:
    """Return true if the connection may have to be reopened before it works again.

    A full disk is no such fault. It can still be read, but perhaps a new connection cannot be
    opened.
    """
    return (
        isinstance(error, sqlite3.Error)
        and _code(error) & 0xFF in _REOPEN
        and _code(error) not in _CUT_SHORT
    )


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
