"""Values of secret keys as they stand in somebody's words, and those words without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_fsm.coercion import plain_digits
from llm_fsm.markup import escaped

MIN_SECRET_CHARS = 3
BLOT = "•••"
_MIN_SPELLED = 6
"""Letters and digits of a secret that is known however it is written: of fewer, other words may consist."""
_BETWEEN = r"[\s./_-]{0,3}"


def _texts(value: object) -> Iterator[str]:
    """Every scalar in a JSON value, as it could stand in somebody's words."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def texts_in(values: Iterable[object]) -> tuple[str, ...]:
    """What of secret values could stand in somebody's words, longest first; the shortest texts stand everywhere."""
    found = {text for value in values for text in _texts(value) if len(text) >= MIN_SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))


def in_json(secret: str) -> tuple[str, ...]:
    """A secret as it may stand in JSON text: as prompts write it, and as writers do that think of web pages."""
    shown = escaped(secret)[1:-1]
    return shown, shown.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def without(secrets: Iterable[str], text: str) -> str | None:
    """The text with secrets blotted out; None when it holds none."""
    blotted = text
    for secret in secrets:
        blotted = blotted.replace(secret, BLOT)
        if (spelled := _spelled(secret)) is not None:
            blotted = _blotted_where(spelled, blotted)
    return None if blotted == text else blotted


def _spelled(secret: str) -> re.Pattern[str] | None:
    """How people may write a secret: in groups, with other marks between, in capitals or not. None for a short one."""
    letters = [letter for letter in plain_digits(secret) if letter.isalnum()]
    return re.compile(_BETWEEN.join(letters), re.IGNORECASE) if len(letters) >= _MIN_SPELLED else None


def _blotted_where(spelled: re.Pattern[str], text: str) -> str:
    found = [match.span() for match in spelled.finditer(plain_digits(text))]
    for start, end in reversed(found):
        text = text[:start] + BLOT + text[end:]
    return text


def blotted(secrets: Iterable[str], value: Any) -> Any:
    """A JSON value whose texts have secrets blotted out."""
    if isinstance(value, str):
        found = without(secrets, value)
        return value if found is None else found
    if isinstance(value, Mapping):
        return {key: blotted(secrets, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [blotted(secrets, item) for item in value]
    return value
