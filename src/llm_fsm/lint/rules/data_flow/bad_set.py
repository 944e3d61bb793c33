"""Values that a definition sets in vain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llm_fsm._json import step
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Assigned, Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.schema_parts import refusal, schema_parts
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K320", "warning")
def bad_set(document: Document) -> Iterator[Finding]:
    """`set` gives a key a value that is always refused.

    Why it is bad:
    The key keeps its old value, and only the record shows it. The schema refuses the value, or the name is no key. A
    value that is made of a secret is also refused if the key is not secret.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"enum": ["gold", "basic"]}}},
        "states": {"hello": {"purpose": "Greet", "transitions": [
            {"target_state": "bye", "set": {"tier": "golden"}}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the value, its rule or the schema.
    """
    flow = data_flow(document)
    parts = {part.pointer: part for part in schema_parts(document)}
    for given in document.assignments:
        rule = document.rules.get(given.pointer)
        part = parts.get("/context_schema/properties" + step(given.key))
        why = None if part is None or not _is_constant(given.logic) else refusal(part, given.logic)
        secrets = sorted(filter(flow.is_secret, rule.reads if rule is not None else ()))
        if re.fullmatch(KEY_PATTERN, given.key) is None:
            yield _finding(given, "it is no name of a context key")
        elif why is not None:
            yield _finding(given, f"{as_json(given.logic)} is refused: {why}"[:300])
        elif secrets and not flow.is_secret(given.key) and not _is_test(given.logic):
            yield _finding(given, f"{quoted(secrets[0])} is secret, and this key is not")


_TESTS = frozenset(
    ("==", "===", "!=", "!==", "!", "!!", "<", "<=", ">", ">=", "in", "has_context", "matches", "contains")
)
"""Operators that give true or false."""


def _is_test(logic: Any) -> bool:
    return isinstance(logic, dict) and len(logic) == 1 and not _TESTS.isdisjoint(logic)


def _is_constant(logic: Any) -> bool:
    return isinstance(logic, str | int | float)


def _finding(given: Assigned, why: str) -> Finding:
    return bad_set.finding(f"{quoted(given.key)} never gets this value: {why}", pointer=given.pointer)
