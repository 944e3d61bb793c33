"""The model has to choose between transitions, and one of them does not say when it is to be taken.

Why it is bad:
The model sees the target's id and purpose and guesses when the user wants to go there.

Example:
    "states": {"menu": {"purpose": "Ask what the user wants", "transitions": [
        {"target_state": "order", "description": "The user wants to order"}, {"target_state": "help"}]},
        "order": {"purpose": "Take the order"}, "help": {"purpose": "Help"}}

Fix:
Write a `description`: when to take it, in words.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import has_words
from llm_fsm.lint.rule import Rule


def _says_when(placed: Placed) -> bool:
    return bool(placed.text("description").strip() or placed.value.get("conditions"))


def check(subject: Subject) -> Iterator[Finding]:
    """Transitions without words beside others that have some; where none has, that is worth one note.

    A bare table of states has none anywhere, which is said once by another rule.
    """
    if not any(has_words(state) for state in subject.states.values()):
        return
    wordless = {placed.pointer for _, placed in subject.transitions() if not _says_when(placed)}
    shared = [arc for arc in subject.shared if not arc.auto]
    far = {arc.target for arc in shared}
    untold = [arc for arc in shared if arc.placed.pointer in wordless and arc.target in subject.states]
    for name, arcs in subject.own_from.items():
        choices = [arc for arc in arcs if not arc.auto]
        targets = {arc.target for arc in choices}
        if not subject.offers(name) or (len(far) < 3 and len((targets | far) - {name}) < 2):
            continue
        silent = [arc for arc in choices if arc.placed.pointer in wordless and arc.target in subject.states]
        others = [arc for arc in untold if arc.target != name]
        untold = [arc for arc in untold if arc.target == name]
        if any(arc.placed.text("description").strip() for arc in choices):
            silent += others
        else:
            own, silent = silent, others
            if own:
                names = listed((quoted(arc.target) for arc in own), 4)
                what = "transition" if len(own) == 1 else "transitions"
                yield RULE.finding(
                    f"in state {quoted(name)} the model has to choose, and the {what} to {names}"
                    f" {'does not say when it is' if len(own) == 1 else 'do not say when they are'} to be taken",
                    pointer=subject.states[name].pointer + "/transitions",
                    hint='write a "description" for each',
                    level="info",
                )
        for arc in silent:
            where = "a global" if arc.is_global else f"in state {quoted(name)} the model has to choose, and a"
            yield RULE.finding(
                f"{where} transition to {quoted(arc.target)} does not say when it is to be taken",
                pointer=arc.placed.pointer,
                hint='write a "description"',
            )


RULE = Rule(name="missing-description", code="W402", level="warning", check=check)
