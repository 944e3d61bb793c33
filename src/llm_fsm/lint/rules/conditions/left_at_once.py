"""A state that asks the user for something has an automatic transition that always holds.

Why it is bad:
Automatic transitions are looked at when a state is entered, before the model speaks: the user is never asked.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "name"}]},
               "name": {"purpose": "Ask for the name", "required_context_keys": ["name"],
                        "transitions": [{"target_state": "bye", "auto": true}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Let the transition demand what is collected: `"conditions": [{"requires_context_keys": ["name"]}]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.solver import reasoning


def check(subject: Subject) -> Iterator[Finding]:
    """Look for automatic transitions whose conditions cannot fail, in talking states that collect."""
    known = reasoning(subject)
    for name, state in subject.states.items():
        wanted = [key for _, key in state.texts("required_context_keys")]
        if subject.kind_of(name) != "converse" or not wanted:
            continue
        for arc in known.decided(name):
            guard = known.guard(arc.placed)
            if guard is not None and guard.always and not arc.is_global:
                yield RULE.finding(
                    f"state {quoted(name)} is left at once, before the user is asked for {quoted(wanted[0])}",
                    pointer=arc.placed.pointer + "/auto",
                    hint=f'let it demand the key: "conditions": [{{"requires_context_keys": [{quoted(wanted[0])}]}}]',
                )
                break


RULE = Rule(name="left-at-once", code="F119", level="warning", check=check)
