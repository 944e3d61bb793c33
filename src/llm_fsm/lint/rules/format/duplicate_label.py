"""Two transitions of a task have the same label, or labels without a `default`, or no label beside one.

Why it is bad:
Only the first of two equal labels is ever taken, and a transition without a label never, as `default` comes first.
Without `default` the run ends with an error when the output has a label that nobody thought of.

Example:
    "states": {"sort": {"kind": "task", "purpose": "Sort the mail", "transitions": [
        {"target_state": "a", "on": "spam"}, {"target_state": "b", "on": "spam"}]},
        "a": {"kind": "final"}, "b": {"kind": "final"}}

Fix:
Give each its own label, and one the label `default`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the labels of each task."""
    for name, state in subject.states.items():
        if subject.kind_of(name) != "task":
            continue
        seen: set[str] = set()
        plain: list[str] = []
        caught = False
        for transition in state.items("transitions"):
            label = transition.value.get("on")
            if not isinstance(label, str):
                plain.append(transition.pointer)
                continue
            always = not transition.value.get("conditions")
            caught = caught or (label == "default" and always)
            if label in seen and always:
                yield RULE.finding(
                    f"a second transition of task {quoted(name)} has the label {quoted(label)}",
                    pointer=transition.pointer + "/on",
                    hint="give each its own label",
                )
            seen.add(label)
        for pointer in plain if caught else ():
            yield RULE.finding(
                f'a transition of task {quoted(name)} has no label, and "default" takes all that has none',
                pointer=pointer,
                hint='give it a label with "on", or take it out',
            )
        if seen and "default" not in seen and not plain:
            yield RULE.finding(
                f'task {quoted(name)} routes by labels and has no transition for "default"',
                pointer=state.pointer + "/transitions",
                hint='add one with "on": "default"',
                level="info",
            )


RULE = Rule(name="duplicate-label", code="T514", level="warning", check=check)
