"""Changes of a list by its items: `+key` adds or replaces items, `-key` removes items.

Two items are the same if their first property is the same, without regard to case. Items that are
no objects are compared as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llm_fsm.conditions.coercion import look_up

ADD, REMOVE = "+", "-"


def key_of(name: str) -> str:
    """Return the key of a change by items (`guests` for `+guests`), and any other name as it is."""
    return name[1:] if name[:1] in (ADD, REMOVE) else name


def first_property(schema: Mapping[str, Any]) -> str:
    """Return the property by which the items of a list are told apart; "" if they are no objects.

    Args:
        schema: The schema of the list.
    """
    items = schema.get("items")
    properties = items.get("properties") if isinstance(items, Mapping) else None
    return next(iter(properties), "") if isinstance(properties, Mapping) else ""


def is_list(schema: Mapping[str, Any]) -> bool:
    """Return true if a schema takes lists."""
    kind = schema.get("type")
    return (
        kind == "array"
        or (isinstance(kind, list) and "array" in kind)
        or (kind is None and "items" in schema)
    )


def with_items(
    update: Mapping[str, Any],
    context: Mapping[str, Any],
    schema_of: Callable[[str], Mapping[str, Any]],
    refuse: Callable[[str, str], None],
) -> Mapping[str, Any]:
    """Return an update in which changes by items are whole lists.

    Args:
        update: The values of a reply by key.
        context: The values before.
        schema_of: Returns the schema of a key; {} if it has none.
        refuse: Takes a name of the update and the reason why it changes nothing.
    """
    changes = {name for name in update if key_of(name) != name}
    changes -= {name for name in changes if update[name] is None}
    if not changes:
        return update
    whole = {name: value for name, value in update.items() if name not in changes}
    for name in sorted(
        changes, reverse=True
    ):  # "-" comes after "+": what is removed goes before what is added
        key = key_of(name)
        schema = schema_of(key)
        given = whole.get(key)
        before = look_up(context, key) if given is None else given
        items = list(before) if isinstance(before, list) else []
        value = update[name]
        changed = value if isinstance(value, list) else [value]
        if not is_list(schema) and not isinstance(before, list) and schema:
            refuse(name, f"{key} is no list")
        elif name.startswith(ADD):
            whole[key] = _added(items, changed, first_property(schema))
        else:
            kept, absent = _removed(items, changed, first_property(schema))
            for item in absent:
                refuse(name, f"{json.dumps(item, ensure_ascii=False)[:200]} is not in the list")
            if len(kept) < len(items):
                whole[key] = kept
    return whole


def _added(items: list[Any], added: Iterable[Any], first: str) -> list[Any]:
    """Return the items with further ones; one that is there already is replaced in its place."""
    changed = list(items)
    for item in added:
        places = [
            place
            for place, known in enumerate(changed)
            if _name(known, first) == _name(item, first)
        ]
        if places:
            changed[places[0]] = item
        else:
            changed.append(item)
    return changed


def _removed(items: list[Any], removed: Iterable[Any], first: str) -> tuple[list[Any], list[Any]]:
    """Return the items without those that are named, and the names of no item."""
    names = {_name(item, first): item for item in removed}
    known = {_name(item, first) for item in items}
    kept = [item for item in items if _name(item, first) not in names]
    return kept, [item for name, item in names.items() if name not in known]


def _name(item: Any, first: str) -> str:
    """Return the text by which an item is told from others: its first property, or the whole."""
    value = item.get(first, item) if first and isinstance(item, Mapping) else item
    text = (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )
    return " ".join(text.casefold().split())
