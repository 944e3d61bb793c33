"""The form of a state's reply: its JSON Schema as the model's provider takes it, and reading it
back.

`object`: `context_update` is an object, and every key is optional. `list`: it is a list of {"key",
"value"}, for strict modes that want every property of an object. No reply has to write a null for a
key that was not mentioned. In both, objects are closed, and there are no bounds, patterns,
descriptions or references. The prompt's key list states them, and values are checked locally. A
state's schema never changes by a byte, because providers use it as a cache key. All states of a
machine that is not too large share one schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, Schemas, as_list, in_unicode, object_at, without
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.session.list_items import REMOVE, first_property, is_list, key_of
from llm_fsm.session.messages import ReplyForm, ReplySchema, TakenForm
from llm_fsm.session.quotes import QUOTES, YES

_SCALARS = ("string", "integer", "number", "boolean")
_TEXT = {"type": "string"}
_PAIR = {
    "type": "object",
    "properties": {"key": _TEXT, "value": _TEXT},
    "required": ["key", "value"],
    "additionalProperties": False,
}
_FACTS = {"type": "object", "additionalProperties": _TEXT}
MAX_DEPTH = 5
"""Levels of a value that the schema shows."""


def _types(kinds: Iterable[str], *, null: bool) -> JsonDict:
    found = [*kinds, *(("null",) if null else ())]
    return {"type": found[0] if len(found) == 1 else found}


def _any(*, null: bool) -> JsonDict:
    return _types(("string", "number", "boolean"), null=null)


def value_schema(
    schema: JsonMap, form: ReplyForm, *, null: bool = False, depth: int = 0
) -> JsonDict:
    """Convert one key's schema to what providers take. Parts outside of that become any scalar.

    Args:
        schema: The key's schema.
        form: The form of the reply. In a list, objects inside values have all their parts, null
            where not mentioned.
        null: True if the value may be null.
        depth: Levels above it.
    """
    # Null is said by leaving a key out, so it is no kind of its own.
    kinds = [item for item in as_list(schema.get("type")) if item != "null"]
    enum = schema.get("enum")
    if (
        isinstance(enum, list)
        and enum
        and all(isinstance(item, str | int | float | bool) for item in enum)
    ):
        types = {type_of(item) for item in enum}
        return _listed(enum, types.pop(), null=null) if len(types) == 1 else _any(null=null)
    # Providers bound the depth of a schema.
    if len(kinds) != 1 or depth >= MAX_DEPTH:
        scalars = [item for item in kinds if item in _SCALARS]
        return (
            _types(scalars, null=null)
            if scalars and len(scalars) == len(kinds)
            else _any(null=null)
        )
    if kinds[0] in _SCALARS:
        return _types(kinds, null=null)
    if kinds[0] == "array":
        inner = value_schema(object_at(schema, "items"), form, depth=depth + 1)
        return {**_types(kinds, null=null), "items": inner}
    if kinds[0] == "object":
        return _object(schema, form, null=null, depth=depth)
    return _any(null=null)


def _listed(enum: list[Any], kind: str, *, null: bool) -> JsonDict:
    more = [None] if null and None not in enum else []
    return {**_types((kind,), null=null), "enum": [*enum, *more]}


def type_of(value: object) -> str:
    """Return the type of a value in JSON Schema, for a plain value that is not null."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
    return "string"


def _object(schema: JsonMap, form: ReplyForm, *, null: bool, depth: int) -> JsonDict:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return (
            {**_FACTS, **_types(("object",), null=null)}
            if form == "object"
            else {**_types(("array",), null=null), "items": _PAIR}
        )
    # Strict modes want every property, so each of them may be null.
    every = form == "list"
    parts = {
        name: value_schema(
            item if isinstance(item, Mapping) else {}, form, null=every, depth=depth + 1
        )
        for name, item in properties.items()
    }
    return {
        **_types(("object",), null=null),
        "properties": parts,
        **({"required": list(parts)} if every else {}),
        "additionalProperties": False,
    }


def reply_schema(
    *,
    targets: Iterable[str],
    keys: Schemas,
    reasoning: str,
    name: str,
    form: ReplyForm = "object",
    declared: bool = True,
    facts: bool = True,
    yes: bool = False,
) -> ReplySchema:
    """Make the schema of a reply.

    Args:
        targets: Every state that the reply may name.
        keys: Keys that it may write, with their schemas.
        reasoning: Where it puts its reasoning: none, first or last.
        name: Part of the schema's own name.
        form: The form of `context_update`.
        declared: False if it may write further keys.
        facts: True if it may keep facts that have no key, under `_extra`.
        yes: True if it may quote the words of a yes.
    """
    as_object = partial(_as_object, keys, facts=facts, yes=yes)
    as_list = partial(_as_list, keys, declared=declared, facts=facts, yes=yes)
    update = as_object() if form == "object" else as_list()
    # Words come last, because they tell of the move and of the values.
    properties: JsonDict = {
        "target_state": {"type": "string", "enum": list(dict.fromkeys(targets))},
        "context_update": update,
        "message": _TEXT,
        "question": _TEXT,
    }
    if reasoning == "first":
        properties = {"reasoning": _TEXT, **properties}
    elif reasoning == "last":
        properties["reasoning"] = _TEXT
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    # What providers take as a name.
    own = re.sub(r"[^A-Za-z0-9_-]", "_", f"reply_{name}" if name else "reply")[:64]
    return ReplySchema(name=own, schema=schema, text=in_unicode(schema), form=form)


