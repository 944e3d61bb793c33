"""Purposes and descriptions that are missing, or that are equal but should differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

from llm_fsm._text import listed
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import has_words
from llm_fsm.lint.graph import (
    Arc,
    GlobalTransitions,
    global_arcs,
    kind_of,
    offers_globals,
    own_arcs_from,
)
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule


def _tested(arc: Arc) -> bool:
    """Return true if a test, and not only the model, decides when it is open."""
    return any(
        condition.get("logic") is not None or condition.get("requires_context_keys")
        for condition in arc.conditions
    )


def _said(arc: Arc) -> str:
    """Return the words that say when to take a transition; "" if there are none, or no model is
    asked.
    """
    if arc.auto or not arc.placed.text("description").strip():
        return ""
    judged = [c.text("description") for c in arc.conditions]
    return " ".join(" ".join([arc.placed.text("description"), *judged]).casefold().split()).rstrip(
        "."
    )


def _menu(shared: Iterable[tuple[str, Arc]], alike: Set[str]) -> GlobalTransitions[tuple[str, Arc]]:
    """Return the global transitions with such words."""
    return GlobalTransitions(
        (arc.priority, arc.target, (words, arc)) for words, arc in shared if words in alike
    )


@lint_rule("W403", "warning")
def identical_descriptions(document: Document) -> Faults:
    """Two transitions of a state to different targets have the same description.

    Why it is bad:
    The model cannot choose between them by the user's message. Mostly one was copied and not changed.

    Example:
        "states": {"menu": {"purpose": "Ask what the user wants", "transitions": [
            {"target_state": "order", "description": "The user wants to order"},
            {"target_state": "help", "description": "The user wants to order"}]},
            "order": {"purpose": "Take the order"}, "help": {"purpose": "Help"}}

    Fix:
    Write for each transition when to take it.
    """
    told = set()
    shared = [(_said(arc), arc) for arc in global_arcs(document)]
    counted = Counter(words for words, _ in shared if words)
    twice = {words for words, count in counted.items() if count > 1}
    among_themselves = _menu(shared, twice)
    for name, own in own_arcs_from(document).items():
        if not offers_globals(document, name):
            continue
        mine = [(arc.priority, (words, arc)) for arc in own if (words := _said(arc))]
        alike = {words for _, (words, _) in mine if words in counted}
        menu = among_themselves
        if alike:
            menu = _menu(shared, twice | alike)
        first: dict[str, Arc] = {}
        for words, arc in menu.beside(name, mine):
            other = first.setdefault(words, arc)
            if other.target != arc.target and arc.pointer not in told:
                told.add(arc.pointer)
                yield Fault(
                    f"the transitions of state {quoted(name)} to {quoted(other.target)} and"
                    f" {quoted(arc.target)}"
                    " have the same description",
                    pointer=arc.pointer + "/description",
                    hint="say of each when it is to be taken",
                    level="info" if _tested(arc) or _tested(other) else "warning",
                )


_OTHER = (
    "description",
    "instructions",
    "extraction_instructions",
    "response_instructions",
    "reply",
)


@lint_rule("W413", "warning")
def copied_purpose(document: Document) -> Faults:
    """Two `converse` states have the same purpose. If other words distinguish them, it is a note.

    Why it is bad:
    The model does the same in both. Mostly one was copied and not changed.

    Example:
        "states": {"name": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "town"}]},
                   "town": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the purpose of the second one.
    """
    seen: dict[tuple[str, str], list[str]] = {}
    for name, state in document.states.items():
        purpose = " ".join(state.text("purpose").casefold().split()).rstrip(".")
        kind = kind_of(document, name)
        if len(purpose) < 12 or kind not in ("converse", "task"):
            continue
        first = next(iter(seen.get((kind, purpose), ())), None)
        if first is not None:
            other = document.states[first]
            keys = [one.get("required_context_keys") for one in (other, state)]
            again = bool(keys[0]) and keys[0] == keys[1]
            yield Fault(
                f"state {quoted(name)} has the same purpose as state {quoted(first)}",
                pointer=state.pointer + "/purpose",
                hint="say what it is there for",
                level=None if _same(other, state) and not again else "info",
            )
        seen.setdefault((kind, purpose), []).append(name)


def _same(one: Placed, other: Placed) -> bool:
    return all(one.text(key).strip() == other.text(key).strip() for key in _OTHER)


@lint_rule("W401", "warning", at_key=True)
def missing_purpose(document: Document) -> Faults:
    """A state that the model serves has neither a purpose nor instructions.

    Why it is bad:
    The model knows only the state's id, and has to guess what to say.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "step_2"}]},
                   "step_2": {"transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a `purpose` in one sentence, or a fixed `reply`.
    """
    # If no state has words, the machine may be a bare table, and one note is enough.
    served = [name for name in document.states if kind_of(document, name) in ("converse", "final")]
    silent = [name for name in served if not has_words(document.states[name])]
    if len(silent) == len(document.states) and silent:
        yield Fault(
            "no state says what it is there for: the model knows only their ids",
            pointer="/states",
            hint='write a "purpose" for each',
            level="info",
        )
        return
    for name in silent:
        yield Fault(
            f"state {quoted(name)} has neither a purpose nor instructions",
            pointer=document.states[name].pointer,
            hint='write a "purpose"',
            level="info" if kind_of(document, name) == "final" else "warning",
        )


def _says_when(placed: Placed) -> bool:
    return bool(placed.text("description").strip() or placed.get("conditions"))


@lint_rule("W402", "warning")
def missing_description(document: Document) -> Faults:
    """The model has to choose between transitions, and one of them does not say when to take it.

    Why it is bad:
    The model sees the target's id and purpose and guesses when the user wants to go there.

    Example:
        "states": {"menu": {"purpose": "Ask what the user wants", "transitions": [
            {"target_state": "order", "description": "The user wants to order"}, {"target_state": "help"}]},
            "order": {"purpose": "Take the order"}, "help": {"purpose": "Help"}}

    Fix:
    Write a `description`: when to take it, in words.
    """
    # `missing-purpose` already reports a bare table of states.
    if not any(has_words(state) for state in document.states.values()):
        return
    wordless = {placed.pointer for _, placed in transitions_of(document) if not _says_when(placed)}
    shared = [arc for arc in global_arcs(document) if not arc.auto]
    far = {arc.target for arc in shared}
    untold = [arc for arc in shared if arc.pointer in wordless and arc.target in document.states]
    for name, arcs in own_arcs_from(document).items():
        choices = [arc for arc in arcs if not arc.auto]
        targets = {arc.target for arc in choices}
        if not offers_globals(document, name) or (
            len(far) < 3 and len((targets | far) - {name}) < 2
        ):
            continue
        silent = [
            arc for arc in choices if arc.pointer in wordless and arc.target in document.states
        ]
        others = [arc for arc in untold if arc.target != name]
        untold = [arc for arc in untold if arc.target == name]
        if any(arc.placed.text("description").strip() for arc in choices):
            silent += others
        else:
            own = silent
            silent = others
            if own:
                names = listed((quoted(arc.target) for arc in own), 4)
                if len(own) == 1:
                    fault = f"the transition to {names} does not say when it is to be taken"
                else:
                    fault = f"the transitions to {names} do not say when they are to be taken"
                yield Fault(
                    f"in state {quoted(name)} the model has to choose, and {fault}",
                    pointer=document.states[name].pointer + "/transitions",
                    hint='write a "description" for each',
                    level="info" if len({arc.target for arc in own} - {name}) < 2 else "warning",
                )
        for arc in silent:
            where = (
                "a global"
                if arc.is_global
                else f"in state {quoted(name)} the model has to choose, and a"
            )
            yield Fault(
                f"{where} transition to {quoted(arc.target)} does not say when it is to be taken",
                pointer=arc.pointer,
                hint='write a "description"',
            )
