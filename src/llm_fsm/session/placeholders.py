"""Values that a model made up where it had none: dots, names of forms, and telephone numbers of
examples.

Small models fill a key with such a value instead of leaving it out. None is refused that the user
wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm.session.quotes import digits_of, find_quote

_DOTS = re.compile(r"\s*(?:…+|\.{2,}|_{2,}|·{2,})\s*")
_BRACKETS = re.compile(r"\[[A-Za-z][A-Za-z _-]*\]|<[A-Za-z][A-Za-z _-]*>")
_ADDRESS = re.compile(
    r"(?:your[._-]?)?(?:e?mail|name|user(?:name)?|someone|address|(?:john|jane)[._-]?(?:doe|smith)?)"
    r"@(?:example|domain|email|mail|test)\.(?:com|org|net)"
)
_NAMES = frozenset(
    {
        "john doe",
        "jane doe",
        "max mustermann",
        "erika mustermann",
        "your name",
        "full name",
        "user name",
        "string",
        "placeholder",
        "lorem ipsum",
        "to be determined",
        "not provided",
        "not specified",
        "not mentioned",
        "not given",
    }
)
_DIGITS = frozenset(
    {
        "1234567890",
        "0123456789",
        "11234567890",
        "5551234567",
        "5555555555",
        "0000000000",
        "1111111111",
    }
)
_MAX_DEPTH = 16


def is_dots(text: str) -> bool:
    """Return true for a text of dots alone, which says nothing."""
    return _DOTS.fullmatch(text) is not None


def placeholder_in(value: Any, schema: JsonMap, messages: Sequence[tuple[int, str]]) -> str | None:
    """Return a placeholder in a value that the user did not write; None if there is none.

    Args:
        value: The value as the model sent it.
        schema: The schema of its key. A value that it lists is none of ours to judge.
        messages: The messages of the user, with their numbers.
    """
    listed = schema.get("enum")
    if isinstance(listed, list) and value in listed:
        return None
    for text in _texts(value):
        # Dots say nothing even if the user wrote them. A name of a form may be somebody's own.
        if is_dots(text) or (_is_placeholder(text) and find_quote(text, messages) is None):
            return text
    return None


def _is_placeholder(text: str) -> bool:
    plain = " ".join(text.casefold().split())
    if plain in _NAMES or _ADDRESS.fullmatch(plain) or _BRACKETS.fullmatch(plain):
        return True
    # In words, the digits of an example may stand by chance.
    is_number = not any(one.isalpha() for one in plain)
    return is_number and digits_of(plain) in _DIGITS


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts in a value."""
    match value:
        case str():
            yield value
        case list() if depth < _MAX_DEPTH:
            for item in value:
                yield from _texts(item, depth + 1)
        case Mapping():
            yield from _texts([*value.values()], depth)
