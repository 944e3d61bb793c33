"""What must be true of a definition beyond its form: names that exist, rules and schemas that compile.

The checks read the plain document, not the models, and skip what has the wrong shape: so all faults
of a file are found in one go, even when it does not load. Each check is a generator of findings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm.codes import finding, step, steps
from llm_fsm.conditions import collect_faults
from llm_fsm.definition import KEY_PATTERN
from llm_fsm.findings import Finding, nearest
from llm_fsm.shapes import ShapeError, compile_shape
from llm_fsm.templates import template_fault

SOURCES = ("model", "host", "tool", "answer")
_HINTED = 200
"""Of a hopeless file the first so many unknown names are compared with the known ones."""

TemplateFault = Callable[[str], str | None]
"""Why a text is not a template; None when it is one."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An object of the document and its JSON pointer."""

    pointer: str
    value: Mapping[str, Any]

    def items(self, key: str) -> Iterator[_Placed]:
        """The objects in the list that stands at `key`."""
        inner = self.value.get(key)
        for index, item in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(item, dict):
                yield _Placed(f"{self.pointer}{step(key)}/{index}", item)

    def members(self, key: str) -> Iterator[_Placed]:
        """The objects that are members of the object at `key`."""
        inner = self.value.get(key)
        for name, item in inner.items() if isinstance(inner, dict) else ():
            if isinstance(item, dict):
                yield _Placed(self.pointer + step(key) + step(name), item)

    def texts(self, key: str) -> Iterator[tuple[str, str]]:
        """(pointer, text) of the texts in the list at `key`."""
        inner = self.value.get(key)
        for index, item in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(item, str):
                yield f"{self.pointer}{step(key)}/{index}", item

    @property
    def name(self) -> str:
        """Its key in the object that holds it."""
        return steps(self.pointer)[-1]


class _Speller:
    """Guesses what an unknown name was meant to be, for as many names as are worth the time."""

    def __init__(self) -> None:
        self.left = _HINTED

    def hint(self, name: str, candidates: Iterable[str], what: str) -> str | None:
        self.left -= 1
        if self.left < 0:
            return None
        names = sorted(candidates) if isinstance(candidates, frozenset) else list(candidates)
        meant = nearest(name, names)
        if meant is not None:
            return f"did you mean {_quoted(meant)}?"
        if not names:
            return f"there are no {what}"
        more = ", …" if len(names) > 8 else ""
        return f"the {what} are {', '.join(names[:8])}{more}"


@dataclass(frozen=True, slots=True)
class _Machine:
    """The parts of a document that the checks look at."""

    root: _Placed
    states: tuple[_Placed, ...]
    ids: frozenset[str]
    tools: frozenset[str]
    keys: Mapping[str, Any] | None
    """Declared context keys with their schemas; None without a `context_schema`."""
    template_fault: TemplateFault
    speller: _Speller

    def transitions(self) -> Iterator[tuple[_Placed | None, _Placed]]:
        """(state, transition) of all transitions; the state of a global one is None."""
        for state in self.states:
            for transition in state.items("transitions"):
                yield state, transition
        for transition in self.root.items("global_transitions"):
            yield None, transition


def _names(value: object) -> frozenset[str]:
    return frozenset(value) if isinstance(value, dict) else frozenset()


def examine(document: Mapping[str, Any], template: TemplateFault = template_fault) -> list[Finding]:
    """All findings about a document of today's form. `template` tells whether a fixed reply compiles."""
    root = _Placed("", document)
    schema = document.get("context_schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    machine = _Machine(
        root=root,
        states=tuple(root.members("states")),
        ids=_names(document.get("states")),
        tools=_names(document.get("tools")),
        keys=(properties if isinstance(properties, dict) else {}) if isinstance(schema, dict) else None,
        template_fault=template,
        speller=_Speller(),
    )
    return [found for check in _CHECKS for found in check(machine)]


def _quoted(name: str) -> str:
    return json.dumps(name if len(name) <= 80 else name[:80] + "…", ensure_ascii=False)


def _targets(machine: _Machine) -> Iterator[tuple[str, object]]:
    """(pointer, value) of everything that names a state to go to."""
    for _, transition in machine.transitions():
        yield transition.pointer + "/target_state", transition.value.get("target_state")
    for state in machine.states:
        yield state.pointer + "/on_timeout", state.value.get("on_timeout")
        exhausted = state.value.get("on_exhausted")
        if exhausted not in ("raise", "continue"):
            yield state.pointer + "/on_exhausted", exhausted


def _unknown_states(machine: _Machine) -> Iterator[Finding]:
    order = list(machine.root.value.get("states") or ()) if machine.ids else []
    for pointer, target in _targets(machine):
        if isinstance(target, str) and target not in machine.ids:
            hint = machine.speller.hint(target, order, "states")
            way = "transition" if pointer.endswith("/target_state") else _quoted(steps(pointer)[-1])
            message = f"{way} to unknown state {_quoted(target)}"
            yield finding("unknown-target", message, pointer=pointer, hint=hint)
    initial = machine.root.value.get("initial_state")
    if machine.ids and isinstance(initial, str) and initial not in machine.ids:
        message = f"initial state {_quoted(initial)} is not among the states"
        hint = machine.speller.hint(initial, order, "states")
        yield finding("unknown-initial-state", message, pointer="/initial_state", hint=hint)


