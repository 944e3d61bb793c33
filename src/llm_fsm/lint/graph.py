"""The graph of a document: kinds of states, arcs between them, and the states that can be reached.

The graph is tolerant. A transition of the wrong shape has no arc, an arc may lead to a state that
does not exist, and a state of an unknown kind counts as one that talks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from llm_fsm._json import JsonMap, TextMap, grouped
from llm_fsm.conditions.coercion import is_whole
from llm_fsm.definition.graph import path_in, reachable, search_tree
from llm_fsm.lint.document import Computed, Document, Placed, once, once_each

T = TypeVar("T")

DEFAULT_PRIORITY = 100


class Arc(NamedTuple):
    """One transition of a state. A global transition has one arc for each state that offers it.

    `is_global`: it is a global transition. `priority`: lower comes first; 100 if no number is
    given. `auto`: it is taken without asking.
    """

    source: str
    target: str
    placed: Placed
    is_global: bool
    priority: int
    auto: bool

    @property
    def pointer(self) -> str:
        """The pointer of the transition object."""
        return self.placed.pointer

    @property
    def conditions(self) -> Sequence[Placed]:
        """The condition objects."""
        return self.placed.items("conditions")


Arcs = tuple[Arc, ...]


class GlobalTransitions(Generic[T]):
    """An item for each global transition, which is merged by priority with a state's own items.

    Made of (priority, target, item). A state gets no item that leads to itself.
    """

    def __init__(self, shared: Iterable[tuple[int, str, T]]) -> None:
        entries = sorted(shared, key=lambda entry: entry[0])
        self.items = [item for _, _, item in entries]
        self._ranks = [priority for priority, _, _ in entries]
        self._places = grouped((target, place) for place, (_, target, _) in enumerate(entries))

    def beside(self, state: str, own: Sequence[tuple[int, T]]) -> list[T]:
        """Return a state's own items, given with their priorities and in their order, merged with
        the global ones.
        """
        items = self.items
        ranks = self._ranks
        if state in self._places:
            items = items.copy()
            ranks = ranks.copy()
            for place in reversed(self._places[state]):
                del items[place], ranks[place]
        mine = [item for _, item in own]
        if not own or not items or own[-1][0] <= ranks[0]:
            return mine + items
        every = mine + items
        priorities = [priority for priority, _ in own] + ranks
        return [every[place] for place in sorted(range(len(every)), key=priorities.__getitem__)]


def kind_of(document: Document, state: str) -> str:
    """Return the effective kind. A converse state without its own transitions is final."""
    return _kinds(document)[state]


@once
def _kinds(document: Document) -> TextMap:
    return {name: _kind(placed.value) for name, placed in document.states.items()}


def _kind(state: JsonMap) -> str:
    kind = state.get("kind") or "converse"
    if kind == "converse" and not state.get("transitions"):
        return "final"
    return kind if isinstance(kind, str) else "converse"


def states_of_kind(document: Document, kind: str) -> Iterator[tuple[str, Placed]]:
    """Yield (state id, state object) for the states of this effective kind."""
    for name, state in document.states.items():
        if kind_of(document, name) == kind:
            yield name, state


def offers_globals(document: Document, state: str) -> bool:
    """Return true if global transitions can be taken in a state, except for those that lead to
    it.
    """
    return kind_of(document, state) == "converse"


def calls_definition(document: Document, state: str) -> bool:
    """Return true if another definition runs in a state. The digressions of this one are offered
    there.
    """
    return kind_of(document, state) == "subflow"


@once_each
def own_arcs(document: Document) -> Iterator[Arc]:
    """Every transition of a state that can be taken, in order of the file; targets may be
    unknown.
    """
    for name, state in document.states.items():
        # The engine stops in a final state, so its transitions lead nowhere.
        if kind_of(document, name) == "final":
            continue
        for placed in state.items("transitions"):
            yield from _arcs(name, placed, False)


@once
def own_arcs_from(document: Document) -> Mapping[str, Arcs]:
    """State id to its own arcs in order of priority."""
    arcs = grouped(((arc.source, arc) for arc in own_arcs(document)), document.states)
    by_priority = attrgetter("priority")
    return {name: tuple(sorted(own, key=by_priority)) for name, own in arcs.items()}


@once_each
def global_arcs(document: Document) -> Iterator[Arc]:
    """The global transitions, in order of the file. They have no source, because many states offer
    each.
    """
    for placed in document.root.items("global_transitions"):
        yield from _arcs("", placed, True)


def _arcs(source: str, placed: Placed, is_global: bool) -> Iterator[Arc]:
    """Yield the arc of a transition object; none without a target."""
    target = placed.get("target_state")
    if not isinstance(target, str):
        return
    priority = placed.get("priority", DEFAULT_PRIORITY)
    if not is_whole(priority):
        priority = DEFAULT_PRIORITY
    auto = placed.get("auto") is True
    yield Arc(source, target, placed, is_global, priority, auto)


@once
def arcs_from(document: Document) -> Mapping[str, Arcs]:
    """State id to its arcs, global ones among them, in order of priority, as the engine tries them.

    The arcs of a state are made when they are first read: a state can offer thousands of global
    ones.
    """

    def offered(state: str) -> Arcs:
        own = own_arcs_from(document)[state]
        if not global_arcs(document) or not offers_globals(document, state):
            return own
        every = merged_globals(document).beside(state, [(arc.priority, arc) for arc in own])
        return tuple([arc._replace(source=state) if arc.is_global else arc for arc in every])

    return Computed(offered)


@once
def global_arcs_to(document: Document) -> Mapping[str, Sequence[Arc]]:
    """Target to the global transitions that lead there."""
    return grouped((arc.target, arc) for arc in global_arcs(document))


@once
def merged_globals(document: Document) -> GlobalTransitions[Arc]:
    """The global transitions, to be merged with those of a state."""
    return GlobalTransitions((arc.priority, arc.target, arc) for arc in global_arcs(document))


@once
def graph_of(document: Document) -> Mapping[str, tuple[str, ...]]:
    """State id to the known states it may lead to directly, time-outs and exhaustion included."""
    states = document.states
    known = [arc for arc in global_arcs(document) if arc.target in states]
    shared = GlobalTransitions((arc.priority, arc.target, arc.target) for arc in known)
    graph = {}
    for name, arcs in own_arcs_from(document).items():
        own = [(arc.priority, arc.target) for arc in arcs if arc.target in states]
        targets = [*pattern_targets(document, name)]
        if offers_globals(document, name):
            targets += shared.beside(name, own)
        else:
            targets += [target for _, target in own]
        targets += fallback_targets(document, name)
        graph[name] = tuple(dict.fromkeys(targets))
    return graph


@once
def pattern_states(document: Document) -> tuple[str, ...]:
    """The states that replace repair patterns which a model may name."""
    return tuple(name for name in _pattern_names(document) if name in document.states)


@once
def _pattern_names(document: Document) -> tuple[str, ...]:
    return tuple(document.root.names("patterns"))


@once
def digressions_of(document: Document) -> frozenset[str]:
    """The known targets of global transitions that return."""
    targets = set()
    for arc in global_arcs(document):
        if arc.placed.get("return") is True and arc.target in document.states:
            targets.add(arc.target)
    return frozenset(targets)


def pattern_targets(document: Document, state: str) -> Iterator[str]:
    """Yield targets without a transition.

    These are states that replace repair patterns, and digressions out of a called definition.
    """
    if offers_globals(document, state):
        for pattern in pattern_states(document):
            if pattern != state:
                yield pattern
        if "cancelled" in document.states and "cancel" in _pattern_names(document):
            yield "cancelled"
    elif calls_definition(document, state):
        digressions = digressions_of(document)
        for arc in global_arcs(document):
            if arc.target in digressions and arc.target != state:
                yield arc.target


def fallback_targets(document: Document, state: str) -> Iterator[str]:
    """Yield the known targets of a state's time-out, exhaustion, and failed functions and tools."""
    for value in other_targets(document, state):
        if value in document.states:
            yield value


