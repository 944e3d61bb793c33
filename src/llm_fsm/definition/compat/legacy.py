"""Convert older forms of a definition to today's form, and report mapped and lost parts.

This module reads states as a list and the keys of versions 3 and 4 of the JSON runtime. `foreign`
converts documents of other systems. The author's document is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import (
    JsonDict,
    JsonMap,
    TextMap,
    as_list,
    joined,
    member,
    object_at,
    places_of,
    step,
    without,
)
from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.compiler import collect_faults
from llm_fsm.definition.codes import finding
from llm_fsm.definition.json_schema.inline import with_defs
from llm_fsm.definition.published import shape_of
from llm_fsm.errors import Finding

Notes = dict[tuple[str, str, str | None], list[str]]


class Upgraded(NamedTuple):
    """A document in today's form. `origins`: new pointer to the pointer in the document as
    written.
    """

    document: JsonDict
    findings: tuple[Finding, ...]
    origins: TextMap

    def origin(self, pointer: str) -> str:
        """Return the pointer, in the document as written, of the value that is now at `pointer`."""
        return _origin(self.origins, pointer)


def _origin(origins: TextMap, pointer: str) -> str:
    for head in places_of(pointer):
        if head in origins:
            return origins[head] + pointer[len(head) :]
    return pointer


class Ledger(NamedTuple):
    """The record of mapped parts and their origins, while a document is rewritten."""

    origins: dict[str, str]
    notes: Notes

    def moved(self, now: str, written: str) -> None:
        """Record that the value at `now` was written at `written` (a pointer of the new
        document).
        """
        self.origins[now] = _origin(self.origins, written)

    def note(self, name: str, message: str, pointer: str, hint: str | None = None) -> None:
        """Add a note on a place of the new document. The same note on other places is only
        counted.
        """
        self.notes.setdefault((name, message, hint), []).append(_origin(self.origins, pointer))

    def findings(self) -> tuple[Finding, ...]:
        """Return one finding per note, at its first place."""
        found = []
        for (name, message, hint), places in self.notes.items():
            more = len(places) - 1
            counted = message
            if more:
                counted += f" (and in {more} more place{'s' if more > 1 else ''})"
            found.append(finding(name, counted, pointer=places[0], hint=hint))
        return tuple(found)


_NO_EFFECT = "it has no effect here"
_MODEL_PICKS = (
    'here the model picks one of the open transitions; "auto": true takes one without asking'
)
_BY_SCHEMA = 'describe the key in "context_schema" instead'

_UNUSED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "definition": {
        "metadata": ("no-effect", _NO_EFFECT),
        "transition_evaluation": ("no-effect", _MODEL_PICKS),
        "transition_evaluation_mode": ("no-effect", _MODEL_PICKS),
        "function_handlers": (
            "not-mapped",
            "handlers are registered by the program that runs the machine",
        ),
        "handlers": ("not-mapped", "handlers are registered by the program that runs the machine"),
        "use_classification": ("no-effect", _MODEL_PICKS),
    },
    "state": {
        "metadata": ("no-effect", _NO_EFFECT),
        "extraction_retries": ("no-effect", "a refused value is asked for again by itself"),
        "extraction_confidence_threshold": ("no-effect", "values are checked by their schema"),
        "context_extractors": ("not-mapped", _BY_SCHEMA),
        "field_extractions": ("not-mapped", _BY_SCHEMA),
        "classification_extractions": ("not-mapped", _BY_SCHEMA),
        "optional_context_keys": ("not-mapped", _BY_SCHEMA),
        "transition_classification": ("no-effect", _MODEL_PICKS),
        "auto_transition_threshold": ("no-effect", _MODEL_PICKS),
        "response_type": ("no-effect", _NO_EFFECT),
    },
    "transition": {
        "metadata": ("no-effect", _NO_EFFECT),
        "is_deterministic": ("no-effect", _MODEL_PICKS),
        "evaluation_priority": ("no-effect", 'the order is given by "priority"'),
    },
    "condition": {
        "metadata": ("no-effect", _NO_EFFECT),
        "evaluation_priority": ("no-effect", "all conditions must be true, in any order"),
    },
}
"""Keys of earlier versions without a counterpart, with their messages."""

_SECRET = {"format": "password", "writeOnly": True}
_ENDINGS = frozenset({"final", "terminal", "end"})
_SPEAKERS = {"assistant": "system", "bot": "system", "agent": "system", "human": "user"}


def upgrade(document: JsonMap, rewrite: Callable[[JsonDict, Ledger], None]) -> Upgraded:
    """Return a document in today's form; `rewrite` first converts documents of other systems."""
    ledger = Ledger({}, {})
    now = dict(document)
    rewrite(now, ledger)
    _states_by_id(now, ledger)
    _drop_unused("definition", now, "", ledger)
    _references(now, ledger)
    _secrets(now)
    version = now.get("version")
    if is_number(version):
        now["version"] = str(version)
        ledger.note("older-form", "a number as version is read as text", "/version")
    states = now.get("states")
    if isinstance(states, dict):
        now["states"] = {
            key: _state(state, "/states" + step(key), ledger) for key, state in states.items()
        }
    _transitions(now, "global_transitions", "", ledger)
    return Upgraded(now, ledger.findings(), ledger.origins)


