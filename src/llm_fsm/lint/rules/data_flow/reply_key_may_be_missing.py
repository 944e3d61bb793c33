"""Fixed replies with a value that may be missing."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K314", "info")
def reply_key_may_be_missing(subject: Subject) -> Iterator[Finding]:
    """A fixed reply shows a key that some path to it does not demand.

    Why it is bad:
    A user who goes that way reads a text with a hole where the value should stand.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"],
                             "transitions": [{"target_state": "bye", "description": "The user is done"}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "Off to {{ city }}!"}}

    Fix:
    Demand the key in the transitions that lead there, or write `{% if city %}…{% endif %}` or
    `{{ city|default("…") }}`.
    """
    if subject.keys is None:
        return
    ways = flow(subject)
    for state, mentioned in ways.replies.items():
        if state not in subject.reached:
            continue
        for name in dict.fromkeys(
            mention.name for mention in mentioned if mention.shown and not mention.guarded
        ):
            key = ways.declared(name)
            if key is None or subject.source_of(key) != "model" or ways.is_secret(key):
                continue
            path = ways.path_without(state, key) if ways.may_be_set(key, state) else ()
            if path and not {name, key} & ways.must[state]:
                yield reply_key_may_be_missing.finding(
                    f"the reply of state {quoted(state)} shows {quoted(name)}, which may not be set on this way",
                    pointer=subject.states[state].pointer + "/reply",
                    hint="demand it in the transitions that lead here, or test for it in the reply",
                    path=path,
                )