def _ids(machine: _Machine) -> Iterator[Finding]:
    for state in machine.states:
        given = state.value.get("id")
        if isinstance(given, str) and given not in ("", state.name):
            message = f"state {_quoted(state.name)} calls itself {_quoted(given)}"
            hint = f'write "id": {_quoted(state.name)}, or leave the id away'
            yield finding("mismatched-id", message, pointer=state.pointer + "/id", hint=hint)


def _moves(machine: _Machine) -> Iterator[Finding]:
    for state in machine.states:
        if state.value.get("kind") == "final" and state.value.get("transitions"):
            message = f"state {_quoted(state.name)} is final: its transitions are never taken"
            yield finding("final-with-transitions", message, pointer=state.pointer + "/transitions")
    for owner, transition in machine.transitions():
        if owner is None:
            continue
        if transition.value.get("target_state") == owner.name:
            message = f"transition of state {_quoted(owner.name)} to itself"
            hint = "staying is always possible and needs no transition"
            yield finding("self-transition", message, pointer=transition.pointer + "/target_state", hint=hint)
        if transition.value.get("return") is True:
            message = '"return" has no effect on a transition of a state'
            hint = 'only transitions under "global_transitions" come back'
            yield finding("return-without-effect", message, pointer=transition.pointer + "/return", hint=hint)


def _rule_faults(name: str, rule: object, pointer: str) -> Iterator[Finding]:
    for fault in collect_faults(rule):
        yield finding(name, fault.reason, pointer=pointer + fault.pointer, hint=fault.hint)


def _conditions(machine: _Machine) -> Iterator[Finding]:
    for _, transition in machine.transitions():
        for condition in transition.items("conditions"):
            rule = condition.value.get("logic")
            if rule is not None:
                yield from _rule_faults("bad-condition", rule, condition.pointer + "/logic")


def _key_results(machine: _Machine) -> Iterator[Finding]:
    for state in machine.states:
        seen: set[str] = set()
        for result in state.items("key_results"):
            name, check, pointer = result.value.get("name"), result.value.get("check"), result.pointer
            if isinstance(name, str) and name in seen:
                message = f"a second key result {_quoted(name)} in state {_quoted(state.name)}"
                yield finding("bad-value", message, pointer=pointer + "/name", hint="give each its own name")
            elif isinstance(name, str):
                seen.add(name)
            if isinstance(check, dict) and check.keys() & {"judge", "registered"}:
                yield from _named_check(check, pointer + "/check")
            elif check is not None:
                yield from _rule_faults("bad-check", check, pointer + "/check")


def _named_check(check: Mapping[str, Any], pointer: str) -> Iterator[Finding]:
    value = next(iter(check.values()))
    if len(check) != 1 or not isinstance(value, str) or not value.strip():
        message = "a check is JsonLogic, or one judge's criterion, or the name of one registered function"
        hint = 'write {"judge": "criterion"} or {"registered": "name"}'
        yield finding("bad-check", message, pointer=pointer, hint=hint)


def _tools(machine: _Machine) -> Iterator[Finding]:
    for tool in machine.root.members("tools"):
        bound = [key for key in ("registered", "mcp") if tool.value.get(key) is not None]
        message = None
        if len(bound) != 1:
            how = "both ways" if bound else "to nothing"
            message = f"tool {_quoted(tool.name)} is bound {how}"
        elif bound == ["mcp"] and tool.value.get("tool") is None:
            message = f'tool {_quoted(tool.name)} does not name its "tool" on the MCP server'
        if message is not None:
            way = 'write either {"registered": "name"} or {"mcp": "server alias", "tool": "name"}'
            yield finding("bad-tool", message, pointer=tool.pointer, hint=way)
        for pointer, state in tool.texts("scope"):
            if state not in machine.ids:
                message = f"tool {_quoted(tool.name)} is offered in unknown state {_quoted(state)}"
                hint = machine.speller.hint(state, machine.ids, "states")
                yield finding("unknown-state", message, pointer=pointer, hint=hint)
    for placed in machine.states:
        for pointer, name in placed.texts("tools"):
            if name not in machine.tools:
                message = f"state {_quoted(placed.name)} uses the unknown tool {_quoted(name)}"
                hint = machine.speller.hint(name, machine.tools, 'tools under "tools"')
                yield finding("unknown-tool", message, pointer=pointer, hint=hint)


