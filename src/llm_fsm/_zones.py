"""Time zones by their IANA names. This is the one place that looks a zone up.

The data come from the system or from the package `tzdata`. No zone is ever replaced by another one.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from llm_fsm.errors import ConfigurationError

NO_ZONES = "this machine has no database of time zones; install the package tzdata"
_UNKNOWN = "an IANA name such as Europe/Berlin is needed"


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return the time zone of an IANA name; UTC for "".

    Raises:
        ConfigurationError: This machine does not know the zone. The message says if it knows any.
    """
    if not name:
        return UTC
    fault = zone_fault(name)
    if fault is not None:
        raise ConfigurationError(f"the time zone {name!r:.60} is not known: {fault}")
    return ZoneInfo(name)


def zone_fault(name: str) -> str | None:
    """Return the reason why a name is no time zone of this machine; None if it is one."""
    if _is_found(name):
        return None
    return _UNKNOWN if _is_found("UTC") else NO_ZONES


def _is_found(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError):
        return False
    return True
