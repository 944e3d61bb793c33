"""States and transitions without words."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import has_words
from llm_fsm.lint.rule import lint_rule


@lint_rule("W401", "warning", at_key=True)
def missing_purpose(document: Document) -> Iterator[Finding]:
    """A state that the model serves says neither what it is for nor how to go about it.

    Why it is bad:
    The model knows nothing but the state's id, and what it says there is a guess.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "step_2"}]},
                   "step_2": {"transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a `purpose` in one sentence, or a fixed `reply`.
    """
    # Where no state has words, the machine may be a bare table: one note is enough.
    served = [name for name in document.states if document.kind_of(name) in ("converse", "final")]
    silent = [name for name in served if not has_words(document.states[name])]
    if len(silent) == len(document.states) and silent:
        yield missing_purpose.finding(
            "no state says what it is there for: the model knows only their ids",
            pointer="/states",
            hint='write a "purpose" for each',
            level="info",
        )
        return
    for name in silent:
        yield missing_purpose.finding(
            f"state {quoted(name)} says neither what it is for nor how to go about it",
            pointer=document.states[name].pointer,
            hint='write a "purpose"',
            level="info" if document.kind_of(name) == "final" else "warning",
        )


def _says_when(placed: Placed) -> bool:
    return bool(placed.text("description").strip() or placed.value.get("conditions"))


@lint_rule("W402", "warning")
def missing_description(document: Document) -> Iterator[Finding]:
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
    # A bare table of states has no words anywhere: `missing-purpose` says that once.
    if not any(has_words(state) for state in document.states.values()):
        return
    wordless = {placed.pointer for _, placed in document.transitions() if not _says_when(placed)}
    shared = [arc for arc in document.shared if not arc.auto]
    far = {arc.target for arc in shared}
    untold = [arc for arc in shared if arc.placed.pointer in wordless and arc.target in document.states]
    for name, arcs in document.own_from.items():
        choices = [arc for arc in arcs if not arc.auto]
        targets = {arc.target for arc in choices}
        if not document.offers(name) or (len(far) < 3 and len((targets | far) - {name}) < 2):
            continue
        silent = [arc for arc in choices if arc.placed.pointer in wordless and arc.target in document.states]
        others = [arc for arc in untold if arc.target != name]
        untold = [arc for arc in untold if arc.target == name]
        if any(arc.placed.text("description").strip() for arc in choices):
            silent += others
        else:
            own, silent = silent, others
            if own:
                names = listed((quoted(arc.target) for arc in own), 4)
                what = "transition" if len(own) == 1 else "transitions"
                yield missing_description.finding(
                    f"in state {quoted(name)} the model has to choose, and the {what} to {names}"
                    f" {'does not say when it is' if len(own) == 1 else 'do not say when they are'} to be taken",
                    pointer=document.states[name].pointer + "/transitions",
                    hint='write a "description" for each',
                    level="info" if len({arc.target for arc in own} - {name}) < 2 else "warning",
                )
        for arc in silent:
            where = "a global" if arc.is_global else f"in state {quoted(name)} the model has to choose, and a"
            yield missing_description.finding(
                f"{where} transition to {quoted(arc.target)} does not say when it is to be taken",
                pointer=arc.placed.pointer,
                hint='write a "description"',
            )
