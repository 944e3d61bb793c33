"""Changes of a list by its items: `key` and `+key` change or add items, `-key` removes items.

Two items are the same if their first property is the same, without regard to case. Items that are
no objects are compared as a whole. What a reply does not name stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, as_list, json_text, member
from llm_fsm.conditions.coercion import look_up
from llm_fsm.session.values import joined

ADD, REMOVE = "+", "-"


def key_of(name: str) -> str:
    """Return the key of a change by items (`guests` for `+guests`), and any other name as it is."""
    return name[1:] if name[:1] in (ADD, REMOVE) else name


def first_property(schema: JsonMap) -> str:
    """Return the property by which the items of a list are told apart; "" if they are no objects.

    Args:
        schema: The schema of the list.
    """
    items = schema.get("items")
    properties = member(items, "properties")
    return next(iter(properties), "") if isinstance(properties, Mapping) else ""


def is_list(schema: JsonMap) -> bool:
    """Return true if a schema takes lists."""
    kind = schema.get("type")
    return (
        kind == "array"
        or (isinstance(kind, list) and "array" in kind)
        or (kind is None and "items" in schema)
    )


def with_items(
    update: JsonMap,
    context: JsonMap,
    schema_of: Callable[[str], JsonMap],
    refuse: Callable[[str, str], None],
    cleared: Container[Any] = (),
) -> JsonMap:
    """Return an update in which changes by items are whole lists.

    Args:
        update: The values of a reply by key.
        context: The values before.
        schema_of: Returns the schema of a key; {} if it has none.
        refuse: Takes a name of the update and the reason why it changes nothing.
        cleared: The keys that the update takes back. Their lists begin anew.
    """
    lists: JsonDict = {}
    whole = dict(update)
    # What is removed goes before what is added.
    for name in sorted(update, key=lambda name: not name.startswith(REMOVE)):
        key, value = key_of(name), update[name]
        before = look_up(context, key)
        # A whole list over a known one is merged, too: models send only what is new.
        by_item = key != name and value is not None
        if not by_item and not (isinstance(before, list) and isinstance(value, list)):
            continue
        whole.pop(name, None)
        schema = schema_of(key)
        # A list that is there already shows that the key takes one, whatever the schema says.
        if schema and not is_list(schema) and not isinstance(before, list):
            refuse(name, f"{key} is no list")
            continue
        # `-guests` and `+guests` of one update work on the same list, one after the other.
        known = lists.get(key, [] if key in cleared else before)
        if not isinstance(known, list):
            known = []
        items = _Items(known, first_property(schema))
        named = as_list(value)
        if name.startswith(REMOVE):
            for reason in items.remove(named):
                refuse(name, reason)
        else:
            repeats = name.startswith(ADD) and not schema.get("uniqueItems")
            items.merge(named, repeats=repeats)
        # A whole list counts as given, even if it changes nothing.
        if items.all != before or name == key:
            lists[key] = items.all
    return {**whole, **lists}


class _Items:
    """The items of a list while a reply changes them. `first`: see `first_property`."""

    def __init__(self, items: list[Any], first: str) -> None:
        self.all = list(items)
        self._first = first

    def merge(self, items: Iterable[Any], *, repeats: bool) -> None:
        """Change the items that are there already, part by part, and add the others.

        Each item changes at most one. So a value that is sent twice is there twice.

        Args:
            items: The items as sent. A part that is null was not mentioned.
            repeats: True if a plain value that is there is added once more.
        """
        changed: set[int] = set()
        for item in items:
            plain = not isinstance(item, Mapping)
            # "Two coffees" sent as two items are two, also if one was there before.
            place = None if plain and repeats else self._place(item, changed)
            if place is None:
                place = len(self.all)
                self.all.append(item)
            elif plain:
                self.all[place] = item
            else:
                self.all[place] = joined(item, self.all[place])
            changed.add(place)

    def remove(self, names: Iterable[Any]) -> Iterator[str]:
        """Remove one item for each name: the item, its first property, or words that fit no other.

        Yield why a name removes none.
        """
        for name in names:
            place = self._place(name, ())
            # Words that fit several items name none of them: a wrong one would be lost.
            fitting = [place] if place is not None else self._fitting(name)
            if len(fitting) == 1:
                del self.all[fitting[0]]
                continue
            shown = json_text(name)[:200]
            yield f"{shown} {'fits several items' if fitting else 'is not in the list'}"

    def _place(self, item: Any, taken: Container[int]) -> int | None:
        """Return the place of the item of that name that has most in common; None if none has it."""
        name = self._name(item)
        best: tuple[int, int] | None = None
        for place, known in enumerate(self.all):
            if place in taken or self._name(known) != name:
                continue
            common = _in_common(known, item)
            # Of equal ones the first, as a reader of the list would take it.
            if best is None or common > best[0]:
                best = common, place
        return None if best is None else best[1]

    def _fitting(self, name: Any) -> list[int]:
        """Return the places of the items that have all words of a text."""
        if not isinstance(name, str):
            return []
        words = name.casefold().split()
        fitting = []
        for place, known in enumerate(self.all):
            text = json_text(known).casefold()
            if words and all(word in text for word in words):
                fitting.append(place)
        return fitting

    def _name(self, item: Any) -> str:
        """Return the text by which an item is told from others: its first property, or the whole."""
        value = item
        if self._first and isinstance(item, Mapping):
            value = item.get(self._first, item)
        if not isinstance(value, str):
            value = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return " ".join(value.casefold().split())


def _in_common(known: Any, item: Any) -> int:
    """Return how many parts two items have in common."""
    if not isinstance(known, Mapping) or not isinstance(item, Mapping):
        return 0
    return sum(known.get(part) == value for part, value in item.items())
