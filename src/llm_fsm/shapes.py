"""JSON Schemas of single values, compiled once: what a context key or an answer may hold.

Draft 2020-12 unless the schema says otherwise; formats are checked. References stay inside the
document: nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class ShapeError(ValueError):
    """The schema itself is faulty; `pointer` is where, as a JSON pointer inside it."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        self.reason = reason
        self.pointer = pointer
        super().__init__(reason)


class Shape(NamedTuple):
    """A compiled schema."""

    schema: Mapping[str, Any]
    validator: Any

    def fault(self, value: object) -> str | None:
        """Why a JSON value does not fit, in one sentence; None when it fits."""
        try:
            for error in self.validator.iter_errors(value):
                where = "".join(f"/{step}" for step in error.instance_path)
                return f"at {where}: {error.message}" if where else str(error.message)
        except UnicodeEncodeError:
            return "it contains half of a surrogate pair, which is not a character"
        except ValueError as error:
            return f"it cannot be checked: {error}"
        return None


@cache
def _engine() -> Any:
    """jsonschema_rs, loaded with the first schema: it takes longer than everything else in a check."""
    return import_module("jsonschema_rs")


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the document are not followed: {uri}")


def compile_shape(schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> Shape:
    """Compile the schema of one value; `defs` is what `#/$defs/…` in it refers to. Raises ShapeError."""
    engine = _engine()
    document = {"$defs": dict(defs), **schema} if defs else dict(schema)
    try:
        validator = engine.validator_for(document, validate_formats=True, retriever=_refuse)
    except engine.ValidationError as error:
        pointer = "".join(f"/{step}" for step in error.instance_path)
        raise ShapeError(str(error.message), pointer) from error
    except (ValueError, engine.ReferencingError) as error:
        raise ShapeError(str(error)) from error
    return Shape(schema, validator)
