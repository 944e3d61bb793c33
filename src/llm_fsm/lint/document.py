"""The document that rules read, with facts that are computed once.

Rules read the plain document, not the models, and skip parts of the wrong shape. So one run finds all faults of a file,
even if it does not load.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from llm_fsm._json import object_at, step, steps
from llm_fsm._text import nearest
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule
from llm_fsm.definition.graph import path_in, reachable, search_tree
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.lint.facts.suggestions import Speller

SYSTEM_NAMES = frozenset(
    {
        *("_conversation_id", "_current_state", "_previous_state", "_user_input"),
        *("_turn", "_turns_in_state", "_misses", "_refusals", "_timestamp"),
    }
)

K = TypeVar("K")
T = TypeVar("T")


class Called(NamedTuple):
    """A file that a subflow names, with its document, or the reason why it has none."""

    file: str
    document: Mapping[str, Any] | None
    why: str = ""


FlowReader = Callable[[str, str | None], Called]
"""Maps (relative path, file that names it) to the called file; None for the file that is checked."""


class Placed(NamedTuple):
    """An object of the document and its JSON pointer."""

    pointer: str
    value: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its key in the object that holds it."""
        return steps(self.pointer)[-1]

    def at(self, key: str) -> Placed:
        """Return the object at `key`, which needs no escaping; an empty one if there is none."""
        return Placed(f"{self.pointer}/{key}", object_at(self.value, key))

    def items(self, key: str) -> Sequence[Placed]:
        """Return the objects in the list at `key`, which needs no escaping."""
        inner = self.value.get(key)
        if not inner or not isinstance(inner, list):
            return ()
        place = f"{self.pointer}/{key}/"
        return [Placed(f"{place}{index}", item) for index, item in enumerate(inner) if isinstance(item, dict)]

    def members(self, key: str) -> Iterator[Placed]:
        """Yield the objects that are members of the object at `key`."""
        for name, item in object_at(self.value, key).items():
            if isinstance(item, dict):
                yield Placed(self.pointer + step(key) + step(name), item)

    def texts(self, key: str) -> Sequence[tuple[str, str]]:
        """Return (pointer, text) for the texts in the list at `key`, which needs no escaping."""
        inner = self.value.get(key)
        if not inner or not isinstance(inner, list):
            return ()
        place = f"{self.pointer}/{key}/"
        return [(f"{place}{index}", item) for index, item in enumerate(inner) if isinstance(item, str)]

    def text(self, key: str) -> str:
        """Return the text at `key`, with lines joined; "" if there is none."""
        inner = self.value.get(key)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list) and all(isinstance(line, str) for line in inner):
            return "\n".join(inner)
        return ""


class Arc(NamedTuple):
    """One transition of a state. A global transition has one arc for each state that offers it.

    `is_global`: it is a global transition. `priority`: lower comes first; 100 if no number is given. `auto`: it is
    taken without asking.
    """

    source: str
    target: str
    placed: Placed
    is_global: bool
    priority: int
    auto: bool

    @property
    def conditions(self) -> Sequence[Placed]:
        """The condition objects."""
        return self.placed.items("conditions")


class Assigned(NamedTuple):
    """A key that a definition sets. `state`: its state; None for a global transition. `owner`: the object with the
    `set`.
    """

    state: str | None
    owner: Placed
    key: str
    pointer: str
    logic: Any


