"""Frozen values made and changed without the price of a constructor.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which for a value of many fields
takes longer than all else that is done with it. This is for those that are made in every turn: frozen dataclasses
that keep their fields in a `__dict__`, which is put in as a whole, and that have no `__post_init__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_blank, _set = object.__new__, object.__setattr__


def made(kind: Callable[P, T], /, *_: P.args, **fields: P.kwargs) -> T:
    """What `kind(**fields)` is. Type checkers see that the fields are right; here they are not checked.

    A field with a `default_factory` has to be given; any other that is left out has its default.
    """
    value: T = _blank(kind)  # type: ignore[arg-type]
    _set(value, "__dict__", fields)
    return value


def changed(value: T, /, **changes: Any) -> T:
    """A copy with these fields changed, as of `dataclasses.replace`; their names are not checked."""
    copy: T = _blank(type(value))
    _set(copy, "__dict__", value.__dict__ | changes)
    return copy
