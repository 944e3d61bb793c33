"""The values that the context keys of one document may have, by their schemas and by what
conditions compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from llm_fsm._json import JsonMap, object_at
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.json_schema.validator import CompiledSchema, ShapeError, compile_shape
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.schema_parts import member_schema, unfolds
from llm_fsm.lint.solver.comparisons import comparisons
from llm_fsm.lint.solver.samples import plain_text, samples
from llm_fsm.lint.solver.value_sets import (
    EVERYTHING,
    NUMBERS,
    TEXTS,
    UNSET,
    ValueSet,
    domain,
    ordered,
)

_COUNTED = ValueSet(numbers=ordered((0, 0), None), whole=True)
_SYSTEM: Mapping[str, ValueSet] = {
    "_conversation_id": TEXTS,
    "_current_state": TEXTS,
    "_previous_state": TEXTS | UNSET,
    "_user_input": TEXTS | UNSET,
    "_turn": _COUNTED,
    "_turns_in_state": _COUNTED,
    "_misses": _COUNTED,
    "_timestamp": NUMBERS,
    "_timezone": TEXTS,
}


@dataclass(frozen=True, eq=False)
class KeyValues:
    """The values of the keys of one document."""

    document: Document
    _domains: dict[str, ValueSet] = field(default_factory=lambda: dict(_SYSTEM))
    _shapes: dict[str, CompiledSchema | None] = field(default_factory=dict)

    @cached_property
    def definitions(self) -> JsonMap:
        """The schemas under `$defs`, to which keys may refer; empty if they are too much to reason
        about.
        """
        found = object_at(self.document.root.at("context_schema").value, "$defs")
        return found if unfolds(found) else {}

    def schema(self, name: str) -> JsonMap | None:
        """Return the schema of a key, or of the member that a dotted name means; None if there is
        none.
        """
        keys = self.document.keys
        if name in keys:
            return keys[name]
        head, *inner = name.split(".")
        return member_schema(keys.get(head), inner)

    def items(self, name: str) -> JsonMap | None:
        """Return the schema of the elements of a list; None if the key has none."""
        schema = self.schema(name) or {}
        found = schema.get("items")
        return found if schema.get("type") == "array" and isinstance(found, dict) else None

    def domain(self, name: str) -> ValueSet:
        """Return every value that a key may have, null for not set among them."""
        found = self._domains.get(name)
        if found is None:
            schema = self.schema(name)
            found = EVERYTHING if schema is None else domain(schema, self.definitions) | UNSET
            self._domains[name] = found
        return found

    def accepts(self, name: str, value: object) -> bool:
        """Return true if a key may have this value. It may always be unset.

        A key without a schema may have values of the types that conditions compare it with.
        """
        schema = self.schema(name)
        if value is None:
            return True
        if not schema:
            types = self.compared.get(name)
            return types is None or _type_of(value) in types
        if name not in self._shapes:
            try:
                self._shapes[name] = compile_shape(schema, self.definitions or None)
            except ShapeError:
                self._shapes[name] = None
        shape = self._shapes[name]
        return shape is not None and shape.fault(value) is None

    def drawn(self, name: str, values: ValueSet) -> list[Any]:
        """Return a few of these values for a key, or samples of its schema if the usual ones do not
        fit.
        """
        found = [value for value in values.samples() if self.accepts(name, value)]
        if all(value is None for value in found):
            schema = self.schema(name) or {}
            more = islice(samples(schema, self.definitions), 4)
            found = [
                *(value for value in more if values.has(value) and self.accepts(name, value)),
                *found,
            ]
            pattern = schema.get("pattern")
            text = None
            if isinstance(pattern, str):
                text = plain_text(pattern)
            if text is not None and values.has(text) and self.accepts(name, text):
                return [text, *found]
        return found

    @cached_property
    def compared(self) -> Mapping[str, set[str]]:
        """Key to the types of the literals that conditions compare it with."""
        found: dict[str, set[str]] = {}
        for comparison in comparisons(self.document):
            if comparison.literal is not None:
                found.setdefault(comparison.key, set()).add(_type_of(comparison.literal))
        return found


def _type_of(value: object) -> str:
    number = is_number(value)
    return "number" if number else type(value).__name__
