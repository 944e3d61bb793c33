"""Schemas that are no JSON Schema, and fixed replies that are no templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llm_fsm._json import JsonMap, object_at, step, value_at
from llm_fsm._text import nearest
from llm_fsm.conditions.coercion import is_number, is_whole
from llm_fsm.definition.json_schema.validator import TOO_MUCH_WORK, ShapeError, compile_shape
from llm_fsm.definition.templates import LANGUAGE, template_fault
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import as_json, near_hint
from llm_fsm.lint.facts.texts import replies
from llm_fsm.lint.facts.translations import translated_replies
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("S109", "error")
def bad_context_schema(document: Document) -> Faults:
    """The schema of a context key, or the whole `context_schema`, is not a JSON Schema.

    Why it is bad:
    No value can be checked against it, so the machine cannot be started. The same is true of schemas that refer to each
    other so often that a check might not end.

    Example:
        "context_schema": {"type": "object", "properties": {"age": {"type": "interger"}}},
        "states": {"hello": {"purpose": "Ask for the age"}}

    Fix:
    Correct the place that the message names. Types are string, number, integer, boolean, array, object, null.
    """
    whole = document.root.get("context_schema")
    if not isinstance(whole, dict):
        return
    faulty = set()
    for name, schema in object_at(whole, "properties").items():
        if isinstance(schema, dict):
            place = "/context_schema/properties" + step(name)
            for pointer, message, hint in schema_faults(schema, whole.get("$defs"), place):
                shared = pointer.startswith(place + "/$defs/") and "$defs" not in schema
                where = "/context_schema" + pointer.removeprefix(place) if shared else pointer
                if where not in faulty:
                    yield Fault(message, pointer=where, hint=hint)
                faulty.add(where)
    if not faulty:
        for pointer, message, hint in schema_faults(whole, None, "/context_schema"):
            yield Fault(message, pointer=pointer, hint=hint)


@lint_rule("S111", "error")
def bad_answer_schema(document: Document) -> Faults:
    """The `answer_schema` of a state is not a JSON Schema.

    Why it is bad:
    No answer can be checked against it, so the wait could never end. The same is true of schemas that refer to each
    other so often that a check might not end.

    Example:
        "states": {"hello": {"kind": "wait", "timeout": 60, "answer_schema": {"type": "bool"},
                             "transitions": [{"target_state": "bye"}]},
                   "bye": {"kind": "final", "purpose": "Say goodbye"}}

    Fix:
    Correct the place that the message names.
    """
    for state in document.states.values():
        answer = state.get("answer_schema")
        if isinstance(answer, dict):
            for pointer, message, hint in schema_faults(
                answer, None, state.pointer + "/answer_schema"
            ):
                yield Fault(message, pointer=pointer, hint=hint)


_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def schema_faults(
    schema: JsonMap, defs: object, place: str
) -> Iterator[tuple[str, str, str | None]]:
    """Yield (pointer, message, hint) for the first fault of the schema at `place`.

    `defs` is the target of `#/$defs/…`.
    """
    if not defs and _plainly_sound(schema):
        return
    inner = defs if isinstance(defs, dict) else None
    try:
        compile_shape(schema, inner)
    except ShapeError as error:
        message, hint = f"not a JSON Schema: {_short(error.reason)}", None
        value = value_at({"$defs": inner, **schema}, error.pointer)
        if error.reason == TOO_MUCH_WORK:
            message, hint = (
                f"checking a value might not end: {error.reason}",
                "refer to a schema fewer times",
            )
        elif error.pointer.endswith("/type"):
            message = f"not a JSON Schema: {as_json(value, 80)} is no type"
            near = near_hint(value, _TYPES) if isinstance(value, str) else None
            hint = near or f"types are {', '.join(_TYPES)}"
        elif (outer := _plain_shape(error.pointer, value)) is not None:
            message, hint = outer
        yield place + error.pointer, message, hint


def _short(reason: str) -> str:
    """Shorten a reason that quotes a long value."""
    return reason if len(reason) <= 200 else f"{reason[:120]} … {reason[-60:]}"


def _plain_shape(pointer: str, value: object) -> tuple[str, str] | None:
    """Return (message, hint) for short forms of schemas that people expect to work."""
    parent, _, word = pointer.rpartition("/")
    shown = as_json(value, 80)
    if parent.endswith("/properties") or word in ("items", "additionalProperties"):
        message = f"not a JSON Schema: {shown} is in the place of a schema"
        match value:
            case str():
                named = nearest(value, _TYPES) or "string"
                return message, f'write {{"type": "{named}"}}'
            case list():
                return message, f'write {{"enum": {shown}}}'
            case None:
                return message, 'write {"type": "string"}'
    if word == "required" and isinstance(value, bool):
        message = 'not a JSON Schema: "required" is a list of member names'
        return message, 'take it out; a state lists what it collects under "required_context_keys"'
    if word == "enum" and not isinstance(value, list):
        return 'not a JSON Schema: "enum" is a list of values', f'write "enum": [{shown}]'
    if word == "pattern" and isinstance(value, str):
        return (
            f"not a JSON Schema: {shown} is no regular expression",
            "close its brackets, or escape them with \\",
        )
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_anything(_value: object) -> bool:
    return True


_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    "type": lambda value: isinstance(value, str) and value in _TYPES,
    "items": lambda value: isinstance(value, dict) and _plainly_sound(value),
    "properties": lambda value: (
        isinstance(value, dict) and all(map(_PLAIN["items"], value.values()))
    ),
    "additionalProperties": lambda value: isinstance(value, bool),
    "required": lambda value: (
        isinstance(value, list) and all(map(_is_text, value)) and len({*value}) == len(value)
    ),
    **dict.fromkeys(("title", "description"), _is_text),
    **dict.fromkeys(("enum", "examples"), _is_list),
    **dict.fromkeys(("const", "default"), _is_anything),
    **dict.fromkeys(("minimum", "maximum"), is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
}


def _plainly_sound(schema: JsonMap) -> bool:
    """Return true for a schema of common keywords with valid values, which needs no compiler."""
    return all(
        key.startswith("x-") or (key in _PLAIN and _PLAIN[key](schema[key])) for key in schema
    )


@lint_rule("S110", "error")
def bad_template(document: Document) -> Faults:
    """A fixed reply is not in the language of replies, or a delimiter, quote, bracket or block is not closed.

    Why it is bad:
    The reply cannot be rendered, so the machine cannot be started. Replies have `{{ }}`, `if`, `for`, comparisons,
    `+`, `-` and a few filters. They have no variables, calls and methods, so no reply can become too long.

    Example:
        "states": {"bye": {"kind": "final", "reply": "Goodbye {{ name }!"}}

    Fix:
    Do what the message says. `{{ "{{" }}` writes the delimiters themselves. Compute values with `set` or a handler.
    """
    written = [(found.pointer, found.text) for found in translated_replies(document)]
    for pointer, reply in (*replies(document), *written):
        reason = template_fault(reply)
        if reason is not None:
            yield Fault(f"not a template: {reason}", pointer=pointer, hint=LANGUAGE)
