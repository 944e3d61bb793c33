"""Dotted names with a member that cannot exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm._text import nearest
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.lint.facts.data_flow import DataFlow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.solver.mismatches import type_word

OPEN = ("$ref", "anyOf", "oneOf", "allOf", "patternProperties", "if")


def member_fault(flow: DataFlow, name: str) -> tuple[str, str | None] | None:
    """Return (fault, hint) for a name that looks into a declared key; None if it may find something."""
    keys = flow.document.keys or {}
    head, *inner = name.split(".")
    if not inner or name in keys or head not in keys:
        return None
    schema, path = keys[head], head
    for step in inner:
        if any(word in schema for word in OPEN):
            return None
        members = schema.get("properties")
        found = members.get(step) if isinstance(members, dict) else None
        if not isinstance(found, dict):
            return missing_member(flow, schema, path, step)
        schema, path = found, f"{path}.{step}"
    return None


def missing_member(flow: DataFlow, schema: Mapping[str, Any], path: str, step: str) -> tuple[str, str | None] | None:
    """Return (fault, hint) for one name that looks into a value of a schema; None if it may find something."""
    types = types_of(schema)
    if not types:
        return None
    if not types & {"object", "array"}:
        return (f"{quoted(path)} is {type_word(flow.known.keys.domain(path))} and has no member {quoted(step)}", None)
    if "object" not in types:
        return None if step.isdecimal() else (f"{quoted(path)} is a list and has no member {quoted(step)}", None)
    members = schema.get("properties")
    if not isinstance(members, dict) or step in members or not members:
        return None
    meant = nearest(step, members)
    if meant is None and schema.get("additionalProperties") is not False:
        return None
    hint = f"did you mean {quoted(f'{path}.{meant}')}?" if meant else f"its members are {', '.join(list(members)[:8])}"
    return f"{quoted(path)} has no member {quoted(step)}", hint
