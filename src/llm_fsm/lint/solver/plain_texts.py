"""A text that a simple regular expression matches."""

from __future__ import annotations

import re

_PART = re.compile(r"(\\[dw]|\\[-./]|\[[^\]\\^][^\]\\]*\]|[\w @:/,;#-])(?:\{(\d{1,2})(?:,\d*)?\}|(\+)|([*?]))?")
_MOST_CHARS = 200
_CLASSES = {"\\d": "0", "\\w": "a"}


def plain_text(pattern: str) -> str | None:
    """A short text for an expression of letters, digits, classes and repeats; None for one that has more to it.

    Whoever uses it asks the expression.
    """
    body = pattern.removeprefix("^").removesuffix("$")
    made, at = "", 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or len(made) > _MOST_CHARS:
            return None
        chosen, least, _, optional = part.groups()
        char = _CLASSES.get(chosen) or chosen[1 if len(chosen) > 1 else 0]
        made += char * (0 if optional else int(least or 1))
        at = part.end()
    return made
