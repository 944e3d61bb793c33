"""The kinds of names that values of a file hold, and their places in a value."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from llm_fsm._json import as_list, member, step
from llm_fsm.conditions.closures import LOOPS
from llm_fsm.conditions.operators import EQUALITIES, OF_KEYS

STATE_NAMES = frozenset({"_current_state", "_previous_state"})
"""Names in rules and replies whose values are ids of states."""
_COMPARISONS = EQUALITIES | {"in"}
_OF_NAMES = frozenset({"_quotes", "_clear"})
"""Keys of an update whose values name keys."""


class Naming(Enum):
    """The kind of name in a field.

    A text or a list of texts holds names; of an object, the keys are names.
    """

    STATE = "state"
    KEY = "key"
    RULE = "rule"
    """JsonLogic, which names keys, and states that it compares with the current one."""
    CHECK = "check"
    """JsonLogic of a key result, which names keys below `context`."""
    REPLY = "reply"
    """A fixed reply, which names the same as a rule."""
    PLACES = "places"
    """State ids, and context keys as `{"key": name}`."""
    POINTER = "pointer"
    """A JSON pointer into the definition."""


class NamePlace(NamedTuple):
    """A text, or with `at_key` a key, that names something of the definition."""

    pointer: str
    naming: Naming
    at_key: bool = False


def named_in(value: Any, pointer: str, naming: Naming) -> Iterator[NamePlace]:
    """Yield the places in a value that holds names: a text, a list of texts, or keys."""
    if naming in (Naming.RULE, Naming.CHECK):
        yield from _in_rule(value, pointer, naming)
    elif naming is Naming.REPLY or isinstance(value, str):
        yield NamePlace(pointer, Naming.STATE if naming is Naming.PLACES else naming)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from named_in(item, f"{pointer}/{number}", naming)
    elif isinstance(value, dict) and naming is Naming.PLACES:
        yield from named_in(value.get("key"), f"{pointer}/key", Naming.KEY)
    elif isinstance(value, dict):
        for key, item in value.items():
            place = pointer + step(key)
            if key in _OF_NAMES:
                yield from named_in(item, place, naming)
            else:
                yield NamePlace(place, naming, at_key=True)


def _in_rule(value: Any, pointer: str, naming: Naming) -> Iterator[NamePlace]:
    """Yield the keys that a rule reads, and the states that it compares with the current one."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _in_rule(item, f"{pointer}/{number}", naming)
    if not isinstance(value, dict):
        return
    key_naming = Naming.KEY if naming is Naming.RULE else naming
    for operation, given in value.items():
        place = pointer + step(operation)
        if operation in OF_KEYS:
            for at, text in _read_keys(operation, given, place):
                if isinstance(text, str):
                    yield NamePlace(at, key_naming)
        elif operation in _COMPARISONS and isinstance(given, list) and any(map(_is_state, given)):
            for number, part in enumerate(given):
                if isinstance(part, str | list):
                    yield from named_in(part, f"{place}/{number}", Naming.STATE)
        inner = given
        if operation in LOOPS and isinstance(given, list):
            inner = given.copy()
            inner[1:2] = [None]  # it reads the items of the list
        yield from _in_rule(inner, place, naming)


def _read_keys(operation: str, given: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that are names of keys."""
    match operation, given:
        case "var", [name, *_]:  # a default value follows
            given = [name]
        case "missing_some", [_, names, *_]:
            given = names
            pointer = f"{pointer}/1"
    if not isinstance(given, list):
        yield pointer, given
        return
    for number, item in enumerate(given):
        yield f"{pointer}/{number}", item


def _is_state(part: Any) -> bool:
    name = next(iter(as_list(member(part, "var"))), None)
    return isinstance(name, str) and name in STATE_NAMES
