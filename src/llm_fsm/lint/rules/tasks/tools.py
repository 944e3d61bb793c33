"""Tools that are repeated without being idempotent, or offered out of their scope."""

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
    When a key result fails, the whole task is repeated, with its tool calls: a second payment, a second mail.

    Example:
        "tools": {"pay": {"registered": "pay", "at_most_once": true}},
        "states": {"buy": {"kind": "task", "purpose": "Buy it", "tools": ["pay"],
                           "key_results": [{"name": "paid", "check": {"has_context": "output.receipt"}}]}}

    Fix:
    Set `max_retries` to 0, or call the tool in its own state after the work has been checked.
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


@lint_rule("T505", "warning")
def tool_out_of_scope(document: Document) -> Iterator[Finding]:
    """A state lists a tool whose `scope` does not include the state.

    Why it is bad:
    Every call there is refused.

    Example:
        "tools": {"search": {"registered": "search", "scope": ["find"]}},
        "states": {"find": {"purpose": "Find it", "tools": ["search"], "transitions": [{"target_state": "tell"}]},
                   "tell": {"purpose": "Tell it", "tools": ["search"]}}

    Fix:
    Add the state to the scope, or take the tool out of the state.
    """
    scopes = {
        tool.name: {state for _, state in tool.texts("scope")}
        for tool in document.root.members("tools")
        if isinstance(tool.value.get("scope"), list)
    }
    for state_id, state in document.states.items():
        for pointer, name in state.texts("tools"):
            if name in scopes and state_id not in scopes[name]:
                yield tool_out_of_scope.finding(
                    f"tool {quoted(name)} may not be called in state {quoted(state_id)}, which lists it",
                    pointer=pointer,
                    hint=f'add {quoted(state_id)} to the "scope" of the tool',
                )
