"""Machines without an end."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.endings import ends
from llm_fsm.lint.rule import lint_rule


@lint_rule("F107", "info", at_key=True)
def no_final_state(document: Document) -> Iterator[Finding]:
    """No state of the machine ends a conversation.

    Why it is bad:
    Open-ended companions are made so on purpose. Otherwise the end was forgotten: conversations stay open and
    `turn.ended` is never true.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "answer"}]},
                   "answer": {"purpose": "Answer", "transitions": [{"target_state": "ask"}]}}

    Fix:
    Add a state without transitions and lead to it; or leave this rule out under `x-lint` and say why.
    """
    if document.states and not ends(document):
        yield no_final_state.finding(
            "no state ends the conversation",
            pointer="/states",
            hint="a state without transitions is an end; open-ended machines need none",
        )
