"""What goes wrong with a Redis server, said in one sentence that names it and what to do.

redis-py takes the codes that it knows off the messages, so that most of them are told by their words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as faults

from llm_fsm.errors import StoreError, UnreadableError

_RETRY = "; nothing is lost that was acknowledged: try again"
_BY_WORDS = (
    ("NOAUTH", False, "wants a password: put user and password into the URL"),
    ("HELLO must be called", False, "wants a password: put user and password into the URL"),
    ("WRONGPASS", False, "refuses this user or password: check both"),
    ("invalid username-password", False, "refuses this user or password: check both"),
    *(
        (words, False, "does not let this user do that: grant it the commands and keys of llm-fsm")
        for words in ("NOPERM", "no permissions", "can't run this command", "can't access at least one of the keys")
    ),
    ("used memory >", False, "has no memory left: raise maxmemory or delete something; nothing was changed"),
    (
        "MISCONF",
        False,
        "cannot write to its disk: see its log, free some space and try again; nothing was changed",
    ),
    ("read only replica", False, "is a read-only replica: use the primary server"),
    ("Link with MASTER is down", True, f"is a replica that has lost its primary server: use that one{_RETRY}"),
    ("NOREPLICAS", True, f"has fewer replicas than it must have to write: see to them{_RETRY}"),
    ("BUSY Redis", True, f"is busy with a script of another program: end that{_RETRY}"),
    ("loading the dataset", True, f"is still loading its data{_RETRY}"),
    ("max number of clients", True, "takes no more connections: raise maxclients, or end some and try again"),
)


def is_replica(error: Exception) -> bool:
    """Whether the server has handed over to another one."""
    return any(words in str(error) for words in ("read only replica", "Link with MASTER is down"))


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


@contextmanager
def sound(place: str, *broken: type[Exception]) -> Iterator[None]:
    """Around reading what the server keeps: `broken` is what is raised where another program has written there."""
    try:
        yield
    except broken as error:
        raise UnreadableError(
            f"{place}: what the server keeps of a conversation is damaged ({error}): restore it from a backup"
        ) from error


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
