"""Fixed replies that may show values computed from earlier answers."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K321", "warning")
def stale_reply(document: Document) -> Iterator[Finding]:
    """A fixed reply shows a key of the program beside keys that the user can correct there.

    Why it is bad:
    The program may compute it from them, such as a price. After a correction, the reply then shows the old value.

    Example:
        "context_schema": {"type": "object", "properties": {
            "room": {"enum": ["single", "double"]}, "price": {"type": "integer", "x-source": "host"}}},
        "states": {"hello": {"purpose": "Which room?", "required_context_keys": ["room"], "transitions": [
                {"target_state": "confirm", "conditions": [{"requires_context_keys": ["room"]}]}]},
            "confirm": {"reply": "A {{ room }} room for {{ price }} euros. Shall I book it?", "transitions": [
                {"target_state": "bye", "description": "Yes"}, {"target_state": "hello", "description": "No"}]},
            "bye": {"kind": "final", "reply": "Goodbye."}}

    Fix:
    Declare the keys that it is computed from. `"x-from": ["room"]` clears it when the room changes, and it is computed
    again. If it depends on no other key, write `"x-from": []`.
    """
    keys, flow = document.keys or {}, data_flow(document)
    for state, mentioned in flow.replies.items():
        if state not in document.reached or document.kind_of(state) != "converse":
            continue
        shown = dict.fromkeys(flow.declared(mention.name) for mention in mentioned if mention.shown)
        names = [key for key in shown if key is not None and not flow.is_secret(key)]
        said = [key for key in names if document.source_of(key) == "model"]
        for key in names if said else ():
            if document.source_of(key) == "host" and "x-from" not in keys[key]:
                yield stale_reply.finding(
                    f"the reply of state {quoted(state)} shows {quoted(key)} of the program beside {quoted(said[0])}, "
                    "which can be corrected there",
                    pointer=document.states[state].pointer + "/reply",
                    hint=f'write "x-from" at {quoted(key)}: the keys that it is made of, or []',
                )
