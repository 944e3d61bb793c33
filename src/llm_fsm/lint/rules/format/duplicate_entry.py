"""Entries that are repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.logics import conditions_of, transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_COMPARED = 50
_DEFAULTS = (("auto", False), ("return", False), ("priority", 100))


@lint_rule("F117", "warning")
def repeated_transition(document: Document) -> Faults:
    """A state has the same transition twice, with equal target, conditions and words.

    Why it is bad:
    It does nothing. Mostly it was copied and not changed.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [
                        {"target_state": "bye", "description": "The user wants to leave"},
                        {"target_state": "bye", "description": "The user wants to leave"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Change the second one, or take it out.
    """
    # A missing setting counts as its default.
    seen: dict[tuple[str | None, str], list[JsonDict]] = {}
    for owner, transition in transitions_of(document):
        target = transition.get("target_state")
        if not isinstance(target, str):
            continue
        others = seen.setdefault((owner, target), [])
        plain = _plain(transition.value)
        if plain in others[:_COMPARED]:
            yield Fault(
                f"this transition to {quoted(target)} is repeated here",
                pointer=transition.pointer,
                hint="change it, or take it out",
            )
        others.append(plain)


def _plain(transition: JsonMap) -> JsonDict:
    kept = {
        key: value
        for key, value in transition.items()
        if key != "ui" and value not in ("", [], None)
    }
    return {key: value for key, value in kept.items() if (key, value) not in _DEFAULTS}


@lint_rule("S114", "error")
def duplicate_name(document: Document) -> Faults:
    """Two key results of a state have the same name.

    Why it is bad:
    The results of a task are stored by name, so a failed one cannot be distinguished from one that passed.

    Example:
        "states": {"write": {"kind": "task", "key_results": [
            {"name": "long", "description": "Has 200 words"}, {"name": "long", "description": "Has a title"}]}}

    Fix:
    Give each its own name.
    """
    for state_id, state in document.states.items():
        seen = set()
        for result in state.items("key_results"):
            name = result.get("name")
            if isinstance(name, str) and name in seen:
                yield Fault(
                    f"a second key result {quoted(name)} in state {quoted(state_id)}",
                    pointer=result.pointer + "/name",
                    hint="give each its own name",
                )
            elif isinstance(name, str):
                seen.add(name)


def _lists(document: Document) -> Iterator[tuple[Placed, str]]:
    for state in document.states.values():
        yield state, "required_context_keys"
        yield state, "tools"
        yield state.at("context_scope"), "read"
    for condition in conditions_of(document):
        yield condition, "requires_context_keys"
    for tool in document.root.members("tools"):
        yield tool, "scope"
    yield document.root, "patterns"


@lint_rule("S115", "warning")
def repeated_entry(document: Document) -> Faults:
    """A list has the same name twice, or a transition has the same condition twice.

    Why it is bad:
    The second one does nothing. Mostly another key, tool or state was meant.

    Example:
        "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name", "name"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Name the other one, or remove the second.
    """
    for owner, key in _lists(document):
        seen = set()
        for pointer, name in owner.texts(key):
            if name in seen:
                message = f"{quoted(name)} is repeated in {quoted(key)}"
                yield Fault(message, pointer=pointer, hint="name each once")
            seen.add(name)
    yield from _conditions(document)


def _conditions(document: Document) -> Faults:
    """Find equal conditions in one transition."""
    for _, transition in transitions_of(document):
        conditions = transition.get("conditions")
        if not isinstance(conditions, list) or len(conditions) < 2:
            continue
        said = set()
        for condition in transition.items("conditions"):
            keys = sorted(condition.names("requires_context_keys"))
            asked = [keys, condition.get("logic")]
            text = json.dumps(
                asked if asked != [[], None] else condition.text("description").casefold()
            )
            if text in said and text != '""':
                message = "this condition is repeated in its transition"
                yield Fault(message, pointer=condition.pointer, hint="was another one meant?")
            said.add(text)


@lint_rule("T514", "warning")
def duplicate_label(document: Document) -> Faults:
    """Two transitions of a task have the same label, or labels without a `default`, or no label beside one.

    Why it is bad:
    Of two equal labels, only the first is ever taken. A transition without a label is never taken, because `default`
    comes first. Without `default`, an unexpected label ends the run with an error.

    Example:
        "states": {"sort": {"kind": "task", "purpose": "Sort the mail", "transitions": [
            {"target_state": "a", "on": "spam"}, {"target_state": "b", "on": "spam"}]},
            "a": {"kind": "final"}, "b": {"kind": "final"}}

    Fix:
    Give each its own label, and one the label `default`.
    """
    for name, state in states_of_kind(document, "task"):
        seen = set()
        plain = []
        caught = False
        for transition in state.items("transitions"):
            label = transition.get("on")
            if not isinstance(label, str):
                plain.append(transition.pointer)
                continue
            always = not transition.get("conditions")
            caught = caught or (label == "default" and always)
            if label in seen and always:
                yield Fault(
                    f"a second transition of task {quoted(name)} has the label {quoted(label)}",
                    pointer=transition.pointer + "/on",
                    hint="give each its own label",
                )
            seen.add(label)
        for pointer in plain if caught else ():
            yield Fault(
                f'a transition of task {quoted(name)} has no label, and "default" takes all that'
                " has none",
                pointer=pointer,
                hint='give it a label with "on", or take it out',
            )
        if seen and "default" not in seen and not plain:
            yield Fault(
                f'task {quoted(name)} routes by labels and has no transition for "default"',
                pointer=state.pointer + "/transitions",
                hint='add one with "on": "default"',
                level="info",
            )
