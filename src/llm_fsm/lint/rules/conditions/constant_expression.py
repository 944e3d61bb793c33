"""A condition, or a comparison in it, reads no key and so has the same outcome each time.

Why it is bad:
Mostly a `var` was forgotten: `{"==": ["tier", "gold"]}` compares two texts and never holds.

Example:
    "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"==": ["tier", "gold"]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Read the key by `{"var": "tier"}`, or take the condition out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.errors import Finding
from llm_fsm.lint.document import SYSTEM_NAMES, Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.comparisons import parts
from llm_fsm.lint.solver.outcomes import operation, operators_in

_DECIDING = frozenset(
    {
        *("==", "!=", "===", "!==", "<", "<=", ">", ">=", "!", "!!", "and", "or", "if", "?:", "in"),
        *("contains", "matches"),
    }
)
_READING = frozenset({"var", "missing", "missing_some", "has_context", "context_length", "now"})
"""Operators whose value may be another one each time."""
_COMPUTED = re.compile(r"[=!<>]=?|\b(?:and|or|not|in)\b|\{\{")
"""What stands in expressions of other languages."""

Constant = tuple[str, str, Any]


def constants(subject: Subject) -> tuple[Constant, ...]:
    """(pointer of the condition, pointer of the part, part) of what reads no key; made once."""
    return subject.once(_all_constants)


def _all_constants(subject: Subject) -> tuple[Constant, ...]:
    return tuple(
        (condition.pointer, pointer, rule)
        for _, transition in subject.transitions()
        for condition in transition.items("conditions")
        if condition.pointer + "/logic" in subject.rules
        for pointer, rule in _constant_parts(condition, subject)
    )


def _constant_parts(condition: Placed, subject: Subject) -> Iterator[tuple[str, Any]]:
    logic, pointer = condition.value["logic"], condition.pointer + "/logic"
    if operation(logic) is None or not _reads(logic):
        yield pointer, logic
        return
    outer: str | None = None
    for place, rule, operator, _, _ in parts(subject)[pointer]:
        if operator not in _DECIDING or (outer is not None and place.startswith(outer)):
            continue
        if not _reads(rule):
            outer = place + "/"
            yield place, rule


def _reads(rule: Any) -> bool:
    """Whether anything in a rule reads what is known; most comparisons tell at a glance."""
    for written in rule.values() if isinstance(rule, dict) and len(rule) == 1 else ():
        if isinstance(written, list) and written and isinstance(written[0], dict) and [*written[0]] == ["var"]:
            return True
    return not _READING.isdisjoint(operators_in(rule))


def check(subject: Subject) -> Iterator[Finding]:
    """Evaluate what reads nothing, once."""
    for _, pointer, rule in constants(subject):
        outcome = "holds" if test(compile_rule(rule), {}).holds else "never holds"
        message = f"this reads no key: it {outcome} in every case"
        yield RULE.finding(message, pointer=pointer, hint=_hint(subject, rule))


def _hint(subject: Subject, rule: Any) -> str | None:
    key = _forgotten(subject, rule)
    if key is not None:
        return f'write {{"var": {quoted(key)}}} where the value of the key is meant'
    if isinstance(rule, list) and any(operation(item) is not None for item in rule):
        return 'a list is no rule: write {"and": [ … ]} where all are to hold'
    if isinstance(rule, str) and _COMPUTED.search(rule):
        return 'text is not computed: write JsonLogic, such as {"==": [{"var": "key"}, "value"]}'
    return None


def _forgotten(subject: Subject, rule: Any) -> str | None:
    """A text of the rule that is the name of a key."""
    found = operation(rule)
    keys = {key for state in subject.states.values() for _, key in state.texts("required_context_keys")}
    keys |= set(subject.keys or ()) | SYSTEM_NAMES
    texts = [rule] if found is None else found[1]
    return next((text for text in texts if isinstance(text, str) and text in keys), None)


RULE = Rule(name="constant-expression", code="C205", level="warning", check=check)