def _as_object(keys: Schemas, *, facts: bool, yes: bool) -> JsonDict:
    properties = {**dict(_writable(keys, "object")), **_quotes(keys, yes=yes)}
    if facts:
        properties["_extra"] = _FACTS
    properties["_clear"] = {"type": "array", "items": _TEXT}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def asked_form(taken: TakenForm, *, quotes: bool) -> ReplyForm:
    """Return the form that a machine asks a model for.

    Args:
        taken: The form that the model takes.
        quotes: True if the machine has values that need a quote. A list binds each value to its
            quote.

    Returns:
        The form.
    """
    if taken == "either":
        return "list" if quotes else "object"
    return taken


def quoted_keys(keys: Schemas) -> tuple[str, ...]:
    """Return the keys with values that need a quote of the user."""
    return tuple(key for key, schema in keys.items() if schema.get("x-said") == "quote")


def _quotes(keys: Schemas, *, yes: bool) -> JsonDict:
    """Return the schema of the quotes: by key, the yes, and the one for all that is taken back."""
    names = [name for name, _ in _writable({key: keys[key] for key in quoted_keys(keys)}, "object")]
    names += [YES, "_clear"] if yes else ["_clear"]
    properties = dict.fromkeys(names, _TEXT)
    return {"_quotes": {"type": "object", "properties": properties, "additionalProperties": False}}


def _as_list(keys: Schemas, *, declared: bool, facts: bool, yes: bool) -> JsonDict:
    """Return the schema of updates of one key each; keys that take the same values share a
    branch."""
    if not declared:
        return {"type": "array", "items": _update(_TEXT, _any(null=False))}
    quoted = (*quoted_keys(keys), "_clear")
    branches: dict[tuple[str, bool], tuple[list[str], JsonDict]] = {}
    for key, value in _values(keys, facts=facts, yes=yes):
        branch = (in_unicode(value), key_of(key) in quoted)
        branches.setdefault(branch, ([], value))[0].append(key)
    items = [
        _update({"type": "string", "enum": names}, value, quote=quote)
        for (_, quote), (names, value) in branches.items()
    ]
    return {"type": "array", "items": {"anyOf": items}}


def _writable(keys: Schemas, form: ReplyForm) -> Iterator[tuple[str, JsonDict]]:
    """Yield the names that a reply may write, with their schemas: each key, and the removal of
    items of a list."""
    for key, schema in keys.items():
        yield key, value_schema(schema, form)
        if is_list(schema):
            yield f"{REMOVE}{key}", {"type": "array", "items": _item_name(schema, form)}


def _item_name(schema: JsonMap, form: ReplyForm) -> JsonDict:
    """Return the schema of what names an item of a list: its first property, or the item itself."""
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return _any(null=False)
    first = first_property(schema)
    return value_schema(object_at(items["properties"], first) if first else items, form)


def _values(keys: Schemas, *, facts: bool, yes: bool) -> Iterator[tuple[str, JsonDict]]:
    yield from _writable(keys, "list")
    yield "_clear", dict(_TEXT)
    if yes:
        yield YES, dict(_TEXT)
    if facts:
        yield "_extra", dict(_PAIR)


def _update(key: JsonMap, value: JsonMap, *, quote: bool = False) -> JsonDict:
    properties = {"key": key, "value": value}
    if quote:
        properties["quote"] = _TEXT
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def with_targets(schema: ReplySchema, names: Iterable[str]) -> ReplySchema:
    """Return the schema of a reply that may name further states."""
    further = tuple(names)
    return _with_targets(schema.name, schema.text, schema.form, further) if further else schema


@lru_cache(maxsize=64)
def _with_targets(name: str, text: str, form: ReplyForm, names: tuple[str, ...]) -> ReplySchema:
    """Return the schema with these target states, cached because it takes half of a turn's own
    time."""
    whole = json.loads(text)
    target = whole["properties"]["target_state"]
    target["enum"] += [name for name in names if name not in target["enum"]]
    return ReplySchema(name=name, schema=whole, text=in_unicode(whole), form=form)


def narrowed(
    schema: ReplySchema, targets: Iterable[str], clearable: Iterable[str], asked: Iterable[str] = ()
) -> ReplySchema:
    """Return the schema of one reply, for servers that make a grammar of it and cache none.

    Args:
        schema: The schema of all replies.
        targets: What this reply may name. If there is only the current state, it names nothing.
        clearable: The keys whose values it may take back.
        asked: The keys that the current state collects. They come first: a grammar keeps the order,
            and small models give the first keys any value.
    """
    return _narrowed(
        schema.name,
        schema.text,
        schema.form,
        targets=tuple(targets),
        clearable=tuple(clearable),
        asked=tuple(asked),
    )