class GlobalTransitions(Generic[T]):
    """An item for each global transition, which is merged by priority with a state's own items.

    Made of (priority, target, item). A state gets no item that leads to itself.
    """

    def __init__(self, shared: Iterable[tuple[int, str, T]]) -> None:
        entries = sorted(shared, key=lambda entry: entry[0])
        self.items = [item for _, _, item in entries]
        self._ranks = [priority for priority, _, _ in entries]
        self._places: dict[str, list[int]] = {}
        for place, (_, target, _) in enumerate(entries):
            self._places.setdefault(target, []).append(place)

    def beside(self, state: str, own: Sequence[tuple[int, T]]) -> list[T]:
        """Return a state's own items, given with their priorities and in their order, merged with the global ones."""
        items, ranks = self.items, self._ranks
        if state in self._places:
            items, ranks = items.copy(), ranks.copy()
            for place in reversed(self._places[state]):
                del items[place], ranks[place]
        mine = [item for _, item in own]
        if not own or not items or own[-1][0] <= ranks[0]:
            return mine + items
        every, priorities = mine + items, [priority for priority, _ in own] + ranks
        return [every[place] for place in sorted(range(len(every)), key=priorities.__getitem__)]


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

    `token_budget`: tokens that a state's prompt may take; None: 4,000. `read_flow` reads the documents that subflows
    name; without it, they are not checked. `unread`: pointers of keys with a misspelt name and an unusable value.
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
    def _made(self) -> Computed[Callable[[Document], Any], Any]:
        return Computed(lambda make: make(self))

    def once(self, make: Callable[[Document], T]) -> T:
        """Compute a fact of this document once."""
        made: T = self._made[make]
        return made

    def close(self) -> None:
        """Drop the references back to this document, which would otherwise wait for the garbage collector."""
        for name in ("_made", "arcs_from"):
            self.__dict__.pop(name, None)

    @cached_property
    def states(self) -> Mapping[str, Placed]:
        """State id to state object, in order of the file."""
        return {placed.name: placed for placed in self.root.members("states")}

    @cached_property
    def ids(self) -> Mapping[str, Any]:
        """Every key under `states`, in order of the file, with any value."""
        return object_at(self.root.value, "states")

    @property
    def initial(self) -> str | None:
        """The initial state's id, if it names a state."""
        value = self.root.value.get("initial_state")
        return value if isinstance(value, str) and value in self.states else None

    @cached_property
    def keys(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Declared context keys with their schemas; None without a `context_schema`.

        If "properties" is missing or misspelt, which is reported, these are the intended keys.
        """
        schema = self.root.value.get("context_schema")
        if not isinstance(schema, dict):
            return None
        found = declared_in(schema)
        return {key: item if isinstance(item, dict) else {} for key, item in found.items()}

    def source_of(self, key: str) -> str:
        """Return the writer of a declared key: model, host, tool or answer."""
        value = (self.keys or {}).get(key, {}).get("x-source", "model")
        return value if isinstance(value, str) else "model"

    def kind_of(self, state: str) -> str:
        """Return the effective kind. A converse state without its own transitions is final."""
        return self._kinds[state]

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        return {name: _kind(placed.value) for name, placed in self.states.items()}

    def offers(self, state: str) -> bool:
        """Return true if global transitions can be taken in a state, except for those that lead to it."""
        return self._kinds[state] == "converse"

    @cached_property
    def own(self) -> tuple[Arc, ...]:
        """Every transition of a state that can be taken, in order of the file; targets may be unknown."""
        states = [(name, state) for name, state in self.states.items() if self.kind_of(name) != "final"]
        return tuple(
            arc for name, state in states for placed in state.items("transitions") for arc in _arcs(name, placed, False)
        )

    @cached_property
    def own_from(self) -> Mapping[str, tuple[Arc, ...]]:
        """State id to its own arcs in order of priority."""
        found: dict[str, list[Arc]] = {name: [] for name in self.states}
        for arc in self.own:
            found[arc.source].append(arc)
        return {name: tuple(sorted(arcs, key=attrgetter("priority"))) for name, arcs in found.items()}

    @cached_property
    def shared(self) -> tuple[Arc, ...]:
        """The global transitions, in order of the file, without a source, because many states offer each."""
        return tuple(arc for placed in self.root.items("global_transitions") for arc in _arcs("", placed, True))

    @cached_property
    def arcs_from(self) -> Computed[str, tuple[Arc, ...]]:
        """State id to its arcs, global ones among them, in order of priority, as the engine tries them."""
        return Computed(self._offered)

    def _offered(self, state: str) -> tuple[Arc, ...]:
        own = self.own_from[state]
        if not self.shared or not self.offers(state):
            return own
        every = self.global_transitions.beside(state, [(arc.priority, arc) for arc in own])
        return tuple([arc._replace(source=state) if arc.is_global else arc for arc in every])

    @cached_property
    def shared_to(self) -> Mapping[str, tuple[Arc, ...]]:
        """Target to the global transitions that lead there."""
        found: dict[str, list[Arc]] = {}
        for arc in self.shared:
            found.setdefault(arc.target, []).append(arc)
        return {target: tuple(arcs) for target, arcs in found.items()}

    @cached_property
    def global_transitions(self) -> GlobalTransitions[Arc]:
        """The global transitions, to be merged with those of a state."""
        return GlobalTransitions((arc.priority, arc.target, arc) for arc in self.shared)

    @cached_property
    def graph(self) -> Mapping[str, tuple[str, ...]]:
        """State id to the known states it may lead to directly, time-outs and exhaustion included."""
        states = self.states
        pairs = ((arc.priority, arc.target) for arc in self.shared if arc.target in states)
        shared = GlobalTransitions((priority, target, target) for priority, target in pairs)
        found = {}
        for name, arcs in self.own_from.items():
            targets = [(arc.priority, arc.target) for arc in arcs if arc.target in states]
            own = shared.beside(name, targets) if self.offers(name) else [target for _, target in targets]
            found[name] = tuple(dict.fromkeys([*self.pattern_targets(name), *own, *self.left_for(name)]))
        return found

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The states that replace repair patterns which a model may name."""
        names = (name for _, name in self.root.texts("patterns"))
        return tuple(name for name in names if name in self.states)

    @cached_property
    def _cancels(self) -> bool:
        return any(name == "cancel" for _, name in self.root.texts("patterns"))

    @cached_property
    def digressions(self) -> frozenset[str]:
        """The known targets of global transitions that return."""
        returning = (arc.target for arc in self.shared if arc.placed.value.get("return") is True)
        return frozenset(target for target in returning if target in self.states)

    def calls(self, state: str) -> bool:
        """Return true if another definition runs in a state, so that the digressions of this one are offered."""
        return self._kinds[state] == "subflow"

    def pattern_targets(self, name: str) -> Iterator[str]:
        """Targets without a transition: states that replace repair patterns, and digressions out of a called
        definition.
        """
        if self.offers(name):
            yield from (pattern for pattern in self.patterns if pattern != name)
            if "cancelled" in self.states and self._cancels:
                yield "cancelled"
        elif self.digressions and self.calls(name):
            yield from (arc.target for arc in self.shared if arc.target in self.digressions and arc.target != name)

    def left_for(self, name: str) -> Iterator[str]:
        """Yield the known targets of a state's time-out and exhaustion."""
        for key in ("on_timeout", "on_exhausted"):
            value = self.states[name].value.get(key)
            if isinstance(value, str) and value in self.states:
                yield value

    @cached_property
    def reached(self) -> frozenset[str]:
        """States on some path from the initial one; all states if the initial state is unknown."""
        return frozenset(self.states if self.initial is None else reachable(self.graph, [self.initial]))

    @cached_property
    def _tree(self) -> Mapping[str, str | None]:
        return {} if self.initial is None else search_tree(self.graph, self.initial)

    def path_to(self, state: str) -> tuple[str, ...]:
        """Return a shortest path from the initial state; () if there is no path or no initial state."""
        return path_in(self._tree, state)

    @cached_property
    def _rank(self) -> Mapping[str, int]:
        return {name: rank for rank, name in enumerate(self._tree)}

    def first_reached(self, states: Iterable[str]) -> str:
        """Return the state that a conversation can reach first."""
        return min(states, key=lambda name: self._rank.get(name, len(self._rank)))

    @cached_property
    def rules(self) -> Mapping[str, CompiledRule]:
        """Pointer of a condition's `logic` to the compiled rule; faulty ones are left out."""
        found: dict[str, CompiledRule] = {}
        known: dict[str, CompiledRule | None] = {}
        for pointer, logic in self.logics:
            text = repr(logic)
            if text not in known:
                known[text] = _compiled(logic)
            rule = known[text]
            if rule is not None:
                found[pointer] = rule
        return found

    @cached_property
    def transitions(self) -> Sequence[tuple[str | None, Placed]]:
        """(state id or None for a global one, transition object) of every transition."""
        own = [(name, placed) for name, state in self.states.items() for placed in state.items("transitions")]
        return [*own, *((None, placed) for placed in self.root.items("global_transitions"))]

    @cached_property
    def conditions(self) -> Sequence[Placed]:
        """The condition objects of all transitions."""
        return [condition for _, transition in self.transitions for condition in transition.items("conditions")]

    @cached_property
    def logics(self) -> Sequence[tuple[str, Any]]:
        """(pointer, rule as written) of every condition that has logic, and of every key that is set."""
        found = [(condition.pointer + "/logic", condition.value.get("logic")) for condition in self.conditions]
        assigned = [(given.pointer, given.logic) for given in self.assignments]
        return [*(one for one in found if one[1] is not None), *assigned]

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The keys that the definition itself sets or clears."""
        owners = (*self.states.values(), *(placed for _, placed in self.transitions))
        cleared = (key for owner in owners for _, key in owner.texts("clear"))
        return frozenset((*(given.key for given in self.assignments), *cleared))

    @cached_property
    def assignments(self) -> tuple[Assigned, ...]:
        """Every rule under a `set`, as written."""
        owners = (*((name, state) for name, state in self.states.items()), *self.transitions)
        return tuple(
            Assigned(state, placed, key, f"{placed.pointer}/set{step(key)}", logic)
            for state, placed in owners
            for key, logic in object_at(placed.value, "set").items()
        )


def once(make: Callable[[Document], T]) -> Callable[[Document], T]:
    """Compute a fact of a document once."""

    @wraps(make)
    def known(document: Document) -> T:
        return document.once(make)

    return known


def _compiled(logic: Any) -> CompiledRule | None:
    try:
        return compile_rule(logic)
    except ConditionError:
        return None


def _kind(state: Mapping[str, Any]) -> str:
    kind = state.get("kind") or "converse"
    if kind == "converse" and not state.get("transitions"):
        return "final"
    return kind if isinstance(kind, str) else "converse"


def _arcs(source: str, placed: Placed, is_global: bool) -> Iterator[Arc]:
    """Yield the arc of a transition object; none without a target."""
    target = placed.value.get("target_state")
    if isinstance(target, str):
        written = placed.value.get("priority", 100)
        priority = written if isinstance(written, int) and not isinstance(written, bool) else 100
        yield Arc(source, target, placed, is_global, priority, placed.value.get("auto") is True)


_SCHEMA_WORDS = frozenset({"$defs", "definitions", "not", "if", "then", "else", "items", "additionalProperties"})


def looks_like_key(name: str, schema: object) -> bool:
    """Return true for a member of a schema that is probably meant as the schema of a key."""
    words = ("type", "enum", "const", "format", "pattern", "items", "properties", "description", "x-source")
    return (
        re.fullmatch(KEY_PATTERN, name) is not None
        and isinstance(schema, dict)
        and any(word in schema for word in words)
    )


def declared_in(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of keys in a `context_schema`, also under a misspelt `properties` or beside it."""
    found = schema.get("properties")
    if isinstance(found, dict):
        return found
    for name, inner in schema.items():
        if isinstance(inner, dict) and name not in _SCHEMA_WORDS and nearest(name, ["properties"]) is not None:
            return inner
    return {name: inner for name, inner in schema.items() if looks_like_key(name, inner) and name not in _SCHEMA_WORDS}
