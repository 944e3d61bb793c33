"""A transition, `on_timeout` or `on_exhausted` names a state that does not exist.

Why it is bad:
The machine cannot be started: the move would lead nowhere.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "by"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the name, or add the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import steps
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def _targets(subject: Subject) -> Iterator[tuple[str, object]]:
    """(pointer, value) of everything that names a state to go to."""
    for _, transition in subject.transitions():
        yield transition.pointer + "/target_state", transition.value.get("target_state")
    for state in subject.states.values():
        yield state.pointer + "/on_timeout", state.value.get("on_timeout")
        exhausted = state.value.get("on_exhausted")
        if exhausted not in ("raise", "continue"):
            yield state.pointer + "/on_exhausted", exhausted


def check(subject: Subject) -> Iterator[Finding]:
    """Look each target up."""
    for pointer, target in _targets(subject):
        if isinstance(target, str) and target not in subject.ids:
            way = "transition" if pointer.endswith("/target_state") else quoted(steps(pointer)[-1])
            hint = subject.speller.hint(target, subject.ids, "states")
            yield RULE.finding(f"{way} to unknown state {quoted(target)}", pointer=pointer, hint=hint)


RULE = Rule(name="unknown-target", code="F101", level="error", check=check)
