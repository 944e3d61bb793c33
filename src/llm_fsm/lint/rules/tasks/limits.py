"""Limits that are missing or too low."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.graph import components, shortest_round
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.prompt_budget import shared_tokens
from llm_fsm.lint.facts.suggestions import route
from llm_fsm.lint.rule import lint_rule

_REPLY_TOKENS = 50
"""The fewest tokens of a short reply."""
_HOTTEST = 2


@lint_rule("T517", "warning", needs_form=True)
def hopeless_setting(document: Document) -> Iterator[Finding]:
    """A limit or a setting of the model is too low for the machine to work.

    Why it is bad:
    Every conversation fails: no call is allowed, a reply cannot end, or the model does not see the conversation.

    Example:
        "limits": {"llm_calls": 0}, "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                                               "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a higher number, or remove the key.
    """
    yield from _limits(document)
    for owner in (document.root, *document.states.values()):
        yield from _model(owner)
    history = document.root.value.get("history")
    if isinstance(history, dict):
        placed = Placed("/history", history)
        yield from _below(placed, "max_exchanges", 1, "the model sees nothing of what was said before")
        yield from _below(placed, "max_message_chars", 20, "the model sees hardly a word of each message")
        yield from _below(placed, "max_tokens", 50, "the model sees hardly anything of what was said before")


def _limits(document: Document) -> Iterator[Finding]:
    written = document.root.value.get("limits")
    if not isinstance(written, dict):
        return
    limits = Placed("/limits", written)
    kinds = {name: document.kind_of(name) for name in document.states}
    speaking = next((name for name, kind in kinds.items() if kind == "converse"), None)
    if speaking is not None:
        yield from _below(limits, "llm_calls", 1, f'no message can be answered, the first in state "{speaking}"')
        needed = shared_tokens(document)
        yield from _below(limits, "tokens", needed, f"a single prompt takes about {needed:,} tokens")
    if any(state.value.get("tools") for state in document.states.values()):
        yield from _below(limits, "tool_calls", 1, "no tool can be called, although states list tools")
    if speaking is not None or "task" in kinds.values():
        yield from _below(limits, "seconds", 1, "hardly a model answers in that time")


def _model(owner: Placed) -> Iterator[Finding]:
    written = owner.value.get("model")
    if not isinstance(written, dict):
        return
    settings = Placed(owner.pointer + "/model", written)
    heat = written.get("temperature")
    if is_number(heat) and heat > _HOTTEST:
        yield hopeless_setting.finding(
            f'"temperature" {heat:g}: providers take at most 2',
            pointer=settings.pointer + "/temperature",
            hint="from 0, the same words each time, to 1 is usual",
        )
    yield from _below(settings, "max_tokens", _REPLY_TOKENS, "a reply is cut off before it ends")


def _below(placed: Placed, key: str, least: float, why: str) -> Iterator[Finding]:
    value = placed.value.get(key)
    if is_number(value) and value < least:
        yield hopeless_setting.finding(f'"{key}" {value:g}: {why}', pointer=f"{placed.pointer}/{key}")


_LIMITS = ("auto_steps", "llm_calls", "seconds", "tokens", "money")


@lint_rule("T508", "info", at_key=True)
def missing_limit(document: Document) -> Iterator[Finding]:
    """A loop of states works without asking anybody, and the machine sets no limits.

    Why it is bad:
    Conditions and model calls decide how often it repeats. By default, a turn stops after 25 steps and 10 model calls.
    That may be too late for a budget, or too early for the work.

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
