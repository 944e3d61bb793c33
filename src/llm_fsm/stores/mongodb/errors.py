"""The faults of a MongoDB server: the table of codes, and the errors of pymongo without one."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from pymongo import errors

from llm_fsm.errors import StoreError
from llm_fsm.stores.errors import (
    RETRY,
    DriverFault,
    fault_of,
    no_connection,
    reason_of,
    server_fault,
)

_DATABASE = "llm_fsm"
TABLE = (
    DriverFault(
        "the server does not let this user do that: grant it readWrite on the database", codes=(13,)
    ),
    DriverFault("the server refuses this user or password: check both", codes=(18,)),
    DriverFault(
        "the server has no disk space left: free some and try again; nothing was changed",
        codes=(14031,),
    ),
    DriverFault(
        "a turn is larger than the 16 MB that MongoDB takes: use another store for it",
        codes=(errors.DocumentTooLarge,),
    ),
)


def place_of(url: str) -> tuple[str, str]:
    """Return the URL without user, password and parameters, and the name of the database."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    database = unquote(parts.path.lstrip("/")) or _DATABASE
    return f"{parts.scheme}://{hosts}/{database}", database


def fault(place: str, error: errors.PyMongoError) -> StoreError:
    """Return the error of pymongo."""
    row = fault_of(TABLE, error, getattr(error, "code", None), type(error))
    if row is None and error.timeout:
        words = f"did not answer in time ({reason_of(error)}): start it, or see what keeps it busy{RETRY}"
        row = DriverFault(f"the server {words}", True)
    if row is None and isinstance(error, errors.ConnectionFailure):
        return no_connection(place, None, error)
    return server_fault(place, row, error)
