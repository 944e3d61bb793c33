"""The faults of a PostgreSQL server: the table of codes and messages. A refused connection has
words, but no code.
"""

from __future__ import annotations

from psycopg import Error, conninfo, errors

from llm_fsm.errors import StoreError
from llm_fsm.stores.errors import (
    RETRY,
    DriverFault,
    Unreachable,
    fault_of,
    no_connection,
    server_fault,
    silent,
)

READ_ONLY = "25006"
_PASSING = ("40", "08", "57")
"""Classes of codes of passing faults: a transaction undone, a connection broken, an operator's
intervention.
"""
TABLE = (
    DriverFault(
        "the server takes no more connections (a process needs three, a worker four). Raise max_connections "
        "or the limit of the role or database, or end some and try again",
        True,
        ("53300",),
        (
            "too many clients",
            "too many connections",
            "remaining connection slots",
            "no more connections allowed",
            "max clients reached",
        ),
    ),
    DriverFault(
        "the server refuses this user or password: check both",
        codes=("28P01",),
        patterns=("password authentication failed", "no password supplied"),
    ),
    DriverFault(
        "the server refuses this user: check the user's name and pg_hba.conf",
        codes=("28000",),
        patterns=(
            "no pg_hba.conf entry",
            'role ".*" does not exist',
            'role ".*" is not permitted to log in',
        ),
    ),
    DriverFault(
        "the server has no such database: create it, or name another one",
        codes=("3D000",),
        patterns=('database ".*" does not exist',),
    ),
    DriverFault(
        f"the server is read-only (a standby?): use the primary server, or wait until one takes over{RETRY}",
        True,
        (READ_ONLY,),
        ("session is read-only", "server is in hot standby mode"),
    ),
    DriverFault(
        "the server does not let this user do that: grant it the rights on the schema, or use another user",
        codes=("42501",),
        patterns=('permission denied for database ".*"',),
    ),
    DriverFault(
        "the server has no disk space left: free some and try again; nothing was changed",
        codes=("53100",),
    ),
    DriverFault(
        "the server is out of memory: try again later; nothing was changed", True, ("53200",)
    ),
    DriverFault(
        "the server is locked by another program: try again, or end that program", True, ("55P03",)
    ),
    DriverFault(
        "the server took longer than the time-out: see what keeps it busy and try again",
        True,
        ("57014",),
    ),
    DriverFault(
        f"the server is starting up or shutting down{RETRY}",
        True,
        ("57P03",),
        ("the database system is", "is not currently accepting connections"),
    ),
)


def place_of(url: str) -> str:
    """Return the URL without its password and parameters."""
    given = conninfo.conninfo_to_dict(url)
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    host = given.get("host") or "localhost"
    return f"postgresql://{user}{host}{port}/{given.get('dbname') or ''}"


def fault(place: str, error: Error) -> StoreError:
    """Return the error of a statement. The connection stays usable."""
    state = error.sqlstate or ""
    found = server_fault(place, fault_of(TABLE, error, state), error)
    found.retryable = found.retryable or state.startswith(_PASSING)
    return found


def unreachable(place: str, error: Exception, seconds: float) -> Unreachable:
    """Return the error of a connection that was not made within `seconds`, or that broke."""
    if isinstance(error, errors.ConnectionTimeout):
        return silent(place, seconds)
    return no_connection(place, fault_of(TABLE, error, getattr(error, "sqlstate", None)), error)
