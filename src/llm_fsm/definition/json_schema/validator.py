"""Compile JSON Schemas of single values, for context keys and answers.

Draft 2020-12 applies unless the schema names another. Formats are checked, and times follow ISO
8601. RFC 3339 would demand seconds and an offset, which people and models omit. References stay
inside the document, and nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, TextMap, as_list, json_text, value_at, without

_MOST_WORK = 100_000
_DEEPEST = 300
_HALF = 300
"""Characters at either end of a message, because each prompt until the next reply may show it."""
_NOT_APPLIED = frozenset(("$defs", "definitions", "enum", "const", "default", "examples"))
_DAY_CHARS = 10
_TIME = re.compile(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
)
_TYPED = re.compile(r'is not of types? ((?:"\w+"(?:, )?)+)$')
_TYPES: TextMap = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_MARKED = re.compile(r'"\s*[-+]?\d+(?:[.,\'\u2019\u066b\u066c\u202f\u00a0 ]\d+)+\s*" $')
"""Digits with marks between them, as people write decimals and thousands."""
_FORMED = re.compile(r'is not a "([a-z-]+)"$')
_FORMED_AS: TextMap = {
    "date": "a date such as 2026-12-31",
    "time": "a time such as 09:30",
    "date-time": "a date with its time such as 2026-12-31T09:30",
    "email": "an e-mail address",
    "uri": "an address such as https://example.org/",
}
_NONE_OF = re.compile(
    "is not valid under any of the schemas listed in the '(?:any|one)Of' keyword$"
)
_CHOICES = re.compile(r" or [0-9]+ other candidates\Z")
_COUNTED = 40
"""Characters at the end of a message in which it counts the values of an enum."""
_MOST_CHOICES = 300
"""The most characters of the values of an enum in a message."""
_CODED = re.compile("%([0-7][0-9A-Fa-f])")

TOO_MUCH_WORK = (
    f'following each "$ref" gives more than {_MOST_WORK:,} schemas, or more than'
    f" {_DEEPEST} levels of them"
)
"""The message for a schema with which the check of one value could take for ever."""


class ShapeError(ValueError):
    """The schema itself is wrong; `pointer` is the place, as a JSON pointer inside it."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        self.reason = reason
        self.pointer = pointer
        super().__init__(reason)


class CompiledSchema(NamedTuple):
    """A compiled schema."""

    schema: JsonMap
    validator: Any

    def fault(self, value: object) -> str | None:
        """Return one sentence about why a JSON value does not fit; None if it fits."""
        try:
            for error in self.validator.iter_errors(value):
                return _told(error)
        except UnicodeEncodeError:
            return "it contains half of a surrogate pair, which is not a character"
        except ValueError as error:
            return f"it cannot be checked: {error}"
        return None

    def begun(self, value: JsonMap) -> tuple[JsonDict, str | None]:
        """Return the parts of a refused object that may wait for missing ones, and the reasons for
        the others.

        No part may wait if the fault concerns more than a part.
        """
        faulty: dict[str | int, Any] = {}
        try:
            for error in self.validator.iter_errors(value):
                if isinstance(error.kind, _engine().ValidationErrorKind.Required):
                    continue
                if not error.instance_path:
                    return {}, None
                faulty.setdefault(error.instance_path[0], error)
        except ValueError:
            return {}, None
        parts = without(value, faulty)
        return parts, _told(next(iter(faulty.values()))) if faulty else None


@cache
def _engine() -> Any:
    """Return jsonschema_rs. It is loaded with the first schema, because that takes longer than a
    whole check.
    """
    return import_module("jsonschema_rs")


def _told(error: Any) -> str:
    where = "".join(f"/{step}" for step in error.instance_path)
    reason = _plain(_short(_listed(error)))
    if where:
        return f"at {where}: {reason}"
    return reason


def _listed(error: Any) -> str:
    """Return a message that lists the values that it only counts, as far as there is room, without
    null.
    """
    message: str = error.message
    options = [json_text(option) for option in getattr(error.kind, "options", ())]
    options = [option for option in options if option != "null"]
    if not options or not _CHOICES.search(message, len(message) - _COUNTED):
        return message
    shown: list[str] = []
    for option in options:
        if sum(map(len, shown)) + len(option) > _MOST_CHOICES:
            break
        shown.append(option)
    left_out = len(options) - len(shown)
    last = f"{left_out} more" if left_out else shown.pop()
    told = f"{', '.join(shown)} or {last}" if shown else f"{len(options)} values"
    return f"{json_text(error.instance)} is not one of {told}"


