"""A global transition is offered by no state that a conversation can be in.

Why it is bad:
Global transitions belong to `converse` states other than their own target. Where there is none, the way is
never open.

Example:
    "initial_state": "help", "states": {"help": {"purpose": "Explain", "transitions": [{"target_state": "bye"}]},
               "bye": {"purpose": "Say goodbye"}},
    "global_transitions": [{"target_state": "help", "description": "The user is lost"}]

Fix:
Remove it, or let a conversation come through a state that offers it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the global transitions with those that reached states offer."""
    offering = {name for name in subject.reached if subject.offers(name)}
    calling = {name for name in subject.reached if subject.calls(name)}
    for arc in subject.shared:
        offered = offering | calling if arc.target in subject.digressions else offering
        if arc.target in subject.states and not (len(offered) > 1 or offered - {arc.target}):
            yield RULE.finding(
                f"no state offers the global transition to {quoted(arc.target)}",
                pointer=arc.placed.pointer,
                hint="it is offered in converse states other than its target; this machine reaches none",
            )


RULE = Rule(name="unreachable-global", code="F115", level="warning", check=check)
