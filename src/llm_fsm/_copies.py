"""Frozen values made and changed without the price of a constructor.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which for a value of many fields
takes longer than all else that is done with it. This is for those that are made in every turn: frozen dataclasses
that keep their fields in a `__dict__`, which is put in as a whole, and that have no `__post_init__`; and named tuples,
whose constructors are Python, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from inspect import getattr_static
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
_blank = object.__new__
_tuple: Any = tuple.__new__


class _Puts(dict[type, Callable[[Any, dict[str, Any]], None]]):
    """What puts a `__dict__` into a value, by its class: going through `object.__setattr__` takes twice as long."""

    def __missing__(self, kind: type) -> Callable[[Any, dict[str, Any]], None]:
        put: Callable[[Any, dict[str, Any]], None] = getattr_static(kind, "__dict__").__set__
        self[kind] = put
        return put


class _Rooms(dict[type, dict[str, Any]]):
    """A `__dict__` of each class that shares its names, as it comes where fields are set one by one."""

    def __missing__(self, kind: type) -> dict[str, Any]:
        room: dict[str, Any] = _blank(kind).__dict__
        for field in fields_of(kind):
            room[field.name] = None
        self[kind] = room
        return room


_puts, _rooms = _Puts(), _Rooms()


def made(kind: Callable[P, T], /, *_: P.args, **fields: P.kwargs) -> T:
    """What `kind(**fields)` is. Type checkers see that the fields are right; here they are not checked.

    A field with a `default_factory` has to be given; any other that is left out has its default.
    """
    value: T = _blank(kind)  # type: ignore[arg-type]
    _puts[kind](value, fields)  # type: ignore[index]
    return value


def row(kind: Callable[[*Ts], T], /, *values: *Ts) -> T:
    """What the named tuple `kind(*values)` is, none of whose values may be left out."""
    found: T = _tuple(kind, values)
    return found


def put(value: object, /, **fields: Any) -> None:
    """Put all fields of a value in at once, in a constructor of its own."""
    _puts[type(value)](value, fields)


def changed(value: T, /, **changes: Any) -> T:
    """A copy with these fields changed, as of `dataclasses.replace`; their names are not checked."""
    kind = type(value)
    copy: T = _blank(kind)
    _puts[kind](copy, {**value.__dict__, **changes})  # after `|`, shared names would stay shared: slow to read
    return copy


def kept(value: T, /, **changes: Any) -> T:
    """As `changed` in less memory, for a value that waits: its `__dict__` shares its names with others of its class.

    CPython shares 29 names at most: a class of more fields takes no less memory.
    """
    kind = type(value)
    copy: T = _blank(kind)
    _puts[kind](copy, _rooms[kind] | value.__dict__ | changes)
    return copy


def fields(value: Any, /) -> dict[str, Any]:
    """The fields of a dataclass by name, not copied: `dataclasses.asdict` takes longer than a turn may."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def stored(kind: Callable[..., T], values: Mapping[str, Any], /) -> T:
    """A dataclass of stored fields, without those that it does not know: a newer version may have kept more."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: value for name, value in values.items() if name in known})
