"""A text that is put into the prompt names a secret key as a placeholder.

Why it is bad:
`x-secret` keeps a value out of prompts: the placeholder is never filled, and the model is told to use
something that it cannot see.

Example:
    "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "x-secret": true}}},
    "states": {"hello": {"purpose": "Compare what the user says with {{pin}}", "transitions": [
        {"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Say it without the secret, and let the program or a condition compare the value.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.data_flow import OTHER_TEXTS, STATE_TEXTS, Flow, flow
from llm_fsm.lint.facts.key_references import placeholders
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

Text = tuple[str, str]
"""Pointer and text."""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for placeholders of secret keys in all words, and for secrets in scopes."""
    ways = flow(subject)
    if not any(ways.is_secret(key) for key in subject.keys or ()):
        return
    for pointer, text in _texts(subject):
        for name in dict.fromkeys(placeholders(text)):
            if ways.is_secret(name):
                yield RULE.finding(
                    f"this text goes into the prompt, where the value of the secret {quoted(name)} is never shown",
                    pointer=pointer,
                    hint="say it without the secret",
                )
    yield from _scopes(ways)


def _scopes(ways: Flow) -> Iterator[Finding]:
    for state in ways.subject.states.values():
        scope = state.value.get("context_scope")
        inner = Placed(state.pointer + "/context_scope", scope if isinstance(scope, dict) else {})
        for pointer, name in inner.texts("read"):
            if ways.is_secret(name):
                message = f"{quoted(name)} is secret: a scope cannot show it to the model"
                yield RULE.finding(message, pointer=pointer, hint="take it out")


def _texts(subject: Subject) -> Iterator[Text]:
    """Every text that a prompt is made of."""
    for key in ("persona", "description"):
        yield f"/{key}", subject.root.text(key)
    for state in subject.states.values():
        for key in (*STATE_TEXTS, *OTHER_TEXTS):
            yield f"{state.pointer}/{key}", state.text(key)
        for message in state.items("example_dialogue"):
            for speaker in message.value:
                yield f"{message.pointer}/{speaker}", message.text(speaker)
        for result in state.items("key_results"):
            yield result.pointer + "/description", result.text("description")
            judge = result.value.get("check")
            if isinstance(judge, dict) and isinstance(judge.get("judge"), str):
                yield result.pointer + "/check/judge", judge["judge"]
    for _, transition in subject.transitions():
        yield transition.pointer + "/description", transition.text("description")
        for condition in transition.items("conditions"):
            yield condition.pointer + "/description", condition.text("description")


RULE = Rule(name="secret-in-prompt", code="K311", level="warning", check=check)