def other_targets(document: Document, state: str) -> Iterator[str]:
    """Yield the targets that a state names for time-outs, exhaustion and failed functions."""
    placed = document.states[state].value
    found = [placed.get("on_timeout"), placed.get("on_exhausted")]
    if any(placed.get(key) for key in ("execute", "route", "tools", "key_results")):
        found.append(document.root.at("on_function_error").get("target_state"))
    yield from (target for target in found if isinstance(target, str))


@once
def reached_states(document: Document) -> frozenset[str]:
    """States on some path from the initial one; all states if the initial state is unknown."""
    if document.initial is None:
        return frozenset(document.states)
    return frozenset(reachable(graph_of(document), [document.initial]))


@once
def _tree(document: Document) -> Mapping[str, str | None]:
    if document.initial is None:
        return {}
    return search_tree(graph_of(document), document.initial)


def path_to(document: Document, state: str) -> tuple[str, ...]:
    """Return a shortest path from the initial state; () if there is no path or no initial state."""
    return path_in(_tree(document), state)


@once
def _ranks(document: Document) -> Mapping[str, int]:
    return {name: rank for rank, name in enumerate(_tree(document))}


def first_reached(document: Document, states: Iterable[str]) -> str:
    """Return the state that a conversation can reach first."""
    ranks = _ranks(document)
    return min(states, key=lambda name: ranks.get(name, len(ranks)))
