"""A transition demands a key that no state on the way there collects.

Why it is bad:
A prompt says what is still missing by `required_context_keys`. A key that stands in none of them is asked for
by chance, and the transition that demands it stays closed.

Example:
    "context_schema": {"type": "object", "properties": {"city": {"type": "string"}, "seat": {"type": "string"}}},
    "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["city", "seat"]}]}]},
        "bye": {"kind": "final", "purpose": "Say goodbye"}}

Fix:
Add the key to `required_context_keys` of this state or of one before.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what the transitions of a talking state demand with what was asked for; needs a schema."""
    if subject.keys is None:
        return
    ways = flow(subject)
    for arc in subject.own:
        if arc.auto or subject.kind_of(arc.source) != "converse":
            continue
        for name in sorted(ways.demands(arc)):
            key = ways.declared(name)
            if key is None or subject.source_of(key) != "model" or arc.source not in subject.reached:
                continue
            asked = ways.asked_for(key, arc.source)
            path = ways.path_unasked(arc.source, key) if asked else subject.path_to(arc.source)
            where = "on this way here" if asked else "on the way here"
            if path or not asked:
                yield RULE.finding(
                    f"this transition demands {quoted(name)}, which no state {where} collects",
                    pointer=arc.placed.pointer,
                    hint=f'add it to the "required_context_keys" of state {quoted(arc.source)}',
                    path=path,
                )


RULE = Rule(name="never-asked-for", code="K315", level="info", check=check)
