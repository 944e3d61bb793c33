"""Transitions of a state to itself."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("F111", "info")
def self_transition(document: Document) -> Iterator[Finding]:
    """A transition leads from a state to itself.

    Why it is bad:
    Staying is always possible and needs no transition. This one makes the menu longer, and models pick it
    where they should ask on.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [
            {"target_state": "ask", "description": "The answer is not clear"}, {"target_state": "bye"}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Remove it; say in the instructions when to stay.
    """
    # A task that is done again by its label is no such transition.
    for name, transition in document.transitions():
        if name is None or transition.value.get("target_state") != name:
            continue
        if document.kind_of(name) in ("task", "wait", "subflow"):
            continue
        yield self_transition.finding(
            f"transition of state {quoted(name)} to itself",
            pointer=transition.pointer + "/target_state",
            hint="staying is always possible and needs no transition",
        )
