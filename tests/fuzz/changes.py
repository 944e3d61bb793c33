"""Changes of a definition's behaviour, one at a time: every place where each kind can be made.

A kind is a function from a definition's JSON to what it may be changed to: (place, changed
document). None of them touches words that only a model reads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

Document = dict[str, Any]
Place = tuple[str | int, ...]
Changes = Iterator[tuple[str, Document]]

_OTHER = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "and": "or",
    "or": "and",
}
_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_COMPARED = ("==", "!=", "<", "<=", ">", ">=", "in", "matches")
_SIZES = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
GONE = object()
"""Stands for: take it away."""


def _at(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def _changed(document: Document, *changes: tuple[Place, Any]) -> Document:
    """A copy with these places set to these values."""
    copied = copy.deepcopy(document)
    for place, value in changes:
        inner = _at(copied, place[:-1])
        if value is GONE:
            inner.pop(place[-1])
        else:
            inner[place[-1]] = value
    return copied


def one(document: Document, place: Place, value: Any) -> tuple[str, Document]:
    return "/".join(map(str, place)), _changed(document, (place, value))


def transitions(document: Document) -> Iterator[tuple[Place, Document]]:
    for name, state in document["states"].items():
        for number, transition in enumerate(state.get("transitions", ())):
            yield ("states", name, "transitions", number), transition
    for number, transition in enumerate(document.get("global_transitions", ())):
        yield ("global_transitions", number), transition


def states(document: Document) -> Iterator[tuple[Place, Document]]:
    for name, state in document["states"].items():
        yield ("states", name), state


def _rules(value: Any, place: Place) -> Iterator[tuple[Place, Document]]:
    """The operations of a rule, outer ones first."""
    if isinstance(value, dict) and len(value) == 1:
        yield place, value
        [(operator, inner)] = value.items()
        if operator != "var":
            yield from _rules(inner, (*place, operator))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _rules(part, (*place, number))


def _logics(document: Document) -> Iterator[Place]:
    for place, transition in transitions(document):
        for number, condition in enumerate(transition.get("conditions", ())):
            if "logic" in condition:
                yield (*place, "conditions", number, "logic")
    for place, state in states(document):
        for number, result in enumerate(state.get("key_results", ())):
            check = result.get("check")
            if isinstance(check, dict) and not check.keys() & {"judge", "registered"}:
                yield (*place, "key_results", number, "check")


def _operations(document: Document) -> Iterator[tuple[Place, Document]]:
    for place in _logics(document):
        yield from _rules(_at(document, place), place)


# -- transitions


def transition_gone(document: Document) -> Changes:
    for place, _ in transitions(document):
        yield one(document, place, GONE)


def leads_elsewhere(document: Document) -> Changes:
    """To the next two states of the file."""
    names = list(document["states"])
    for place, transition in transitions(document):
        at = names.index(transition["target_state"])
        others = [name for name in (*names[at + 1 :], *names[:at]) if name not in place][:2]
        for other in others:
            yield one(document, (*place, "target_state"), other)


def targets_swapped(document: Document) -> Changes:
    for place, transition in transitions(document):
        *outer, number = place
        listed = _at(document, tuple(outer))
        if isinstance(number, int) and number + 1 < len(listed):
            mine, after = transition["target_state"], listed[number + 1]["target_state"]
            if after != mine:
                changes = (
                    ((*place, "target_state"), after),
                    ((*outer, number + 1, "target_state"), mine),
                )
                yield "/".join(map(str, place)), _changed(document, *changes)


def condition_gone(document: Document) -> Changes:
    for place, transition in transitions(document):
        for number, condition in enumerate(transition.get("conditions", ())):
            if condition.keys() & {"logic", "requires_context_keys"}:
                yield one(document, (*place, "conditions", number), GONE)


def condition_key_gone(document: Document) -> Changes:
    for place, transition in transitions(document):
        for number, condition in enumerate(transition.get("conditions", ())):
            for which, _ in enumerate(condition.get("requires_context_keys", ())):
                yield one(
                    document, (*place, "conditions", number, "requires_context_keys", which), GONE
                )


def closed_for_good(document: Document) -> Changes:
    for place, transition in transitions(document):
        conditions = [
            *transition.get("conditions", ()),
            {"description": "never", "logic": {"==": [1, 2]}},
        ]
        yield one(document, (*place, "conditions"), conditions)


def negated(document: Document) -> Changes:
    for place in _logics(document):
        yield one(document, place, {"!": [_at(document, place)]})


def operator_other(document: Document) -> Changes:
    for place, rule in _operations(document):
        [(operator, arguments)] = rule.items()
        if operator in _OTHER:
            yield one(document, place, {_OTHER[operator]: arguments})


def bound_moved(document: Document) -> Changes:
    for place, rule in _operations(document):
        [(operator, arguments)] = rule.items()
        if operator in _BOUND:
            yield one(document, place, {_BOUND[operator]: arguments})


def literal_other(document: Document) -> Changes:
    for place, rule in _operations(document):
        [(operator, arguments)] = rule.items()
        if operator not in _COMPARED or not isinstance(arguments, list):
            continue
        for number, value in enumerate(arguments):
            if isinstance(value, bool):
                yield one(document, (*place, operator, number), not value)
            elif isinstance(value, int | float):
                for shift in (-1, 1):
                    yield one(document, (*place, operator, number), value + shift)
            elif isinstance(value, str):
                yield one(document, (*place, operator, number), value + "x")


def part_gone(document: Document) -> Changes:
    """One part of several that are joined by and, or."""
    for place, rule in _operations(document):
        [(operator, arguments)] = rule.items()
        if operator in ("and", "or") and len(arguments) > 1:
            for number, _ in enumerate(arguments):
                yield one(document, (*place, operator, number), GONE)


def priority_other(document: Document) -> Changes:
    """First or last, where that decides: among transitions that need no pick, and among those to
    one state.
    """
    for place, transition in transitions(document):
        *outer, number = place
        others = [
            one
            for at, one in enumerate(_at(document, tuple(outer)))
            if at != number and "on" not in one
        ]
        decides = document["states"].get(place[1], {}).get("kind") in ("decide", "wait")
        target, priority = transition["target_state"], transition.get("priority", 100)
        rivals = [
            one.get("priority", 100) for one in others if decides or one["target_state"] == target
        ]
        if any(rival > priority for rival in rivals):
            yield one(document, (*place, "priority"), 1000)
        if any(rival < priority for rival in rivals):
            yield one(document, (*place, "priority"), -1)


def auto_other(document: Document) -> Changes:
    for place, transition in transitions(document):
        if document["states"].get(place[1], {}).get("kind", "converse") == "converse":
            yield one(document, (*place, "auto"), not transition.get("auto", False))


def label_other(document: Document) -> Changes:
    for place, transition in transitions(document):
        if "on" in transition:
            yield one(document, (*place, "on"), transition["on"] + "x")


def return_other(document: Document) -> Changes:
    for place, transition in transitions(document):
        if place[0] == "global_transitions":
            yield one(document, (*place, "return"), not transition.get("return", False))


def set_other(document: Document) -> Changes:
    """Without one of the keys that are set, or with another value of it."""
    for place, owner in (*transitions(document), *states(document)):
        for key in owner.get("set", ()):
            yield one(document, (*place, "set", key), GONE)
            yield one(document, (*place, "set", key), {"cat": ["other ", key]})


def clear_gone(document: Document) -> Changes:
    for place, owner in (*transitions(document), *states(document)):
        for number, _ in enumerate(owner.get("clear", ())):
            yield one(document, (*place, "clear", number), GONE)


# -- states


def kind_other(document: Document) -> Changes:
    """A state that talks decides instead, one that decides talks, and one that works or waits ends
    there.
    """
    for place, state in states(document):
        kind = state.get("kind", "converse")
        if kind == "converse" and state.get("transitions"):
            yield one(document, (*place, "kind"), "decide")
        elif kind == "decide":
            yield one(document, (*place, "kind"), "converse")
        elif kind in ("task", "wait", "subflow"):
            bare = {key: value for key, value in state.items() if key in ("purpose", "description")}
            yield one(document, place, {**bare, "kind": "final"})


def reply_other(document: Document) -> Changes:
    for place, state in states(document):
        reply = state.get("reply")
        if reply:
            yield one(document, (*place, "reply"), "Something else.")
            yield one(
                document,
                (*place, "reply"),
                [*(reply if isinstance(reply, list) else [reply]), "More."],
            )


def reply_gone(document: Document) -> Changes:
    for place, state in states(document):
        if state.get("reply"):
            yield one(document, (*place, "reply"), GONE)


def reply_new(document: Document) -> Changes:
    for place, state in states(document):
        if not state.get("reply") and state.get("kind", "converse") in ("converse", "final"):
            yield one(document, (*place, "reply"), "These words are new.")


def reply_part(document: Document) -> Changes:
    """Without one of its lines, or with one of its keys misspelt."""
    for place, state in states(document):
        reply = state.get("reply")
        lines = reply if isinstance(reply, list) else [reply] if reply else []
        for number, line in enumerate(lines):
            if len(lines) > 1:
                yield one(document, (*place, "reply", number), GONE)
            for key in document.get("context_schema", {}).get("properties", {}):
                if f"{{{{ {key} }}}}" in line:
                    changed = line.replace(f"{{{{ {key} }}}}", "")
                    where = (
                        (*place, "reply", number) if isinstance(reply, list) else (*place, "reply")
                    )
                    yield one(document, where, changed)


def ends_there(document: Document) -> Changes:
    for place, state in states(document):
        if state.get("transitions") and state.get("kind", "converse") == "converse":
            bare = {
                key: value
                for key, value in state.items()
                if key in ("purpose", "reply", "description")
            }
            yield one(document, place, {**bare, "kind": "final"})


def setting_other(document: Document) -> Changes:
    """Retries, times and ways out."""
    for place, state in states(document):
        for key in ("max_retries", "timeout"):
            if key in state:
                yield one(document, (*place, key), state[key] + 1)
                yield one(document, (*place, key), max(state[key] - 1, 0))
        for key in (
            "on_exhausted",
            "on_timeout",
            "remind",
            "timeout",
            "execute",
            "memory",
            "summarize",
        ):
            if key in state:
                yield one(document, (*place, key), GONE)
        if "remind" in state:
            yield one(document, (*place, "remind", 0), state["remind"][0] + 60)
        if state.get("kind") == "task":
            yield one(document, (*place, "on_exhausted"), "continue")
            if "max_retries" not in state:
                yield one(document, (*place, "max_retries"), 1)


def key_result_gone(document: Document) -> Changes:
    for place, state in states(document):
        for number, _ in enumerate(state.get("key_results", ())):
            yield one(document, (*place, "key_results", number), GONE)


def tool_gone(document: Document) -> Changes:
    for place, state in states(document):
        for number, _ in enumerate(state.get("tools", ())):
            yield one(document, (*place, "tools", number), GONE)


def tool_terms(document: Document) -> Changes:
    for name, tool in document.get("tools", {}).items():
        for word in ("breaking", "approval"):
            yield one(document, ("tools", name, word), not tool.get(word, False))
        for key in tool.get("output", ()):
            yield one(document, ("tools", name, "output", key), GONE)
            yield one(document, ("tools", name, "output", key), "elsewhere")


def mapping_other(document: Document) -> Changes:
    for place, state in states(document):
        for word in ("input", "output"):
            for key, value in state[word].items() if isinstance(state.get(word), dict) else ():
                yield one(document, (*place, word, key), GONE)
                yield one(document, (*place, word, key), f"{value}_x")


def answer_other(document: Document) -> Changes:
    for place, state in states(document):
        schema = state.get("answer_schema", {})
        if "required" in schema:
            yield one(document, (*place, "answer_schema", "required"), GONE)
        for key in schema.get("properties", ()):
            yield one(document, (*place, "answer_schema", "properties", key, "type"), "array")
        yield from _schema_changes(document, (*place, "answer_schema", "properties"))


# -- the whole


def schema_other(document: Document) -> Changes:
    yield from _schema_changes(document, ("context_schema", "properties"))


def _schema_changes(document: Document, place: Place) -> Changes:
    try:
        keys = _at(document, place)
    except KeyError:
        return
    for key, schema in keys.items():
        for number, _ in enumerate(
            schema.get("enum", ()) if len(schema.get("enum", ())) > 1 else ()
        ):
            yield one(document, (*place, key, "enum", number), GONE)
        if "enum" in schema and all(isinstance(one, str) for one in schema["enum"]):
            yield one(document, (*place, key, "enum", 0), schema["enum"][0] + "x")
        for word in (*_SIZES, "pattern", "format", "enum"):
            if word in schema:
                yield one(document, (*place, key, word), GONE)
        for word in _SIZES:
            if word in schema:
                yield one(document, (*place, key, word), schema[word] + 1)
                yield one(document, (*place, key, word), max(schema[word] - 1, 0))
        if "type" in schema:
            yield one(
                document,
                (*place, key, "type"),
                "integer" if schema["type"] == "string" else "string",
            )


def valid_gone(document: Document) -> Changes:
    """A key without one of its rules, or with a rule of which a part is gone."""
    for key, schema in _keys(document).items():
        for number, _ in enumerate(schema.get("x-valid", ())):
            yield one(document, ("context_schema", "properties", key, "x-valid", number), GONE)


def source_other(document: Document) -> Changes:
    for key, schema in document.get("context_schema", {}).get("properties", {}).items():
        place = ("context_schema", "properties", key, "x-source")
        yield one(
            document, place, "host" if schema.get("x-source", "model") == "model" else "model"
        )


def key_gone(document: Document) -> Changes:
    for key in document.get("context_schema", {}).get("properties", ()):
        yield one(document, ("context_schema", "properties", key), GONE)


def begins_elsewhere(document: Document) -> Changes:
    for name in document["states"]:
        if name != document["initial_state"]:
            yield one(document, ("initial_state",), name)


def pattern_gone(document: Document) -> Changes:
    for number, _ in enumerate(document.get("patterns", ())):
        yield one(document, ("patterns", number), GONE)


def apology_other(document: Document) -> Changes:
    if "on_failure" in document.get("model", {}):
        yield one(document, ("model", "on_failure"), "Something went wrong.")


def limits_other(document: Document) -> Changes:
    for word in ("auto_steps", "llm_calls"):
        yield one(document, ("limits",), {**document.get("limits", {}), word: 1})


_CHANGES: Mapping[str, Callable[[Document], Changes]] = MappingProxyType(
    {
        "a transition is gone": transition_gone,
        "a transition leads elsewhere": leads_elsewhere,
        "targets are swapped": targets_swapped,
        "a condition is gone": condition_gone,
        "a condition asks for a key less": condition_key_gone,
        "a transition is never open": closed_for_good,
        "a condition is negated": negated,
        "an operator is another one": operator_other,
        "a bound is in instead of out": bound_moved,
        "a value is another one": literal_other,
        "a part of a rule is gone": part_gone,
        "a priority is another one": priority_other,
        "auto is another": auto_other,
        "a label is another one": label_other,
        "return is another": return_other,
        "a value that is set is another": set_other,
        "a key is no longer cleared": clear_gone,
        "a state is of another kind": kind_other,
        "a rule for values is gone": valid_gone,
        "fixed words are others": reply_other,
        "fixed words are gone": reply_gone,
        "fixed words are new": reply_new,
        "fixed words lack a part": reply_part,
        "a state ends it": ends_there,
        "a setting of a state is another": setting_other,
        "a key result is gone": key_result_gone,
        "a tool is gone": tool_gone,
        "a tool's terms are others": tool_terms,
        "a mapping is another": mapping_other,
        "an answer's schema is another one": answer_other,
        "a key's schema is another one": schema_other,
        "a key's source is another one": source_other,
        "a key is gone": key_gone,
        "it begins elsewhere": begins_elsewhere,
        "a pattern is gone": pattern_gone,
        "the apology is another one": apology_other,
        "a limit is low": limits_other,
    }
)


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
    everywhere = {
        transition["target_state"] for transition in document.get("global_transitions", ())
    }
    for place, state in _talks(document):
        known = (
            {transition["target_state"] for transition in state["transitions"]}
            | everywhere
            | {place[1]}
        )
        for name in [name for name in document["states"] if name not in known][:3]:
            yield one(
                document, (*place, "transitions"), [*state["transitions"], {"target_state": name}]
            )


def move_new_by_itself(document: Document) -> Changes:
    for place, state in _talks(document):
        for name in [name for name in document["states"] if name != place[1]][:2]:
            added = {
                "target_state": name,
                "auto": True,
                "conditions": [{"logic": {">": [{"var": "_turn"}, 0]}}],
            }
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
        for key in (
            list(_keys(document))[:2]
            if not transition.get("conditions") and "on" not in transition
            else ()
        ):
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
                yield one(
                    document,
                    (*place, "transitions"),
                    [*listed[:number], second, first, *listed[number + 2 :]],
                )


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
            yield one(
                document,
                ("context_schema", "properties", key, "x-secret"),
                not schema.get("x-secret", False),
            )


def bound_new(document: Document) -> Changes:
    """A bound of a free text or a number that had none."""
    for key, schema in _keys(document).items():
        place = ("context_schema", "properties", key)
        if schema.get("type") == "string" and not schema.keys() & {
            "enum",
            "pattern",
            "format",
            "maxLength",
        }:
            yield one(document, (*place, "maxLength"), 40)
        if (
            schema.get("type") in ("integer", "number")
            and "maximum" not in schema
            and "enum" not in schema
        ):
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


_ADDITIONS: Mapping[str, Callable[[Document], Changes]] = MappingProxyType(
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

KINDS = MappingProxyType({**_CHANGES, **_ADDITIONS})
"""Kind to the changes that it can make to a document."""
