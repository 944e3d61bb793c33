"""Two texts that say the same where they should differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Document, Placed
from llm_fsm.lint.facts.global_transitions import GlobalTransitions
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


def _tested(arc: Arc) -> bool:
    """True when something else than the model's reading tells when it is open."""
    return any(
        condition.value.get("logic") is not None or condition.value.get("requires_context_keys")
        for condition in arc.conditions
    )


def _said(arc: Arc) -> str:
    """The words that say when to take a transition; "" if there are none, or no model is asked."""
    if arc.auto or not arc.placed.text("description").strip():
        return ""
    judged = [c.text("description") for c in arc.conditions]
    return " ".join(" ".join([arc.placed.text("description"), *judged]).casefold().split()).rstrip(".")


def _menu(shared: Iterable[tuple[str, Arc]], alike: Set[str]) -> GlobalTransitions[tuple[str, Arc]]:
    """Of the global transitions those with such words."""
    return GlobalTransitions((arc.priority, arc.target, (words, arc)) for words, arc in shared if words in alike)


@lint_rule("W403", "warning")
def identical_descriptions(document: Document) -> Iterator[Finding]:
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
    told: set[str] = set()
    shared = [(_said(arc), arc) for arc in document.shared]
    counted = Counter(words for words, _ in shared if words)
    twice = {words for words, count in counted.items() if count > 1}
    among_themselves = _menu(shared, twice)
    for name, own in document.own_from.items():
        if not document.offers(name):
            continue
        mine = [(arc.priority, (words, arc)) for arc in own if (words := _said(arc))]
        alike = {words for _, (words, _) in mine if words in counted}
        menu = _menu(shared, twice | alike) if alike else among_themselves
        first: dict[str, Arc] = {}
        for words, arc in menu.beside(name, mine):
            other = first.setdefault(words, arc)
            if other.target != arc.target and arc.placed.pointer not in told:
                told.add(arc.placed.pointer)
                yield identical_descriptions.finding(
                    f"the transitions of state {quoted(name)} to {quoted(other.target)} and {quoted(arc.target)}"
                    " have the same description",
                    pointer=arc.placed.pointer + "/description",
                    hint="say of each when it is to be taken",
                    level="info" if _tested(arc) or _tested(other) else "warning",
                )


_OTHER = ("description", "instructions", "extraction_instructions", "response_instructions", "reply")


@lint_rule("W413", "warning")
def copied_purpose(document: Document) -> Iterator[Finding]:
    """Two states that talk have the same purpose; where other words tell them apart, it is a note.

    Why it is bad:
    The model does the same in both. Mostly one was copied and its words were left as they were.

    Example:
        "states": {"name": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "town"}]},
                   "town": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Say what the second one is there for.
    """
    seen: dict[tuple[str, str], list[str]] = {}
    for name, state in document.states.items():
        purpose = " ".join(state.text("purpose").casefold().split()).rstrip(".")
        kind = document.kind_of(name)
        if len(purpose) < 12 or kind not in ("converse", "task"):
            continue
        first = next(iter(seen.get((kind, purpose), ())), None)
        if first is not None:
            other = document.states[first]
            keys = [one.value.get("required_context_keys") for one in (other, state)]
            again = bool(keys[0]) and keys[0] == keys[1]
            yield copied_purpose.finding(
                f"state {quoted(name)} has the same purpose as state {quoted(first)}",
                pointer=state.pointer + "/purpose",
                hint="say what it is there for",
                level=None if _same(other, state) and not again else "info",
            )
        seen.setdefault((kind, purpose), []).append(name)


def _same(one: Placed, other: Placed) -> bool:
    return all(one.text(key).strip() == other.text(key).strip() for key in _OTHER)
