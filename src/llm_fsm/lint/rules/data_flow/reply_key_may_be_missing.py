"""Fixed replies with a value that may be missing."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K314", "info")
def reply_key_may_be_missing(document: Document) -> Iterator[Finding]:
    """A fixed reply shows a key that some path to it does not demand.

    Why it is bad:
    A user who goes that way reads a text with a hole where the value should stand.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"],
                             "transitions": [{"target_state": "bye", "description": "The user is done"}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "Off to {{ city }}!"}}

    Fix:
    Demand the key in the transitions that lead there. Or write `{% if city %}…{% endif %}` or `{{ city|default("…")
    }}`.
    """
    if document.keys is None:
        return
    flow = data_flow(document)
    for state, mentioned in flow.replies.items():
        if state not in document.reached:
            continue
        for name in dict.fromkeys(mention.name for mention in mentioned if mention.shown and not mention.guarded):
            key = flow.declared(name)
            if key is None or document.source_of(key) != "model" or flow.is_secret(key):
                continue
            path = flow.path_without(state, key) if flow.may_be_set(key, state) else ()
            if path and not {name, key} & flow.must[state]:
                yield reply_key_may_be_missing.finding(
                    f"the reply of state {quoted(state)} shows {quoted(name)}, which may not be set on this way",
                    pointer=document.states[state].pointer + "/reply",
                    hint="demand it in the transitions that lead here, or test for it in the reply",
                    path=path,
                )
