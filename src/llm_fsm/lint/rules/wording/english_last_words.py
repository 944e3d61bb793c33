"""The definition is written in another language, and a repair pattern ends conversations in English.

Why it is bad:
`cancel` and `handover` say an English sentence where the model says nothing; `silence` and the third miss of
`cannot_handle` always do. The user was spoken to in another language before.

Example:
    "patterns": ["cancel"],
    "states": {"hallo": {"purpose": "Frage den Gast, wie er heißt und für wann er einen Tisch möchte",
                "transitions": [{"target_state": "ende", "description": "Der Name ist bekannt"}]},
               "ende": {"reply": "Auf Wiedersehen!"}}

Fix:
Give a state of the pattern's name with a `reply` (for `silence` one whose `on_timeout` leads to a state with a
`reply`), and `on_failure` of `model` for the third miss.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.definition.english import reads_english
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_TEXTS = ("purpose", "objective", "description", "reply")


def check(subject: Subject) -> Iterator[Finding]:
    """Look for patterns that are on, and whose last words nothing replaces."""
    on = {name for _, name in subject.root.texts("patterns")}
    own = {name for name in ("cancel", "handover", "cannot_handle", "silence") if name in subject.states}
    left: list[str] = [name for name in ("cancel", "handover", "silence") if name in on - own]
    settings = subject.root.value.get("model")
    apology = isinstance(settings, dict) and settings.get("on_failure")
    if "cannot_handle" in on - own and not apology and "handover" not in on | own:
        left.append("cannot_handle")
    talks = any(subject.kind_of(name) == "converse" for name in subject.states)
    if left and talks and not reads_english(_words(subject)):
        yield RULE.finding(
            f"the last words of {listed([*map(quoted, left)], 4)} are English, and this definition is not",
            pointer="/patterns",
            hint="docs/repair.md says what sets them",
        )


def _words(subject: Subject) -> Iterator[str]:
    for state in subject.states.values():
        yield from (state.text(name) for name in _TEXTS)
    for schema in (subject.keys or {}).values():
        yield from (str(schema.get(name, "")) for name in ("title", "description"))


RULE = Rule(name="english-last-words", code="W415", level="info", check=check, at_key=True)
