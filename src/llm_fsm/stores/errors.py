"""Messages of all stores: refused commits, faults of the file system, faults of database drivers.

Every message names its place and says what to do. The faults of a driver are a table of `Fault`
rows in `stores/<database>/errors.py`. `fault_of` finds the row of an error.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from llm_fsm.errors import ConversationConflict, StoreError
from llm_fsm.stores.base import Commit

RETRY = "; nothing is lost that was acknowledged: try again"
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Unreachable(StoreError):
    """The server could not be reached."""


class DriverFault(NamedTuple):
    """A row of a driver's table.

    Args:
        words: The message, after the place.
        retryable: True if the same call may succeed later without anybody's help.
        codes: The driver's codes of this fault.
        patterns: Regular expressions for the driver's message, for faults that come without a code.
    """

    words: str
    retryable: bool = False
    codes: tuple[object, ...] = ()
    patterns: tuple[str, ...] = ()


def fault_of(
    table: Iterable[DriverFault], error: BaseException, *codes: object
) -> DriverFault | None:
    """Find the row of a driver's error: by one of its codes, else by a pattern of its message."""
    rows = tuple(table)
    known: dict[object, DriverFault] = {}
    for row in rows:
        for code in row.codes:
            # The first row of a code counts, as with patterns.
            known.setdefault(code, row)
    found = next((known[code] for code in codes if code in known), None)
    if found is not None:
        return found
    message = reason_of(error)
    return next(
        (row for row in rows if any(re.search(pattern, message) for pattern in row.patterns)), None
    )


def reason_of(error: BaseException) -> str:
    """Return the driver's own message in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def server_fault(place: str, row: DriverFault | None, error: BaseException) -> StoreError:
    """Return the error of a server that answered. Without a row, it has the driver's own message."""
    if row is None:
        row = DriverFault(
            f"the server cannot do it ({reason_of(error)}): see to the cause and try again"
        )
    return StoreError(f"{place}: {row.words}", retryable=row.retryable)


def no_connection(place: str, row: DriverFault | None, error: BaseException) -> Unreachable:
    """Return the error of a server that takes no connection. A row gives the server's reason, if
    there is one.
    """
    if row is None:
        reason = reason_of(error)
        cure = f"start it, or check address and network{RETRY}"
        row = DriverFault(f"the server cannot be reached ({reason}): {cure}", True)
    return Unreachable(f"{place}: {row.words}", retryable=row.retryable)


def silent(place: str, seconds: float) -> Unreachable:
    """Return the error of a server that did not answer within `seconds`."""
    return Unreachable(
        f"{place}: the server did not answer within {seconds:g} seconds: see what keeps it busy{RETRY}",
        retryable=True,
    )


def closed(place: str) -> StoreError:
    """Return the error of every call after `close`."""
    return StoreError(f"{place}: the store is closed; open a new one")


def check(commit: Commit, version: int, *, answered: bool, defined: bool) -> None:
    """Raise the reason against a commit; see `refusal`."""
    reason = refusal(commit, version, answered=answered, defined=defined)
    if reason is not None:
        raise reason


def refusal(
    commit: Commit, version: int, *, answered: bool, defined: bool
) -> ConversationConflict | StoreError | None:
    """Return the reason against a commit; None if there is none.

    Args:
        commit: The commit.
        version: The stored version; 0 if there is no such conversation.
        answered: True if one of its request ids is answered already.
        defined: True if the store has the definition that it is pinned to.
    """
    # The order matters: a known request id of an older version is told as a wrong version, and
    # whoever loads again finds the answer.
    if version != commit.expected:
        return wrong_version(commit, version)
    if answered:
        return answered_already(commit)
    if defined or commit.definition_sha is None or commit.definition_text is not None:
        return None
    return unknown_definition(commit)


