"""Comparisons that contradict the schema of their key: other letter case, other value, other
type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from llm_fsm._json import JsonMap
from llm_fsm.conditions.coercion import is_number
from llm_fsm.lint.document import Document, once
from llm_fsm.lint.facts.schema_parts import SchemaPart, exact, refusal
from llm_fsm.lint.solver.comparisons import Comparison, comparisons
from llm_fsm.lint.solver.formulas import Tests
from llm_fsm.lint.solver.guards import guard_of
from llm_fsm.lint.solver.solver import Reasoning, reasoning
from llm_fsm.lint.solver.value_sets import NUMBERS, SET, ValueSet, points

_ORDERED_FORMATS = ("date", "date-time", "time")

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_FIXED = frozenset(
    {
        "_turn",
        "_turns_in_state",
        "_misses",
        "_timestamp",
        "_timezone",
        "_current_state",
        "_previous_state",
    }
)
"""System names whose types are known."""

Kind = Literal["case", "value", "type"]


class Mismatch(NamedTuple):
    """A comparison and its fault. `values`: the values that the key may have, if they are listed.

    `harmless`: conversion makes the comparison work as intended. `why`: another reason than a list
    of values or a type.
    """

    kind: Kind
    comparison: Comparison
    values: tuple[Any, ...]
    harmless: bool = False
    why: str = ""


@once
def mismatches(document: Document) -> Mapping[str, Mismatch]:
    """Return pointer of the literal to its mismatch."""
    known = reasoning(document)
    folded: dict[str, frozenset[str]] = {}
    tests = Tests()
    found: dict[str, Mismatch] = {}
    for comparison in comparisons(document):
        mismatch = _mismatch(known, comparison, folded, tests)
        if mismatch is not None:
            found.setdefault(comparison.at, mismatch)
    return found


def _mismatch(
    known: Reasoning, comparison: Comparison, folded: dict[str, frozenset[str]], tests: Tests
) -> Mismatch | None:
    """Return the mismatch in a comparison; `folded` keeps the listed texts of each key, without
    letter case.
    """
    schema = {} if comparison.key in _FIXED else known.keys.schema(comparison.key)
    literal = comparison.literal
    if schema is None or literal is None:
        return None
    if comparison.ordering and is_number(literal) and _never(known, comparison, tests):
        return Mismatch("value", comparison, (), why=_bounds(schema))
    if known.keys.domain(comparison.key).has(literal):
        why = None if literal == "" else _refused(known, comparison, schema)
        if why is None:
            return None
        return Mismatch("value", comparison, (), why=why)
    values = known.keys.domain(comparison.key) & SET
    if values.empty:
        return None
    listed = _listed(schema)
    if not _types(values) & _types(points([literal])):
        harmless = _converts(listed, values, literal) and comparison.operator not in ("===", "!==")
        return Mismatch(
            "type", comparison, listed, harmless and comparison.operator not in ("in", "contains")
        )
    if comparison.ordering:
        return None
    if not listed:
        why = refusal(SchemaPart("", schema, "", known.keys.definitions), literal)
        if why is None:
            return None
        return Mismatch("value", comparison, (), why=why)
    if comparison.key not in folded:
        folded[comparison.key] = frozenset(
            value.casefold() for value in listed if isinstance(value, str)
        )
    other_case = isinstance(literal, str) and literal.casefold() in folded[comparison.key]
    return Mismatch("case" if other_case else "value", comparison, listed)


def _never(known: Reasoning, comparison: Comparison, tests: Tests) -> bool:
    """Return true for an ordering in a larger condition that the numbers of its key never meet."""
    values = known.keys.domain(comparison.key) & SET
    if not comparison.positive or not values.numbers or not values.within(NUMBERS):
        return False
    least = values.numbers[0][0]
    most = values.numbers[-1][1]
    if (least is None or least[0] < comparison.literal) and (
        most is None or most[0] > comparison.literal
    ):
        return False
    if not guard_of((), [comparison.rule], known.keys.domain, known=tests).never:
        return False
    whole = known.guard_of([comparison.owner])
    return whole is not None and not whole.never


def _bounds(schema: JsonMap) -> str:
    found = [f'its "{word}" is {schema[word]}' for word in _BOUNDS if is_number(schema.get(word))]
    return " and ".join(found) or "no number that it may be fits"


def _refused(known: Reasoning, comparison: Comparison, schema: JsonMap) -> str | None:
    """Return the reason why the schema refuses a literal of a right type. For orderings, only
    formats count.
    """
    if comparison.ordering:
        formatted = isinstance(comparison.literal, str) and schema.get("format") in _ORDERED_FORMATS
        schema = {"type": "string", "format": schema["format"]} if formatted else {}
    if isinstance(comparison.literal, list | dict) or exact(schema):
        return None
    return refusal(SchemaPart("", schema, "", known.keys.definitions), comparison.literal)


def _listed(schema: JsonMap) -> tuple[Any, ...]:
    if isinstance(schema.get("enum"), list):
        return tuple(schema["enum"])
    return (schema["const"],) if "const" in schema else ()


def _types(values: ValueSet) -> frozenset[str]:
    """Return the JSON types of a set: numbers, texts, booleans, lists, objects."""
    names = {
        "true": "boolean",
        "false": "boolean",
        "empty": "list",
        "list": "list",
        "object": "object",
    }
    found = {names[kind] for kind in values.kinds if kind in names}
    found |= {"number"} if values.numbers else set()
    return frozenset(found | ({"text"} if values.texts else set()))


def _converts(listed: tuple[Any, ...], values: ValueSet, literal: Any) -> bool:
    """Return true if loose comparison converts it: "18" for a number, 0 or 1 for a boolean."""
    types = _types(values)
    if types == {"number"} and isinstance(literal, str):
        return literal.strip().lstrip("+-").replace(".", "", 1).isdecimal()
    if types == {"boolean"} and not isinstance(literal, bool):
        return isinstance(literal, int | float) and literal in (0, 1)
    return types == {"text"} and isinstance(literal, int | float) and str(literal) in listed


def type_word(values: ValueSet) -> str:
    """Return the types of a key in words."""
    words = {"boolean": "true or false", "number": "a number", "text": "text", "list": "a list"}
    found = sorted(words.get(name, "an object") for name in _types(values & SET))
    return " or ".join(found)
