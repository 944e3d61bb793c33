"""JSON pointers (RFC 6901): made, read and followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def escape(key: str) -> str:
    """A key as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def unescape(segment: str) -> str:
    """The key that a segment of a JSON pointer means."""
    return segment.replace("~1", "/").replace("~0", "~")


def step(key: str | int) -> str:
    """One step of a JSON pointer, its slash included."""
    return "/" + escape(str(key))


def steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer, unescaped."""
    return [unescape(part) for part in pointer.split("/")[1:]]


def places_of(pointer: str) -> Iterator[str]:
    """A JSON pointer and those of all that it stands in, the whole document's last."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def value_at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer in a document; None where nothing does."""
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
