"""The rules of `x-valid`: what must hold for the values of a context, whoever writes them.

A rule belongs to a key, and is tried whenever that key is set. It may read other keys, too. While a
key that it compares by order is still to be said by the user, the rule waits, because nobody can
know yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llm_fsm._json import JsonMap, KeyTest, Schemas, step
from llm_fsm.conditions.compiler import (
    CompiledRule,
    ConditionError,
    compile_rule,
    could_hold,
    look_up,
    test,
)
from llm_fsm.conditions.operators import PRESENCE
from llm_fsm.conditions.words import in_words
from llm_fsm.definition.names import VALID

_ORDER = frozenset({"<", "<=", ">", ">=", "lt", "lte", "gt", "gte"})
_SHAPE = 'expected a list of {"logic": …, "description": …}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """One rule of a key.

    Attributes:
        key: The key that has the rule.
        rule: Its logic over the context and the system names.
        description: What must hold, in the author's words. User and model read it.
        waits_for: Names that it compares by order, and does not test for presence itself.
    """

    key: str
    rule: CompiledRule
    description: str
    waits_for: frozenset[str]

    def holds(self, data: JsonMap, is_free: KeyTest) -> bool:
        """Return true if the rule holds, or waits for a key.

        Args:
            data: The context and the system names.
            is_free: Returns true for a name that a reply may still write.
        """
        # Most rules hold, so the look at open names comes after.
        if test(self.rule, data).holds:
            return True
        open_names = {
            name for name in self.waits_for if look_up(data, name) is None and is_free(name)
        }
        if not open_names:
            return False
        return could_hold(self.rule, data, open_names.__contains__) is not False

    def reads(self, key: str) -> bool:
        """Return true if the rule reads a key or a part of it."""
        return any(key in (name, name.partition(".")[0]) for name in self.rule.reads)


def compile_value_rules(schemas: Schemas) -> tuple[ValueRule, ...]:
    """Compile the rules of all keys.

    Args:
        schemas: Key to its schema, as declared.

    Raises:
        ConditionError: A rule cannot be compiled. Its pointer begins at the definition.
    """
    found: list[ValueRule] = []
    for key, schema in schemas.items():
        found += _rules_of(key, schema.get(VALID))
    return tuple(found)


def _rules_of(key: str, items: object) -> Iterator[ValueRule]:
    place = f"/context_schema/properties{step(key)}/{VALID}"
    if items is None:
        return
    if not isinstance(items, list):
        raise ConditionError(_SHAPE, place)
    for number, item in enumerate(items):
        if not isinstance(item, dict) or "logic" not in item:
            raise ConditionError(_SHAPE, f"{place}/{number}")
        logic = item["logic"]
        try:
            rule = compile_rule(logic)
        except ConditionError as error:
            raise ConditionError(
                error.reason, f"{place}/{number}/logic{error.pointer}", error.hint
            ) from error
        description = str(item.get("description") or "").strip() or in_words(logic)
        # A rule that tests for a key itself says what is to happen while it is missing.
        tested = _names_under(logic, PRESENCE)
        waits_for = frozenset(_names_under(logic, _ORDER)) - tested - {key}
        yield ValueRule(key=key, rule=rule, description=description, waits_for=waits_for)


def _names_under(logic: Any, operators: frozenset[str], *, inside: bool = False) -> set[str]:
    """Return the names that are read under one of these operators.

    A name with a default is never missing.
    """
    match logic:
        case list():
            return set().union(*(_names_under(one, operators, inside=inside) for one in logic))
        case str() if inside and operators is PRESENCE:
            return {logic}
        case {"var": str(name) | [str(name)]} if inside and len(logic) == 1:
            return {name}
        case dict() if len(logic) == 1 and "var" not in logic:
            [(operator, given)] = logic.items()
            return _names_under(given, operators, inside=inside or operator in operators)
    return set()
