"""A state has a key that works only in states of another kind.

Why it is bad:
The key is read and does nothing. Mostly `kind` is missing.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "write"}]},
               "write": {"purpose": "Write the report", "key_results": [{"name": "long", "description": "200 words"}],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Write the `kind` that the key belongs to, or remove the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from llm_fsm.definition.names import Kind
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

KINDS: tuple[str, ...] = get_args(Kind)
_KINDS: Mapping[str, tuple[str, ...]] = {
    "key_results": ("task",),
    "max_retries": ("task",),
    "on_exhausted": ("task",),
    "execute": ("task",),
    "flow": ("subflow",),
    "input": ("subflow",),
    "output": ("wait", "subflow"),
    "wait_for": ("wait",),
    "answer_schema": ("wait",),
    "timeout": ("wait",),
    "on_timeout": ("wait",),
    "remind": ("wait",),
    "required_context_keys": ("converse", "final", "task"),
    "example_dialogue": ("converse", "final", "task"),
}
"""Key of a state to the kinds in which it does something."""
_LABELLED = ("task", "subflow", "wait")


def check(subject: Subject) -> Iterator[Finding]:
    """Compare each key with the kind of its state."""
    for name, state in subject.states.items():
        kind = subject.kind_of(name)
        if kind not in KINDS:
            continue
        for key, kinds in _KINDS.items():
            if state.value.get(key) in (None, [], {}, "") or kind in kinds:
                continue
            meant = " or ".join(f'"{one}"' for one in kinds)
            yield RULE.finding(
                f'"{key}" has no effect in state {quoted(name)}, which is of kind "{kind}"',
                pointer=f"{state.pointer}/{key}",
                hint=f'it belongs to "kind": {meant}' if len(kinds) < 3 else "ask in a state that converses",
            )
    for owner, transition in subject.transitions():
        if transition.value.get("on") is not None and (
            owner is None or subject.kind_of(owner) not in _LABELLED
        ):
            yield RULE.finding(
                '"on" has no effect here: only tasks, flows and answers lead on by a label',
                pointer=transition.pointer + "/on",
                hint='write a "description" or conditions',
            )


RULE = Rule(name="setting-without-effect", code="T513", level="warning", check=check, at_key=True)
