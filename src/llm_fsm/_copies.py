"""Plain stand-ins for constructors and `replace`, while callers still ask for them under these names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from msgspec import Struct, structs

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


def made(kind: Callable[P, T], /, *args: P.args, **fields: P.kwargs) -> T:
    """Call the constructor."""
    return kind(*args, **fields)


def row(kind: Callable[[*Ts], T], /, *values: *Ts) -> T:
    """Call the constructor."""
    return kind(*values)


def changed(value: T, /, **changes: Any) -> T:
    """Copy a frozen value with these fields changed."""
    replace: Any = structs.replace if isinstance(value, Struct) else dataclasses.replace
    copy: T = replace(value, **changes)
    return copy


def fields(value: Any, /) -> dict[str, Any]:
    """Return the fields of a frozen value by name, not copied."""
    names = value.__struct_fields__ if isinstance(value, Struct) else value.__dataclass_fields__
    return {name: getattr(value, name) for name in names}


def stored(kind: Callable[..., T], values: Mapping[str, Any], /) -> T:
    """Make a value of stored fields, without those that this version does not know."""
    known: Any = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: value for name, value in values.items() if name in known})
