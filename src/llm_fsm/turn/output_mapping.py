"""The mapping from a tool's result or a person's answer to the context.

Only a declared `output` mapping writes: context key ← path into the value ("a.b.0"; "" or "$" is
the whole).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, is_position, only
from llm_fsm.conditions.compiler import look_up
from llm_fsm.session.context import MAX_KEYS, Keys, uphold
from llm_fsm.session.events import ContextRefused, ContextSet, Event
from llm_fsm.session.proof import changes, prove, unproved
from llm_fsm.session.quotes import Place, UserWords
from llm_fsm.session.redaction import DOTS, texts_in
from llm_fsm.session.session import Session
from llm_fsm.session.values import ValueFault, to_context_value


def at(value: Any, path: str) -> Any:
    """Return the value at a path of names and list positions. Raises KeyError if there is none."""
    path = path.removeprefix("$").removeprefix(".")
    if not path:
        return value
    if isinstance(value, dict) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif is_position(value, step):
            value = value[int(step)]
        else:
            raise KeyError(path)
    return value


def secrets_in(keys: Keys, mapping: TextMap, value: Any) -> tuple[str, ...]:
    """Return the parts of a value that a mapping writes to secret keys, as texts."""
    taken = []
    for key, path in mapping.items():
        if keys.is_secret(key):
            with suppress(KeyError):
                taken.append(at(value, path))
    return texts_in(taken)


def masked(keys: Keys, mapping: TextMap, value: Any) -> Any:
    """Mask the parts of a value that a mapping writes to secret keys. Prompts and records may show
    the rest.
    """
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
    if is_position(value, step):
        number = int(step)
        items = list(value)
        items[number] = _without(items[number], rest)
        return items
    return value


def agrees(shown: Any, value: Any) -> bool:
    """Return True if `shown` is the value, apart from masked parts."""
    match shown, value:
        case [dict(), dict()] if shown.keys() == value.keys():
            return all(agrees(shown[key], value[key]) for key in shown)
        case [list(), list()] if len(shown) == len(value):
            return all(map(agrees, shown, value))
    # Of other lengths or names they differ, whatever is masked in them.
    return shown in (DOTS, value)


def accept_output(
    keys: Keys,
    context: JsonMap,
    mapping: TextMap,
    value: Any,
    source: str,
    *,
    names: JsonMap = MappingProxyType({}),
    arguments: JsonMap = MappingProxyType({}),
    words: UserWords | None = None,
) -> tuple[Event, ...]:
    """Return the events that write a value to the context by a mapping, and nothing beside it.

    Args:
        keys: The keys of the definition.
        context: The context.
        mapping: Context key to path into the value.
        value: The value.
        source: The value's source, tool or answer.
        names: The system names, which the rules of `x-valid` may read.
        arguments: The arguments that a model gave for the call. A result that was made from one
            that nobody said is the model's word, and needs the proof of `x-said`.
        words: The words of the user; None: there are none.
    """
    values: JsonDict = {}
    quotes: dict[str, Place] = {}
    refused: list[Event] = []
    # Judged once for all keys: one made-up argument may change any part of a result.
    is_made = words is not None and _is_made_up(keys, context, arguments, words)
    for key, path in mapping.items():
        try:
            part = at(value, path)
        except KeyError:
            reason = f"there is nothing at {path!r}"
            refused.append(ContextRefused(key=key, reason=reason, source=source))
            continue
        plain, fault = _read(keys, key, part, source)
        # A known key may change even if the context is full.
        if fault is None and key not in context and len(context) + len(values) >= MAX_KEYS:
            fault = f"the context holds {MAX_KEYS} keys already"
        if fault is None and key in keys.said and words is not None:
            proved = prove(keys.claim(key, plain, old=context.get(key)), words)
            # A result that only repeats an argument says no more than the model did.
            if isinstance(proved, str) and (is_made or part in arguments.values()):
                refused.append(ContextRefused(key=key, reason=proved, source=source, told=True))
                continue
            if proved and not isinstance(proved, str):
                quotes[key] = proved[-1]
        if fault is None:
            values[key] = plain
            continue
        if keys.is_secret(key):
            fault = "its schema refuses the value"  # the reason may quote it
        refused.append(ContextRefused(key=key, reason=fault, source=source))
    changed = keys.changed(context, values)
    if changed:
        found = only(quotes, changed)
        change = ContextSet(source=source, values=changed, quotes=found)
        return (*uphold(keys, context, change, names), *refused)
    return tuple(refused)


def _is_made_up(keys: Keys, context: JsonMap, arguments: JsonMap, words: UserWords) -> bool:
    """Return true if a part of the arguments is neither the user's word nor known by proof."""
    proved = {
        key: value for key, value in context.items() if key in keys.said or not keys.writable(key)
    }
    known = [leaf.value for leaf in changes(keys.claim("", proved))]
    # Of all messages: an argument may be older than the last question.
    everything = replace(words, asked={})
    for leaf in changes(keys.claim("", dict(arguments))):
        # A yes or no has no words of its own, and says little about a result.
        is_known = isinstance(leaf.value, bool) or leaf.value in known
        if not is_known and isinstance(prove(leaf, everything), str):
            return True
    return False


