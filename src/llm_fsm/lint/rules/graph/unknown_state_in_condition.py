"""A condition compares `_current_state` or `_previous_state` with what it can never be.

Why it is bad:
The comparison has the same outcome every time, so the condition does not test what it was written for.

Example:
    "states": {"menu": {"purpose": "Show the menu", "transitions": [{"target_state": "help",
            "conditions": [{"logic": {"==": [{"var": "_previous_state"}, "chekout"]}}]}]},
        "help": {"purpose": "Help", "transitions": [{"target_state": "menu"}]}}

Fix:
Write the id of a state. A transition of a state is looked at in that state only, so there `_current_state` needs
no test.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.comparisons import comparisons


def check(subject: Subject) -> Iterator[Finding]:
    """Look up the states that conditions name; in a state's own transitions the current one is known."""
    yield from unknown_states(subject)


def unknown_states(subject: Subject) -> tuple[Finding, ...]:
    """What this rule finds, made once."""
    return subject.once(_all_unknown)


def _all_unknown(subject: Subject) -> tuple[Finding, ...]:
    return tuple(_unknown(subject))


def _unknown(subject: Subject) -> Iterator[Finding]:
    owners = {placed.pointer: owner for owner, placed in subject.transitions()}
    for found in comparisons(subject):
        if found.key not in ("_current_state", "_previous_state") or not isinstance(found.literal, str):
            continue
        owner = owners.get(found.owner.pointer.rpartition("/conditions/")[0])
        if found.literal not in subject.states:
            if not (found.key == "_previous_state" and found.literal == ""):
                yield RULE.finding(
                    f"{quoted(found.key)} is never {quoted(found.literal)}: there is no such state",
                    pointer=found.at,
                    hint=subject.speller.hint(found.literal, subject.states, "states"),
                )
        elif found.key == "_current_state" and owner is not None and found.literal != owner:
            yield RULE.finding(
                f'"_current_state" is always {quoted(owner)} here: the transition belongs to that state',
                pointer=found.at,
                hint="write the transition in the state that is meant",
            )


RULE = Rule(name="unknown-state-in-condition", code="C216", level="warning", check=check)
