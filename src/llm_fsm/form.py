"""Whether a document has the form of a definition: its keys, types and bounds, in an author's words.

The models of `definition` decide; what they refuse is put into findings that say what was expected
and what stands there. Unknown keys are found by walking the document beside the models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llm_fsm import definition as models
from llm_fsm.codes import finding, listed, step
from llm_fsm.definition import Definition
from llm_fsm.findings import Finding, nearest

_SHOWN_CHARS = 40
_SHOWN_DIGITS = 15
_HINTED = 200
"""Of a hopeless file the first so many unknown keys are compared with the known ones."""

_NOUNS: Mapping[type[BaseModel], str] = {
    models.Condition: "a condition",
    models.Transition: "a transition",
    models.HistorySettings: '"history"',
    models.ModelSettings: '"model"',
    models.Limits: '"limits"',
    models.ToolRef: "a tool",
    models.KeyResult: "a key result",
    models.Scope: '"context_scope"',
    models.State: "a state",
    models.Property: "a property",
    models.Definition: "a definition",
}

ALIASES: Mapping[type[BaseModel], Mapping[str, str]] = {
    models.State: {"objective": "purpose", "state_instructions": "instructions"},
}
"""Second names of keys, which `legacy` replaces before the models see them."""

_MEANT: Mapping[str, str] = {
    "to": "target_state",
    "target": "target_state",
    "next": "target_state",
    "next_state": "target_state",
    "goto": "target_state",
    "desc": "description",
    "initial": "initial_state",
    "start": "initial_state",
    "start_state": "initial_state",
    "type": "kind",
    "guard": "conditions",
    "guards": "conditions",
    "when": "conditions",
    "cond": "conditions",
    "keys": "requires_context_keys",
    "required_keys": "required_context_keys",
    "rule": "logic",
    "prompt": "instructions",
    "message": "reply",
    "text": "reply",
    "schema": "context_schema",
    "edges": "transitions",
    "system_prompt": "persona",
    "title": "name",
}
"""What other systems call a key, where no likeness of letters gives it away."""

_EXPECTED: Mapping[str, str] = {
    "string_type": "text",
    "text_type": "text or a list of lines of text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}


_Misspelt = dict[tuple[str, str], str]
"""(pointer of an object, key that was meant) to the key that stands there."""


@dataclass(frozen=True, slots=True)
class _Key:
    """One key of a model: whether it must be there, and the model of what it holds, if it holds models."""

    required: bool
    container: str = ""
    model: type[BaseModel] | None = None


def _held(annotation: Any) -> tuple[str, type[BaseModel] | None]:
    """Container ("one", "list", "dict") and model of a field's annotation; ("", None) without a model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "one", annotation
    origin = get_origin(annotation)
    for argument in get_args(annotation):
        container, model = _held(argument)
        if container == "one":
            return (origin.__name__ if origin in (list, dict) else "one"), model
    return "", None


@cache
def keys_of(model: type[BaseModel]) -> Mapping[str, _Key]:
    """The keys that a model knows, as written in a file."""
    found = {}
    for name, field in model.model_fields.items():
        container, inner = _held(field.annotation)
        found[field.alias or name] = _Key(field.is_required(), container, inner)
    return MappingProxyType(found)


