"""A word in a schema does nothing: it is misspelt, unknown, in the wrong place, or about another type.

Why it is bad:
JSON Schema passes over words that it does not know, so the bound, format or setting that was meant is not
there, and nothing says so.

Example:
    "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimun": 1}}},
    "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Write the word that is meant. Notes of your own may stand under names that begin with `x-`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, TypeGuard

from llm_fsm._json import step
from llm_fsm._text import nearest
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schema_parts import Part, schema_parts
from llm_fsm.lint.facts.shortcuts import idle
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.key_schemas import looks_like_key
from llm_fsm.lint.rule import Rule

_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
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
    ),
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    ),
}
_WORDS = frozenset(
    {
        *("$schema", "$id", "$ref", "$defs", "$comment", "$anchor", "definitions", "type", "enum", "const"),
        *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedItems"),
        *(word for words in _OF_TYPE.values() for word in words),
    }
)
_SHORT = frozenset({"not", "if", "then", "else", "$id"})
"""Words that are too short to be told from others by likeness."""
_OWN = ("x-source", "x-secret", "x-fast")
_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("values", "choices", "options", "allowed", "allowed_values", "allowedvalues"), "enum"),
    **dict.fromkeys(("regex", "regexp"), "pattern"),
    **dict.fromkeys(("min", "max", "minvalue", "maxvalue"), "minimum, maximum, minLength or maxLength"),
}
"""What other systems call a word."""
_FORMATS = (
    *("date", "time", "date-time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4"),
    *("ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer"),
    *("relative-json-pointer", "regex"),
)
_FORMAT_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("e-mail", "mail", "emailaddress"), "email"),
    **dict.fromkeys(("datetime", "date_time", "timestamp", "iso8601"), "date-time"),
    **dict.fromkeys(("url", "link"), "uri"),
    **dict.fromkeys(("guid",), "uuid"),
    **dict.fromkeys(("ip", "ipaddress"), "ipv4"),
}
_NEAR = 0.8


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the words of every schema, at formats, and at the names that are required."""
    for part in schema_parts(subject):
        for word, value in part.schema.items():
            if word not in _WORDS and word not in _OWN:
                yield from _unknown(part, word, value)
        yield from _of_other_types(part)
        yield from _fast(subject, part)
        yield from _format(part)
        yield from _required(part)


def _unknown(part: Part, word: str, value: Any) -> Iterator[Finding]:
    place = part.pointer + step(word)
    own = nearest(word, _OWN)
    prefixed = word.startswith(("x-", "X-", "x_"))
    if own is not None and _ratio(word, own) >= _NEAR and (prefixed or _is_setting(value)):
        yield _finding(f"{quoted(word)} is none of the settings of a key", place, own)
        return
    if prefixed:
        return
    if part.pointer == "/context_schema" and looks_like_key(word, value):
        if not isinstance(part.schema.get("properties"), dict) and nearest(word, ["properties"]) is None:
            return
        message = f'{quoted(word)} stands beside "properties" and declares no key'
        yield RULE.finding(message, pointer=place, hint='put it inside "properties"')
        return
    plain = word.replace("_", "").replace("-", "").casefold()
    near = next((one for one in _WORDS if one.casefold() == plain), None) or _MEANT.get(word.casefold())
    if near is None:
        guess = nearest(word, sorted(_WORDS - _SHORT))
        near = guess if guess is not None and _ratio(word, guess) >= _NEAR else None
    if near is not None:
        yield _finding(
            f"{quoted(word)} is no word of JSON Schema and does nothing in {part.name}", place, near
        )


def _is_setting(value: Any) -> bool:
    return isinstance(value, bool) or value in ("model", "host", "tool", "answer")


def _ratio(word: str, other: str) -> float:
    return SequenceMatcher(None, word.casefold(), other.casefold()).ratio()


def _finding(message: str, pointer: str, meant: str) -> Finding:
    several = "," in meant or " or " in meant
    hint = f"write {meant}" if several else f'did you mean "{meant}"?'
    return RULE.finding(message, pointer=pointer, hint=hint)


def _of_other_types(part: Part) -> Iterator[Finding]:
    """Bounds of numbers in a schema of texts, and the like."""
    types = types_of(part.schema)
    known = {"number" if name == "integer" else name for name in types}
    if not known or not known <= {*_OF_TYPE, "boolean", "null"}:
        return
    for kind, words in _OF_TYPE.items():
        if kind not in known:
            for word in words:
                if word in part.schema and word != "format" and not isinstance(part.schema[word], bool):
                    yield RULE.finding(
                        f'"{word}" does nothing in {part.name}, which is of type {" or ".join(sorted(types))}',
                        pointer=f"{part.pointer}/{word}",
                        hint=_instead(word, known),
                    )


def _instead(word: str, known: set[str]) -> str | None:
    size = word.removeprefix("exclusive").casefold()
    if size.startswith(("min", "max")):
        for kind, ending in (("string", "Length"), ("array", "Items"), ("object", "Properties")):
            if kind in known:
                return f'did you mean "{size[:3]}{ending}"?'
        if "number" in known:
            return f'did you mean "{size[:3]}imum"?'
    return None


def _is_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _fast(subject: Subject, part: Part) -> Iterator[Finding]:
    """`x-fast` where no message does without the model."""
    if part.schema.get("x-fast") is True and (found := idle(subject, part)) is not None:
        message = f'"x-fast" does nothing in {part.name}: {found.why}'
        yield RULE.finding(message, pointer=part.pointer + "/x-fast", hint=found.hint)


def _format(part: Part) -> Iterator[Finding]:
    value = part.schema.get("format")
    if not isinstance(value, str) or value in _FORMATS:
        return
    plain = value.casefold().replace(" ", "")
    meant = _FORMAT_NAMES.get(plain) or _FORMAT_NAMES.get(plain.replace("-", "").replace("_", ""))
    if meant is None:
        guess = nearest(value, _FORMATS)
        meant = guess if guess is not None and _ratio(value, guess) >= _NEAR else None
    level: Level = "info" if meant is None else "warning"
    hint = 'write a "pattern" to have it checked' if meant is None else f'did you mean "{meant}"?'
    yield RULE.finding(
        f"the format {quoted(value)} is unknown, so values of {part.name} are not checked for it",
        pointer=part.pointer + "/format",
        hint=hint,
        level=level,
    )


def _required(part: Part) -> Iterator[Finding]:
    names, members = part.schema.get("required"), part.schema.get("properties")
    if not _is_names(names) or not isinstance(members, dict) or "patternProperties" in part.schema:
        return
    for index, name in enumerate(names):
        if name not in members:
            meant = nearest(name, members)
            yield RULE.finding(
                f'"required" names {quoted(name)}, which {part.name} does not declare',
                pointer=f"{part.pointer}/required/{index}",
                hint=None if meant is None else f"did you mean {quoted(meant)}?",
            )


RULE = Rule(name="idle-schema-word", code="S122", level="warning", check=check)