def _replies(machine: _Machine) -> Iterator[Finding]:
    for state in machine.states:
        reply = state.value.get("reply")
        if isinstance(reply, list) and all(isinstance(line, str) for line in reply):
            reply = "\n".join(reply)
        if isinstance(reply, str):
            reason = machine.template_fault(reply)
            if reason is not None:
                yield finding("bad-template", f"not a template: {reason}", pointer=state.pointer + "/reply")


def _bad_key(name: str, pointer: str) -> Iterator[Finding]:
    if name.startswith("_"):
        message = f"context key {_quoted(name)}: names that begin with _ belong to the system"
        yield finding("bad-key", message, pointer=pointer, hint=f"write {_quoted(name.lstrip('_') or 'key')}")
    elif re.fullmatch(KEY_PATTERN, name) is None:
        message = f"context key {_quoted(name)} can never be stored"
        hint = (
            "keys are ASCII letters, digits, _ . and -, begin with a letter, and have at most 64 characters"
        )
        yield finding("bad-key", message, pointer=pointer, hint=hint)


def _keys(machine: _Machine) -> Iterator[Finding]:
    """The keys that states collect: each can be stored, is declared, and may be written by the model."""
    for state in machine.states:
        for pointer, name in state.texts("required_context_keys"):
            faults = list(_bad_key(name, pointer))
            yield from faults
            if faults or machine.keys is None:
                continue
            root = name if name in machine.keys else name.split(".", 1)[0]
            if root not in machine.keys:
                hint = machine.speller.hint(name, machine.keys, "declared keys")
                message = f'{_quoted(name)} cannot be collected: "context_schema" does not declare it'
                yield finding("undeclared-key", message, pointer=pointer, hint=hint)
                continue
            schema = machine.keys[root]
            source = schema.get("x-source", "model") if isinstance(schema, dict) else "model"
            if source in SOURCES[1:]:
                message = f'{_quoted(name)} cannot be collected from the user: its "x-source" is "{source}"'
                yield finding("unwritable-key", message, pointer=pointer)


def _schemas(machine: _Machine) -> Iterator[Finding]:
    whole = machine.root.value.get("context_schema")
    if isinstance(whole, dict):
        yield from _context_schema(whole, machine.keys or {})
    for state in machine.states:
        answer = state.value.get("answer_schema")
        if isinstance(answer, dict):
            yield from _shape_faults("bad-answer-schema", answer, None, state.pointer + "/answer_schema")


def _context_schema(whole: Mapping[str, Any], keys: Mapping[str, Any]) -> Iterator[Finding]:
    if not keys and whole.keys() - {"$schema", "type", "title", "description", "$defs", "properties"}:
        message = '"context_schema" declares no keys under "properties": nothing can be collected'
        hint = 'write {"type": "object", "properties": {"key": {"type": "string"}}}'
        yield finding("no-keys", message, pointer="/context_schema", hint=hint)
    faulty = False
    for name, schema in keys.items():
        place = "/context_schema/properties" + step(name)
        yield from _bad_key(name, place)
        if not isinstance(schema, dict):
            continue
        yield from _extensions(schema, place)
        for found in _shape_faults("bad-context-schema", schema, whole.get("$defs"), place):
            faulty = True
            yield found
    if not faulty:
        yield from _shape_faults("bad-context-schema", whole, None, "/context_schema")


def _extensions(schema: Mapping[str, Any], place: str) -> Iterator[Finding]:
    source, secret = schema.get("x-source"), schema.get("x-secret")
    if source is not None and source not in SOURCES:
        shown = source if isinstance(source, str) else json.dumps(source)[:40]
        message = f'"x-source": expected one of {", ".join(SOURCES)}, found {_quoted(shown)}'
        meant = nearest(shown, SOURCES)
        hint = None if meant is None else f'did you mean "{meant}"?'
        yield finding("bad-value", message, pointer=place + "/x-source", hint=hint)
    if secret is not None and not isinstance(secret, bool):
        yield finding("wrong-type", '"x-secret": expected true or false', pointer=place + "/x-secret")


_JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def _shape_faults(name: str, schema: Mapping[str, Any], defs: object, place: str) -> Iterator[Finding]:
    try:
        compile_shape(schema, defs if isinstance(defs, dict) else None)
    except ShapeError as error:
        message, hint = f"not a JSON Schema: {error.reason}", None
        if error.pointer.endswith("/type"):
            value = _value_at(schema, error.pointer)
            message = f"not a JSON Schema: {json.dumps(value)[:80]} is no type"
            meant = nearest(value, _JSON_TYPES) if isinstance(value, str) else None
            hint = f'did you mean "{meant}"?' if meant else f"types are {', '.join(_JSON_TYPES)}"
        yield finding(name, message, pointer=place + error.pointer, hint=hint)


def _value_at(value: Any, pointer: str) -> Any:
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


_CHECKS: tuple[Callable[[_Machine], Iterator[Finding]], ...] = (
    _unknown_states,
    _ids,
    _moves,
    _conditions,
    _key_results,
    _tools,
    _replies,
    _keys,
    _schemas,
)
