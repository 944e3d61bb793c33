"""The faults of a Redis server: the table of messages. redis-py removes known codes from the
messages.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as faults

from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.stores.errors import RETRY, DriverFault, fault_of, no_connection, server_fault

TABLE = (
    DriverFault(
        "the server wants a password: put user and password into the URL",
        patterns=("NOAUTH", "HELLO must be called"),
    ),
    DriverFault(
        "the server refuses this user or password: check both",
        patterns=("WRONGPASS", "invalid username-password"),
    ),
    DriverFault(
        "the server does not let this user do that: grant it the commands, keys and channels of llm-fsm",
        patterns=(
            "NOPERM",
            "no permissions",
            "can't run this command",
            "can't access at least one of the keys",
        ),
    ),
    DriverFault(
        "the server has no memory left: raise maxmemory or delete something; nothing was changed",
        patterns=("used memory >",),
    ),
    DriverFault(
        "the server cannot write to its disk: see its log, free some space and try again; nothing was changed",
        patterns=("MISCONF",),
    ),
    DriverFault(
        f"the server is a read-only replica: use the primary server, or wait until one takes over{RETRY}",
        True,
        patterns=("read only replica",),
    ),
    DriverFault(
        f"the server is a replica that has lost its primary server: use that one{RETRY}",
        True,
        patterns=("Link with MASTER is down",),
    ),
    DriverFault(
        f"the server has fewer replicas than it must have to write: see to them{RETRY}",
        True,
        patterns=("NOREPLICAS",),
    ),
    DriverFault(
        f"the server is busy with a script of another program: end that{RETRY}",
        True,
        patterns=("BUSY Redis",),
    ),
    DriverFault(
        f"the server is still loading its data{RETRY}", True, patterns=("loading the dataset",)
    ),
    DriverFault(
        "the server takes no more connections: raise maxclients, or end some and try again",
        True,
        patterns=("max number of clients",),
    ),
)


def is_replica(error: Exception) -> bool:
    """Return true if the server is not the primary any more."""
    return any(words in str(error) for words in ("read only replica", "Link with MASTER is down"))


def fault(place: str, error: Exception) -> StoreError:
    """Return the error of redis-py."""
    row = fault_of(TABLE, error)
    if row is None and isinstance(error, faults.ConnectionError | OSError):
        return no_connection(place, None, error)
    return server_fault(place, row, error)


@contextmanager
def sound(place: str, *broken: type[Exception]) -> Iterator[None]:
    """Translate the errors `broken` of reading stored values that another program wrote."""
    try:
        yield
    except broken as error:
        raise UnreadableError(
            f"{place}: what the server keeps of a conversation is damaged ({error}): restore it from a backup"
        ) from error


def warn(place: str, what: str, verb: str) -> None:
    """Warn that acknowledged turns may be lost."""
    warnings.warn(
        f"{place}: the server {what}: {verb} appendonly yes, appendfsync always and maxmemory-policy noeviction "
        "if acknowledged turns must be kept",
        RuntimeWarning,
        stacklevel=2,
    )
