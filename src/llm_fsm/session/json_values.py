"""Convert Python values from hosts, tools and people to JSON: contexts, inputs, outputs, answers and results."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from llm_fsm.conditions.coercion import mended

MAX_DEPTH = 32
_MAX_INT = 2**63


class ValueFault(ValueError):
    """A value has no JSON form. The message says why."""


def to_json_value(value: object, depth: int = 0) -> Any:
    """Convert a Python value to JSON: dates as ISO 8601, sets as lists, decimals as numbers, and so on.

    Raises:
        ValueFault: The value has no JSON form, is not finite, too large or too deep.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return to_json_value(value.value, depth)
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, int):
        if abs(value) > _MAX_INT:
            raise ValueFault("whole numbers must fit in 64 bits")
        return int(value)
    if isinstance(value, float | Decimal):
        number = math.nan if isinstance(value, Decimal) and value.is_snan() else float(value)
        if not math.isfinite(number):
            raise ValueFault("numbers must be finite, and whole ones fit in 64 bits")
        return number
    if depth >= MAX_DEPTH:
        raise ValueFault(f"it is nested deeper than {MAX_DEPTH} levels")
    return _to_json_structure(value, depth)


def to_json_key(key: object) -> str:
    """Convert a key of an object to text, as its value would be: numbers, dates, enums and paths have an evident form.

    Raises:
        ValueFault: The key has none.
    """
    if isinstance(key, str) and not isinstance(key, Enum):
        return mended(key)
    plain = to_json_value(key, MAX_DEPTH - 1)
    if isinstance(plain, dict | list):
        raise ValueFault(f"a {type(key).__name__} cannot be the key of an object; keys are text")
    return plain if isinstance(plain, str) else json.dumps(plain)


def _to_json_structure(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {to_json_key(key): to_json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_json_value(item, depth + 1) for item in value), key=repr)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Struct):
        return to_json_value(structs.asdict(value), depth)
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_value(asdict(value), depth)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return to_json_value(dump(mode="json"), depth)
    if isinstance(path := getattr(value, "__fspath__", None) and value.__fspath__(), str):  # type: ignore[attr-defined]
        return mended(path)
    if isinstance(value, Collection) and not isinstance(value, bytes | bytearray | memoryview | type):
        return [to_json_value(item, depth + 1) for item in value]
    raise ValueFault(f"a {type(value).__name__} has no JSON form; give text, a number, a list or an object")
