"""The results of tools as JSON, and the rule by which a long result is shortened for a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sized
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from msgspec import Struct, structs

from llm_fsm.errors import told
from llm_fsm.session.values import MAX_DEPTH, ValueFault, content_of, to_json_key, to_json_value

MAX_RESULT = 1_000_000
"""Characters that a result may have as JSON."""

SHORT = 8000
"""Characters of a result, as JSON, that a model is shown."""

_RAN = "the tool has run to its end"
_MORE = "more, or contains itself"

_LEAST = 200
"""Characters below which nothing is shortened: the marks need room themselves."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class ResultFault(ValueError):
    """A result cannot be used; the message gives the reason. `too_large`: its size is the reason."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        self.too_large = too_large
        super().__init__(message)


def tool_result(value: object) -> Any:
    """Convert the result of a tool to JSON. The tool has acted by then, so nothing here fails.

    A note takes the place of each part without a JSON form, and of a result that is too large or
    contains itself.
    """
    try:
        return output_value(value)
    except ResultFault as fault:
        reason = str(fault)
        if not fault.too_large:
            with suppress(Exception):  # a value's own methods may raise anything
                if _parts(value) is None:
                    return _converted(value, 0)
    return f"{_RAN}, but its result is lost: {reason}"


def output_value(value: object) -> Any:
    """Convert the output of a function that has acted to JSON.

    A note takes the place of each part without a JSON form, such as a number that is not finite.

    Raises:
        ResultFault: The output as a whole has no JSON form, or it is too large.
    """
    try:
        return result_value(value)
    except ResultFault as fault:
        if fault.too_large:
            raise
        with suppress(Exception):  # a value's own methods may raise anything
            plain = None if _parts(value) is None else _converted(value, 0)
            if plain is not None and len(_encode(plain).encode("utf-8")) <= MAX_RESULT:
                return plain
        raise


def result_value(value: object) -> Any:
    """Convert a value of the host to JSON, by the rules of the context.

    Raises:
        ResultFault: It has no JSON form, contains itself or is larger than `MAX_RESULT`.
    """
    if value is None or value is True or value is False:
        return value
    size = _too_large(value)
    if size is None:
        try:
            plain = to_json_value(value)
            length = len(_encode(plain).encode("utf-8"))
        except ValueFault as fault:
            raise ResultFault(f"the result is not JSON: {fault}") from fault
        except RecursionError as error:
            reason = "it is nested too deep, or contains itself"
            raise ResultFault(f"the result is not JSON: {reason}") from error
        except Exception as error:
            raise ResultFault(f"the result is not JSON: {told(error)}") from error
        if length <= MAX_RESULT:
            return plain
        size = f"{length} bytes"
    raise ResultFault(
        f"the result is too large: it has {size}, "
        f"and at most {MAX_RESULT} characters of JSON are taken. "
        "Return less, such as one page or a summary",
        too_large=True,
    )


def _converted(value: object, depth: int) -> Any:
    """Convert a value, with a note in the place of each part that has no JSON form."""
    try:
        return to_json_value(value, depth)
    except ValueFault as fault:
        reason = str(fault)
    parts = None if depth >= MAX_DEPTH else _parts(value)
    if isinstance(parts, dict):
        return {_key(key): _converted(item, depth + 1) for key, item in parts.items()}
    if parts is not None:
        return [_converted(item, depth + 1) for item in parts]
    if depth == 0:
        return f"{_RAN}; its result has no JSON form: {reason}"
    return f"[{reason}]"


def _key(key: object) -> str:
    try:
        return to_json_key(key)
    except ValueFault:
        return f"[{type(key).__name__}]"


def _parts(value: object) -> dict[Any, Any] | list[Any] | None:
    """Return the members of a structure; None for a value that has none."""
    match value:
        case Mapping():
            return dict(value)
        case Struct():
            return structs.asdict(value)
        case str() | bytes() | bytearray() | memoryview() | type():
            return None
        case list() | tuple() | set() | frozenset():
            return list(value)
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    if hasattr(value, "model_dump"):
        return dict(vars(value))
    content = content_of(value)
    if content is not value:
        return content if isinstance(content, dict | list) else None
    return list(value) if isinstance(value, Collection) else None


def _too_large(value: object) -> str | None:
    """Return the size of a value that is certainly too large, before any work is spent on it.

    Every value but one takes at least two characters: its own, and a comma or a bracket. A value
    that contains itself uses up the limit in this way, so the loop ends.
    """
    left, waiting = MAX_RESULT + 1, [value]
    while waiting:
        item = waiting.pop()
        left -= 2
        if left < 0:
            return _MORE
        if item is None or isinstance(item, bool | int | float):
            continue
        if isinstance(item, str):
            left -= len(item)
            continue
        count = _count(item)
        if count > left:
            return f"{count} values or more" if 2 * count > MAX_RESULT else _MORE
        parts = _parts(item)
        if isinstance(parts, dict):
            for key in parts:
                left -= len(key) if isinstance(key, str) else 1
            waiting.extend(parts.values())
        elif parts is not None:
            waiting.extend(parts)
    return None


def _count(value: object) -> int:
    """Return the number of members of a collection or an array; 0 for other values."""
    size = getattr(value, "size", None)  # that of an array of several dimensions
    if isinstance(size, int) and not isinstance(value, Mapping):
        return size
    try:
        return len(value) if isinstance(value, Sized) else 0
    except TypeError:  # an array without dimensions
        return 0


def shortened(value: Any, limit: int = SHORT) -> Any:
    """Return a value with a compact JSON text of at most `limit` characters (at least 200); itself
    if it fits.

    First long strings are cut to half of the limit, to a quarter and so on, down to 200 characters.
    Each ends in a mark with the number of missing characters. If that is not enough, lists and
    objects keep their first members. A last member gives the number of missing ones.
    """
    if limit < _LEAST:
        raise ValueError(f"a result is shortened to {_LEAST} characters or more, not {limit}")
    if _size(value) <= limit:
        return value
    if isinstance(value, str):
        return _cut(value, limit)
    longest = limit // 2
    while True:
        cut = _with_short_strings(value, longest)
        if _size(cut) <= limit:
            return cut
        if longest <= _LEAST:
            return _beginning(cut, limit)
        longest = max(_LEAST, longest // 2)


def _size(value: Any) -> int:
    return len(_encode(value))


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text, with a mark: at most `limit` characters as JSON."""
    low, high = 0, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_marked(text, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return _marked(text, low)


def _marked(text: str, kept: int) -> str:
    return f"{text[:kept]}… [{len(text) - kept} characters missing]"


def _with_short_strings(value: Any, longest: int) -> Any:
    match value:
        case str():
            return _cut(value, longest) if _size(value) > longest else value
        case list():
            return [_with_short_strings(item, longest) for item in value]
        case Mapping():
            return {key: _with_short_strings(item, longest) for key, item in value.items()}
    return value


def _beginning(value: Any, limit: int) -> Any:
    """Return the first members of a list or object that fit, and the number of missing ones."""
    if isinstance(value, list):
        kept = _first([("", item) for item in value], limit, named=False)
        items = [item for _, item in kept]
        missing = len(value) - len(kept)
        if missing:
            items.append(f"… [{missing} items missing]")
        return items
    if not isinstance(value, Mapping):
        return value
    kept = _first(list(value.items()), limit, named=True)
    members = dict(kept)
    missing = len(value) - len(kept)
    if missing:
        mark = "…"
        while mark in value:
            mark += "…"
        members[mark] = f"[{missing} members missing]"
    return members


def _first(members: list[tuple[str, Any]], limit: int, *, named: bool) -> list[tuple[str, Any]]:
    """Return the first members that fit; the last one may be shortened. `named`: the members of an
    object.
    """
    left = limit - 50  # brackets and the mark
    kept: list[tuple[str, Any]] = []
    for key, item in members:
        head = 1  # a comma
        if named:
            head += _size(key) + 1  # a colon
        size = _size(item)
        if head + size > left:
            if isinstance(item, list | Mapping) and left - head >= _LEAST:
                kept.append((key, _beginning(item, left - head)))
            break
        kept.append((key, item))
        left -= head + size
    return kept
