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

from llm_fsm.findings import Finding
from llm_fsm.lint.flow import Flow, flow
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Arc, Subject

_PRODUCERS = {"tool": "tool's output", "answer": "wait state's output"}


def check(subject: Subject) -> Iterator[Finding]:
    """Look for the producers of every key that a transition needs."""
    if subject.keys is None:
        return
    ways = flow(subject)
    seen: set[tuple[str, str]] = set()
    for arc in subject.arcs:
        for name in sorted(ways.demands(arc)):
            key = ways.declared(name)
            source = "model" if key is None else subject.source_of(key)
            mark = (arc.placed.pointer, name)
            if key is None or source not in _PRODUCERS or mark in seen or arc.source not in subject.reached:
                continue
            found = _finding(ways, arc, key, source)
            if found is not None:
                seen.add(mark)
                yield found


def _finding(ways: Flow, arc: Arc, key: str, source: str) -> Finding | None:
    producers = {state for state, _ in ways.outputs.get(key, ())}
    if not producers & ways.subject.reached:
        return RULE.finding(
            f"this transition needs {quoted(key)}, which no {_PRODUCERS[source]} sets: it can never be taken",
            pointer=arc.placed.pointer,
            hint=f'its "x-source" is "{source}"; set it by an "output" on the way here',
            path=ways.path_to(arc.source),
        )
    if arc.is_global or arc.source in producers or arc.source in ways.may_be_set(key):
        return None
    return RULE.finding(
        f"state {quoted(arc.source)}: this transition needs {quoted(key)}, which is set only in states "
        f"that come later or elsewhere: {', '.join(map(quoted, sorted(producers)[:4]))}",
        pointer=arc.placed.pointer,
        level="warning",
        path=ways.path_to(arc.source),
    )


RULE = Rule(name="unobtainable-key", code="K310", level="error", check=check, blocks=False)
