"""The author's statements about all paths, and the shortest path on which one of them does not hold.

A path begins in the initial state, takes only transitions that may be taken, and goes on as long as it can.
A key counts as set from the transition on that demands it. A statement that something happens at last is
broken only by a path that comes to where it cannot happen any more, not by one that goes round in a loop:
whoever talks may leave it. Where it cannot be told whether a transition demands a key, no path that needs
to know is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from llm_fsm.graph import reachable, reversed_graph, shortest_path
from llm_fsm.lint.flow import Flow, flow
from llm_fsm.lint.subject import Arc, Subject

VERBS = ("never", "always", "eventually")
LIMITS: Mapping[str, str] = {"before": "never", "after": "always"}


class FormError(ValueError):
    """A statement that says nothing; `key` is where. The message says why, `hint` what would be right."""

    def __init__(self, reason: str, key: str = "", hint: str = "") -> None:
        self.key = key
        self.hint = hint
        super().__init__(reason)


class Places(NamedTuple):
    """What a statement is about: to be in one of the states, or to have set one of the keys."""

    states: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The states, and keys as `key k`."""
        return " or ".join([*self.states, *(f"key {key}" for key in self.keys)])


class Statement(NamedTuple):
    """`verb` is never, always or eventually; `limit` is what stands under before or after."""

    verb: str
    what: Places
    limit: Places | None


def read(statement: Mapping[str, Any]) -> Statement:
    """A statement as it is written. Raises FormError."""
    given = [verb for verb in VERBS if statement.get(verb) is not None]
    if len(given) != 1:
        found = f"both {' and '.join(given)}" if given else "none of never, always and eventually"
        raise FormError(f"a property says one thing, this one says {found}", hint='{"never": "state id"}')
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
    bound = places(statement[limits[0]], limits[0]) if limits else None
    return Statement(verb, places(statement[verb], verb), bound)


def places(value: object, key: str) -> Places:
    """What stands under a word of a statement. Raises FormError."""
    items = value if isinstance(value, list) else [value]
    states = tuple(item for item in items if isinstance(item, str))
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
    """A path on which a statement does not hold, and what it shows."""

    path: tuple[str, ...]
    shows: str


Edge = tuple[str, frozenset[str], bool]
"""Target, keys that are set when it was taken, and whether that is all that can be told."""


@dataclass(frozen=True)
class Paths:
    """The paths of one machine."""

    ways: Flow

    @cached_property
    def edges(self) -> Mapping[str, list[Edge]]:
        """State to the transitions that may be taken from it."""
        subject, known = self.ways.subject, self.ways.known
        found: dict[str, list[Edge]] = {name: [] for name in subject.states}
        for arc in subject.arcs:
            if arc.target in subject.states and known.takeable(arc) and not self._comes_back(arc):
                guard = known.guard(arc.placed)
                certain = guard is not None and guard.holds is not None
                found[arc.source].append((arc.target, self.ways.demands(arc), certain))
        for name, state in subject.states.items():
            for key in ("on_timeout", "on_exhausted"):
                target = state.value.get(key)
                if isinstance(target, str) and target in subject.states:
                    found[name].append((target, frozenset(), True))
        return found

    def _comes_back(self, arc: Arc) -> bool:
        subject = self.ways.subject
        returns = arc.is_global and arc.placed.value.get("return") is True
        return returns and arc.target in subject.states and subject.kind_of(arc.target) == "final"

    @cached_property
    def asides(self) -> Mapping[str, list[str]]:
        """State to the digressions without transitions that come back to it."""
        found: dict[str, list[str]] = {}
        for arc in self.ways.subject.arcs:
            if arc.target in self.ways.subject.states and self._comes_back(arc):
                found.setdefault(arc.source, []).append(arc.target)
        return found

    def graph(self, refuse: Places, *, asides: bool = False) -> dict[str, list[str]]:
        """The graph without transitions that enter one of these states or set one of these keys."""
        states, keys = frozenset(refuse.states), frozenset(refuse.keys)
        graph = {
            name: [
                target
                for target, gained, certain in edges
                if target not in states and not gained & keys and (certain or not keys)
            ]
            for name, edges in self.edges.items()
        }
        for name, targets in self.asides.items() if asides else ():
            graph[name] += [target for target in targets if target not in states]
        return graph

    def broken(self, statement: Statement) -> Violation | None:
        """A shortest path on which a statement does not hold; None when none can be shown."""
        initial = self.ways.subject.initial
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
        found: list[Violation] = []
        path = shortest_path(graph, initial, what.states)
        if path:
            found.append(Violation(path, f"state {path[-1]} is reached"))
        for key in what.keys:
            found.extend(self._key_set(initial, key, graph))
        return min(found, key=lambda violation: len(violation.path), default=None)

    def _key_set(self, initial: str, key: str, graph: Mapping[str, Sequence[str]]) -> Iterator[Violation]:
        path = shortest_path(graph, initial, self._setting(key))
        if path:
            yield Violation(path, f"state {path[-1]} sets key {key}")

    def _setting(self, key: str) -> set[str]:
        """The states that collect a key or set it by an output."""
        found = {state for state, _ in self.ways.collected.get(key, ())}
        return found | {state for state, _ in self.ways.outputs.get(key, ())}

    # -- eventually and always

    def _missed(
        self, start: str, before: tuple[str, ...], what: Places, graph: Mapping[str, Sequence[str]]
    ) -> Violation | None:
        """A path that goes on from `before`, ending in `start`, to where nothing of `what` can come."""
        if start in what.states:
            return None
        path = shortest_path(graph, start, self._hopeless(what))
        return (
            Violation((*before, *path[1:]), f"after {path[-1]} there is no way to {what}") if path else None
        )

    def _hopeless(self, what: Places) -> set[str]:
        """The states from which no path enters one of the states or may set one of the keys."""
        backwards = reversed_graph({name: [edge[0] for edge in edges] for name, edges in self.edges.items()})
        goals = set(what.states)
        for key in what.keys:
            goals |= self._setting(key)
            goals |= {
                name
                for name, edges in self.edges.items()
                if any(key in gained or not certain for _, gained, certain in edges)
            }
        return set(self.edges) - reachable(backwards, goals & set(self.edges))

    def _missed_after(self, initial: str, what: Places, limit: Places) -> Violation | None:
        found: list[Violation] = []
        free = self.graph(Places((), what.keys))
        onward = self.graph(what)
        for before in self._arrivals(initial, limit, free):
            violation = self._missed(before[-1], before, what, onward)
            if violation is not None:
                found.append(violation)
        return min(found, key=lambda violation: len(violation.path), default=None)

    def _arrivals(
        self, initial: str, limit: Places, graph: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[str, ...]]:
        """Shortest paths to each of the states, and through the transitions that demand one of the keys."""
        for state in limit.states:
            path = shortest_path(graph, initial, [state])
            if path:
                yield path
        for key in limit.keys:
            ends = [
                (name, target)
                for name, edges in self.edges.items()
                for target, gained, _ in edges
                if key in gained and target in graph.get(name, ())
            ]
            for name, target in ends[:50]:
                path = shortest_path(graph, initial, [name])
                if path:
                    yield (*path, target)


def paths(subject: Subject) -> Paths:
    """The paths of a document, made once."""
    return subject.once(_paths)


def _paths(subject: Subject) -> Paths:
    return Paths(flow(subject))


def statements(subject: Subject) -> Iterator[tuple[str, Statement]]:
    """(pointer, statement) of the properties that are well formed."""
    for placed in subject.root.items("properties"):
        try:
            yield placed.pointer, read(placed.value)
        except FormError:
            continue