MOST_ITEMS = 40
"""Items of a list in one reply. A small model may repeat an item without end."""


@lru_cache(maxsize=256)
def _narrowed(
    name: str,
    text: str,
    form: ReplyForm,
    *,
    targets: tuple[str, ...],
    clearable: tuple[str, ...],
    asked: tuple[str, ...],
) -> ReplySchema:
    whole = json.loads(text)
    properties = whole["properties"]
    if len(targets) > 1:
        properties["target_state"]["enum"] = list(targets)
    # One target is no choice, and a grammar would only cost tokens for it.
    elif targets:
        del properties["target_state"]
        whole["required"].remove("target_state")
    update = properties["context_update"]
    if form == "object" and not clearable:
        del update["properties"]["_clear"]
        quotes = update["properties"]["_quotes"]["properties"]
        del quotes["_clear"]
        if not quotes:
            del update["properties"]["_quotes"]
    elif form == "object":
        # A grammar cannot forbid repetition, so the list is as long as the keys are many.
        update["properties"]["_clear"] = {
            "type": "array",
            "items": {"type": "string", "enum": list(clearable)},
            "maxItems": min(len(clearable), MOST_ITEMS),
        }
    if form == "object":
        for key in [name[1:] for name in update["properties"] if name.startswith(REMOVE)]:
            if key not in clearable:
                del update["properties"][f"{REMOVE}{key}"]
    if form == "object" and asked:
        update["properties"] = _in_order(update["properties"], asked)
    _bound_lists(whole)
    return ReplySchema(name=name, schema=whole, text=in_unicode(whole), form=form)


def _in_order(properties: JsonDict, asked: tuple[str, ...]) -> JsonDict:
    """Return properties with those of the current state first, changes of its lists included."""
    first = {name: part for name, part in properties.items() if key_of(name) in asked}
    return first | without(properties, first)


def with_list_limits(schema: ReplySchema) -> ReplySchema:
    """Return the schema of all replies, with a longest length for each list."""
    return _with_list_limits(schema.name, schema.text, schema.form)


@lru_cache(maxsize=256)
def _with_list_limits(name: str, text: str, form: ReplyForm) -> ReplySchema:
    whole = json.loads(text)
    _bound_lists(whole)
    return ReplySchema(name=name, schema=whole, text=in_unicode(whole), form=form)


def _bound_lists(schema: Any) -> None:
    """Give every list in a schema a longest length."""
    match schema:
        case list():
            for item in schema:
                _bound_lists(item)
        case dict():
            if schema.get("type") in ("array", ["array", "null"]):
                schema.setdefault("maxItems", MOST_ITEMS)
            _bound_lists([*schema.values()])


def pairs(value: object) -> JsonDict | None:
    """Return the object of a list of {"key", "value"}; None if the list has another form."""
    if isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("key"), str) for item in value
    ):
        return {item["key"]: item.get("value") for item in value}
    return None


def updates(value: object) -> JsonDict | None:
    """Return the object that a list of {"key", "value"} updates stands for; None if it is no such
    list.

    Facts under `_extra` and keys under `_clear` may stand there several times.
    """
    # An ordinary object of keys is none of ours, and stays as it is.
    if not isinstance(value, list) or pairs(value) is None:
        return None
    found: JsonDict = {}
    for item in value:
        key, one = item["key"], item.get("value")
        if key == "_extra":
            facts = pairs([one]) or pairs(one) or (one if isinstance(one, dict) else {})
            found[key] = {**found.get(key, {}), **facts}
        elif key == YES:
            found[QUOTES] = {**found.get(QUOTES, {}), YES: item.get("quote") or one}
        elif key == "_clear":
            found[key] = [*found.get(key, ()), *(one if isinstance(one, list) else (one,))]
        else:
            found[key] = one
            if isinstance(item.get("quote"), str):
                found[QUOTES] = {**found.get(QUOTES, {}), key: item["quote"]}
    return found


def from_strict(schema: JsonMap, value: object) -> Any:
    """Undo strict mode: pairs become objects, and nulls are removed, because null means "not
    mentioned".

    Only a part that an object must have, and that may be null, is null. The value nests within the
    limits of a context.
    """
    match value:
        case dict():
            parts, required = object_at(schema, "properties"), schema.get("required", ())
            plain = {}
            for name, item in value.items():
                schema_of_part = object_at(parts, name)
                # Strict modes send null for every part that was not mentioned.
                may_be_null = name in required and "null" in types_of(schema_of_part)
                if item is not None or may_be_null:
                    plain[name] = from_strict(schema_of_part, item)
            return plain
        case list() if schema.get("type") == "object":
            found = pairs(value)
            return value if found is None else from_strict(schema, found)
        case list():
            items = object_at(schema, "items")
            return [from_strict(items, item) for item in value]
    return value
