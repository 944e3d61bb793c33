"""Circles of work without limits."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.graph import components, shortest_round
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import route
from llm_fsm.lint.rule import lint_rule

_LIMITS = ("auto_steps", "llm_calls", "seconds", "tokens", "money")


@lint_rule("T508", "info", at_key=True)
def missing_limit(document: Document) -> Iterator[Finding]:
    """A circle of states works without asking anybody, and the machine sets no limits.

    Why it is bad:
    Conditions and model calls decide how often it goes round. By default a turn stops after 25 steps and 10 model
    calls. That may be too late for a budget, or too early for the work.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write it", "transitions": [{"target_state": "test"}]},
                   "test": {"kind": "decide", "transitions": [
                       {"target_state": "done", "conditions": [{"requires_context_keys": ["good"]}]},
                       {"target_state": "write", "priority": 200}]},
                   "done": {"purpose": "Say that it is done"}}

    Fix:
    Set `limits`: `auto_steps`, `llm_calls`, `seconds`, `tokens` or `money`.
    """
    limits = document.root.value.get("limits")
    if isinstance(limits, dict) and any(limits.get(key) is not None for key in _LIMITS):
        return
    alone = {name for name in document.states if document.kind_of(name) in ("task", "decide", "subflow")}
    graph = {
        name: tuple(dict.fromkeys(arc.target for arc in document.arcs_from[name] if arc.target in alone))
        for name in document.states
        if name in alone
    }
    for members in components(graph):
        start = members[0]
        circles = any(after in members for after in graph[start]) if len(members) == 1 else True
        if not circles or not any(document.kind_of(name) == "task" for name in members):
            continue
        path = shortest_round(graph, start)
        yield missing_limit.finding(
            f"this circle of work has no limits of its own: {route(path)}",
            pointer=document.states[start].pointer,
            hint='set "limits", such as {"auto_steps": 10, "seconds": 120}',
            path=path,
        )
