"""Two transitions of a state to different targets have the same description.

Why it is bad:
The model cannot tell them apart by what the user says. Mostly one was copied and not changed.

Example:
    "states": {"menu": {"purpose": "Ask what the user wants", "transitions": [
        {"target_state": "order", "description": "The user wants to order"},
        {"target_state": "help", "description": "The user wants to order"}]},
        "order": {"purpose": "Take the order"}, "help": {"purpose": "Help"}}

Fix:
Say of each when it is to be taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Arc, Subject


def _tested(arc: Arc) -> bool:
    """True when something else than the model's reading tells when it is open."""
    return any(
        condition.value.get("logic") is not None or condition.value.get("requires_context_keys")
        for condition in arc.conditions
    )


def _words(arc: Arc) -> str:
    judged = [c.text("description") for c in arc.conditions]
    return " ".join(" ".join([arc.placed.text("description"), *judged]).casefold().split()).rstrip(".")


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the words of the transitions that a state offers, those of their conditions included."""
    told: set[str] = set()
    said: dict[str, str] = {}
    for name, arcs in subject.arcs_from.items():
        if subject.kind_of(name) != "converse":
            continue
        first: dict[str, Arc] = {}
        for arc in arcs:
            place = arc.placed.pointer
            if place not in said:
                described = not arc.auto and arc.placed.text("description").strip()
                said[place] = _words(arc) if described else ""
            words = said[place]
            if not words:
                continue
            other = first.setdefault(words, arc)
            if other.target != arc.target and arc.placed.pointer not in told:
                told.add(arc.placed.pointer)
                yield RULE.finding(
                    f"the transitions of state {quoted(name)} to {quoted(other.target)} and {quoted(arc.target)}"
                    " have the same description",
                    pointer=arc.placed.pointer + "/description",
                    hint="say of each when it is to be taken",
                    level="info" if _tested(arc) or _tested(other) else "warning",
                )


RULE = Rule(name="identical-descriptions", code="W403", level="warning", check=check)
