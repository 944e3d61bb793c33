"""A transition demands a key that only a tool or a person's answer may set, and none does.

Why it is bad:
The transition can never be taken, and nobody in the conversation can do anything about it.

Example:
    "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
    "states": {"hello": {"purpose": "Take the order", "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["approved"]}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Set the key by the `output` of a `wait` state or a tool on the way there, or correct its `x-source`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Subject
from llm_fsm.lint.facts.data_flow import Flow, flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.transitions import taken
from llm_fsm.lint.rule import Rule

_PRODUCERS = {"tool": "tool's output", "answer": "wait state's output"}


def check(subject: Subject) -> Iterator[Finding]:
    """Look for the producers of every key that a transition needs."""
    if subject.keys is None:
        return
    ways = flow(subject)
    seen: set[tuple[str, str]] = set()
    produced = {arc.placed.pointer: list(_produced(ways, arc)) for arc in (*subject.own, *subject.shared)}
    needed = {place: keys for place, keys in produced.items() if keys}
    for state, arc in taken(subject, needed):
        place = arc.placed.pointer
        for key, source in needed[place]:
            found = None if (place, key) in seen else _finding(ways, state, arc, key, source)
            if found is not None:
                seen.add((place, key))
                yield found


def _produced(ways: Flow, arc: Arc) -> Iterator[tuple[str, str]]:
    """(key, source) of what a transition needs and nobody in the conversation can say."""
    for name in sorted(ways.demands(arc)):
        key = ways.declared(name)
        source = None if key is None else ways.subject.source_of(key)
        if key is not None and source in _PRODUCERS:
            yield key, source


def _finding(ways: Flow, state: str, arc: Arc, key: str, source: str) -> Finding | None:
    producers = ways.outputs.get(key, frozenset())
    if producers.isdisjoint(ways.subject.reached):
        return RULE.finding(
            f"this transition needs {quoted(key)}, which no {_PRODUCERS[source]} sets: it can never be taken",
            pointer=arc.placed.pointer,
            hint=f'its "x-source" is "{source}"; set it by an "output" on the way here',
            path=ways.subject.path_to(state),
        )
    if arc.is_global or state in producers or ways.may_be_set(key, state):
        return None
    return RULE.finding(
        f"state {quoted(state)}: this transition needs {quoted(key)}, which is set only in states "
        f"that come later or elsewhere: {', '.join(map(quoted, sorted(producers)[:4]))}",
        pointer=arc.placed.pointer,
        level="warning",
        path=ways.subject.path_to(state),
    )


RULE = Rule(name="unobtainable-key", code="K310", level="error", check=check, blocks=False)
