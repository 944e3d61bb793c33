"""Tasks whose output nothing checks."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("T511", "info", at_key=True)
def task_without_results(document: Document) -> Iterator[Finding]:
    """A task has no key results.

    Why it is bad:
    Whatever it puts out counts as done: nothing is checked and nothing is tried again.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report"}}

    Fix:
    Add `key_results` that say what must be true of the output.
    """
    # A registered function answers for itself.
    for name, state in document.states.items():
        works = document.kind_of(name) == "task" and state.value.get("execute") is None
        if works and not state.value.get("key_results"):
            yield task_without_results.finding(
                f"task {quoted(name)} has no key results: whatever it puts out counts as done",
                pointer=state.pointer,
                hint='add "key_results"',
            )
