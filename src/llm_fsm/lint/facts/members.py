"""Names that look into values: members of objects, and elements of lists inside `some`, `all` and
`filter`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, object_at
from llm_fsm._text import nearest
from llm_fsm.conditions.coercion import Meter, number_of
from llm_fsm.conditions.operators import EQUALITIES
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.lint.document import Document, Pairs
from llm_fsm.lint.facts.data_flow import DataFlow
from llm_fsm.lint.facts.schema_parts import SchemaPart, refusal
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.solver.comparisons import operations, parts
from llm_fsm.lint.solver.mismatches import type_word
from llm_fsm.lint.solver.outcomes import variable
from llm_fsm.lint.solver.solver import reasoning

OPEN = ("$ref", "anyOf", "oneOf", "allOf", "patternProperties", "if")


def member_fault(flow: DataFlow, name: str) -> tuple[str, str | None] | None:
    """Return (fault, hint) for a name that looks into a declared key; None if it may find
    something.
    """
    keys = flow.document.keys
    head, *inner = name.split(".")
    if not inner or name in keys or head not in keys:
        return None
    schema = keys[head]
    path = head
    for part in inner:
        if any(word in schema for word in OPEN):
            return None
        found = object_at(schema, "properties").get(part)
        if not isinstance(found, dict):
            return missing_member(flow, schema, path, part)
        schema = found
        path = f"{path}.{part}"
    return None


def missing_member(
    flow: DataFlow, schema: JsonMap, path: str, part: str
) -> tuple[str, str | None] | None:
    """Return (fault, hint) for one name that looks into a value of a schema; None if it may find
    something.
    """
    types = types_of(schema)
    if not types:
        return None
    if not types & {"object", "array"}:
        return (
            f"{quoted(path)} is {type_word(flow.known.keys.domain(path))} and has no member"
            f" {quoted(part)}",
            None,
        )
    if "object" not in types:
        if part.isdecimal():
            return None
        return (f"{quoted(path)} is a list and has no member {quoted(part)}", None)
    members = object_at(schema, "properties")
    if part in members or not members:
        return None
    meant = nearest(part, members)
    if meant is None and schema.get("additionalProperties") is not False:
        return None
    hint = (
        f"did you mean {quoted(f'{path}.{meant}')}?"
        if meant
        else f"its members are {', '.join(list(members)[:8])}"
    )
    return f"{quoted(path)} has no member {quoted(part)}", hint


_LOOPS = frozenset({"map", "filter", "all", "some", "none"})


class Read(NamedTuple):
    """A name inside such a condition. `key` is the list, `schema` that of its elements."""

    pointer: str
    name: str
    key: str
    schema: JsonMap


def reads(document: Document) -> Iterator[Read]:
    """Yield the names that rules read from elements of declared lists, but that those do not
    have.
    """
    for key, schema, body, at in _bodies(document):
        members = object_at(schema, "properties")
        for part in operations(body, at) if schema.get("type") == "object" else ():
            name = variable(part.rule)
            if name is not None and name not in members:
                item = "/0" if isinstance(part.rule["var"], list) else ""
                yield Read(f"{part.pointer}/var{item}", name, key, schema)


def never(document: Document) -> Pairs:
    """Yield (pointer, message) for texts that elements of declared lists, or their members, never
    equal.
    """
    known = reasoning(document)
    for key, schema, body, at in _bodies(document):
        for part in operations(body, at):
            for name, literal, place in _compared(part.operator, part.arguments):
                found = schema if name == "" else object_at(schema, "properties").get(name)
                if not isinstance(found, dict) or not math.isnan(number_of(Meter(None), literal)):
                    continue
                why = refusal(SchemaPart("", found, key, known.keys.definitions), literal)
                if why is not None:
                    what = f'"{name}" of an element' if name else "an element"
                    yield (
                        f"{part.pointer}/{part.operator}/{place}",
                        f'{what} of "{key[:60]}" is never "{literal[:60]}": {why}'[:300],
                    )


def _bodies(document: Document) -> Iterator[tuple[str, JsonMap, Any, str]]:
    """Yield (list, schema of its elements, the rule for each, its pointer)."""
    known = reasoning(document)
    for inner in parts(document).values():
        for pointer, _, operator, arguments, _ in inner:
            key = None
            if operator in _LOOPS and len(arguments) == 2:
                key = variable(arguments[0])
            items = None if key is None else known.keys.items(key)
            if key is not None and items is not None:
                yield key, items, arguments[1], f"{pointer}/{operator}/1"


def _compared(operator: str, written: list[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, text, place below the operator) for texts that an element, or its member, is
    compared with.
    """
    if len(written) != 2:
        return
    for here, there in ((0, 1), (1, 0)):
        name = _element(written[here])
        other = written[there]
        if name is not None and operator in EQUALITIES and isinstance(other, str):
            yield name, other, str(there)
        elif name is not None and operator == "in" and here == 0 and isinstance(other, list):
            yield from (
                (name, item, f"1/{at}") for at, item in enumerate(other) if isinstance(item, str)
            )


def _element(rule: Any) -> str | None:
    """Return the member that is read, "" for the element itself."""
    if rule in ({"var": ""}, {"var": [""]}):
        return ""
    return variable(rule)
