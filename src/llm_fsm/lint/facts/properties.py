"""The author's statements about all paths, and the shortest path on which one of them is false.

A path begins in the initial state and continues as long as it can. It takes a transition only if
the conditions that it passed allow it (`routes`). A key counts as set from the transition that
demands it. `eventually`, and `always` after each arrival, break only on a path from which the goal
is out of reach. A loop breaks neither: users may leave it. If it is unknown whether a transition
demands a key, no path depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from llm_fsm._json import JsonMap, TextMap, as_list, grouped, of_kind
from llm_fsm.definition.graph import path_in, reachable, reversed_graph, search_tree, shortest_path
from llm_fsm.lint.document import Computed, Document, Pairs, once
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow
from llm_fsm.lint.facts.paths import PathStep, Routes, routes, state_of

_MOST_ENDS = 50
VERBS = ("never", "always", "eventually")
LIMITS: TextMap = {"before": "never", "after": "always"}


class FormError(ValueError):
    """A statement without a clear meaning. `key` is its place, the message gives the reason, and
    `hint` a fix.
    """

    def __init__(self, reason: str, key: str = "", hint: str = "") -> None:
        self.key = key
        self.hint = hint
        super().__init__(reason)


class Places(NamedTuple):
    """The subject of a statement: being in one of the states, or having set one of the keys."""

    states: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the states, and keys as `key k`."""
        return " or ".join([*self.states, *(f"key {key}" for key in self.keys)])


class Statement(NamedTuple):
    """`verb` is never, always or eventually; `limit` is the value of before or after."""

    verb: str
    what: Places
    limit: Places | None


def read(statement: JsonMap) -> Statement:
    """Read a statement. Raises FormError."""
    given = [verb for verb in VERBS if statement.get(verb) is not None]
    if len(given) != 1:
        found = "none of never, always and eventually"
        if given:
            found = f"both {' and '.join(given)}"
        raise FormError(
            f"a property says one thing, this one says {found}", hint='{"never": "state id"}'
        )
    [verb] = given
    for limit, needed in LIMITS.items():
        if statement.get(limit) is not None and verb != needed:
            raise FormError(
                f'"{limit}" goes with "{needed}", not with "{verb}"',
                limit,
                f'write "{needed}" or take it out',
            )
    limits = [limit for limit in LIMITS if statement.get(limit) is not None]
    if verb == "always" and not limits:
        raise FormError(
            '"always" needs "after": after which state?', hint='write "eventually" for every path'
        )
    bound = None
    if limits:
        bound = places(statement[limits[0]], limits[0])
    return Statement(verb, places(statement[verb], verb), bound)


def places(value: object, key: str) -> Places:
    """Read the places under a keyword of a statement. Raises FormError."""
    items = as_list(value)
    states = tuple(of_kind(items, str))
    keys = tuple(
        item["key"]
        for item in items
        if isinstance(item, dict) and len(item) == 1 and isinstance(item.get("key"), str)
    )
    if not items or len(states) + len(keys) < len(items):
        raise FormError(
            f'"{key}" is a state id, a list of them, or {{"key": "name of a context key"}}',
            key,
            'write for example {"never": "pay", "before": {"key": "consent"}}',
        )
    return Places(states, keys)


class Violation(NamedTuple):
    """A path on which a statement is false, and the explanation."""

    path: tuple[str, ...]
    shows: str


