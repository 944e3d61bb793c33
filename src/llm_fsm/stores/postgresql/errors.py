"""What goes wrong with a PostgreSQL server, said in one sentence that names it and what to do."""

from __future__ import annotations

from psycopg import Error, conninfo, errors

from llm_fsm.errors import StoreError
from llm_fsm.stores.batching import Unreachable

_RETRY = "; nothing is lost that was acknowledged: try again"
_BY_STATE = {
    "28000": (False, "refuses this user: check the user's name and pg_hba.conf"),
    "28P01": (False, "refuses this user or password: check both"),
    "3D000": (False, "has no such database: create it, or name another one"),
    "25006": (False, "is read-only (a standby?): use the primary server"),
    "42501": (
        False,
        "does not let this user do that: grant it the rights on the schema, or use another user",
    ),
    "53100": (False, "has no disk space left: free some and try again; nothing was changed"),
    "53200": (True, "is out of memory: try again later; nothing was changed"),
    "53300": (True, "takes no more connections: raise max_connections, or end some and try again"),
    "55P03": (True, "is locked by another program: try again, or end that program"),
    "57014": (True, "took longer than the time-out: see what keeps it busy and try again"),
    "57P03": (True, f"is starting up or shutting down{_RETRY}"),
}
_BY_WORDS = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ('role "', "28000"),
    ('database "', "3D000"),
    ("the database system is", "57P03"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
)
"""A connection that is refused has words, but no code."""


def place_of(url: str) -> str:
    """The URL without its password and parameters."""
    given = conninfo.conninfo_to_dict(url)
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    host = given.get("host") or "localhost"
    return f"postgresql://{user}{host}{port}/{given.get('dbname') or ''}"


def fault(place: str, error: Error) -> StoreError:
    """An error of a statement in our words; the connection still stands."""
    state = error.sqlstate or ""
    retryable, text = _BY_STATE.get(state, (state.startswith(("40", "08", "57")), ""))
    if not text:
        reason = " ".join(str(error).split())
        text = f"cannot do it ({reason}): see to the cause and try again"
    return StoreError(f"{place}: the server {text}", retryable=retryable)


def unreachable(place: str, error: Exception, seconds: float) -> Unreachable:
    """No connection could be had within `seconds`, or it broke."""
    if isinstance(error, errors.ConnectionTimeout):
        return silent(place, seconds)
    reason = " ".join(str(error).split()) or type(error).__name__
    state = getattr(error, "sqlstate", None) or next((s for word, s in _BY_WORDS if word in reason), "")
    if state in _BY_STATE:
        retryable, text = _BY_STATE[state]
        return Unreachable(f"{place}: the server {text}", retryable=retryable)
    return Unreachable(
        f"{place}: the server cannot be reached ({reason}): start it, or check address and network{_RETRY}",
        retryable=True,
    )


def silent(place: str, seconds: float) -> Unreachable:
    """The server does not answer in time."""
    return Unreachable(
        f"{place}: the server did not answer within {seconds:g} seconds: see what keeps it busy{_RETRY}",
        retryable=True,
    )
