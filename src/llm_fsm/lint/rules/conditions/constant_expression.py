"""Conditions and comparisons that read no key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.conditions.operators import CLOCKS, COMPARISONS, OF_KEYS
from llm_fsm.lint.document import SYSTEM_NAMES, Document, Placed, once_each, texts_of_states
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.logics import compiled_rules, conditions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.comparisons import parts
from llm_fsm.lint.solver.outcomes import operation, operators_in

_DECIDING = COMPARISONS | {"!", "!!", "and", "or", "if", "?:", "in", "contains", "matches"}
_READING = CLOCKS | OF_KEYS
"""Operators whose value may differ each time."""
_COMPUTED = re.compile(r"[=!<>]=?|\b(?:and|or|not|in)\b|\{\{")
"""Operators of expressions in other languages."""

Constant = tuple[str, str, Any]


@once_each
def constants(document: Document) -> Iterator[Constant]:
    """Yield (pointer of the condition, pointer of the part, part) for each part that reads no
    key.
    """
    rules = compiled_rules(document)
    for condition in conditions_of(document):
        if condition.pointer + "/logic" in rules:
            for pointer, rule in _constant_parts(condition, document):
                yield condition.pointer, pointer, rule


def _constant_parts(condition: Placed, document: Document) -> Iterator[tuple[str, Any]]:
    logic = condition.value["logic"]
    pointer = condition.pointer + "/logic"
    if operation(logic) is None or not _reads(logic):
        yield pointer, logic
        return
    outer = None
    for place, rule, operator, _, _ in parts(document)[pointer]:
        if operator not in _DECIDING or (outer is not None and place.startswith(outer)):
            continue
        if not _reads(rule):
            outer = place + "/"
            yield place, rule


def _reads(rule: Any) -> bool:
    """Return true if any part of a rule reads a key. The common comparisons take a short cut."""
    for written in rule.values() if isinstance(rule, dict) and len(rule) == 1 else ():
        if (
            isinstance(written, list)
            and written
            and isinstance(written[0], dict)
            and [*written[0]] == ["var"]
        ):
            return True
    return not _READING.isdisjoint(operators_in(rule))


@lint_rule("C205", "warning")
def constant_expression(document: Document) -> Faults:
    """A condition, or a comparison in it, reads no key and so has the same outcome each time.

    Why it is bad:
    Mostly a `var` was forgotten: `{"==": ["tier", "gold"]}` compares two texts and is never true.

    Example:
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": ["tier", "gold"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Read the key by `{"var": "tier"}`, or take the condition out.
    """
    for _, pointer, rule in constants(document):
        outcome = "never holds"
        if test(compile_rule(rule), {}).holds:
            outcome = "holds"
        message = f"this reads no key: it {outcome} in every case"
        yield Fault(message, pointer=pointer, hint=_hint(document, rule))


def _hint(document: Document, rule: Any) -> str | None:
    key = _forgotten(document, rule)
    if key is not None:
        return f'write {{"var": {quoted(key)}}} where the value of the key is meant'
    if isinstance(rule, list) and any(operation(item) is not None for item in rule):
        return 'a list is no rule: write {"and": [ … ]} where all are to hold'
    if isinstance(rule, str) and _COMPUTED.search(rule):
        return 'text is not computed: write JsonLogic, such as {"==": [{"var": "key"}, "value"]}'
    return None


def _forgotten(document: Document, rule: Any) -> str | None:
    """Return a text of the rule that is the name of a key."""
    found = operation(rule)
    keys = {key for _, _, key in texts_of_states(document, "required_context_keys")}
    keys.update(document.keys, SYSTEM_NAMES)
    texts = [rule] if found is None else found[1]
    return next((text for text in texts if isinstance(text, str) and text in keys), None)
