"""Conditions without content."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.rule import lint_rule


@lint_rule("C218", "warning")
def empty_condition(document: Document) -> Iterator[Finding]:
    """A condition says nothing: it has neither keys nor logic, and no words by which a model could judge.

    Why it is bad:
    It always holds. Mostly something was to be written there.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye", "conditions": [{}]}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the condition, or take it out.
    """
    for _, transition in document.transitions():
        for condition in transition.items("conditions"):
            said = condition.text("description").strip()
            if not said and not condition.value.get("requires_context_keys") and condition.value.get("logic") is None:
                yield empty_condition.finding(
                    "this condition says nothing, so it always holds",
                    pointer=condition.pointer,
                    hint='write "requires_context_keys" or "logic", or take it out',
                )
