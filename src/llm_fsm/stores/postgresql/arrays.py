"""Arrays as parameters of statements, always of the same type: one prepared statement serves them all."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from psycopg import pq
from psycopg.adapt import Dumper
from psycopg.postgres import types

_TEXT = types["text"]
_NULL = struct.pack("!i", -1)


class Texts(tuple[str | None, ...]):
    """An array of texts; None is NULL."""

    __slots__ = ()


class TextsDumper(Dumper):
    """`Texts` in the binary format of PostgreSQL's arrays."""

    format = pq.Format.BINARY
    oid = _TEXT.array_oid

    def dump(self, obj: Texts) -> bytes:
        """The array as the server takes it."""
        if not obj:
            return struct.pack("!iii", 0, 0, _TEXT.oid)
        parts = [struct.pack("!iiiii", 1, 1, _TEXT.oid, len(obj), 1)]
        for text in obj:
            if text is None:
                parts.append(_NULL)
            else:
                encoded = text.encode()
                parts += [struct.pack("!i", len(encoded)), encoded]
        return b"".join(parts)


def texts(items: Iterable[str | None]) -> Texts:
    """An array of texts."""
    return Texts(items)


def numbers(items: Iterable[float | None]) -> str:
    """An array of numbers in its text form, to be cast to the type that the statement wants."""
    return "{" + ",".join("NULL" if item is None else repr(item) for item in items) + "}"
