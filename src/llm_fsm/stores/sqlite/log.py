"""The write-ahead log of an SQLite file: room in it, made before commits need it, and its emptying between them.

A commit that makes the log longer has the file's new length synced too, which takes the file system a commit of its
own: about as long again. So the log gets the length that it has at its first checkpoint anyway, in one piece, and
commits overwrite what is there. SQLite reads a log up to the first frame that is none, so zeros are its end.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

ROOM = 32 + 1008 * (24 + 4096)
"""Bytes: a header and 1,008 frames of a page. With 1,000 SQLite checkpoints, and begins again at the start."""
_PIECE = 1 << 16
"""Bytes written at a time. Linux keeps them together, and goes through all of them for each page overwritten later."""


def make_room(db: sqlite3.Connection) -> None:
    """Make the log `ROOM` long, on the disk too, if it is shorter.

    Waits for no other program. Raises sqlite3.OperationalError where one is writing, and OSError where the system
    refuses; the log is then as long as before.
    """
    _, _, path = db.execute("PRAGMA database_list").fetchone()
    log = Path(f"{path}-wal")
    if not path or not log.exists():  # in memory, or on a file system that can have no such log
        return
    (patience,) = db.execute("PRAGMA busy_timeout").fetchone()
    db.execute("PRAGMA busy_timeout = 0")
    try:
        db.execute("BEGIN IMMEDIATE")  # only who may write adds to the log, or shortens it
        try:
            _lengthen(log)
        finally:
            db.execute("ROLLBACK")
    finally:
        db.execute(f"PRAGMA busy_timeout = {patience}")


def empty(db: sqlite3.Connection) -> None:
    """Copy the log into the file, as far as no reader needs it, so that the next commit begins it anew.

    Waits for no other program. Raises sqlite3.Error.
    """
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _lengthen(log: Path) -> None:
    # Where the file was replaced meanwhile, the lock is another one's: what follows the end is never written over.
    with open(log, "ab", buffering=0, opener=_existing) as file:
        end = file.seek(0, os.SEEK_END)
        missing = max(ROOM - end, 0)
        try:
            while missing:
                missing -= file.write(bytes(min(missing, _PIECE)))
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # zeros that stay do no harm
                file.truncate(end)
            raise


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT)
