"""Keys that are used before anything sets them."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.data_flow import Flow, Use, flow, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("K305", "warning")
def used_before_set(subject: Subject) -> Iterator[Finding]:
    """A fixed reply, a mapping or a decision uses a key that nothing on any path to it sets.

    Why it is bad:
    There a key that is not set renders as nothing, is not passed on, or closes the transitions that test it.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}, "seat": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "{{ city }} it is, in {{ seat }}."}}

    Fix:
    Collect the key in a state before, test for it with `{% if … %}`, or declare who sets it by `x-source`.
    """
    if subject.keys is None:
        return
    ways = flow(subject)
    for use in _uses(ways):
        key = ways.declared(use.key)
        state = use.state
        if key is None or state is None or state not in subject.reached or subject.source_of(key) != "model":
            continue
        if use.key in ways.must[state] or key in ways.must[state] or ways.may_be_set(key, state):
            continue
        yield used_before_set.finding(
            f"state {quoted(state)} uses {quoted(use.key)}, which no state on the way there collects or sets",
            pointer=use.pointer,
            hint=_hint(subject, key),
            path=subject.path_to(state),
            # a model may mention a declared key anywhere, so a flag that nobody asks for can still decide
            level="info" if subject.kind_of(state) == "decide" else None,
        )


def _hint(subject: Subject, key: str) -> str:
    hint = f'add {quoted(key)} to the "required_context_keys" of a state before'
    return f'{hint}; its "default" is not filled in' if "default" in (subject.keys or {})[key] else hint


def _uses(ways: Flow) -> Iterator[Use]:
    states = ways.subject.states
    for name, mentioned in ways.replies.items():
        for key in dict.fromkeys(
            mention.name for mention in mentioned if mention.shown and not mention.guarded
        ):
            yield Use(name, key, states[name].pointer + "/reply")
    for use in ways.inputs:
        state = states.get(use.state or "")
        if state is None or use.key not in dict(mapped(state)):  # else it is asked for there, unless it is known
            yield use
    for name, state in states.items():
        if ways.subject.kind_of(name) == "decide":
            yield from _deciding(ways, name, state)


def _deciding(ways: Flow, name: str, state: Placed) -> Iterator[Use]:
    seen: set[str] = set()
    for transition in state.items("transitions"):
        for key in ways.condition_names(transition):
            if key not in seen:
                seen.add(key)
                yield Use(name, key, transition.pointer + "/conditions")