def _short(message: str) -> str:
    """Return a message without the middle of a long value at its beginning."""
    left_out = len(message) - 2 * _HALF
    if left_out > _HALF:
        return f"{message[:_HALF]}… [{left_out} characters missing] …{message[-_HALF:]}"
    return message


def _plain(message: str) -> str:
    """Return a message for users, with plain words for the names of types and formats."""
    if typed := _TYPED.search(message):
        value = message[: typed.start()]
        kinds = " or ".join(
            _TYPES[kind] for kind in typed[1].replace('"', "").split(", ") if kind in _TYPES
        )
        marked = "number" in kinds and _MARKED.fullmatch(value)
        how = " (decimals stand behind a point, thousands without a mark)" if marked else ""
        if kinds:
            return f"{value}is not {kinds}{how}"
        return message
    if (formed := _FORMED.search(message)) and formed[1] in _FORMED_AS:
        return f"{message[: formed.start()]}is not {_FORMED_AS[formed[1]]}"
    return _NONE_OF.sub("is none of what may be given", message)


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the document are not followed: {uri}")


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def _is_moment(text: str) -> bool:
    day = text[:_DAY_CHARS]
    between = text[_DAY_CHARS : _DAY_CHARS + 1]
    time = text[_DAY_CHARS + 1 :]
    with suppress(ValueError):
        return (
            between in ("T", "t", " ")
            and date.fromisoformat(day).isoformat() == day
            and _is_time(time)
        )
    return False


@cache
def _mail() -> Any:
    return _engine().validator_for({"format": "email"}, validate_formats=True)


def _is_mail(text: str) -> bool:
    """Return false for an address with a name, `Ada <ada@example.org>`, which the library
    accepts.
    """
    return not text.endswith(">") and bool(_mail().is_valid(text))


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "time": _is_time,
    "date-time": _is_moment,
    "email": _is_mail,
}


def compile_shape(schema: JsonMap, defs: JsonMap | None = None) -> CompiledSchema:
    """Compile the schema of one value; `defs` is the target of `#/$defs/…`. Raises ShapeError."""
    engine = _engine()
    document = {"$defs": dict(defs), **schema} if defs else dict(schema)
    try:
        validator = engine.validator_for(
            document, validate_formats=True, formats=_FORMATS, retriever=_refuse
        )
    except engine.ValidationError as error:
        pointer = "".join(f"/{step}" for step in error.instance_path)
        raise ShapeError(str(error.message), pointer) from error
    except (ValueError, engine.ReferencingError) as error:
        raise ShapeError(str(error)) from error
    if _Work(document, {}).of(document) > _MOST_WORK:
        raise ShapeError(TOO_MUCH_WORK)
    return CompiledSchema(schema, validator)


def types_of(schema: JsonMap) -> set[str]:
    """Return the types that a schema names; none if it takes all."""
    written = schema.get("type")
    return set(map(str, as_list(written))) if isinstance(written, str | list) else set()


class _Work(NamedTuple):
    """The number of schemas that may be tried on one value.

    Of the schemas of several properties, only the largest number counts, because each is for its
    own value. `known`: the numbers of references. A recursive schema counts once, because each
    level checks a part of the value.
    """

    document: JsonMap
    known: dict[str, int]

    def of(self, schema: object, depth: int = 0) -> int:
        if isinstance(schema, list):
            return sum(self.of(item, depth + 1) for item in schema)
        if not isinstance(schema, dict):
            return 0
        if depth > _DEEPEST:
            return _MOST_WORK + 1
        found = 1
        for item in schema.items():
            match item:
                case "$ref", str(reference):
                    found += self._referred(reference, depth + 1)
                case "properties", dict(members):
                    found += max((self.of(one, depth + 1) for one in members.values()), default=0)
                case word, inner if word not in _NOT_APPLIED:
                    found += self.of(inner, depth + 1)
        return found

    def _referred(self, reference: str, depth: int) -> int:
        if not reference.startswith("#/"):
            return 0
        if reference not in self.known:
            self.known[reference] = 0
            self.known[reference] = min(self.of(self._target(reference), depth), _MOST_WORK + 1)
        return self.known[reference]

    def _target(self, reference: str) -> object:
        """Return the value that a reference points to; None if it is not counted from the root of
        the document.
        """
        return value_at(
            self.document, _CODED.sub(lambda coded: chr(int(coded[1], 16)), reference[1:])
        )