def mapped(
    taker: Keys, giver: Keys, session: Session, mapping: TextMap
) -> tuple[JsonDict, tuple[ContextRefused, ...]]:
    """Return the values that a mapping copies from one context to another, and the refusals of the
    others.

    Keys that are not set are skipped. A secret is only copied to a key that is secret, too. A value
    that a model wrote without proof is only copied to a key with `x-said` if the user said it.

    Args:
        taker: The keys of the definition that receives the values.
        giver: The keys of the definition that has them.
        session: The conversation, in the definition that has them.
        mapping: Key of the receiver to key of the other definition.
    """
    context = session.context
    values: JsonDict = {}
    refused: list[ContextRefused] = []
    for key, name in mapping.items():
        value = look_up(context, name)
        if value is None:
            continue
        # Read as the receiver means it, before anything is said against it.
        value, reason = taker.read(key, value)
        if giver.is_secret(name) and not taker.is_secret(key):
            reason = "the value is secret, and this key is not"
        elif reason is not None and taker.is_secret(key):
            reason = "its schema refuses the value"
        elif reason is None and _is_unsaid(taker, giver, session, key, name):
            reason = unproved(taker.said[key])
        if reason is None:
            values[key] = value
        else:
            refused.append(ContextRefused(key=key, reason=reason, source="flow", told=True))
    return values, tuple(refused)


def _is_unsaid(taker: Keys, giver: Keys, session: Session, key: str, name: str) -> bool:
    """Return true if a key needs proof, and its value, which a model wrote, has none."""
    kind = taker.said.get(key)
    root = name.partition(".")[0]
    if kind is None or root in giver.said:
        return False
    # A value of unknown origin is treated as the model's, which needs the most proof.
    _, source = session.origins.get(root, (0, "model"))
    value = look_up(session.context, name)
    words = replace(session.user_words(), asked={})
    return source == "model" and isinstance(prove(taker.claim(key, value), words), str)


def _read(keys: Keys, key: str, value: Any, source: str) -> tuple[Any, str | None]:
    owner = keys.sources.get(key, "model")
    if owner not in ("model", source):
        return None, f"only {owner} may write this key"
    return read_value(keys, key, value)


def read_value(keys: Keys, key: str, value: Any) -> tuple[Any, str | None]:
    """Return the value that a key gets, and why it cannot have it, by any writer; None if it can."""
    if key.startswith("_"):
        return None, "names that begin with _ belong to the system"
    try:
        plain = to_context_value(value)
    except ValueFault as fault:
        return None, str(fault)
    return keys.read(key, plain)
