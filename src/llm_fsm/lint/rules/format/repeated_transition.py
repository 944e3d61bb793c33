"""A transition stands a second time in its state: the same target, the same conditions, the same words.

Why it is bad:
It does nothing. Mostly one was copied, and another target or other words were meant.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [
                    {"target_state": "bye", "description": "The user wants to leave"},
                    {"target_state": "bye", "description": "The user wants to leave"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Change the second one, or take it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_COMPARED = 50
_DEFAULTS = (("auto", False), ("return", False), ("priority", 100))


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the transitions of each state; what is left away counts as its default."""
    yield from subject.once(_found)


def _found(subject: Subject) -> tuple[Finding, ...]:
    return tuple(_compared(subject))


def _compared(subject: Subject) -> Iterator[Finding]:
    seen: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    for owner, transition in subject.transitions():
        target = transition.value.get("target_state")
        if not isinstance(target, str):
            continue
        others, plain = seen.setdefault((owner, target), []), _plain(transition.value)
        if plain in others[:_COMPARED]:
            yield RULE.finding(
                f"this transition to {quoted(target)} stands here a second time",
                pointer=transition.pointer,
                hint="change it, or take it out",
            )
        others.append(plain)


def repeated(subject: Subject) -> frozenset[str]:
    """The pointers of all transitions that stand a second time, made once."""
    return subject.once(_all_repeated)


def _all_repeated(subject: Subject) -> frozenset[str]:
    return frozenset(found.pointer for found in check(subject))


def _plain(transition: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in transition.items() if key != "ui" and value not in ("", [], None)}
    return {key: value for key, value in kept.items() if (key, value) not in _DEFAULTS}


RULE = Rule(name="repeated-transition", code="F117", level="warning", check=check)
