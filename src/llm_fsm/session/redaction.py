"""Find the values of secret keys in text and in documents, and replace them with dots.

`blotted` is the last step before a document leaves: it replaces values wherever they occur, in each
form in which they can be written. `redacted` does the same for one JSON value, `without` for one
text.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import quote

from llm_fsm._json import JsonDict, JsonMap, KeyTest, plain
from llm_fsm._text import is_word
from llm_fsm.conditions.coercion import is_number, plain_digits
from llm_fsm.session import events
from llm_fsm.session.events import Event

MIN_SECRET_CHARS = 3
DOTS = "•••"
_MIN_SPELLED = 6
"""Fewer letters and digits than this are only found as written, or digits with blanks: other words
may contain them."""
_LONG = 12
"""So many digits are found even across the marks of a sentence, as in a list."""
_GAP = 3
"""The most signs between two letters of a secret. More of them part two words."""
_PART = re.compile(r"[,;?!]\s")
_TOGETHER = re.compile(r"\w\w")
_SPACED = re.compile(r"[\w\s]+")
_END = "\0"
_MARKS = bytes(place for place in range(128) if not chr(place).isalnum())
_OF_CONTEXTS = (
    events.Started,
    events.ContextSet,
    events.TurnUndone,
    events.Agreed,
    events.FlowPushed,
    events.AnswersChanged,
    events.Restarted,
    events.Updated,
)
"""Events that hold contexts. `TurnUndone` holds a whole session."""
_CONTEXTS = frozenset(("context", "values", "before"))
"""Fields of these events, or of that session, that are contexts."""


def _texts(value: object) -> Iterator[str]:
    """Yield every scalar of a JSON value as text."""
    match value:
        case bool():
            return
        case str() | int() | float():
            yield str(value)
        case list():
            for item in value:
                yield from _texts(item)
        case Mapping():
            yield from _texts([*value.values()])


def texts_in(values: Iterable[object]) -> tuple[str, ...]:
    """Return secret values as texts, longest first, without the shortest, which would match
    everywhere."""
    texts = chain.from_iterable(_texts(value) for value in values)
    found = {text for text in texts if len(text) >= MIN_SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))


def written(secret: str) -> tuple[str, ...]:
    """Return the forms of a secret in text, longest first: as it is, and escaped for JSON, URLs and
    HTML."""
    if secret.isascii() and secret.isalnum():
        return (secret,)
    once = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    twice = {json.dumps(text)[1:-1] for text in once}  # arguments of a tool are JSON within JSON
    url = quote(secret.encode("utf-8", "replace"), safe="")
    found = {secret, *once, *twice, url, html.escape(secret)}
    return tuple(sorted(found, key=len, reverse=True))


def without(secrets: Iterable[str], text: str) -> str | None:
    """Replace secrets in a text with dots; None if it holds none."""
    redacted = text
    for secret in secrets:
        for form in written(secret):
            redacted = redacted.replace(form, DOTS)
        # From the end, because dots move what follows them.
        for start, end in reversed(spelled(secret, redacted)):
            redacted = redacted[:start] + DOTS + redacted[end:]
    return None if redacted == text else redacted


def spelled(secret: str, text: str) -> list[tuple[int, int]]:
    """Find a secret as people may write it: in capitals or not, wide or with accents, in groups,
    with other marks between, or without its own.

    What is short is found as a whole word, and digits also one by one. The time grows linearly with
    both lengths.
    """
    # Twice: with all signs that are shown, and with letters and digits alone.
    letters = _folded(secret, str.isalnum)
    found = [*_places(_folded(secret, _is_shown), text, _is_shown)]
    if len(letters) >= _MIN_SPELLED:
        found += _places(letters, text, str.isalnum)
    # A short number is common in dates and prices, so its place must look like one number.
    elif letters.isdigit() and len(letters) >= MIN_SECRET_CHARS:
        for start, end in _places(letters, text, str.isalnum, parted=True):
            place = text[start:end]
            is_each = len(letters) > MIN_SECRET_CHARS and not _TOGETHER.search(place)
            if is_each or _SPACED.fullmatch(place):
                found.append((start, end))
    return _apart(found)


def _places(
    wanted: str, text: str, kept: Callable[[str], bool], *, parted: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield where folded signs stand in a text. `parted`: a few are no whole word, but stand apart."""
    # The quick look: most texts hold no secret, and need no places of signs.
    if len(wanted) < MIN_SECRET_CHARS or wanted not in _folded(text, kept):
        return
    is_short = len(wanted) < _MIN_SPELLED and not parted
    line, places = _line(text, kept, strict=len(wanted) < _LONG or not wanted.isdigit())
    at = line.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        start, stop = places[at], places[end - 1] + 1
        # An accent behind the last letter belongs to it, and would be left over.
        while stop < len(text) and _is_silent(text[stop]):
            stop += 1
        if not is_short or is_word(text, start, stop):
            yield start, stop
        at = line.find(wanted, end)


def _line(text: str, kept: Callable[[str], bool], *, strict: bool) -> tuple[str, list[int]]:
    """Return the folded signs of a text that are kept, and the place of each. An end stands where
    others part them.
    """
    signs: list[str] = []
    places: list[int] = []
    gap = ""
    for place, sign in enumerate(plain_digits(text)):
        folded = _folded(sign, kept)
        if not folded and not _is_silent(sign):
            gap += sign
        if folded:
            is_part = strict and _PART.search(gap) is not None
            if is_part or len(gap) > _GAP:
                # A sign that no secret has, so that nothing is found across it.
                signs.append(_END)
                places.append(place)
            gap = ""
        signs += folded
        places += [place] * len(folded)
    return "".join(signs), places


