"""Tools that may not be called where they are listed."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("T505", "warning")
def tool_out_of_scope(document: Document) -> Iterator[Finding]:
    """A state lists a tool whose `scope` leaves the state out.

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
