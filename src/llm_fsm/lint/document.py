"""The document that rules read: its parts, and facts about it that are computed once.

Rules read the plain document, not the models, and skip parts of the wrong shape. So one run finds
all faults of a file, even if it does not load.

A fact is a function of the document, decorated with `once`: `graph.py` has those about states and
transitions, `logics.py` those about conditions and `set`, and `facts/` the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from llm_fsm._json import JsonMap, Schemas, joined, list_at, object_at, step, steps
from llm_fsm._text import nearest
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.languages import LANGUAGE
from llm_fsm.lint.facts.suggestions import Speller

SYSTEM_NAMES = frozenset(
    {
        "_conversation_id",
        "_current_state",
        "_previous_state",
        "_user_input",
        "_turn",
        "_turns_in_state",
        "_misses",
        "_refusals",
        "_timestamp",
        "_timezone",
    }
)

K = TypeVar("K")
T = TypeVar("T")


class Called(NamedTuple):
    """A file that a subflow names, with its document, or the reason why it has none."""

    file: str
    document: JsonMap | None
    why: str = ""


Pairs = Iterator[tuple[str, str]]
"""Pairs of texts, such as a pointer and the text that is there."""
FlowReader = Callable[[str, str | None], Called]
"""Maps (relative path, file that names it) to the called file; None for the file that is
checked.
"""


class Placed(NamedTuple):
    """An object of the document and its JSON pointer."""

    pointer: str
    value: JsonMap

    @property
    def name(self) -> str:
        """Its key in the object that holds it."""
        return steps(self.pointer)[-1]

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the value at `key`."""
        return self.value.get(key, otherwise)

    def at(self, key: str) -> Placed:
        """Return the object at `key`, which needs no escaping; an empty one if there is none."""
        return Placed(f"{self.pointer}/{key}", object_at(self.value, key))

    def items(self, key: str) -> Sequence[Placed]:
        """Return the objects in the list at `key`, which needs no escaping."""
        return [Placed(place, item) for place, item in self._listed(key) if isinstance(item, dict)]

    def members(self, key: str) -> Iterator[Placed]:
        """Yield the objects that are members of the object at `key`."""
        for name, item in object_at(self.value, key).items():
            if isinstance(item, dict):
                yield Placed(self.pointer + step(key) + step(name), item)

    def texts(self, key: str) -> Sequence[tuple[str, str]]:
        """Return (pointer, text) for the texts in the list at `key`, which needs no escaping."""
        return [(place, item) for place, item in self._listed(key) if isinstance(item, str)]

    def names(self, key: str) -> list[str]:
        """Return the texts in the list at `key`, such as names of keys."""
        return [text for _, text in self.texts(key)]

    def mapping(self, key: str) -> Iterator[tuple[str, str, str]]:
        """Yield (pointer, key, text) for the texts in the object at `key`."""
        for name, item in object_at(self.value, key).items():
            if isinstance(item, str):
                yield f"{self.pointer}/{key}{step(name)}", name, item

    def _listed(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield (pointer, value) for the items of the list at `key`."""
        for index, item in enumerate(list_at(self.value, key)):
            yield f"{self.pointer}/{key}/{index}", item

    def text(self, key: str) -> str:
        """Return the text at `key`, with lines joined; "" if there is none."""
        return joined(self.get(key)) or ""


class Computed(dict[K, T]):
    """Key to what `make` computes for it, at the first use only."""

    def __init__(self, make: Callable[[K], T]) -> None:
        self.make = make

    def __missing__(self, key: K) -> T:
        """Compute a value."""
        found = self[key] = self.make(key)
        return found


@dataclass(frozen=True)
class Document:
    """A document, and facts about it. States, arcs and keys of the wrong shape are left out.

    `token_budget`: tokens that a state's prompt may take; None: 4,000. `read_flow` reads the
    documents that subflows name; without it, they are not checked. `unread`: pointers of keys with
    a misspelt name and an unusable value.
    """

    root: Placed
    file: str | None = None
    token_budget: int | None = None
    read_flow: FlowReader | None = None
    unread: frozenset[str] = frozenset()

    @cached_property
    def speller(self) -> Speller:
        """Guesses the intended name of unknown names."""
        return Speller()

    @cached_property
    def _facts(self) -> dict[Callable[[Document], Any], Any]:
        return {}

    def once(self, make: Callable[[Document], T]) -> T:
        """Compute a fact of this document once."""
        if make not in self._facts:
            self._facts[make] = make(self)
        fact: T = self._facts[make]
        return fact

    def close(self) -> None:
        """Drop all facts. Some refer to this document, and would keep it from being freed at
        once.
        """
        self.__dict__.pop("_facts", None)

    @cached_property
    def states(self) -> Mapping[str, Placed]:
        """State id to state object, in order of the file."""
        return {placed.name: placed for placed in self.root.members("states")}

    @cached_property
    def ids(self) -> JsonMap:
        """Every key under `states`, in order of the file, with any value."""
        return object_at(self.root.value, "states")

    @property
    def initial(self) -> str | None:
        """The initial state's id, if it names a state."""
        value = self.root.get("initial_state")
        if isinstance(value, str) and value in self.states:
            return value
        return None

    @cached_property
    def keys(self) -> Schemas:
        """Declared context keys with their schemas.

        If "properties" is missing or misspelt, which is reported, these are the intended keys.
        """
        found = declared_in(object_at(self.root.value, "context_schema"))
        keys = {key: object_at(found, key) for key in found}
        # The machine declares this one, where there are several languages.
        if self.has_schema and self.root.get("languages"):
            keys.setdefault(LANGUAGE, {"type": "string"})
        return keys

    @property
    def has_schema(self) -> bool:
        """True if it declares its keys. Without a `context_schema`, any key may be set."""
        return isinstance(self.root.get("context_schema"), dict)

    def source_of(self, key: str) -> str:
        """Return the writer of a declared key: model, host, tool or answer."""
        value = self.keys.get(key, {}).get("x-source", "model")
        return value if isinstance(value, str) else "model"


def texts_of_states(document: Document, key: str) -> Iterator[tuple[str, str, str]]:
    """Yield (state id, pointer, text) for the texts in the lists at `key` of all states."""
    for name, state in document.states.items():
        for pointer, text in state.texts(key):
            yield name, pointer, text


def once(make: Callable[[Document], T]) -> Callable[[Document], T]:
    """Compute a fact of a document once, however many rules ask for it."""

    @wraps(make)
    def known(document: Document) -> T:
        return document.once(make)

    return known


def once_each(make: Callable[[Document], Iterator[T]]) -> Callable[[Document], tuple[T, ...]]:
    """Compute the items of a fact of a document once, however many rules ask for them."""

    @once
    @wraps(make)
    def known(document: Document) -> tuple[T, ...]:
        return tuple(make(document))

    return known


_SCHEMA_WORDS = frozenset(
    {"$defs", "definitions", "not", "if", "then", "else", "items", "additionalProperties"}
)


def looks_like_key(name: str, schema: object) -> bool:
    """Return true for a member of a schema that is probably meant as the schema of a key."""
    words = (
        "type",
        "enum",
        "const",
        "format",
        "pattern",
        "items",
        "properties",
        "description",
        "x-source",
    )
    return (
        re.fullmatch(KEY_PATTERN, name) is not None
        and isinstance(schema, dict)
        and any(word in schema for word in words)
    )


def declared_in(schema: JsonMap) -> JsonMap:
    """Return the schemas of keys in a `context_schema`, also under a misspelt `properties` or
    beside it.
    """
    found = schema.get("properties")
    if isinstance(found, dict):
        return found
    for name, inner in schema.items():
        if (
            isinstance(inner, dict)
            and name not in _SCHEMA_WORDS
            and nearest(name, ["properties"]) is not None
        ):
            return inner
    return {
        name: inner
        for name, inner in schema.items()
        if looks_like_key(name, inner) and name not in _SCHEMA_WORDS
    }
