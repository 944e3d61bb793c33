"""Keywords in a schema that do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from llm_fsm._json import step, steps
from llm_fsm._text import nearest
from llm_fsm.definition.json_schema.inline import simplified
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.lint.document import Document, looks_like_key
from llm_fsm.lint.facts.schema_parts import SchemaPart, schema_parts
from llm_fsm.lint.facts.suggestions import near_hint, quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.turn.recognize import recogniser

_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": (
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "contentEncoding",
        "contentMediaType",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": (
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    ),
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ),
}
_WORDS = (
    "$schema",
    "$ref",
    "$defs",
    "$comment",
    "$anchor",
    "definitions",
    "type",
    "enum",
    "const",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "allOf",
    "anyOf",
    "oneOf",
    *chain.from_iterable(_OF_TYPE.values()),
)
_SHORT = ("not", "if", "then", "else", "$id")
"""Keywords that are too short for suggestions."""
_SETTINGS = (
    "x-source",
    "x-secret",
    "x-fast",
    "x-from",
    "x-labels",
    "x-currency",
    "x-valid",
    "x-said",
    "x-ask",
)
_FORMATS = (
    "date",
    "time",
    "date-time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
)
_NEAR = 0.8
_IDLE_AT_ROOT = (
    "if",
    "then",
    "else",
    "not",
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "enum",
    "const",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
)
"""Keywords about several keys at once, which are never checked. Every generated schema has
`required` and `additionalProperties`, so these two are no finding."""


@lint_rule("S122", "warning")
def idle_schema_word(document: Document) -> Faults:
    """A keyword in a schema does nothing: it is misspelt, in the wrong place, or for another type.

    Why it is bad:
    JSON Schema ignores unknown keywords. The intended bound, format or setting is missing, and nothing reports it.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimun": 1}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the keyword that you mean. Your own notes may have names that begin with `x-`.
    """
    for part in schema_parts(document):
        for word, value in part.schema.items():
            if word not in _WORDS and word not in _SHORT and word not in _SETTINGS:
                yield from _unknown(part, word, value)
        yield from _at_root(part)
        yield from _of_other_types(part)
        yield from _format(part)
        yield from _required(part)
        yield from _fast(document, part)


def _fast(document: Document, part: SchemaPart) -> Faults:
    """Find `x-fast` in states in which every message needs the model."""
    if part.schema.get("x-fast") is not True:
        return
    *owner, key = steps(part.pointer) or ("",)
    asking = [
        state
        for _, state in states_of_kind(document, "converse")
        if key in state.names("required_context_keys")
    ]
    schema = simplified(part.schema, part.definitions)
    if (
        owner != ["context_schema", "properties"]
        or document.source_of(key) != "model"
        or recogniser(schema, document.root.text("language")) is None
    ):
        why = "no message is certainly its value"
        hint = 'it is for an "enum", a boolean or a "format"'
    elif not any(state.text("reply") for state in asking):
        why = "no state asks for it in fixed words"
        hint = 'give the state that asks for it a "reply"'
    else:
        return
    message = f'"x-fast" does nothing in {part.name}: {why}'
    yield Fault(message, pointer=part.pointer + "/x-fast", hint=hint)


def _at_root(part: SchemaPart) -> Faults:
    """Find rules about several keys, because each key is checked by itself."""
    if part.pointer != "/context_schema":
        return
    for word in _IDLE_AT_ROOT:
        if word in part.schema:
            yield Fault(
                f"{quoted(word)} does nothing at the root of {part.name}: "
                "each key is checked by itself",
                pointer=part.pointer + step(word),
                hint="write a condition on the transitions that need it, or put it inside a key",
            )


def _unknown(part: SchemaPart, word: str, value: Any) -> Faults:
    place = part.pointer + step(word)
    if (
        part.pointer == "/context_schema"
        and looks_like_key(word, value)
        and _like(word, ["properties"]) is None
    ):
        message = f'{quoted(word)} stands beside "properties" and declares no key'
        yield Fault(message, pointer=place, hint='put it inside "properties"')
        return
    meant = _like(word, _SETTINGS if word.startswith("x") else _WORDS)
    if meant is not None:
        message = f"{quoted(word)} is no word of JSON Schema and does nothing in {part.name}"
        yield Fault(message, pointer=place, hint=f'did you mean "{meant}"?')


def _like(word: str, known: tuple[str, ...] | list[str]) -> str | None:
    """Return the known keyword that differs from this one by a typo, or only by case and
    underscores.
    """
    plain = word.replace("_", "").casefold()
    meant = next((one for one in known if one.casefold() == plain), None) or nearest(word, known)
    if meant is None or SequenceMatcher(None, plain, meant.casefold()).ratio() < _NEAR:
        return None
    return meant


def _of_other_types(part: SchemaPart) -> Faults:
    """Find bounds of numbers in a schema of texts, and the like."""
    types = types_of(part.schema)
    known = {"number" if name == "integer" else name for name in types}
    if not known or not known <= {*_OF_TYPE, "boolean", "null"}:
        return
    for kind, words in _OF_TYPE.items():
        for word in words if kind not in known else ():
            if word in part.schema and word != "format" and not isinstance(part.schema[word], bool):
                yield Fault(
                    f'"{word}" does nothing in {part.name}, which is of type'
                    f" {' or '.join(sorted(types))}",
                    pointer=f"{part.pointer}/{word}",
                )


def _format(part: SchemaPart) -> Faults:
    value = part.schema.get("format")
    if not isinstance(value, str) or value in _FORMATS:
        return
    if value == "password" and part.pointer.startswith("/context_schema"):
        return  # it makes the key secret
    hint = near_hint(value.casefold().replace("_", "-"), _FORMATS)
    yield Fault(
        f"the format {quoted(value)} is unknown, so values of {part.name} are not checked for it",
        pointer=part.pointer + "/format",
        hint=hint or 'write a "pattern" to have it checked',
        level=None if hint else "info",
    )


def _required(part: SchemaPart) -> Faults:
    names = part.schema.get("required")
    members = part.schema.get("properties")
    if (
        not isinstance(names, list)
        or not isinstance(members, dict)
        or "patternProperties" in part.schema
    ):
        return
    for index, name in enumerate(names):
        if isinstance(name, str) and name not in members:
            yield Fault(
                f'"required" names {quoted(name)}, which {part.name} does not declare',
                pointer=f"{part.pointer}/required/{index}",
                hint=near_hint(name, members),
            )
