"""Descriptions that are too long for a list of choices."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.rule import lint_rule

_CHARS = 600


@lint_rule("W408", "info")
def overlong_description(document: Document) -> Iterator[Finding]:
    """The description of a transition or condition is longer than 600 characters.

    Why it is bad:
    It stands in the menu of every prompt of its state. A menu is read better when each entry is one sentence.

    Example:
        "states": {"menu": {"purpose": "Ask", "transitions": [{"target_state": "order", "description": [
            "The user wants to order something from the menu, which they may say in very many different ways, such as",
            "I would like a pizza, or can I have, or give me, or just the name of a dish; all of these count, and",
            "also when they ask whether they can order now, or how ordering works, unless they only want to know",
            "the prices, in which case they should stay here, except if they have asked for the prices twice already",
            "and seem to be ready, which you can tell from how they write: short messages mean that they are in a",
            "hurry and want to get it over with, long ones mean that they still think; then wait for them."]}]},
            "order": {"purpose": "Take the order"}}

    Fix:
    Say in one sentence when to take it; what to do belongs into the instructions of the state.
    """
    for _, transition in document.transitions():
        for placed in (transition, *transition.items("conditions")):
            size = len(placed.text("description"))
            if size > _CHARS:
                yield overlong_description.finding(
                    f"this description has {size:,} characters",
                    pointer=placed.pointer + "/description",
                    hint="say in one sentence when to take the transition",
                )