def _folded(text: str, kept: Callable[[str], bool]) -> str:
    """Return the signs of a text that are kept: small, narrow, without accents, in plain digits."""
    if text.isascii() and kept is str.isalnum:  # on bytes, this takes a twentieth of the time
        return text.encode().translate(None, _MARKS).lower().decode()
    if text.isascii():
        return "".join(text.split()).lower()
    plain = unicodedata.normalize("NFKD", plain_digits(text).casefold())
    return "".join(sign for sign in plain if kept(sign) and not _is_silent(sign))


def _is_shown(sign: str) -> bool:
    return not sign.isspace()


def _is_silent(sign: str) -> bool:
    """Return true for an accent by itself, and for what has no width."""
    return unicodedata.category(sign) in ("Mn", "Cf")


def _apart(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return places in order, those that overlap as one."""
    apart: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart


def redacted(
    secrets: Iterable[str], value: Any, *, foreign: Callable[[str], bool] | None = None
) -> Any:
    """Replace secrets in all texts and numbers of a JSON value.

    Names that are `foreign` are replaced too, each by its own.
    """
    secrets = tuple(secrets)
    if not secrets:
        return value
    match value:
        case str():
            found = without(secrets, value)
            return value if found is None else found
        case Mapping():
            members: JsonDict = {}
            for key, item in value.items():
                is_own = foreign is None or not foreign(key)
                name = key if is_own else without(secrets, key) or key
                while name in members:  # for example, several accounts named by their numbers
                    name += DOTS
                members[name] = redacted(secrets, item, foreign=foreign)
            return members
        case list() | tuple():
            return [redacted(secrets, item, foreign=foreign) for item in value]
    return DOTS if is_number(value) and _is_secret_number(secrets, value) else value


def _is_secret_number(secrets: Iterable[str], value: float) -> bool:
    """Return true if a number has the digits of a secret. Parts of a number are not searched
    for."""
    text = str(value)
    whole = text.removesuffix(".0")
    return any(
        secret in (text, whole) or _folded(secret, str.isalnum) == whole for secret in secrets
    )


_NAMES = frozenset(
    (
        "type",
        "kind",
        "conversation_id",
        "definition",
        "id",
        "request_id",
        "state",
        "previous",
        "target",
        "by",
        "transition",
        "flow",
        "entered",
        "source",
        "key",
        "keys",
        "removed",
        "name",
        "outcome",
        "how",
        "pattern",
        "previous_state",
        "arrived",
        "role",
        "object",
        "model",
        "status",
        "finish_reason",
        "call_id",
    )
)
"""Members of documents that hold names of the definition or of a protocol, and no words of
people."""
_VALUES = frozenset(
    (
        "context",
        "values",
        "before",
        "arguments",
        "result",
        "value",
        "output",
        "input",
        "call",
        "report",
        "reports",
        "custom_fields",
        "so_far",
        "attributes",
    )
)
"""Members of documents that hold JSON values of any form. Elsewhere, numbers and names belong to
the form."""
_IDENTIFIER = re.compile("[a-z_]+")


def is_foreign_name(name: str) -> bool:
    """Return true for a name of a JSON object that is data, such as an account number, and not an
    identifier."""
    return _IDENTIFIER.fullmatch(name) is None


def blotted(secrets: Iterable[str], document: Any) -> Any:
    """Replace secrets in a document that leaves: in texts, and in the numbers and names of JSON
    values.

    Args:
        secrets: The values, longest first, for example of `llm_fsm.turn.secrets.secrets_in`.
        document: The document, a JSON value. Names of states, keys and the like stay as they are.

    Returns:
        The document with dots in place of each value.
    """
    # An iterator would be empty after the first text.
    values = tuple(secrets)
    return _blotted(values, document, within=False) if values else document


def _blotted(secrets: tuple[str, ...], value: Any, *, within: bool) -> Any:
    if within:
        return redacted(secrets, value, foreign=is_foreign_name)
    match value:
        case Mapping():
            return {name: _member(secrets, name, item) for name, item in value.items()}
        case list() | tuple():
            return [_blotted(secrets, item, within=False) for item in value]
        case str():
            return redacted(secrets, value)
    return value


def _member(secrets: tuple[str, ...], name: str, value: Any) -> Any:
    # An object under such a name is data again, for example `source` of a document.
    if name in _NAMES and not isinstance(value, Mapping):
        return value
    return _blotted(secrets, value, within=name in _VALUES)


def shown_values(values: JsonMap, is_secret: KeyTest) -> JsonDict:
    """Return the values of context keys, with dots in place of those of secret keys."""
    return {key: DOTS if is_secret(key) else value for key, value in values.items()}


def shown_event(event: Event, is_secret: KeyTest) -> JsonDict:
    """Return the JSON form of an event for others, with dots in place of the value of each secret
    key."""
    document: JsonDict = plain(event)
    if isinstance(event, events.SecretsGiven):
        return {**document, "texts": [DOTS] * len(event.texts)}
    if isinstance(event, _OF_CONTEXTS):
        return dict(_masked(document, is_secret, within=False))
    return document


def _masked(value: Any, is_secret: KeyTest, *, within: bool) -> Any:
    """Mask a part of an event. `within`: its names are context keys."""
    match value:
        case list() | tuple():
            return [_masked(item, is_secret, within=False) for item in value]
        case Mapping() if within:
            return shown_values(value, is_secret)
        case Mapping():
            return {
                name: _masked(item, is_secret, within=name in _CONTEXTS)
                for name, item in value.items()
            }
    return value