@dataclass(frozen=True)
class PropertyPaths:
    """The paths of one machine, from stop to stop (see `routes`)."""

    flow: DataFlow
    routes: Routes

    @property
    def steps(self) -> Mapping[str, list[PathStep]]:
        """Stop to the steps that may be taken from it."""
        return self.routes.travelled.steps

    @cached_property
    def stops(self) -> Mapping[str, list[str]]:
        """State to its stops."""
        return grouped((state_of(stop), stop) for stop in self.steps)

    def _stops_of(self, states: Iterable[str]) -> list[str]:
        stops: list[str] = []
        for state in states:
            stops += self.stops.get(state, ())
        return stops

    @cached_property
    def _onward(self) -> dict[str, list[str]]:
        """Stop to the targets of its steps."""
        return {stop: [step.target for step in steps] for stop, steps in self.steps.items()}

    @cached_property
    def _aside(self) -> dict[str, list[str]]:
        """Stop to its targets, with those of repair patterns and digressions."""
        asides = self.routes.asides
        return {
            stop: [*targets, *asides.get(state_of(stop), ())]
            for stop, targets in self._onward.items()
        }

    @cached_property
    def _before(self) -> dict[str, list[str]]:
        return reversed_graph(self._onward)

    @cached_property
    def _before_aside(self) -> dict[str, list[str]]:
        return reversed_graph(self._aside)

    @cached_property
    def _gaining(self) -> Mapping[str | None, set[str]]:
        """Key to the stops with a step that sets it; None to the stops for which that is
        uncertain.
        """
        found: dict[str | None, set[str]] = {}
        for stop, steps in self.steps.items():
            for step in steps:
                for key in step.gained:
                    found.setdefault(key, set()).add(stop)
                if not step.certain:
                    found.setdefault(None, set()).add(stop)
        return found

    def _setting_on_the_way(self, keys: Iterable[str]) -> set[str]:
        """Return the stops with a step on which one of the keys is set, or may be."""
        # Under None are the steps that may set any key.
        stops: set[str] = set()
        for key in keys:
            stops.update(self._gaining.get(key, ()), self._gaining.get(None, ()))
        return stops

    def graph(self, refuse: Places, *, asides: bool = False) -> dict[str, list[str]]:
        """Return the graph without steps that enter one of these states or set one of these
        keys.
        """
        closed = {*self._stops_of(refuse.states), *refuse.states}
        keys = frozenset(refuse.keys)
        before = self._before_aside if asides else self._before
        graph = dict(self._aside if asides else self._onward)
        changed = self._setting_on_the_way(keys)
        for target in closed:
            changed.update(before.get(target, ()))
        for stop in changed:
            targets = [step.target for step in self.steps[stop] if not _may_set(step, keys)]
            if asides:
                targets += self.routes.asides.get(state_of(stop), ())
            graph[stop] = [target for target in targets if target not in closed]
        return graph

    def broken(self, statement: Statement) -> Violation | None:
        """Return a shortest path on which a statement is false; None if none is found."""
        initial = self.flow.document.initial
        if initial is None:
            return None
        limit = statement.limit or Places()
        if statement.verb == "never":
            return self._reached(initial, statement.what, limit)
        if statement.verb == "eventually":
            return self._missed(initial, (initial,), statement.what, self.graph(statement.what))
        return self._missed_after(initial, statement.what, limit)

    # -- never

    def _reached(self, initial: str, what: Places, limit: Places) -> Violation | None:
        if initial in limit.states:
            return None
        graph = self.graph(limit, asides=True)
        found = []
        path = _states(shortest_path(graph, initial, [*self._stops_of(what.states), *what.states]))
        if path:
            found.append(Violation(path, f"state {path[-1]} is reached"))
        for key in what.keys:
            found.extend(self._key_set(initial, key, graph))
        return min(found, key=lambda violation: len(violation.path), default=None)

    def _key_set(
        self, initial: str, key: str, graph: Mapping[str, Sequence[str]]
    ) -> Iterator[Violation]:
        path = _states(shortest_path(graph, initial, self._stops_of(self._setting(key))))
        if path:
            yield Violation(path, f"state {path[-1]} sets key {key}")

    def _setting(self, key: str) -> set[str]:
        """Return the states that collect a key or set it by an output."""
        found = {state for state, _ in self.flow.collected.get(key, ())}
        return found | self.flow.outputs.get(key, frozenset())

    # -- eventually and always

    def _missed(
        self, start: str, before: tuple[str, ...], what: Places, graph: Mapping[str, Sequence[str]]
    ) -> Violation | None:
        """Return a path that continues from `before`, ending in `start`, until nothing of `what` is
        in reach.
        """
        if state_of(start) in what.states:
            return None
        on = shortest_path(graph, start, self._hopeless[what])
        path = _states((*before, *on[1:]))
        if on:
            return Violation(path, f"after {path[-1]} there is no way to {what}")
        return None

    def _hopeless_for(self, what: Places) -> set[str]:
        """Return the states from which no path enters one of the states or may set one of the
        keys.
        """
        goals = {*self._stops_of(what.states), *self._setting_on_the_way(what.keys)}
        for key in what.keys:
            goals.update(self._stops_of(self._setting(key)))
        return set(self.steps) - reachable(self._before, goals)

    @cached_property
    def _tree(self) -> Mapping[str, str | None]:
        initial = self.flow.document.initial
        if initial is None:
            return {}
        return search_tree(self._onward, initial)

    @cached_property
    def _hopeless(self) -> Computed[Places, set[str]]:
        return Computed(self._hopeless_for)

    def _missed_after(self, initial: str, what: Places, limit: Places) -> Violation | None:
        found = []
        free = self.graph(Places((), what.keys)) if what.keys else self._onward
        onward = self.graph(what)
        for before in self._arrivals(initial, limit, free):
            violation = self._missed(before[-1], before, what, onward)
            if violation is not None:
                found.append(violation)
        return min(found, key=lambda violation: len(violation.path), default=None)

    def _arrivals(
        self, initial: str, limit: Places, graph: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[str, ...]]:
        """Shortest paths to each of the states, and through the transitions that demand one of the
        keys.
        """
        tree = self._tree if graph is self._onward else search_tree(graph, initial)
        for stop in self._stops_of(limit.states):
            if path := path_in(tree, stop):
                yield path
        for stop, target in islice(self._demanding(limit.keys, graph), _MOST_ENDS):
            if path := path_in(tree, stop):
                yield (*path, target)

    def _demanding(self, keys: Iterable[str], graph: Mapping[str, Sequence[str]]) -> Pairs:
        """Yield (stop, target) for each step in the graph that demands one of the keys."""
        for key in keys:
            for stop, steps in self.steps.items():
                for step in steps:
                    if key in step.gained and step.target in graph.get(stop, ()):
                        yield stop, step.target


def _may_set(step: PathStep, keys: frozenset[str]) -> bool:
    """Return true if one of the keys is set on a step, or may be."""
    return bool(keys) and (not step.certain or not keys.isdisjoint(step.gained))


def _states(path: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(state_of, path))


@once
def paths(document: Document) -> PropertyPaths:
    """Return the paths of a document."""
    return PropertyPaths(data_flow(document), routes(document))


def statements(document: Document) -> Iterator[tuple[str, Statement]]:
    """Yield (pointer, statement) of the properties that are well formed."""
    for placed in document.root.items("properties"):
        try:
            yield placed.pointer, read(placed.value)
        except FormError:
            continue
