"""A fixed reply names a key that `context_schema` does not declare.

Why it is bad:
The key is never set by a reply of the model, so the text has a hole where its value should stand.

Example:
    "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
        "bye": {"kind": "final", "purpose": "Confirm", "reply": "Off to {{ citty }}!"}}

Fix:
Correct the name, or declare the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import nearest
from llm_fsm.errors import Finding
from llm_fsm.lint.document import SYSTEM_NAMES, Subject
from llm_fsm.lint.facts.data_flow import Flow, flow, root_of
from llm_fsm.lint.facts.members import member_fault
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every name in fixed replies; without a schema, only for slips of the pen."""
    ways = flow(subject)
    for state, mentioned in ways.replies.items():
        pointer = subject.states[state].pointer + "/reply"
        for name in dict.fromkeys(mention.name for mention in mentioned):
            yield from _unknown(ways, name, pointer)


def _unknown(ways: Flow, name: str, pointer: str) -> Iterator[Finding]:
    keys = ways.subject.keys
    root = root_of(name)
    if "._" in name:
        message = f"the reply reads {quoted(name)}: names that begin with _ are not open to replies"
        yield RULE.finding(message, pointer=pointer)
        return
    if root.startswith("_"):
        if root not in SYSTEM_NAMES and root != "_extra":
            hint = ways.subject.speller.hint(root, sorted(SYSTEM_NAMES), "system's names")
            yield RULE.finding(
                f"the reply names {quoted(root)}, which is not set", pointer=pointer, hint=hint
            )
    elif keys is not None:
        if ways.declared(name) is None:
            message = f'the reply names {quoted(root)}, which "context_schema" does not declare'
            hint = ways.subject.speller.hint(root, keys, "declared keys")
            yield RULE.finding(message, pointer=pointer, hint=hint)
        elif (fault := member_fault(ways, name)) is not None:
            yield RULE.finding(
                f"the reply looks for {quoted(name)}, but {fault[0]}", pointer=pointer, hint=fault[1]
            )
    else:
        known = [*ways.collected, *ways.outputs]
        meant = None if root in {root_of(key) for key in known} else nearest(root, known)
        if meant is not None:
            yield RULE.finding(
                f"the reply names {quoted(root)}, which no state collects",
                pointer=pointer,
                hint=f"did you mean {quoted(meant)}?",
                level="info",
            )


RULE = Rule(name="unknown-key-in-reply", code="K308", level="warning", check=check)
