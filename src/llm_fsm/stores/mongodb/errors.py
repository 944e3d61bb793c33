"""What goes wrong with a MongoDB server, said in one sentence that names it and what to do."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from pymongo import errors

from llm_fsm.errors import StoreError

_DATABASE = "llm_fsm"
_BY_CODE = {
    13: "does not let this user do that: grant it readWrite on the database",
    18: "refuses this user or password: check both",
    14031: "has no disk space left: free some and try again; nothing was changed",
}


def place_of(url: str) -> tuple[str, str]:
    """The URL without user, password and parameters; and the name of the database."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    database = unquote(parts.path.lstrip("/")) or _DATABASE
    return f"{parts.scheme}://{hosts}/{database}", database


def fault(place: str, error: errors.PyMongoError) -> StoreError:
    """An error of pymongo in our words."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, errors.DocumentTooLarge):
        return StoreError(
            f"{place}: a turn is larger than the 16 MB that MongoDB takes: use another store for it"
        )
    if isinstance(error, errors.OperationFailure) and error.code in _BY_CODE:
        return StoreError(f"{place}: the server {_BY_CODE[error.code]}")
    if error.timeout:
        return StoreError(
            f"{place}: the server did not answer in time ({reason}): start it, or see what keeps it busy; "
            "nothing is lost that was acknowledged: try again",
            retryable=True,
        )
    if isinstance(error, errors.ConnectionFailure):
        return StoreError(
            f"{place}: the server cannot be reached ({reason}): start it, or check address and network; "
            "nothing is lost that was acknowledged: try again",
            retryable=True,
        )
    return StoreError(f"{place}: the server cannot do it ({reason}): see to the cause and try again")
