"""Machines of fifty states, of different kinds: what tests are generated for, and timed."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def _known(key: str, *logic: Any) -> list[Document]:
    return [{"requires_context_keys": [key]}, *({"logic": one} for one in logic)]


def _guarded(number: int) -> tuple[Document, Any, Any]:
    """The schema of a key, and two conditions on it that exclude one another."""
    key = {"var": f"k{number}"}
    kinds: list[tuple[Document, Any, Any]] = [
        ({"type": "integer", "minimum": 0, "maximum": 100}, {">=": [key, 50]}, {"<": [key, 50]}),
        (
            {"type": "string", "enum": ["red", "green", "blue"]},
            {"in": [key, ["red", "blue"]]},
            {"==": [key, "green"]},
        ),
        (
            {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
            {"matches": [key, "^(ABC|XYZ)-"]},
            {"!": [{"matches": [key, "^(ABC|XYZ)-"]}]},
        ),
        ({"type": "number"}, {"and": [{">": [key, 1.5]}, {"<=": [key, 7]}]}, {">": [key, 7]}),
        ({"type": "boolean"}, {"==": [key, True]}, {"==": [key, False]}),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 4},
            {">=": [{"len": [key]}, 2]},
            {"and": [{"contains": [key, "tea"]}, {"<": [{"len": [key]}, 2]}]},
        ),
    ]
    return kinds[number % len(kinds)]


def guarded() -> dict[str, Document]:
    """Talking states whose transitions ask for numbers, choices, patterns and lists."""
    keys, states = {}, {}
    for number in range(48):
        schema, one, other = _guarded(number)
        key, after = f"k{number}", f"s{number + 1}" if number < 47 else "end"
        keys[key] = schema
        states[f"s{number}"] = {
            "purpose": f"Ask {key}",
            "required_context_keys": [key],
            "transitions": [
                {"target_state": after, "description": "one", "conditions": _known(key, one)},
                {
                    "target_state": f"s{(number + 5) % 48}",
                    "description": "other",
                    "conditions": _known(key, other),
                },
            ],
        }
    states |= {"end": {"reply": "Done, {{ k0 }}."}, "quit": {"reply": "Bye."}}
    document = {
        "name": "guarded",
        "initial_state": "s0",
        "context_schema": {"type": "object", "properties": keys},
        "states": states,
        "global_transitions": [{"target_state": "quit", "description": "Stops"}],
    }
    return {"guarded.json": document}


def deciding() -> dict[str, Document]:
    """States that decide by numbers and dates, and tasks that route by what they put out."""
    keys: Document = {}
    states: Document = {}
    for number in range(16):
        key: Document = {"var": f"k{number}"}
        day = {"date": [key]}
        keys[f"k{number}"] = (
            {"type": "integer", "minimum": 0}
            if number % 2
            else {"type": "string", "format": "date"}
        )
        soon = {"<": [day, {"+": [{"now": []}, 86400 * 3]}]}
        first, second = (
            ({"<": [key, 18]}, {"<": [key, 65]})
            if number % 2
            else ({"<": [day, {"now": []}]}, soon)
        )
        states[f"ask{number}"] = {
            "purpose": "Ask",
            "required_context_keys": [f"k{number}"],
            "transitions": [
                {
                    "target_state": f"sort{number}",
                    "description": "known",
                    "conditions": _known(f"k{number}"),
                }
            ],
        }
        states[f"sort{number}"] = {
            "kind": "decide",
            "transitions": [
                {
                    "target_state": f"ask{(number + 1) % 16}",
                    "priority": 1,
                    "conditions": [{"logic": first}],
                },
                {"target_state": f"do{number}", "priority": 2, "conditions": [{"logic": second}]},
                {"target_state": "late", "priority": 3},
            ],
        }
        states[f"do{number}"] = {
            "kind": "task",
            "purpose": "Work",
            "on_exhausted": "late",
            "max_retries": 1,
            "key_results": [
                {"name": "size", "check": {">": [{"len": [{"var": "output.items"}]}, number % 4]}}
            ],
            "transitions": [
                {"target_state": f"ask{(number + 3) % 16}", "on": "more"},
                {"target_state": "done", "on": "ok"},
                {"target_state": "late", "on": "default"},
            ],
        }
    states |= {"late": {"reply": "Too late."}, "done": {"reply": "Done."}}
    document = {
        "name": "deciding",
        "initial_state": "ask0",
        "context_schema": {"type": "object", "properties": keys},
        "states": states,
    }
    return {"deciding.json": document}


_PAYING: Document = {
    "name": "paying",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {"way": {"type": "string", "enum": ["card", "cash"]}},
    },
    "states": {
        "ask": {
            "purpose": "How?",
            "required_context_keys": ["way"],
            "transitions": [
                {"target_state": "sort", "description": "known", "conditions": _known("way")},
                {"target_state": "no", "description": "not at all"},
            ],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {
                    "target_state": "card",
                    "conditions": [{"logic": {"==": [{"var": "way"}, "card"]}}],
                },
                {"target_state": "cash"},
            ],
        },
        "card": {"kind": "final", "reply": "By card."},
        "cash": {"kind": "final", "reply": "In cash."},
        "no": {"kind": "final", "reply": "Not at all."},
    },
}


def calling() -> dict[str, Document]:
    """Subflows, states that wait for a signature, tasks, repair patterns and a digression."""
    keys: Document = {}
    states: Document = {}
    for number in range(12):
        key, signed = f"k{number}", f"ok{number}"
        keys |= {
            key: {"type": "string", "minLength": 2},
            signed: {"type": "boolean", "x-source": "answer"},
        }
        states[f"ask{number}"] = {
            "purpose": f"Ask {key}",
            "required_context_keys": [key],
            "transitions": [
                {"target_state": f"pay{number}", "description": "known", "conditions": _known(key)},
                {"target_state": f"ask{(number + 1) % 12}", "description": "skip"},
            ],
        }
        states[f"pay{number}"] = {
            "kind": "subflow",
            "flow": "paying.json",
            "transitions": [
                {"target_state": f"sign{number}", "on": "card"},
                {"target_state": f"do{number}", "on": "cash"},
                {"target_state": "over", "on": "default"},
            ],
        }
        states[f"sign{number}"] = {
            "kind": "wait",
            "wait_for": "signature",
            "answer_schema": {
                "type": "object",
                "properties": {"ok": {"type": "boolean"}},
                "required": ["ok"],
            },
            "output": {signed: "ok"},
            "timeout": 3600,
            "on_timeout": "over",
            "transitions": [
                {
                    "target_state": f"do{number}",
                    "priority": 1,
                    "conditions": [{"logic": {"==": [{"var": signed}, True]}}],
                },
                {"target_state": f"ask{number}"},
            ],
        }
        states[f"do{number}"] = {
            "kind": "task",
            "purpose": "Work",
            "max_retries": 1,
            "on_exhausted": "over",
            "key_results": [
                {"name": "said", "check": {"in": [{"var": "output.kind"}, ["a", "b"]]}}
            ],
            "transitions": [{"target_state": f"ask{(number + 1) % 12}"}],
        }
    states |= {"over": {"reply": "Over."}, "help": {"purpose": "Help"}}
    document = {
        "name": "calling",
        "initial_state": "ask0",
        "patterns": ["correct", "cancel", "skip", "repeat", "restart", "silence"],
        "context_schema": {"type": "object", "properties": keys},
        "states": states,
        "global_transitions": [
            {"target_state": "help", "description": "Asks for help", "return": True}
        ],
    }
    return {"calling.json": document, "paying.json": _PAYING}
