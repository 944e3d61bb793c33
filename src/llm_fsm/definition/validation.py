"""Check that a document has the form of a definition: its keys, types and bounds.

The document is checked against the published schema, so that the models are only needed to run a
machine. A document that fits the schema fits the models. A first pass finds unknown keys, a second
one everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from llm_fsm._json import (
    JsonDict,
    JsonMap,
    TextMap,
    as_text,
    joined,
    json_text,
    places_of,
    pointer_of,
    step,
)
from llm_fsm._text import listed, nearest
from llm_fsm._zones import NO_ZONES, zone_fault
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.codes import finding
from llm_fsm.definition.names import ALIASES, TIMEZONE_PATTERN
from llm_fsm.definition.published import ROOT, ValueForm, shape_of
from llm_fsm.errors import Finding

_SHOWN_CHARS = 40
_SHOWN_DIGITS = 15
_HINTED = 200
"""The most unknown keys of a file that are compared with the known ones."""

_NOUNS: TextMap = {
    "Condition": "a condition",
    "Transition": "a transition",
    "HistorySettings": '"history"',
    "ModelSettings": '"model"',
    "Limits": '"limits"',
    "Quotas": '"per"',
    "Quota": "a limit",
    "UserQuota": '"user"',
    "ToolRef": "a tool",
    "KeyResult": "a key result",
    "Scope": '"context_scope"',
    "FunctionErrorRule": '"on_function_error"',
    "ChoiceWords": "a choice",
    "State": "a state",
    "Property": "a property",
    "Definition": "a definition",
}

_MEANT: TextMap = {
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
"""Names of other systems for keys that spelling does not suggest."""

_EXPECTED: TextMap = {
    "string": "text",
    "text": "text or a list of lines of text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "map": "an object",
    "object": "an object",
}


_CLASSES = {"string": str, "list": list, "map": dict, "object": dict, "boolean": bool}
"""Kind to the Python type of its values, where that is all that they need."""
_Misspelt = dict[tuple[str, str], str]
"""(pointer of an object, intended key) to the written key."""


def describe(value: object) -> str:
    """Return a JSON value in a few words: `the text "high"`, `the number 3`, `a list`, `an object`,
    `null`.
    """
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            cut = value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…"
            return "the text " + json_text(cut)
        case int() | float():
            digits = str(value)
            shown = digits if len(digits) <= _SHOWN_DIGITS else digits[:_SHOWN_DIGITS] + "…"
            return f"the number {shown}"
        case list():
            return "a list" if value else "an empty list"
    return "an object" if value else "an empty object"


class Form(NamedTuple):
    """A document checked against the schema. `document`: without unknown keys and optional nulls.

    `sound`: it fits, so that the models accept it. `meant`: the document with corrected names of
    misspelt keys, if their values fit. `renamed` are their pointers in it, `unread` those of the
    others.
    """

    document: JsonMap
    sound: bool
    findings: tuple[Finding, ...]
    meant: JsonMap
    renamed: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


def examine(document: JsonMap) -> Form:
    """Check a document against the schema: every key and every type, all faults at once."""
    walk = _Walk([], {}, {}, set())
    known = walk.known(ROOT, document, "")
    faults = list(_Look(known, walk.misspelt).at(ValueForm("object", shape=ROOT), known, ()))
    meant = known
    renamed = tuple[str, ...]()
    if walk.renames:
        # Only objects on the way to a misspelt key are copied: documents can be large.
        above: set[str] = set()
        for pointer in walk.renames:
            above.update(places_of(pointer.rpartition("/")[0]))
        corrected = _renamed(document, "", walk.renames, above)
        meant = _Walk([], {}, {}, set()).known(ROOT, corrected, "")
        renamed = tuple(
            place.rpartition("/")[0] + step(name) for place, name in walk.renames.items()
        )
    findings = (*walk.findings, *faults)
    return Form(known, not faults, findings, meant, renamed, frozenset(walk.unread))


def _renamed(value: Any, pointer: str, renames: TextMap, above: Set[str]) -> Any:
    """Return a document with other keys at these pointers; `above` are the pointers of their
    containers.
    """
    if pointer not in above:
        return value
    if isinstance(value, dict):
        places = ((pointer + step(name), name, item) for name, item in value.items())
        return {
            renames.get(place, name): _renamed(item, place, renames, above)
            for place, name, item in places
        }
    return [
        _renamed(item, f"{pointer}/{index}", renames, above) for index, item in enumerate(value)
    ]


def _fits(part: ValueForm, item: Any) -> bool:
    """Return true if a value fits this part of a document."""
    known = item
    if part.model:
        known = _Walk([], {}, {}, set()).inner(part, item, "")
    return next(_Look({}, {}).at(part, known, ()), None) is None


class _Walk(NamedTuple):
    """One pass over a document beside the schema. `renames`: pointer of an unknown key to the
    intended key.

    `unread` are the corrected pointers of misspelt keys whose values do not fit.
    """

    findings: list[Finding]
    misspelt: _Misspelt
    renames: dict[str, str]
    unread: set[str]

    def known(self, shape: str, value: Any, pointer: str) -> Any:
        """Return the value without unknown keys and optional nulls, and note the unknown keys."""
        if not isinstance(value, dict):
            return value
        keys, required = shape_of(shape)
        kept: JsonDict = {}
        for name, item in value.items():
            part = keys.get(name)
            if part is None:
                if not (name.startswith("x-") or (name == "$schema" and not pointer)):
                    self.note(shape, value, name, pointer)
            elif item is not None or name in required:
                kept[name] = self.inner(part, item, pointer + step(name)) if part.model else item
        return kept

    def inner(self, part: ValueForm, item: Any, pointer: str) -> Any:
        if part.kind == "list" and isinstance(item, list):
            return [
                self.known(part.model, one, f"{pointer}/{index}") for index, one in enumerate(item)
            ]
        if part.kind == "map" and isinstance(item, dict):
            return {
                name: self.known(part.model, one, pointer + step(name))
                for name, one in item.items()
            }
        if part.kind == "object":
            return self.known(part.model, item, pointer)
        return item

    def note(self, shape: str, present: JsonMap, name: str, pointer: str) -> None:
        shown = describe(name).removeprefix("the text ")
        meant = self.meant(shape, present, name)
        hint = 'it is ignored; keys of your own may begin with "x-"'
        if meant is not None:
            hint = f'did you mean "{meant}"?'
            if meant not in present and (pointer, meant) not in self.misspelt:
                self.misspelt[pointer, meant] = shown
                part = shape_of(shape).keys.get(meant)
                if part is not None and _fits(part, present[name]):
                    self.renames[pointer + step(name)] = meant
                else:
                    self.unread.add(pointer + step(meant))
        message = f"unknown key {shown} in {_NOUNS[shape]}"
        self.findings.append(
            finding("unknown-key", message, pointer=pointer + step(name), hint=hint)
        )

    def meant(self, shape: str, present: JsonMap, name: str) -> str | None:
        """Return the most similar known key, preferably one that is missing."""
        keys = shape_of(shape).keys
        aliases = ALIASES.get(shape, {})
        foreign = _MEANT.get(name.casefold())
        if (
            foreign is not None
            and foreign not in present
            and (foreign in keys or foreign in aliases)
        ):
            return foreign
        if len(self.findings) >= _HINTED:
            return None
        known = (*keys, *aliases)
        return nearest(name, [key for key in known if key not in present]) or nearest(name, known)


Loc = tuple[str | int, ...]


class _Look(NamedTuple):
    """One look at a document without unknown keys, which yields a finding for each value that does
    not fit.
    """

    document: JsonMap
    misspelt: _Misspelt

    def at(self, part: ValueForm, value: Any, loc: Loc) -> Iterator[Finding]:
        """Say what is wrong with a value and with all that it holds. `part`: what is expected
        there.
        """
        kind = part.kind
        if kind == "choice":
            if not (isinstance(value, str | bool) and value in part.choices):
                yield _not_a_choice(loc, value, part.choices)
        elif part.or_text and isinstance(value, str):
            return
        elif not _has_type(kind, value):
            message = f"expected {_EXPECTED[kind]}, found {describe(value)}"
            yield _misfit("wrong-type", loc, message, _type_hint(kind, value))
        elif kind == "object":
            yield from self.in_object(part, value, loc)
        elif kind == "map":
            yield from self.in_map(part, value, loc)
        elif kind == "list" and part.inner is not None:
            for index, item in enumerate(value):
                yield from self.at(part.inner, item, (*loc, index))
        elif kind in ("number", "integer") and (bound := _broken_bound(part, value)):
            yield _misfit("bad-value", loc, f"expected a number {bound}, found {describe(value)}")
        elif part.pattern is not None:
            fault = _name_fault(part, value)
            if fault is not None:
                yield _misfit("bad-value", loc, fault)

    def in_object(self, part: ValueForm, value: JsonMap, loc: Loc) -> Iterator[Finding]:
        keys, required = shape_of(part.shape)
        for name, inner in keys.items():
            if name in value:
                yield from self.at(inner, value[name], (*loc, name))
            elif name in required:
                yield self.missing(loc, name, _NOUNS[part.shape])

    def in_map(self, part: ValueForm, value: JsonMap, loc: Loc) -> Iterator[Finding]:
        assert part.inner is not None
        for name, item in value.items():
            if part.pattern is not None and re.fullmatch(part.pattern, name) is None:
                yield _bad_state_id(name)
            yield from self.at(part.inner, item, (*loc, name))
            if loc == ("states",) and isinstance(item, dict):
                yield from _other_id(name, item.get("id"))
        if len(value) < part.size:
            hint = 'write "states": {"hello": {"purpose": "…"}}'
            yield _misfit("bad-value", loc, "at least one state is needed", hint)

    def missing(self, loc: Loc, key: str, noun: str) -> Finding:
        pointer = pointer_of(loc)
        states = self.document.get("states")
        hint = f'add "{key}": …'
        if (pointer, key) in self.misspelt:
            hint = f"rename {self.misspelt[pointer, key]}"
        elif key == "initial_state" and isinstance(states, dict) and states:
            hint = f'add "initial_state": {json_text(next(iter(states))[:64])}'
        return finding("missing-key", f'{noun} needs the key "{key}"', pointer=pointer, hint=hint)


def _broken_bound(part: ValueForm, value: float) -> str:
    """Return the bound that a number breaks; "" if it breaks none."""
    if part.least is not None and value < part.least:
        return f"of at least {part.least:,}"
    if part.above is not None and value <= part.above:
        return f"greater than {part.above:,}"
    if part.most is not None and value > part.most:
        return f"of at most {part.most:,}"
    return ""


def _name_fault(part: ValueForm, value: str) -> str | None:
    """Return why a text is no name of the expected form; None if it is one."""
    shown = " or ".join(map(json.dumps, part.examples))
    expected = f"expected a name such as {shown}, found {describe(value)}"
    if not re.fullmatch(part.pattern or "", value):
        return expected
    if part.pattern != TIMEZONE_PATTERN or not value:
        return None
    fault = zone_fault(value)
    if fault == NO_ZONES:
        return f"the time zone {value!r} cannot be found: {fault}"
    return None if fault is None else expected


def _has_type(kind: str, value: Any) -> bool:
    match kind:
        case "text":
            return joined(value) is not None
        case "integer":
            return is_number(value) and (isinstance(value, int) or value.is_integer())
        case "number":
            return is_number(value)
    return isinstance(value, _CLASSES.get(kind, object))


def _named(loc: Loc) -> str:
    """Return the name of a place in a message: its key, or the item of its list."""
    if not loc:
        return "the definition"
    if isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_named(loc[:-1])}"
    if len(loc[-1]) <= _SHOWN_CHARS:
        return json_text(loc[-1])
    return "the value"


def _misfit(name: str, loc: Loc, message: str, hint: str | None = None) -> Finding:
    return finding(name, f"{_named(loc)}: {message}", pointer=pointer_of(loc), hint=hint)


def _bad_state_id(name: str) -> Finding:
    words = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:60].strip("_")
    better = words if re.match(r"[A-Za-z_]", words) else f"state_{words}".rstrip("_")
    rule = (
        "ids are ASCII letters, digits, _ and -, begin with a letter or _, and have at most 64"
        " characters"
    )
    message = f"{describe(name).replace('the text', 'state id', 1)} cannot be used: {rule}"
    return finding(
        "bad-state-id", message, pointer="/states" + step(name), hint=f'write "{better}"'
    )


def _other_id(name: str, written: object) -> Iterator[Finding]:
    """Yield the fault of a state with another id than its key."""
    if isinstance(written, str) and written not in ("", name):
        message = f"a state's id is its key {describe(name)}, found {describe(written)}"
        hint = "transitions lead to the key: remove the id, or rename one of them"
        yield _misfit("bad-value", ("states", name, "id"), message, hint)


def _not_a_choice(loc: Loc, value: object, known: Sequence[str | bool]) -> Finding:
    meant = None
    choices = [as_text(one) for one in known]
    if isinstance(value, str):
        meant = nearest(value, choices)
    message = f"expected one of {listed(choices, 12)}, found {describe(value)}"
    name = "bad-value" if isinstance(value, str) else "wrong-type"
    return _misfit(name, loc, message, f'did you mean "{meant}"?' if meant else None)


_TRUTH = {"true": "true", "yes": "true", "false": "false", "no": "false"}


def _type_hint(kind: str, value: object) -> str | None:
    word = ""
    if isinstance(value, str):
        word = value.strip().lower()
    fraction = r"(?:\.[0-9]{1,15})?" if kind == "number" else ""
    if kind in ("integer", "number") and re.fullmatch(r"-?(?:0|[1-9][0-9]{0,14})" + fraction, word):
        return f"write {word} without quotes"
    if kind == "boolean" and word in _TRUTH:
        return f"write {_TRUTH[word]} without quotes"
    if kind == "list" and value is not None:
        return "put it in brackets: [ … ]"
    if kind in ("string", "text") and isinstance(value, int | float):
        return "put it in quotes"
    return None
