"""JSON Schemas of single values, compiled once: what a context key or an answer may hold.

Draft 2020-12 unless the schema says otherwise; formats are checked. References stay inside the
document: nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs


class ShapeError(ValueError):
    """The schema itself is faulty; `pointer` is where, as a JSON pointer inside it."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        self.reason = reason
        self.pointer = pointer
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Shape:
    """A compiled schema."""

    schema: Mapping[str, Any]
    _validator: Any

    def fault(self, value: object) -> str | None:
        """Why a JSON value does not fit, in one sentence; None when it fits."""
        try:
            for error in self._validator.iter_errors(value):
                where = "".join(f"/{step}" for step in error.instance_path)
                return f"at {where}: {error.message}" if where else str(error.message)
        except UnicodeEncodeError:
            return "it contains half of a surrogate pair, which is not a character"
        except ValueError as error:
            return f"it cannot be checked: {error}"
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the document are not followed: {uri}")


def compile_shape(schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> Shape:
    """Compile the schema of one value; `defs` is what `#/$defs/…` in it refers to. Raises ShapeError."""
    document = {"$defs": dict(defs), **schema} if defs else dict(schema)
    try:
        validator = jsonschema_rs.validator_for(document, validate_formats=True, retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{step}" for step in error.instance_path)
        raise ShapeError(str(error.message), pointer) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ShapeError(str(error)) from error
    return Shape(schema, validator)
