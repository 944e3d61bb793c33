"""What a call of a host's function can give, as far as that is known when the function is
registered.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from io import IOBase
from typing import Any

Function = Callable[..., Any]
"""A function of the host."""
_WITHOUT_FORM = (Iterator, AsyncIterator, bytes, bytearray, memoryview, complex, IOBase)
"""Types of which no value has a JSON form. Values of their subclasses have none either."""

_LAZY = "is a generator function: it has a yield, so a call of it runs nothing; return a list"


def check_runs(function: Function, who: str) -> None:
    """Check that a call of a function runs it.

    Args:
        function: The function, a partial of one, or an object with `__call__`.
        who: The function in an error, such as "tool 'stock'".

    Raises:
        ValueError: It is a generator function, plain or async.
    """
    while isinstance(function, partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - looked up as a call does
    for one in (function, call):
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise ValueError(f"{who} {_LAZY}")


def check_returns(function: Function, who: str) -> None:
    """Check that a call of a function runs it, and that its result can have a JSON form.

    Args:
        function: As in `check_runs`.
        who: As in `check_runs`.

    Raises:
        ValueError: It is a generator function, or no value of its return type has a JSON form.
    """
    check_runs(function, who)
    given = _return_type(function)
    kind = typing.get_origin(given) or given
    if isinstance(kind, type) and issubclass(kind, _WITHOUT_FORM):
        shown = kind.__qualname__ if kind is given else str(given)
        raise ValueError(
            f"{who} returns {shown}, which has no JSON form; return text, a number, a list or an object"
        )


def check_ran(value: object, who: str) -> None:
    """Check that the value of a call shows that the call has done its work.

    Args:
        value: The value.
        who: As in `check_runs`.

    Raises:
        ValueError: It is a generator or another iterator, whose work is done only when somebody
            reads it.
    """
    if isinstance(value, Iterator | AsyncIterator) and not isinstance(value, IOBase):
        raise ValueError(
            f"{who} gave a {type(value).__name__}, whose work is done only when it is read, so nothing is done; "
            "return a list"
        )


def _return_type(function: Function) -> Any:
    """Return the type that a function says it returns; None if it says none, or one that is not
    known here.
    """
    while isinstance(function, partial):
        function = function.func
    try:
        return typing.get_type_hints(function).get("return")
    except Exception:  # a name in a hint may mean nothing at run time
        return None
