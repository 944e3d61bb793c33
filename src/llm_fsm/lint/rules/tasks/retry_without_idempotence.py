"""Retries of tools that must not be called twice."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("T507", "warning")
def retry_without_idempotence(document: Document) -> Iterator[Finding]:
    """A task that is tried again uses a tool that must not be called twice.

    Why it is bad:
    When a key result fails, the whole task is done again, and with it what the tool does: a second payment, a
    second mail.

    Example:
        "tools": {"pay": {"registered": "pay", "at_most_once": true}},
        "states": {"buy": {"kind": "task", "purpose": "Buy it", "tools": ["pay"],
                           "key_results": [{"name": "paid", "check": {"has_context": "output.receipt"}}]}}

    Fix:
    Set `max_retries` to 0, or call the tool in a state of its own after the work has been checked.
    """
    once = {tool.name for tool in document.root.members("tools") if tool.value.get("at_most_once") is True}
    for state_id, state in document.states.items():
        retries = state.value.get("max_retries", 3)
        if document.kind_of(state_id) != "task" or retries in (0, None) or not state.value.get("key_results"):
            continue
        for pointer, name in state.texts("tools"):
            if name in once:
                yield retry_without_idempotence.finding(
                    f"task {quoted(state_id)} is tried up to {retries} times more,"
                    f" and its tool {quoted(name)} must not be called twice",
                    pointer=pointer,
                    hint='set "max_retries" to 0, or call the tool in a state of its own',
                )
