"""Every transition of a state leads back to the state itself.

Why it is bad:
Staying needs no transition, and nothing else is allowed: the conversation never leaves this state.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "menu"}]},
               "menu": {"purpose": "Show the menu", "transitions": [{"target_state": "menu"}]}}

Fix:
Lead one of them elsewhere; or remove them all, if the conversation is to end here.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """States whose arcs are all loops; a time-out that leads away is a way out, and a single state may run on."""
    if len(subject.states) == 1:
        return
    for name, own in subject.own_from.items():
        arcs = (*own, *subject.shared) if subject.offers(name) else own
        leaves = any(target != name for target in subject.graph[name])
        if not own or leaves or any(arc.target != name for arc in arcs):
            continue
        yield RULE.finding(
            f"state {quoted(name)} leads only to itself and is never left",
            pointer=subject.states[name].pointer,
            hint="add a transition to another state, or remove them all if this is the end",
            path=subject.path_to(name),
        )


RULE = Rule(name="self-only-state", code="F106", level="warning", check=check, at_key=True)
