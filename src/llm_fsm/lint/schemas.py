"""What is wrong with a JSON Schema that stands in a definition, in an author's words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from llm_fsm.codes import steps
from llm_fsm.findings import nearest
from llm_fsm.shapes import ShapeError, compile_shape

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def schema_faults(
    schema: Mapping[str, Any], defs: object, place: str
) -> Iterator[tuple[str, str, str | None]]:
    """(pointer, message, hint) of the first fault of the schema that stands at `place`.

    `defs` is what `#/$defs/…` in it refers to.
    """
    try:
        compile_shape(schema, defs if isinstance(defs, dict) else None)
    except ShapeError as error:
        message, hint = f"not a JSON Schema: {error.reason}", None
        if error.pointer.endswith("/type"):
            value = _value_at(schema, error.pointer)
            message = f"not a JSON Schema: {json.dumps(value)[:80]} is no type"
            meant = nearest(value, _TYPES) if isinstance(value, str) else None
            hint = f'did you mean "{meant}"?' if meant else f"types are {', '.join(_TYPES)}"
        yield place + error.pointer, message, hint


def _value_at(value: Any, pointer: str) -> Any:
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
