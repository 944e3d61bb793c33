"""Logic that is not JsonLogic."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.conditions.compiler import collect_faults
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.rule import lint_rule

_LOOKS = ("invalid perl operator", "invalid escape sequence")
_NOT_IN_RE2 = "RE2 has no look-around such as (?=…) or (?!…) and no back-references such as \\1"


@lint_rule("C201", "error")
def bad_condition(document: Document) -> Iterator[Finding]:
    """The logic of a condition is not JsonLogic that this program knows.

    Why it is bad:
    The condition can never be evaluated, so the machine cannot be started.

    Example:
        "states": {"hello": {"purpose": "Ask for the age", "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"===>": [{"var": "age"}, 18]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Use an operator of jsonlogic.com or one of the extensions: `has_context`, `context_length`, `contains`,
    `matches`, `len`, `count`, `lower`, `now`, `date`.
    """
    for pointer, logic in document.logics():
        if pointer in document.rules:
            continue
        for fault in collect_faults(logic):
            hint = _NOT_IN_RE2 if fault.reason.endswith(_LOOKS) else fault.hint
            yield bad_condition.finding(fault.reason, pointer=pointer + fault.pointer, hint=hint)
