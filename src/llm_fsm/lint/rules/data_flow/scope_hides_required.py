"""Scopes that hide what a state needs."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.data_flow import data_flow, root_of
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K313", "info")
def scope_hides_required(document: Document) -> Iterator[Finding]:
    """A `context_scope` hides a key that the same state collects or decides by.

    Why it is bad:
    The model does not see the value that it is to collect or correct, and may ask for it again.

    Example:
        "states": {"hello": {"purpose": "Ask for the city", "required_context_keys": ["city"],
                "context_scope": {"read": ["name"]}, "transitions": [
                    {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
            "bye": {"purpose": "Say goodbye to {{name}}"}}

    Fix:
    Add the key to `context_scope.read`.
    """
    flow = data_flow(document)
    for name, state in document.states.items():
        scope = state.value.get("context_scope")
        if not isinstance(scope, dict) or not isinstance(scope.get("read"), list):
            continue
        shown = {root_of(key) for _, key in Placed("", scope).texts("read")}
        wanted = [key for _, key in state.texts("required_context_keys")]
        for transition in state.items("transitions"):
            if transition.value.get("auto") is not True:
                wanted.extend(flow.condition_names(transition))
        hidden = [
            key
            for key in dict.fromkeys(wanted)
            if root_of(key) not in shown and not key.startswith("_") and not flow.is_secret(key)
        ]
        if hidden:
            yield scope_hides_required.finding(
                f"state {quoted(name)} collects or decides by {', '.join(map(quoted, hidden[:6]))}, "
                "but its scope does not show it to the model",
                pointer=state.pointer + "/context_scope/read",
                hint="add it to the list",
            )
