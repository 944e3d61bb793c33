"""Frozen values with some fields changed, as `dataclasses.replace` makes them, without its price.

`replace` calls the constructor, which for a value of many fields takes longer than all else that an event does.
This is for frozen dataclasses that keep their fields in a `__dict__`, which is copied at once, and that have no
`__post_init__`.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, /, **changes: Any) -> T:
    """A copy with these fields changed; their names are not checked."""
    copy: T = object.__new__(type(value))
    fields = copy.__dict__
    fields.update(value.__dict__)
    fields.update(changes)
    return copy
