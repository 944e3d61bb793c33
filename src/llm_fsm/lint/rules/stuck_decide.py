"""A deciding state has no transition that could ever be taken.

Why it is bad:
Every conversation that enters it ends there with the outcome `stuck`.

Example:
    "states": {"hello": {"purpose": "Ask for the topic", "transitions": [{"target_state": "route"}]},
        "route": {"kind": "decide", "transitions": []}}

Fix:
Give the state a transition that can hold; a last one without conditions always does.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.flow import flow
from llm_fsm.lint.reasoning import reasoning
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the deciding states whose transitions all can never hold."""
    known = reasoning(subject)
    for name, state in subject.states.items():
        if subject.kind_of(name) != "decide" or any(map(known.may_hold, known.decided(name))):
            continue
        written = any(True for _ in state.items("transitions"))
        why = "none of its transitions can ever hold" if written else "it has no transitions"
        yield RULE.finding(
            f"state {quoted(name)} decides by itself, but {why}: every run that enters it is stuck",
            pointer=state.pointer + ("/transitions" if "transitions" in state.value else ""),
            hint="add a transition without conditions",
            path=flow(subject).path_to(name),
        )


RULE = Rule(name="stuck-decide", code="C215", level="error", check=check)
