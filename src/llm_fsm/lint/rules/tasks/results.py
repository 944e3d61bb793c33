"""Tasks whose results nobody checks."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("T506", "warning")
def key_result_without_check(document: Document) -> Iterator[Finding]:
    """A key result of a task has no `check`: a model judges its description, if it has one.

    Why it is bad:
    Without a check and a description, nothing defines the result, and the judge fails it. With a description, each
    attempt costs a model call, and the result is an opinion.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report", "key_results": [{"name": "good"}]}}

    Fix:
    Add a `check`: JsonLogic over `output`, `{"judge": "criterion"}` or `{"registered": "name"}`.
    """
    for state_id, state in document.states.items():
        judged: list[str] = []
        for result in state.items("key_results"):
            name = result.value.get("name")
            if result.value.get("check") is not None or not isinstance(name, str):
                continue
            if result.text("description").strip():
                judged.append(quoted(name))
                continue
            yield key_result_without_check.finding(
                f"nothing says when the key result {quoted(name)} is reached: neither a check nor a description",
                pointer=result.pointer,
                hint='add a "check", or a "description" for a judge',
            )
        if judged:
            yield key_result_without_check.finding(
                f"a model judges what state {quoted(state_id)} gives no check for: {listed(judged, 4)}",
                pointer=state.pointer + "/key_results",
                hint="what can be computed is better checked by a rule",
                level="info",
            )


@lint_rule("T511", "info", at_key=True)
def task_without_results(document: Document) -> Iterator[Finding]:
    """A task has no key results.

    Why it is bad:
    Any output counts as done. Nothing is checked, and nothing is tried again.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report"}}

    Fix:
    Add `key_results` that the output must meet.
    """
    # A registered function checks its own output.
    for name, state in document.states.items():
        works = document.kind_of(name) == "task" and state.value.get("execute") is None
        if works and not state.value.get("key_results"):
            yield task_without_results.finding(
                f"task {quoted(name)} has no key results: whatever it puts out counts as done",
                pointer=state.pointer,
                hint='add "key_results"',
            )