def wrong_version(commit: Commit, found: int) -> ConversationConflict:
    """Return the error that the stored version is `found` (0: no such conversation), not the
    expected one.
    """
    name = f'conversation "{commit.conversation_id}"'
    if commit.expected == 0:
        return ConversationConflict(f"{name} exists already: choose another id, or resume it")
    if found == 0:
        return ConversationConflict(
            f"{name} is gone: expected version {commit.expected}, found none; begin a new conversation"
        )
    return ConversationConflict(
        f"{name} was changed by another writer: expected version {commit.expected}, found {found}; "
        "load it and try again"
    )


def answered_already(commit: Commit) -> ConversationConflict:
    """Return the error that a request id is answered already; `load` returns the answer."""
    request_ids = " or ".join(f'"{request_id}"' for request_id, _ in commit.answered)
    return ConversationConflict(
        f'request {request_ids} of conversation "{commit.conversation_id}" was answered already: '
        "load the conversation with this request id to get the answer"
    )


def step_exists(conversation_id: str, step: int) -> ConversationConflict:
    """Return the error of a second writer, because each step of the journal is written once."""
    return ConversationConflict(
        f'step {step} of the turn under way in conversation "{conversation_id}" is recorded already. '
        "Read the journal before performing a step, and hold the lock"
    )


def unknown_definition(commit: Commit) -> StoreError:
    """Return the error that the store has no copy of the commit's definition."""
    return StoreError(
        f'conversation "{commit.conversation_id}" cannot be pinned to the definition {commit.definition_sha}: '
        "the store has no copy of it. Give its text in the same commit"
    )


def lock_lost(conversation_id: str) -> StoreError:
    """Return the error that another writer may hold the lock, after a restart of the store or a
    long stop.
    """
    return StoreError(
        f'conversation "{conversation_id}": its lock was lost during a turn, because the store was restarted '
        "or this process stopped. Nothing was saved: send the message again",
        retryable=True,
    )


def busy(conversation_id: str, waited: float, where: str = "") -> StoreError:
    """Return the error of a lock's time-out, after `waited` seconds; `where` describes its holder."""
    return StoreError(
        f'conversation "{conversation_id}" is busy{where}: an earlier message is still being answered after '
        f"{waited:.1f} seconds of waiting; send it again later",
        retryable=True,
    )


def disk_full(path: Path) -> StoreError:
    """Return the error that nothing more can be written there."""
    return StoreError(
        f"{path}: cannot be written, because the disk is full or the file has reached its size limit. "
        "Free some space and try again; nothing was changed"
    )


def read_only(path: Path) -> StoreError:
    """Return the error that the file cannot be written."""
    return StoreError(
        f"{path}: cannot be written, because the file or its folder is read-only for this user. Locks and logs are "
        "written even if a store is only read. Change the permissions, or use another file or a copy"
    )


def denied(path: Path) -> StoreError:
    """Return the error that this user cannot open the file."""
    return StoreError(
        f"{path}: permission denied for this user: change the permissions or use another file"
    )


def no_folder(folder: Path, error: OSError) -> StoreError:
    """Return the error that the folder of a file is missing and cannot be made."""
    return StoreError(
        f"{folder}: the folder does not exist and cannot be created ({error.strerror or error}): "
        "create it, or use a file in another folder"
    )


def cannot_open(path: Path, reason: object) -> StoreError:
    """Return the error for a file that could not be opened, by its kind and rights; else by
    `reason`.
    """
    try:
        if path.is_dir():
            return StoreError(
                f"{path}: is a folder, not a file: name a file, such as {path / 'conversations.db'}"
            )
        exists = path.exists()
    except PermissionError:
        return denied(path)
    # The rights are looked at after the failure only: they may be wrong for network folders.
    if exists:
        if not os.access(path, os.R_OK):
            return denied(path)
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
            return read_only(path)
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        return denied(path)
    return StoreError(
        f"{path}: cannot be opened ({reason}): check path and free space, or use another file"
    )


def os_fault(path: Path, error: OSError) -> StoreError:
    """Return the error of the operating system about a file."""
    if error.errno in _DISK_FULL:
        return disk_full(path)
    if error.errno == errno.EROFS:
        return read_only(path)
    return cannot_open(path, error.strerror or error)
