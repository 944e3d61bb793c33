"""The keys that a `context_schema` declares, also where it is not written as it should be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llm_fsm._text import nearest
from llm_fsm.definition.names import KEY_PATTERN

_SCHEMA_WORDS = frozenset(
    {"$defs", "definitions", "not", "if", "then", "else", "items", "additionalProperties"}
)


def looks_like_key(name: str, schema: object) -> bool:
    """True for a member of a schema that was rather meant as the schema of a key."""
    words = ("type", "enum", "const", "format", "pattern", "items", "properties", "description", "x-source")
    return (
        re.fullmatch(KEY_PATTERN, name) is not None
        and isinstance(schema, dict)
        and any(word in schema for word in words)
    )


def declared_in(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schemas of keys in a `context_schema`, under a misspelt `properties` or beside it, too."""
    found = schema.get("properties")
    if isinstance(found, dict):
        return found
    for name, inner in schema.items():
        if (
            isinstance(inner, dict)
            and name not in _SCHEMA_WORDS
            and nearest(name, ["properties"]) is not None
        ):
            return inner
    return {
        name: inner
        for name, inner in schema.items()
        if looks_like_key(name, inner) and name not in _SCHEMA_WORDS
    }
