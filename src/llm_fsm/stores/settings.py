"""Settings of a store, which may stand in its URL as `?name=value`."""

from __future__ import annotations

from urllib.parse import unquote_plus

from llm_fsm.errors import ConfigurationError

_LONGEST = 86_400.0
"""Seconds that any setting may say."""


def taken(url: str, *names: str) -> tuple[str, dict[str, str]]:
    """The URL without the settings of these names, and what they say.

    All else stays as it is written: those who read it differ in how a space is written, and what no host means.
    """
    place, _, query = url.partition("?")
    found: dict[str, str] = {}
    left: list[str] = []
    for setting in query.split("&"):
        name, _, value = setting.partition("=")
        if unquote_plus(name) in names:
            found[unquote_plus(name)] = unquote_plus(value)
        elif setting:
            left.append(setting)
    return f"{place}?{'&'.join(left)}" if left else place, found


def with_defaults(url: str, **settings: object) -> str:
    """The URL with those of the settings that it does not say itself."""
    place, _, query = url.partition("?")
    said = {unquote_plus(setting.partition("=")[0]) for setting in query.split("&")}
    added = [f"{name}={value}" for name, value in settings.items() if name not in said]
    return f"{place}?{'&'.join([query, *added] if query else added)}"


def seconds(name: str, given: str | float) -> float:
    """A setting that is a time. Raises ConfigurationError."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number <= _LONGEST:
        raise ConfigurationError(
            f"{name} is a number of seconds, more than 0 and at most {_LONGEST:.0f}, not {given!r}: try {name}=10"
        )
    return number
