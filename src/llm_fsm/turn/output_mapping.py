"""The mapping from a tool's result or a person's answer to the context.

Only a declared `output` mapping writes: context key ← path into the value ("a.b.0"; "" or "$" is the whole).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from llm_fsm.conditions.compiler import look_up
from llm_fsm.session.context import MAX_KEYS, MAX_VALUE_CHARS, Keys
from llm_fsm.session.events import ContextRefused, ContextSet, Event
from llm_fsm.session.redaction import DOTS, texts_in
from llm_fsm.session.values import ValueFault, to_json_value


def at(value: Any, path: str) -> Any:
    """Return the value at a path of names and list positions. Raises KeyError when there is none."""
    path = path.removeprefix("$").removeprefix(".")
    if not path:
        return value
    if isinstance(value, dict) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise KeyError(path)
    return value


def secrets_in(keys: Keys, mapping: Mapping[str, str], value: Any) -> tuple[str, ...]:
    """Return what a mapping takes from a value for secret keys, as it could stand in somebody's words."""
    taken = []
    for key, path in mapping.items():
        with suppress(KeyError):
            if keys.is_secret(key):
                taken.append(at(value, path))
    return texts_in(taken)


def masked(keys: Keys, mapping: Mapping[str, str], value: Any) -> Any:
    """Mask in a value what a mapping takes for secret keys. Prompts and records may show only the rest."""
    for key, path in mapping.items():
        if keys.is_secret(key):
            value = _without(value, path.removeprefix("$").removeprefix("."))
    return value


def _without(value: Any, path: str) -> Any:
    if not path:
        return DOTS
    if isinstance(value, dict) and path in value:
        return {**value, path: DOTS}
    step, _, rest = path.partition(".")
    if isinstance(value, dict) and step in value:
        return {**value, step: _without(value[step], rest)}
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        number = int(step)
        return [*value[:number], _without(value[number], rest), *value[number + 1 :]]
    return value


def agrees(shown: Any, value: Any) -> bool:
    """Return True when `shown` is the value, apart from what was masked in it."""
    if shown == DOTS:
        return True
    if isinstance(shown, dict) and isinstance(value, dict):
        return shown.keys() == value.keys() and all(agrees(shown[key], value[key]) for key in shown)
    if isinstance(shown, list) and isinstance(value, list):
        return len(shown) == len(value) and all(map(agrees, shown, value))
    return bool(shown == value)


def accept_output(
    keys: Keys, context: Mapping[str, Any], mapping: Mapping[str, str], value: Any, source: str
) -> tuple[Event, ...]:
    """Return the events that write a value to the context by a mapping; nothing else of the value counts.

    Args:
        keys: The keys of the definition.
        context: The context.
        mapping: Context key to path into the value.
        value: The value.
        source: The value's source, tool or answer.
    """
    values: dict[str, Any] = {}
    refused: list[Event] = []
    for key, path in mapping.items():
        try:
            found = at(value, path)
        except KeyError:
            refused.append(ContextRefused(key=key, reason=f"there is nothing at {path!r}", source=source))
            continue
        reason = _fault(keys, key, found, source)
        if reason is None and key not in context and len(context) + len(values) >= MAX_KEYS:
            reason = f"the context holds {MAX_KEYS} keys already"
        if reason is None:
            values[key] = to_json_value(found)
        else:
            reason = "its schema refuses the value" if keys.is_secret(key) else reason
            refused.append(ContextRefused(key=key, reason=reason, source=source))
    if changed := keys.changed(context, values):
        return (ContextSet(source=source, values=changed), *refused)
    return tuple(refused)


def mapped(
    taker: Keys, giver: Keys, context: Mapping[str, Any], mapping: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[ContextRefused, ...]]:
    """Return the values that a mapping brings from one context to another, and the refusals of the others.

    Keys that are not set bring nothing. A secret reaches only a key that is secret, too.

    Args:
        taker: The keys of the definition that takes the values.
        giver: The keys of the definition that gives them.
        context: The giver's context.
        mapping: Key of the taker to key of the giver.
    """
    values: dict[str, Any] = {}
    refused: list[ContextRefused] = []
    for key, name in mapping.items():
        value = look_up(context, name)
        if value is None:
            continue
        reason = taker.fault(key, value)
        if giver.is_secret(name) and not taker.is_secret(key):
            reason = "the value is secret, and this key is not"
        elif reason is not None and taker.is_secret(key):
            reason = "its schema refuses the value"
        if reason is None:
            values[key] = value
        else:
            refused.append(ContextRefused(key=key, reason=reason, source="flow", told=True))
    return values, tuple(refused)


def _fault(keys: Keys, key: str, value: Any, source: str) -> str | None:
    owner = keys.sources.get(key, "model")
    if owner not in ("model", source):
        return f"only {owner} may write this key"
    return value_fault(keys, key, value)


def value_fault(keys: Keys, key: str, value: Any) -> str | None:
    """Return why a key cannot have a value, whoever writes it; None if it can."""
    if key.startswith("_"):
        return "names that begin with _ belong to the system"
    try:
        plain = to_json_value(value)
    except ValueFault as fault:
        return str(fault)
    size = len(plain) if isinstance(plain, str) else len(json.dumps(plain))
    if size > MAX_VALUE_CHARS:
        return f"it is {size} characters long; at most {MAX_VALUE_CHARS} are kept"
    return keys.fault(key, plain)