def _references(document: JsonDict, ledger: Ledger) -> None:
    """Redirect references to `definitions`, the old name of `$defs`, and between keys, to
    `$defs`.
    """
    schema = document.get("context_schema")
    if not isinstance(schema, dict):
        return
    document["context_schema"], moved = with_defs(schema)
    for name, pointer in moved.items():
        ledger.moved(f"/context_schema/$defs/{name}", "/context_schema" + pointer)
    if any(pointer.startswith("/definitions/") for pointer in moved.values()):
        ledger.note("older-form", '"definitions" is read as "$defs"', "/context_schema/definitions")


def _secrets(document: JsonDict) -> None:
    """Make keys secret whose schema says so in the words of JSON Schema, as pydantic's `SecretStr`
    does.
    """
    declared = object_at(document.get("context_schema"), "properties")
    defs = object_at(document.get("context_schema"), "$defs")
    made = {}
    for key, schema in declared.items():
        if _says_secret(schema, defs):
            made[key] = {"x-secret": True, **without(schema, _SECRET)}
    if made:
        properties = {**declared, **made}
        document["context_schema"] = {**document["context_schema"], "properties": properties}


def _says_secret(schema: object, defs: JsonMap) -> bool:
    """Return true if a schema, or a part of it, is one of a password."""
    followed = set()
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        if not isinstance(part, dict):
            continue
        if any(part.get(word) == meant for word, meant in _SECRET.items()):
            return True
        parts += part.values()
        name = str(part.get("$ref")).removeprefix("#/$defs/")
        if name not in followed:  # a reference may lead back
            followed.add(name)
            parts.append(defs.get(name))
    return False


def _states_by_id(document: JsonDict, ledger: Ledger) -> None:
    """Convert a list of states with ids to an object."""
    states = document.get("states")
    if not isinstance(states, list) or not states:
        return
    named: JsonDict = {}
    for index, state in enumerate(states):
        name = state if isinstance(state, str) else None
        key = "id"
        if isinstance(state, dict):
            key = "name"
            if isinstance(state.get("id"), str):
                key = "id"
            name = state.get(key)
        if not isinstance(name, str) or name in named:
            what = "has no id" if name is None else "has the id of another, or one that is no text"
            ledger.note(
                "not-mapped", f"the states are a list, and this one {what}", f"/states/{index}"
            )
            return
        named[name] = {} if isinstance(state, str) else without(state, {key})
        ledger.origins["/states" + step(name)] = f"/states/{index}"
    document["states"] = named
    ledger.note("older-form", "states given as a list are read as an object of ids", "/states")


def _drop_unused(place: str, value: JsonDict, pointer: str, ledger: Ledger) -> None:
    for key, (name, reason) in _UNUSED[place].items():
        if value.pop(key, None) is not None:
            ledger.note(
                name, f'"{key}" of an earlier version is not used', pointer + step(key), reason
            )


def _state(value: Any, pointer: str, ledger: Ledger) -> Any:
    if not isinstance(value, dict):
        return value
    state = dict(value)
    _merge_text(state, "objective", "purpose", pointer, ledger)
    _merge_text(state, "state_instructions", "instructions", pointer, ledger)
    _drop_unused("state", state, pointer, ledger)
    _scope(state, pointer, ledger)
    _ending(state, pointer, ledger)
    _dialogue(state, pointer, ledger)
    _transitions(state, "transitions", pointer, ledger)
    return state


def _merge_text(value: JsonDict, old: str, new: str, pointer: str, ledger: Ledger) -> None:
    """Move the text under a second name, or append it if both are given."""
    text = value.pop(old, None)
    if text is None:
        return
    first = value.get(new)
    if first in (None, "", text):
        value[new] = text
        ledger.moved(pointer + step(new), pointer + step(old))
    else:
        value[new] = [*as_list(first), *as_list(text)]


def _scope(state: JsonDict, pointer: str, ledger: Ledger) -> None:
    scope = state.get("context_scope")
    if not isinstance(scope, dict) or not scope.keys() & {"read_keys", "write_keys"}:
        return
    scope = dict(scope)
    place = pointer + "/context_scope"
    if scope.pop("write_keys", None) is not None:
        reason = 'what a model may write is said by "x-source" in "context_schema"'
        what = '"write_keys" of an earlier version is not used'
        ledger.note("not-mapped", what, place + "/write_keys", reason)
    if "read_keys" in scope:
        read = scope.pop("read_keys")
        if "read" not in scope and read is not None:
            scope["read"] = read
            ledger.moved(place + "/read", place + "/read_keys")
            ledger.note("older-form", '"read_keys" is read as "read"', place + "/read")
    state["context_scope"] = scope or None


