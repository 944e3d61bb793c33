"""A fixed reply cannot be said: rendering it fails, always or with a value that its keys may have.

Why it is bad:
Replies run in a closed room: no other templates, no names that begin with `_`, no functions, no repetition of
texts, no sums of text and numbers. One that fails is replaced by words of last resort.

Example:
    "context_schema": {"type": "object", "properties": {"guests": {"type": "integer"}}},
    "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["guests"]}]}]},
        "bye": {"kind": "final", "purpose": "Confirm", "reply": "{{ 'Guests: ' + guests }}"}}

Fix:
Write what the message names in another way: `{{ 'Guests: ' ~ guests }}`, or simply `Guests: {{ guests }}`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.reply_trials import trials
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Report the replies that failed when they were tried."""
    for state, trial in trials(subject).items():
        if trial.outcome == "empty":
            continue
        always = trial.outcome == "fails"
        when = "" if always else f" when {trial.values}"
        yield RULE.finding(
            f"the fixed reply of state {quoted(state)} cannot be said{when}: {trial.why}",
            pointer=subject.states[state].pointer + "/reply",
            level=None if always else "warning",
        )


RULE = Rule(name="reply-fails", code="S123", level="error", check=check, blocks=False)
