"""Fixed replies that are no templates."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.templates import template_fault
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.rule import lint_rule


@lint_rule("S110", "error")
def bad_template(document: Document) -> Iterator[Finding]:
    """A fixed reply is not a template: a delimiter, quote, bracket or block in it is not closed.

    Why it is bad:
    The reply cannot be rendered, so the machine cannot be started.

    Example:
        "states": {"bye": {"kind": "final", "reply": "Goodbye {{ name }!"}}

    Fix:
    Close the part that the message names. `{{ "{{" }}` writes the delimiters themselves.
    """
    for state in document.states.values():
        reply = state.text("reply")
        reason = template_fault(reply) if reply else None
        if reason is not None:
            yield bad_template.finding(f"not a template: {reason}", pointer=state.pointer + "/reply")