def _ending(state: JsonDict, pointer: str, ledger: Ledger) -> None:
    """Convert `is_terminal`, `is_final` and `state_type` to the kind `final` if the state leads
    nowhere.
    """
    for key in ("is_terminal", "is_final", "terminal", "final", "state_type"):
        value = state.pop(key, None)
        if value is None or value is False:
            continue
        place = pointer + step(key)
        ends = value is True or (isinstance(value, str) and value.lower() in _ENDINGS)
        if ends and not state.get("transitions"):
            state.setdefault("kind", "final")
            ledger.note("older-form", f'"{key}" is read as "kind": "final"', place)
        else:
            hint = 'a state that leads nowhere is final; "kind" says how any other works'
            name = "not-mapped" if ends else "no-effect"
            ledger.note(name, f'"{key}" of an earlier version is not used', place, hint)


_SPOKEN = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*)", re.DOTALL)


def _said(item: Any) -> Any:
    """Return one message of an example in today's form, {"user": text}; unchanged if it is not
    recognised.
    """
    if isinstance(item, str):
        spoken = _SPOKEN.fullmatch(item)
        if spoken is None:
            return item
        speaker = spoken[1].lower()
        return {_SPEAKERS.get(speaker, speaker): spoken[2]}
    role = joined(member(item, "role"))
    if role is not None and role.strip():
        for key in ("content", "text", "message"):
            if key in item:
                return {_SPEAKERS.get(role, role): item[key]}
    return item


def _dialogue(state: JsonDict, pointer: str, ledger: Ledger) -> None:
    dialogue = state.get("example_dialogue")
    match dialogue:
        case str():
            dialogue = [line for line in dialogue.splitlines() if line.strip()]
        case dict():
            dialogue = [{role: text} for role, text in dialogue.items()]
        case list():
            pass
        case _:
            return
    messages = [_said(item) for item in dialogue]
    if messages != state["example_dialogue"]:
        state["example_dialogue"] = messages
        ledger.note(
            "older-form", 'messages are read as {"role": "text"}', pointer + "/example_dialogue"
        )


def _transitions(owner: JsonDict, key: str, pointer: str, ledger: Ledger) -> None:
    value = owner.get(key)
    place = pointer + step(key)
    match value:
        case list():
            pass
        case str() | {"target_state": str()}:
            if isinstance(value, dict):
                what = "an object in place of a list is read as the one transition in it"
                ledger.note("older-form", what, place)
            ledger.moved(place + "/0", place)
        case _:
            return
    owner[key] = [
        _transition(item, f"{place}/{index}", ledger) for index, item in enumerate(as_list(value))
    ]


def _transition(value: Any, pointer: str, ledger: Ledger) -> Any:
    if isinstance(value, str):
        ledger.moved(pointer + "/target_state", pointer)
        ledger.note("older-form", "an id in place of a transition is read as its target", pointer)
        return {"target_state": value}
    if not isinstance(value, dict):
        return value
    transition = dict(value)
    if "llm_description" in transition:
        _merge_text(transition, "llm_description", "description", pointer, ledger)
        ledger.note(
            "older-form", '"llm_description" is read as "description"', pointer + "/llm_description"
        )
    _drop_unused("transition", transition, pointer, ledger)
    _conditions(transition, pointer, ledger)
    return transition


def _conditions(transition: JsonDict, pointer: str, ledger: Ledger) -> None:
    place = pointer + "/conditions"
    if "condition" in transition and not transition.get("conditions"):
        transition["conditions"] = transition.pop("condition")
        ledger.moved(place, pointer + "/condition")
        ledger.note("older-form", '"condition" is read as "conditions"', place)
    elif isinstance(found := transition.get("conditions"), dict) and not _is_rule(found):
        what = "the one condition in it" if found else "an empty one"
        ledger.note("older-form", f"an object in place of a list is read as {what}", place)
    conditions = transition.get("conditions")
    if isinstance(conditions, str | dict):
        conditions = [conditions] if conditions else []
        ledger.moved(place + "/0", place)
    if isinstance(conditions, list):
        transition["conditions"] = [
            _condition(item, f"{place}/{index}", ledger) for index, item in enumerate(conditions)
        ]


def _condition(value: Any, pointer: str, ledger: Ledger) -> Any:
    if isinstance(value, str):
        ledger.moved(pointer + "/description", pointer)
        ledger.note(
            "older-form", "a text in place of a condition is read as its description", pointer
        )
        return {"description": value}
    if not isinstance(value, dict):
        return value
    if _is_rule(value):
        ledger.moved(pointer + "/logic", pointer)
        ledger.note("older-form", "a rule in place of a condition is read as its logic", pointer)
        return {"logic": value}
    condition = dict(value)
    _drop_unused("condition", condition, pointer, ledger)
    return condition


def _is_rule(value: JsonDict) -> bool:
    """Return true for JsonLogic: one key, which is an operator."""
    if len(value) != 1:
        return False
    key = next(iter(value))
    if key in shape_of("Condition").keys or key in _UNUSED["condition"]:
        return False
    return all(fault.pointer != step(key) for fault in collect_faults(value))
