"""Names and settings of context keys and states that cannot work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from llm_fsm._json import JsonMap, Schemas, is_list_of, json_text, step
from llm_fsm.conditions.compiler import collect_faults, compile_rule
from llm_fsm.definition.graph import explored
from llm_fsm.definition.names import KEY_PATTERN, VALID, declared_key
from llm_fsm.lint.document import Document, Pairs, Placed, texts_of_states
from llm_fsm.lint.facts.suggestions import as_json, near_hint, quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_ALLOWED = (
    "keys are ASCII letters, digits, _ . and -, begin with a letter, and have at most 64 characters"
)


def _names(document: Document) -> Pairs:
    """Yield (pointer, name) for every key that is collected or declared."""
    declared = document.keys
    for _, pointer, name in texts_of_states(document, "required_context_keys"):
        if name.startswith("_") or declared_key(name, declared) is None:
            yield pointer, name
    for key in declared:
        if key.startswith("_") or document.source_of(key) == "model":
            yield "/context_schema/properties" + step(key), key


@lint_rule("K301", "error", blocks=False)
def bad_key(document: Document) -> Faults:
    """A context key has a name that can never be stored, or that some providers refuse.

    Why it is bad:
    The answer of the user would be lost. Names that begin with `_` belong to the system. Others are ASCII letters,
    digits, `_`, `.` and `-`, begin with a letter and have at most 64 characters. A key that `context_schema` declares
    may have another name, but some providers, such as Anthropic, refuse it: a warning.

    Example:
        "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["first name"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Rename the key.
    """
    for pointer, name in _names(document):
        if name.startswith("_"):
            yield Fault(
                f"context key {quoted(name)}: names that begin with _ belong to the system",
                pointer=pointer,
                hint=f"write {quoted(name.lstrip('_') or 'key')}",
            )
        elif re.fullmatch(KEY_PATTERN, name) is None:
            if name in document.keys:
                message = f"some models cannot be asked for context key {quoted(name)}"
                yield Fault(message, pointer=pointer, hint=_ALLOWED, level="warning")
            else:
                message = f"context key {quoted(name)} can never be stored"
                yield Fault(message, pointer=pointer, hint=_ALLOWED)


_OUTCOMES = frozenset({"raise", "continue"})
_TARGET = "target_state"


@lint_rule("S113", "warning", at_key=True)
def reserved_name(document: Document) -> Faults:
    """A state or context key has a reserved name.

    Why it is bad:
    `on_exhausted` and `on_timeout` read `raise` and `continue` as actions, and never lead to a state of that name. A
    reply cannot be repaired if a context key is also called `target_state`.

    Example:
        "states": {"hello": {"purpose": "Ask what to do", "transitions": [{"target_state": "continue"}]},
                   "continue": {"purpose": "Go on"}}

    Fix:
    Choose a word that describes the state or the key.
    """
    for name in [name for name in document.states if name in _OUTCOMES]:
        yield Fault(
            f'"on_exhausted" and "on_timeout" never lead to a state called {quoted(name)}: it is'
            " a word of theirs",
            pointer=document.states[name].pointer,
            hint="choose a word for what the state is there for",
        )
    if _TARGET in document.keys:
        yield Fault(
            f"a context key called {quoted(_TARGET)} is mixed up with the target of a reply",
            pointer="/context_schema/properties" + step(_TARGET),
            hint="choose a word for what the key holds",
        )


_CURRENCY = re.compile(r"[A-Z]{3}")
"""A code of ISO 4217."""
SOURCES = ("model", "host", "tool", "answer")


@lint_rule("S116", "error")
def bad_key_setting(document: Document) -> Faults:
    """A setting of a context key, such as `x-source`, `x-from` or `x-valid`, has a value that it cannot have.

    Why it is bad:
    The checker would have to guess who may write the key, and if it must stay out of prompts.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "x-source": "hots"}}},
        "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    `x-source` is `model`, `host`, `tool` or `answer`; `x-secret` and `x-fast` are true or false. `x-labels` is an
    object that maps values to words. `x-from` is a list of other declared keys, or of their parts. No key is made of
    itself, also not through others. `x-valid` is a list of `{"logic": …, "description": …}` over declared keys.
    `x-said` is `quote`, `digits` or false, at a key that a reply may write. `x-currency` is a code of three capitals.
    """
    for key, schema in document.keys.items():
        place = "/context_schema/properties" + step(key)
        source = schema.get("x-source")
        if source is not None and source not in SOURCES:
            shown = source if isinstance(source, str) else as_json(source, 40)
            yield Fault(
                f'"x-source": expected one of {", ".join(SOURCES)}, found {quoted(shown)}',
                pointer=place + "/x-source",
                hint=near_hint(shown, SOURCES),
            )
        for name in ("x-secret", "x-fast"):
            value = schema.get(name)
            if value is not None and not isinstance(value, bool):
                shown = as_json(value, 40)
                message = f'"{name}": expected true or false, found {shown}'
                yield Fault(message, pointer=f"{place}/{name}")
        currency = schema.get("x-currency")
        if currency is not None and not _CURRENCY.fullmatch(str(currency)):
            shown = as_json(currency, 40)
            message = f'"x-currency": expected a code such as EUR, found {shown}'
            yield Fault(message, pointer=place + "/x-currency")
        yield from _said(schema, place + "/x-said")
        yield from _labels(schema, place + "/x-labels")
        yield from _made_of(document.keys, key, place + "/x-from")
        yield from _value_rules(document.keys, schema.get(VALID), f"{place}/{VALID}")


def _made_of(keys: Schemas, key: str, place: str) -> Faults:
    """Find entries of `x-from` that the key cannot be made of."""
    names = keys[key].get("x-from")
    if names is None:
        return
    if not is_list_of(names, str):
        shown = json_text(names)[:40]
        yield Fault(f'"x-from": expected a list of key names, found {shown}', pointer=place)
        return
    for number, name in enumerate(names):
        if (own := declared_key(name, keys)) is None:
            yield Fault(
                f'"x-from" names {quoted(name)}, which is not declared',
                pointer=f"{place}/{number}",
                hint=near_hint(name, keys),
            )
        elif key in _all_made_of(keys, own):
            yield Fault(f"{quoted(key)} is made of itself", pointer=f"{place}/{number}")


_PROOFS = ("quote", "digits")


def _said(schema: JsonMap, place: str) -> Faults:
    """Find an `x-said` that is no kind of proof, or that is at a key that no reply writes."""
    kind = schema.get("x-said")
    if kind is None or kind is False:
        return
    if kind not in _PROOFS:
        shown = kind if isinstance(kind, str) else as_json(kind, 40)
        yield Fault(
            f'"x-said": expected one of {", ".join(_PROOFS)}, found {quoted(shown)}',
            pointer=place,
            hint=near_hint(shown, _PROOFS),
        )
    source = schema.get("x-source")
    if source not in (None, "model"):
        yield Fault(
            f'"x-said" is for what the user says, and only {quoted(str(source))} writes this key',
            pointer=place,
        )


_RULE_KEYS = ("logic", "description")


def _value_rules(keys: Schemas, items: object, place: str) -> Faults:
    """Find entries of `x-valid` that are no rule over declared keys."""
    if items is None:
        return
    if not isinstance(items, list):
        message = f'"{VALID}": expected a list of {{"logic": …, "description": …}}, found {as_json(items, 40)}'
        yield Fault(message, pointer=place)
        return
    for number, item in enumerate(items):
        at = f"{place}/{number}"
        if not isinstance(item, dict) or "logic" not in item:
            message = (
                f'"{VALID}": expected {{"logic": …, "description": …}}, found {as_json(item, 40)}'
            )
            yield Fault(message, pointer=at)
            continue
        for name in item:
            if name not in _RULE_KEYS:
                yield Fault(
                    f'unknown key {quoted(name)} in "{VALID}"',
                    pointer=at + step(name),
                    hint=near_hint(name, _RULE_KEYS),
                )
        description = item.get("description")
        if not isinstance(description, str) or not description.strip():
            yield Fault(
                f'a rule of "{VALID}" has no description',
                pointer=at,
                level="warning",
                hint="users and models read it",
            )
        yield from _logic(keys, item["logic"], at + "/logic")


def _logic(keys: Schemas, logic: object, place: str) -> Faults:
    """Find faults in the logic of a rule, and names that are not declared."""
    faults = collect_faults(logic)
    for fault in faults:
        yield Fault(fault.reason, pointer=place + fault.pointer, hint=fault.hint)
    if faults:
        return
    for name in sorted(compile_rule(logic).reads):
        if name.startswith("_") or declared_key(name, keys) is not None:
            continue
        yield Fault(
            f'"{VALID}" reads {quoted(name)}, which is not declared',
            pointer=place,
            hint=near_hint(name, keys),
        )


def _all_made_of(keys: Schemas, key: str) -> set[str]:
    """Return a key, and all keys that it is made of, directly or through others."""

    def parts(name: str) -> Iterator[str]:
        for _, item in Placed("", keys[name]).texts("x-from"):
            own = declared_key(item, keys)
            if own is not None:
                yield own

    return set(explored([key], parts))


def _labels(schema: JsonMap, place: str) -> Faults:
    """Find labels that are no text, and labels of values that the key does not have."""
    labels = schema.get("x-labels")
    values = schema.get("enum")
    if labels is None:
        return
    if not isinstance(labels, dict):
        shown = as_json(labels, 40)
        yield Fault(f'"x-labels": expected an object, found {shown}', pointer=place)
        return
    listed: list[Any] = []
    if isinstance(values, list):
        listed = values
    elif schema.get("type") == "boolean":
        listed = [True, False]
    known = [value if isinstance(value, str) else json.dumps(value) for value in listed]
    for name, words in labels.items():
        if not isinstance(words, str) or not words:
            yield Fault(f"the label of {quoted(name)} is no text", pointer=place + step(name))
        elif known and name not in known:
            yield Fault(
                f"{quoted(name)} has a label and is no value of the key",
                pointer=place + step(name),
                hint=near_hint(name, known),
            )
