"""Properties that do not hold."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.properties import Statement, paths, statements
from llm_fsm.lint.facts.suggestions import route
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.rules.properties.property_malformed import unknown_names


@lint_rule("P601", "error", blocks=False)
def property_violated(document: Document) -> Iterator[Finding]:
    """A property does not hold: there is a path that breaks it.

    Why it is bad:
    The property must be true of every conversation, and the machine allows one that breaks it.

    Example:
        "properties": [{"never": "pay", "before": {"key": "consent"}}],
        "states": {"hello": {"purpose": "Ask for consent", "required_context_keys": ["consent"], "transitions": [
                {"target_state": "pay", "description": "The user agrees"}]},
            "pay": {"purpose": "Take the payment"}}

    Fix:
    Close the path that the finding shows, by a condition or by another target, or correct the property.
    """
    for pointer, statement in statements(document):
        if any(True for _ in unknown_names(document, pointer, statement)):
            continue
        violation = paths(document).broken(statement)
        if violation is not None:
            yield property_violated.finding(
                f"{_said(statement)} does not hold: {violation.shows} on the way {route(violation.path)}",
                pointer=pointer,
                path=violation.path,
            )


def _said(statement: Statement) -> str:
    word = {"never": "before", "always": "after"}.get(statement.verb)
    limit = f" {word} {statement.limit}" if statement.limit is not None else ""
    return f'"{statement.verb} {statement.what}{limit}"'
