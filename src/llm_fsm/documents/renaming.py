"""Renamings of states and context keys, which a file follows wherever it names them.

`renamed` changes the text of a file at the places of its names and keeps all other bytes. The
places come from the models: `references` for a definition, `testing.scenarios.names` for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from llm_fsm._json import TextMap, escape, is_list_of, list_at, member, steps, unescape, value_at
from llm_fsm.definition.marks import places_in
from llm_fsm.definition.models import Definition
from llm_fsm.definition.names import label
from llm_fsm.definition.naming import NamePlace, Naming
from llm_fsm.definition.reply_names import renamed_key, renamed_reply
from llm_fsm.documents import patch

_ACTIONS = frozenset({"raise", "continue"})
"""Words of `on_exhausted` and `on_timeout` that are no ids of states."""
_STATES = "/states/"
_KEYS = "/context_schema/properties/"
_LINE = "\x00"


class Renaming(NamedTuple):
    """A state or a context key that has another name from now on."""

    kind: Literal["state", "key"]
    name: str
    to: str


def references(document: Any) -> Iterator[NamePlace]:
    """Yield the places of all names in a definition, also in one with faults.

    Args:
        document: The plain JSON.

    Yields:
        Each place. A choice names a state only if a transition leads there.
    """
    for place in places_in(Definition, document):
        path = place.pointer.split("/")
        written = None if place.at_key else value_at(document, place.pointer)
        if path[-1] in ("on_exhausted", "on_timeout") and written in _ACTIONS:
            continue
        if path[-3:-2] == ["choices"] and written not in _targets(document, "/".join(path[:3])):
            continue
        yield place


def _targets(document: Any, state: str) -> list[Any]:
    """Return the states that the transitions of a state lead to, global ones among them."""
    targets: list[Any] = []
    for pointer in (f"{state}/transitions", "/global_transitions"):
        above, _, key = pointer.rpartition("/")
        for item in list_at(value_at(document, above), key):
            targets.append(member(item, "target_state"))
    return targets


def renamed(
    text: str,
    renamings: Iterable[Renaming],
    places: Callable[[Any], Iterator[NamePlace]] = references,
) -> str:
    """Let a file follow renamings. All other bytes stay.

    Args:
        text: The text of the file.
        renamings: The renamings. All are made at once, so two names can be swapped.
        places: Yields the places of the names in the file; by default those of a definition.

    Returns:
        The new text.

    Raises:
        PatchError: The text is no JSON, or an object has the old and the new key.

    Example:
        renamed(text, [Renaming("state", "pay", "till")])
    """
    maps = _maps_of(renamings)
    document = patch.read(text).scan.value
    values = {}
    keys = {}
    for place in places(document):
        if place.at_key:
            old = steps(place.pointer)[-1]
            new = _new(old, place.naming, maps)
            if new != old:
                keys[place.pointer] = new
            continue
        for pointer, line, other in _new_lines(document, place, maps):
            if line != other:
                values[pointer] = other
    if values:
        text = patch.replace_scalars(text, list(values.items()))
    if keys:
        text = patch.rename_keys(text, list(keys.items()))
    return text


def followed(catalog: Any, renamings: Iterable[Renaming]) -> Any:
    """Return a catalogue of gettext in which states and keys have other names.

    Args:
        catalog: The catalogue, which is changed.
        renamings: The renamings, which are made at once.
    """
    maps = _maps_of(renamings)
    # The text of a key without a title is its name.
    titles = {label(old, {}): label(new, {}) for old, new in maps[Naming.KEY].items()}
    entries = [entry for entry in catalog if entry.id and entry.context]
    # A catalogue finds an entry by its text and its context. All are out before one is in again,
    # so two names can be swapped.
    for entry in entries:
        catalog.delete(entry.id, entry.context)
    for entry in entries:
        text = _new(entry.id, Naming.REPLY, maps)
        entry.id = titles.get(text, text) if entry.context.endswith("/title") else text
        entry.context = _new(entry.context, Naming.POINTER, maps)
        entry.string = _new(entry.string, Naming.REPLY, maps)
        catalog[entry.id] = entry
    return catalog


def composed(renamings: Sequence[Renaming]) -> list[Renaming]:
    """Return renamings that do at once what some do one after the other.

    Args:
        renamings: The renamings, in the order in which they were made.

    Returns:
        One renaming for each name that has another one in the end.

    Example:
        composed([Renaming("state", "a", "b"), Renaming("state", "b", "c")])  # a to c
    """
    last: dict[tuple[Literal["state", "key"], str], str] = {}
    for one in renamings:
        first = one.name
        for (kind, old), new in last.items():
            if kind == one.kind and new == one.name:
                first = old
        last[one.kind, first] = one.to
    return [Renaming(kind, old, new) for (kind, old), new in last.items() if old != new]


_Maps = Mapping[Naming, TextMap]


def _maps_of(renamings: Iterable[Renaming]) -> _Maps:
    maps: dict[Naming, dict[str, str]] = {Naming.STATE: {}, Naming.KEY: {}}
    for one in renamings:
        maps[Naming(one.kind)][one.name] = one.to
    return maps


def _new_lines(document: Any, place: NamePlace, maps: _Maps) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer, old text, new text). A reply may be a list of lines, which are one text."""
    old = value_at(document, place.pointer)
    match old:
        case str():
            yield place.pointer, old, _new(old, place.naming, maps)
        case list() if is_list_of(old, str):
            lines = _new(_LINE.join(old), place.naming, maps).split(_LINE)
            for number, (line, other) in enumerate(zip(old, lines, strict=True)):
                yield f"{place.pointer}/{number}", line, other


def _new(old: str, naming: Naming, maps: _Maps) -> str:
    states = maps[Naming.STATE]
    keys = maps[Naming.KEY]
    match naming:
        case Naming.STATE:
            return states.get(old, old)
        case Naming.REPLY:
            return renamed_reply(old, states, keys)
        case Naming.POINTER:
            for head, names in ((_STATES, states), (_KEYS, keys)):
                if old.startswith(head):
                    name, slash, rest = old.removeprefix(head).partition("/")
                    own = unescape(name)
                    return f"{head}{escape(names.get(own, own))}{slash}{rest}"
            return old
        case Naming.CHECK:
            head, dot, rest = old.partition(".")
            return f"context.{renamed_key(rest, keys)}" if head + dot == "context." else old
    return renamed_key(old, keys)