def describe(value: object) -> str:
    """A JSON value in a few words: `the text "high"`, `the number 3`, `a list`, `an object`, `null`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…"
        return "the text " + json.dumps(cut, ensure_ascii=False)
    if isinstance(value, int | float):
        digits = str(value)
        return f"the number {digits if len(digits) <= _SHOWN_DIGITS else digits[:_SHOWN_DIGITS] + '…'}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object" if value else "an empty object"


@dataclass(frozen=True, slots=True)
class Form:
    """A document held against the models. `document`: without unknown keys and optional nulls.

    `definition` is None when the models refuse it.
    """

    document: Mapping[str, Any]
    definition: Definition | None
    findings: tuple[Finding, ...]


def examine(document: Mapping[str, Any]) -> Form:
    """Hold a document against the models: every key and every type, all faults at once."""
    walk = _Walk([], {})
    known = walk.known(Definition, document, "")
    try:
        return Form(known, Definition.model_validate(known), tuple(walk.findings))
    except ValidationError as error:
        faults = [_fault(known, details, walk.misspelt) for details in error.errors(include_url=False)]
        return Form(known, None, (*walk.findings, *faults))


@dataclass(frozen=True, slots=True)
class _Walk:
    """One pass over a document beside the models."""

    findings: list[Finding]
    misspelt: _Misspelt

    def known(self, model: type[BaseModel], value: Any, pointer: str) -> Any:
        """The value without unknown keys, and without null for optional keys; unknown keys are noted."""
        if not isinstance(value, dict):
            return value
        keys = keys_of(model)
        kept: dict[str, Any] = {}
        for name, item in value.items():
            key = keys.get(name)
            place = pointer + step(name)
            if key is None:
                if not (name.startswith("x-") or (name == "$schema" and not pointer)):
                    self.note(model, value, name, pointer)
            elif item is not None or key.required:
                kept[name] = item if key.model is None else self.inner(key, key.model, item, place)
        return kept

    def inner(self, key: _Key, model: type[BaseModel], item: Any, pointer: str) -> Any:
        if key.container == "list" and isinstance(item, list):
            return [self.known(model, one, f"{pointer}/{index}") for index, one in enumerate(item)]
        if key.container == "dict" and isinstance(item, dict):
            return {name: self.known(model, one, pointer + step(name)) for name, one in item.items()}
        return self.known(model, item, pointer) if key.container == "one" else item

    def note(self, model: type[BaseModel], present: Mapping[str, Any], name: str, pointer: str) -> None:
        shown = describe(name).removeprefix("the text ")
        meant = self.meant(model, present, name)
        hint = 'it is ignored; keys of your own may begin with "x-"'
        if meant is not None:
            hint = f'did you mean "{meant}"?'
            if meant not in present:
                self.misspelt[pointer, meant] = shown
        message = f"unknown key {shown} in {_NOUNS[model]}"
        self.findings.append(finding("unknown-key", message, pointer=pointer + step(name), hint=hint))

    def meant(self, model: type[BaseModel], present: Mapping[str, Any], name: str) -> str | None:
        """The known key that was probably meant; one that is not there yet is the better guess."""
        known = (*keys_of(model), *ALIASES.get(model, {}))
        missing = [key for key in known if key not in present]
        foreign = _MEANT.get(name.casefold())
        if foreign in missing:
            return foreign
        if len(self.findings) >= _HINTED:
            return None
        return nearest(name, missing) or nearest(name, known)


def _named(loc: tuple[int | str, ...]) -> str:
    """What a place is called in a message: its key, or the item of its list."""
    if not loc:
        return "the definition"
    if isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_named(loc[:-1])}"
    return json.dumps(loc[-1], ensure_ascii=False) if len(loc[-1]) <= _SHOWN_CHARS else "the value"


def _fault(document: Mapping[str, Any], details: ErrorDetails, misspelt: _Misspelt) -> Finding:
    kind, loc, value, bounds = details["type"], details["loc"], details["input"], details.get("ctx", {})
    pointer = "".join(step(part) for part in loc)
    place = _named(loc)
    if kind == "missing":
        return _missing(document, loc, misspelt)
    if kind == "string_pattern_mismatch" and loc[-1] == "[key]":
        return _bad_state_id(str(value))
    if kind == "literal_error":
        return _not_a_choice(place, value, re.findall(r"'([^']*)'", str(bounds.get("expected"))), pointer)
    if kind in _EXPECTED:
        message = f"{place}: expected {_EXPECTED[kind]}, found {describe(value)}"
        return finding("wrong-type", message, pointer=pointer, hint=_type_hint(kind, value))
    if kind in ("greater_than", "greater_than_equal"):
        bound = f"greater than {bounds['gt']:g}" if "gt" in bounds else f"of at least {bounds['ge']:g}"
        message = f"{place}: expected a number {bound}, found {describe(value)}"
        return finding("bad-value", message, pointer=pointer)
    if kind == "too_short":
        hint = 'write "states": {"hello": {"purpose": "…"}}'
        return finding("bad-value", f"{place}: at least one state is needed", pointer=pointer, hint=hint)
    return finding("bad-value", f"{place}: {describe(value)} cannot stand here", pointer=pointer)


def _missing(document: Mapping[str, Any], loc: tuple[int | str, ...], misspelt: _Misspelt) -> Finding:
    key = str(loc[-1])
    pointer = "".join(step(part) for part in loc[:-1])
    states = document.get("states")
    hint = f'add "{key}": …'
    if (pointer, key) in misspelt:
        hint = f"rename {misspelt[pointer, key]}"
    elif key == "initial_state" and isinstance(states, dict) and states:
        hint = f'add "initial_state": {json.dumps(next(iter(states))[:64], ensure_ascii=False)}'
    noun = _NOUNS[_model_at(loc[:-1])]
    return finding("missing-key", f'{noun} needs the key "{key}"', pointer=pointer, hint=hint)


def _model_at(loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model of the object at a place: the last one that the keys on the way lead to."""
    model: type[BaseModel] = Definition
    inside = ""
    for part in loc:
        if inside in ("list", "dict"):
            inside = "one"
            continue
        key = keys_of(model)[str(part)]
        assert key.model is not None
        model, inside = key.model, key.container
    return model


def _bad_state_id(name: str) -> Finding:
    words = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:60].strip("_")
    better = words if re.match(r"[A-Za-z_]", words) else f"state_{words}".rstrip("_")
    rule = "ids are ASCII letters, digits, _ and -, begin with a letter or _, and have at most 64 characters"
    message = f"{describe(name).replace('the text', 'state id', 1)} cannot be used: {rule}"
    return finding("bad-state-id", message, pointer="/states" + step(name), hint=f'write "{better}"')


def _not_a_choice(place: str, value: object, choices: list[str], pointer: str) -> Finding:
    meant = nearest(value, choices) if isinstance(value, str) else None
    message = f"{place}: expected one of {listed(choices, 12)}, found {describe(value)}"
    name = "bad-value" if isinstance(value, str) else "wrong-type"
    return finding(name, message, pointer=pointer, hint=f'did you mean "{meant}"?' if meant else None)


_TRUTH = {"true": "true", "yes": "true", "false": "false", "no": "false"}


def _type_hint(kind: str, value: object) -> str | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    if kind in ("int_type", "float_type") and re.fullmatch(r"-?[0-9]{1,15}", word):
        return f"write {word} without quotes"
    if kind == "bool_type" and word in _TRUTH:
        return f"write {_TRUTH[word]} without quotes"
    if kind == "list_type" and value is not None:
        return "put it in brackets: [ … ]"
    if kind in ("string_type", "text_type") and isinstance(value, int | float):
        return "put it in quotes"
    return None
