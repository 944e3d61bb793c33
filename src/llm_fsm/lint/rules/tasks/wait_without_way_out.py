"""Waits without an end."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


def _openable(document: Document, arc: Arc) -> bool:
    """Return false if a condition is the constant false. A condition that reads a value may be true."""
    if arc.target == arc.source:
        return False
    for condition in arc.conditions:
        rule = document.rules.get(condition.pointer + "/logic")
        if condition.value.get("logic") is False or (rule is not None and rule.node.literal in (False, 0, "")):
            return False
    return True


@lint_rule("T509", "warning", at_key=True)
def wait_without_way_out(document: Document) -> Iterator[Finding]:
    """A `wait` state has neither a time-out with a target nor a transition that an answer can open.

    Why it is bad:
    A run that comes here waits for ever.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "approval"}]},
                   "approval": {"kind": "wait", "wait_for": "manager"}}

    Fix:
    Add a transition, or `timeout` and `on_timeout`.
    """
    for name, state in document.states.items():
        if document.kind_of(name) != "wait":
            continue
        timed = state.value.get("timeout") is not None and state.value.get("on_timeout") is not None
        if not timed and not any(_openable(document, arc) for arc in document.arcs_from[name]):
            yield wait_without_way_out.finding(
                f"nothing ends the wait in state {quoted(name)}: no transition, and no time-out that leads on",
                pointer=state.pointer,
                hint='add "transitions", or "timeout" and "on_timeout"',
            )
