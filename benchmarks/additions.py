"""Changes that add something to a definition or loosen it: moves, keys to ask for, bounds, patterns, tools, limits.

Made as in `benchmarks.changes`: (place, changed document) of every place where a kind can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.changes import GONE, Changes, Document, Place, one, states, transitions

_PATTERNS = ("cancel", "clarify", "correct", "digress", "handover", "repeat", "restart", "skip")
_TALKS = "converse"


def _talks(document: Document) -> Iterator[tuple[Place, Document]]:
    """The states that talk and go on."""
    for place, state in states(document):
        if state.get("kind", _TALKS) == _TALKS and state.get("transitions"):
            yield place, state


def _keys(document: Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("context_schema", {}).get("properties", {})
    return found


def move_new(document: Document) -> Changes:
    """A transition to a state to which none leads, for the model to take whenever it likes."""
    everywhere = {transition["target_state"] for transition in document.get("global_transitions", ())}
    for place, state in _talks(document):
        known = {transition["target_state"] for transition in state["transitions"]} | everywhere | {place[1]}
        for name in [name for name in document["states"] if name not in known][:3]:
            yield one(document, (*place, "transitions"), [*state["transitions"], {"target_state": name}])


def move_new_by_itself(document: Document) -> Changes:
    for place, state in _talks(document):
        for name in [name for name in document["states"] if name != place[1]][:2]:
            added = {"target_state": name, "auto": True, "conditions": [{"logic": {">": [{"var": "_turn"}, 0]}}]}
            yield one(document, (*place, "transitions"), [added, *state["transitions"]])


def move_new_everywhere(document: Document) -> Changes:
    listed = document.get("global_transitions", [])
    known = {transition["target_state"] for transition in listed}
    talks = any(True for _ in _talks(document))
    for name in [name for name in document["states"] if talks and name not in known][:3]:
        yield one(document, ("global_transitions",), [*listed, {"target_state": name}])


def condition_new(document: Document) -> Changes:
    """A key that must be known, where none was asked for."""
    for place, transition in transitions(document):
        for key in list(_keys(document))[:2] if not transition.get("conditions") and "on" not in transition else ():
            yield one(document, (*place, "conditions"), [{"requires_context_keys": [key]}])


def order_other(document: Document) -> Changes:
    """Transitions of one priority that need no pick, in another order."""
    for place, state in states(document):
        listed = state.get("transitions", [])
        if state.get("kind") != "decide":
            continue
        for number in range(len(listed) - 1):
            first, second = listed[number : number + 2]
            if first.get("priority", 100) == second.get("priority", 100):
                yield one(document, (*place, "transitions"), [*listed[:number], second, first, *listed[number + 2 :]])


def collects_less(document: Document) -> Changes:
    for place, state in _talks(document):
        for number, _ in enumerate(state.get("required_context_keys", ())):
            yield one(document, (*place, "required_context_keys", number), GONE)


def collects_more(document: Document) -> Changes:
    for place, state in _talks(document):
        known = state.get("required_context_keys", [])
        for key in [key for key in _keys(document) if key not in known][:2]:
            yield one(document, (*place, "required_context_keys"), [*known, key])


def shown_less(document: Document) -> Changes:
    for place, _ in _talks(document):
        for key in list(_keys(document))[:1]:
            yield one(document, (*place, "context_scope"), {"read": [key]})


def secret_other(document: Document) -> Changes:
    if any(True for _ in _talks(document)):
        for key, schema in _keys(document).items():
            yield one(document, ("context_schema", "properties", key, "x-secret"), not schema.get("x-secret", False))


def bound_new(document: Document) -> Changes:
    """A bound of a free text or a number that had none."""
    for key, schema in _keys(document).items():
        place = ("context_schema", "properties", key)
        if schema.get("type") == "string" and not schema.keys() & {"enum", "pattern", "format", "maxLength"}:
            yield one(document, (*place, "maxLength"), 40)
        if schema.get("type") in ("integer", "number") and "maximum" not in schema and "enum" not in schema:
            yield one(document, (*place, "maximum"), 10**6)


def pattern_wider(document: Document) -> Changes:
    """An expression that no longer looks at one of its ends."""
    for key, schema in _keys(document).items():
        pattern = schema.get("pattern", "")
        place = ("context_schema", "properties", key, "pattern")
        if pattern.startswith("^") and len(pattern) > 1:
            yield one(document, place, pattern[1:])
        if pattern.endswith("$"):
            yield one(document, place, pattern[:-1])


def pattern_new(document: Document) -> Changes:
    listed = document.get("patterns", [])
    for name in _PATTERNS if any(True for _ in _talks(document)) else ():
        if name not in listed:
            yield one(document, ("patterns",), [*listed, name])


def tool_new(document: Document) -> Changes:
    """A tool for a task that did not have it, and the memory."""
    for place, state in states(document):
        if state.get("kind") == "task" and "execute" not in state:
            known = state.get("tools", [])
            for name, tool in document.get("tools", {}).items():
                if name not in known and place[1] in tool.get("scope", [place[1]]):
                    yield one(document, (*place, "tools"), [*known, name])
            yield one(document, (*place, "memory"), not state.get("memory", False))


def key_result_new(document: Document) -> Changes:
    never = {"name": "never", "description": "It never holds", "check": {"==": [1, 2]}}
    for place, state in states(document):
        if state.get("kind") == "task":
            yield one(document, (*place, "key_results"), [*state.get("key_results", []), never])


def waits_for_other(document: Document) -> Changes:
    for place, state in states(document):
        if state.get("kind") == "wait":
            yield one(document, (*place, "wait_for"), "something_else")
            yield one(document, (*place, "remind"), [*state.get("remind", []), 45])


def calls_limited(document: Document) -> Changes:
    """Fewer calls than before, where a task has tools to call."""
    if any(state.get("kind") == "task" and state.get("tools") for _, state in states(document)):
        limits = document.get("limits", {})
        for word, usual in (("tool_calls", 30), ("llm_calls", 10)):
            yield one(document, ("limits",), {**limits, word: limits.get(word, usual) - 1})
            yield one(document, ("limits",), {**limits, word: limits.get(word, usual) // 2})


ADDITIONS: Mapping[str, Callable[[Document], Changes]] = MappingProxyType(
    {
        "a move is new": move_new,
        "a move by itself is new": move_new_by_itself,
        "a move is new everywhere": move_new_everywhere,
        "a condition is new": condition_new,
        "an order is another one": order_other,
        "a state asks for a key less": collects_less,
        "a state asks for a key more": collects_more,
        "a state shows less": shown_less,
        "a secret is another": secret_other,
        "a bound is new": bound_new,
        "an expression is wider": pattern_wider,
        "a pattern is new": pattern_new,
        "a tool is new": tool_new,
        "a key result is new": key_result_new,
        "what is waited for is another": waits_for_other,
        "calls are limited": calls_limited,
    }
)
