"""The file system around a store's file: what is wrong with it, said in one sentence that names the file."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from llm_fsm.errors import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def make_folder(path: Path) -> None:
    """Create the folder of `path` where missing, for this user only, and its parents. Raises StoreError."""
    folder = path.parent
    try:
        if folder.is_dir():
            return
    except PermissionError as error:
        raise denied(folder) from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: the folder does not exist and cannot be created ({_reason(error)}): "
            "create it, or use a file in another folder"
        ) from error


def make_private(path: Path) -> None:
    """Create the file where missing, empty and for this user only; what forbids that is found out by opening it."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def full(path: Path) -> StoreError:
    """Nothing more can be written there."""
    return StoreError(
        f"{path}: cannot be written, because the disk is full or the file has reached its size limit: "
        "free some space and try again; nothing was changed"
    )


def read_only(path: Path) -> StoreError:
    """The file can be read only."""
    return StoreError(
        f"{path}: cannot be written, because the file or its folder is read-only for this user (locks and logs are "
        "written even where a store is only read): change the permissions, or use another file or a copy"
    )


def denied(path: Path) -> StoreError:
    """The user may not even open the file."""
    return StoreError(f"{path}: permission denied for this user: change the permissions or use another file")


def a_folder(path: Path) -> StoreError:
    """There is a folder where the file should be."""
    return StoreError(f"{path}: is a folder, not a file: name a file, such as {path / 'conversations.db'}")


def cannot_open(path: Path, reason: str) -> StoreError:
    """Why a file could not be opened, judged by what stands there; `reason` is the last resort."""
    try:
        if path.is_dir():
            return a_folder(path)
        exists = path.exists()
    except PermissionError:
        return denied(path)
    if exists:
        if not os.access(path, os.R_OK):
            return denied(path)
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
            return read_only(path)
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        return denied(path)
    return StoreError(f"{path}: cannot be opened ({reason}): check path and free space, or use another file")


def os_fault(path: Path, error: OSError) -> StoreError:
    """An operating system's error about `path` in our words."""
    if error.errno in _FULL:
        return full(path)
    if error.errno == errno.EROFS:
        return read_only(path)
    return cannot_open(path, _reason(error))


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
