"""What goes wrong with a Redis server, said in one sentence that names it and what to do."""

from __future__ import annotations

import warnings

from redis import exceptions as faults

from llm_fsm.errors import StoreError

_RETRY = "; nothing is lost that was acknowledged: try again"
_BY_WORDS = (
    ("NOAUTH", False, "wants a password: put user and password into the URL"),
    ("HELLO must be called", False, "wants a password: put user and password into the URL"),
    ("WRONGPASS", False, "refuses this user or password: check both"),
    ("invalid username-password", False, "refuses this user or password: check both"),
    ("NOPERM", False, "does not let this user do that: grant it the commands and keys of llm-fsm"),
    ("used memory >", False, "has no memory left: raise maxmemory or delete something; nothing was changed"),
    (
        "MISCONF",
        False,
        "cannot write to its disk: see its log, free some space and try again; nothing was changed",
    ),
    ("READONLY", False, "is a read-only replica: use the primary server"),
    ("LOADING", True, f"is still loading its data{_RETRY}"),
    ("max number of clients", True, "takes no more connections: raise maxclients, or end some and try again"),
)


def fault(place: str, error: Exception) -> StoreError:
    """An error of redis-py in our words."""
    reason = " ".join(str(error).split()) or type(error).__name__
    for word, retryable, text in _BY_WORDS:
        if word in reason:
            return StoreError(f"{place}: the server {text}", retryable=retryable)
    if isinstance(error, faults.ConnectionError | OSError):
        return StoreError(
            f"{place}: the server cannot be reached ({reason}): start it, or check address and network{_RETRY}",
            retryable=True,
        )
    return StoreError(f"{place}: the server cannot do it ({reason}): see to the cause and try again")


def silent(place: str, seconds: float) -> StoreError:
    """The server does not answer in time."""
    return StoreError(
        f"{place}: the server did not answer within {seconds:g} seconds: see what keeps it busy{_RETRY}",
        retryable=True,
    )


def warn(place: str, what: str, verb: str) -> None:
    """Say that acknowledged turns may be lost."""
    warnings.warn(
        f"{place}: the server {what}: {verb} appendonly yes, appendfsync always and maxmemory-policy noeviction "
        "if acknowledged turns must be kept",
        RuntimeWarning,
        stacklevel=2,
    )
