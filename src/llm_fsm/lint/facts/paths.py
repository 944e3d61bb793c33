"""The paths through a machine, with the values of keys that passed conditions leave possible.

A stop is a state together with the values that its keys may have when it is left. Passed conditions
narrow these values until the key may be written again. In a `converse` state the model may write
it, in a `task` its tools or its function. In a `wait` the answer may, in a `subflow` the called
definition. The program may write its own keys everywhere. Repair patterns and returning digressions
do not follow transitions. With them, or with too many stops, a stop is just a state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

from llm_fsm.definition.graph import explored, reversed_graph
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document, once
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow
from llm_fsm.lint.graph import (
    Arc,
    GlobalTransitions,
    arcs_from,
    global_arcs,
    graph_of,
    kind_of,
    offers_globals,
    other_targets,
    own_arcs,
    own_arcs_from,
    pattern_targets,
)
from llm_fsm.lint.logics import assigned_keys
from llm_fsm.lint.solver.cases import ANY, Cases
from llm_fsm.lint.solver.value_sets import ValueSet

Known = Mapping[str, ValueSet]

_MOST_STOPS = 3000
_MOST_STEPS = 20_000
_MOST_WEIGHT = 300_000
"""The most values of keys that are carried over steps."""
_PARTED = "\x00"
_MENU = "\x00menu"


class PathStep(NamedTuple):
    """A possible transition. `gained`: keys that are then set; `certain`: no others are.

    `arc` is None for time-outs and exhaustion.
    """

    target: str
    gained: frozenset[str]
    certain: bool
    arc: Arc | None


Way = tuple[PathStep, Cases | None]
"""A step, and the cases in which it may be taken; None if that is unknown."""


class Travelled(NamedTuple):
    """Stop to the steps from it, beginning with the initial state; and stop to the known values
    there.

    `known` is empty if conditions were not followed.
    """

    steps: Mapping[str, list[PathStep]]
    known: Mapping[str, Known]


def state_of(stop: str) -> str:
    """Return the state of a stop."""
    return stop.partition(_PARTED)[0]


@dataclass(frozen=True)
class Routes:
    """The paths through one machine."""

    flow: DataFlow

    @cached_property
    def travelled(self) -> Travelled:
        """Every stop that can be reached, and the steps from it; all states and arcs if conditions
        show nothing.
        """
        initial = self.flow.document.initial
        found = None if initial is None or self._leaves_its_transitions else self._explored(initial)
        if found is not None:
            return found
        return Travelled(
            {name: [step for step, _ in ways] for name, ways in self._ways.items()}, {}
        )

    @cached_property
    def alive(self) -> frozenset[str]:
        """The states that some path reaches, with returning digressions."""

        def after(stop: str) -> list[str]:
            steps = self.travelled.steps.get(stop, ())
            return [step.target for step in steps] + self.asides.get(state_of(stop), [])

        initial = self.flow.document.initial
        return frozenset(map(state_of, explored([] if initial is None else [initial], after)))

    def closed(self) -> Iterator[Arc]:
        """Yield own arcs of reached states that may be open by themselves, but on no path to their
        state.
        """
        if not self.travelled.known:
            return
        taken = self._taken()
        for state in self.flow.document.states:
            if state not in self.alive:
                continue
            for way, _ in self._ways[state]:
                arc = way.arc
                if arc is None or arc.is_global:
                    continue
                if (state, arc.pointer) not in taken:
                    yield arc

    def _taken(self) -> set[tuple[str, str]]:
        """Return (state, pointer of a transition) for each step on some path."""
        taken = set()
        for stop, steps in self.travelled.steps.items():
            for step in steps:
                if step.arc:
                    taken.add((state_of(stop), step.arc.pointer))
        return taken

    @cached_property
    def asides(self) -> Mapping[str, list[str]]:
        """State to the targets of repair patterns, and to the digressions without transitions that
        return.
        """
        document = self.flow.document
        back = [arc.target for arc in global_arcs(document) if self._comes_back(arc)]
        on = {arc.target for arc in global_arcs(document) if not self._comes_back(arc)}
        found = {}
        for name in document.states:
            others = {
                *pattern_targets(document, name),
                *(back if offers_globals(document, name) else ()),
            }
            others -= {
                *(arc.target for arc in own_arcs_from(document)[name]),
                *other_targets(document, name),
            }
            if others := {
                one
                for one in others
                if one not in on or one == name or not offers_globals(document, name)
            }:
                found[name] = [target for target in graph_of(document)[name] if target in others]
        return found

    # -- steps

    @property
    def _leaves_its_transitions(self) -> bool:
        root = self.flow.document.root
        returns = any(placed.get("return") is True for placed in root.items("global_transitions"))
        return bool(root.get("patterns")) or returns

    def _comes_back(self, arc: Arc) -> bool:
        document = self.flow.document
        returns = arc.is_global and arc.placed.get("return") is True
        return (
            returns and arc.target in document.states and kind_of(document, arc.target) == "final"
        )

    @cached_property
    def _usual(self) -> Mapping[str, Way | None]:
        """Pointer of a transition to its step and cases, without regard to its neighbours; None if
        it is never taken.
        """
        document = self.flow.document
        return {
            arc.pointer: self._step(arc) for arc in (*own_arcs(document), *global_arcs(document))
        }

    @cached_property
    def _menu(self) -> GlobalTransitions[Way]:
        """The steps that global transitions add in the states that share them."""
        shared = [(arc, self._usual[arc.pointer]) for arc in global_arcs(self.flow.document)]
        return GlobalTransitions(
            (arc.priority, arc.target, way) for arc, way in shared if way is not None
        )

    def _shares(self, state: str) -> bool:
        document = self.flow.document
        known = self.flow.known
        return (
            offers_globals(document, state)
            and not known.decided[state]
            and state not in known.shadowed
        )

    @cached_property
    def _own(self) -> Mapping[str, Sequence[tuple[int, Way]]]:
        """State to its steps with their priorities, without global transitions if it shares
        them.
        """
        document = self.flow.document
        usual = self._usual
        found = {}
        for name in document.states:
            if self._shares(name):
                own = [(arc.priority, usual[arc.pointer]) for arc in own_arcs_from(document)[name]]
                found[name] = [(priority, way) for priority, way in own if way is not None]
            else:
                found[name] = self._decided_ways(name, usual)
        return found

    def _others(self, state: str) -> list[Way]:
        targets = (target for target in other_targets(self.flow.document, state))
        known = [target for target in targets if target in self.flow.document.states]
        return [(PathStep(target, frozenset(), certain=True, arc=None), None) for target in known]

    @cached_property
    def _ways(self) -> Mapping[str, Sequence[Way]]:
        """State to the steps from it, and the cases in which each may be taken; None if that is
        unknown.
        """
        found = {}
        for name, own in self._own.items():
            ways = self._menu.beside(name, own) if self._shares(name) else [way for _, way in own]
            found[name] = ways + self._others(name)
        return found

    def _step(self, arc: Arc) -> Way | None:
        """Return the step of a transition, without regard to its neighbours; None if it is never
        taken.
        """
        known = self.flow.known
        if (
            arc.target not in self.flow.document.states
            or not known.may_hold(arc)
            or self._comes_back(arc)
        ):
            return None
        guard = known.guard(arc)
        cases = None if guard is None else guard.holds
        return PathStep(arc.target, self.flow.demands(arc), cases is not None, arc), cases

    def _decided_ways(self, name: str, told: Mapping[str, Way | None]) -> list[tuple[int, Way]]:
        """Return the steps from a state in which only conditions decide. Each step narrows the
        following ones.
        """
        known = self.flow.known
        decided = {arc.pointer for arc in known.decided[name]}
        covered = {arc.pointer for arc in known.shadowed.get(name, ())}
        ways = []
        left: Cases | None = (ANY,)
        for arc in arcs_from(self.flow.document)[name]:
            pointer = arc.pointer
            guard = None
            if pointer in decided:
                guard = known.guard(arc)
            narrowed = None
            if guard is not None:
                narrowed = known.both(left, guard.holds)
                left = known.both(left, guard.fails) or left
            way = told[pointer]
            if way is not None and pointer not in covered:
                ways.append((arc.priority, way if narrowed is None else (way[0], narrowed)))
        return ways

    # -- known values

    def there(self, state: str, name: str) -> ValueSet:
        """Return the values that a key may have when a state is left."""
        found = [
            known.get(name)
            for stop, known in self.travelled.known.items()
            if state_of(stop) == state
        ]
        sets = [self.flow.known.keys.domain(name) if values is None else values for values in found]
        if sets:
            return reduce(ValueSet.__or__, sets)
        return self.flow.known.keys.domain(name)

    def _explored(self, initial: str) -> Travelled | None:
        """Stops in order of distance; None if there are too many."""
        names: dict[tuple[str, frozenset[tuple[str, ValueSet]]], str] = {
            (initial, frozenset()): initial
        }
        count = dict.fromkeys(self.flow.document.states, 0)
        count[initial] = 1
        queue: deque[tuple[str, str, Known]] = deque([(initial, initial, {})])
        steps: dict[str, list[PathStep]] = {}
        told = {}
        bits = self._bits
        worth = self._worth_keeping
        total = weight = 0
        while queue:
            stop, state, known = queue.popleft()
            steps[stop], told[stop] = [], known
            for way, cases in self._ways[state]:
                narrowed = _narrowed(known, cases)
                if narrowed is None:
                    continue
                wanted = worth[way.target]
                kept = (
                    {name: values for name, values in narrowed.items() if wanted & bits[name]}
                    if wanted
                    else {}
                )
                mark = (way.target, frozenset(kept.items()))
                if mark not in names:
                    number = count[way.target]
                    names[mark] = f"{way.target}{_PARTED}{number}" if number else way.target
                    count[way.target] += 1
                    queue.append((names[mark], way.target, kept))
                steps[stop].append(way._replace(target=names[mark]))
                total += 1
                weight += len(narrowed)
            if (
                weight > _MOST_WEIGHT
                or len(names) > _MOST_STOPS + len(count)
                or total > _MOST_STEPS + len(count)
            ):
                return None
        return Travelled(steps, told)

    @cached_property
    def _bits(self) -> Mapping[str, int]:
        """Names that conditions narrow, to their bits in the sets below."""
        ways = []
        for own in self._own.values():
            ways += [way for _, way in own]
        ways += self._menu.items
        bits: dict[str, int] = {}
        for name in _names_narrowed(ways):
            bits[name] = 1 << len(bits)
        return bits

    def _named(self, ways: Iterable[Way]) -> int:
        return sum(self._bits[key] for key in _names_narrowed(ways))

    @cached_property
    def _of_menu(self) -> tuple[int, Mapping[str, int]]:
        """The names that global transitions narrow; and state to the names that only steps to it
        narrow.
        """
        targets: dict[int, set[str]] = {}
        for step, cases in self._menu.items:
            for name in _names_narrowed([(step, cases)]):
                targets.setdefault(self._bits[name], set()).add(step.target)
        only: dict[str, int] = {}
        for bit, [target, *more] in targets.items():
            if not more:
                only[target] = only.get(target, 0) | bit
        return sum(targets), only

    @cached_property
    def _worth_keeping(self) -> Mapping[str, int]:
        """State to the names whose known values matter on some path from it."""
        kept = {**self._kept, _MENU: -1}
        named, only = self._of_menu
        found = {_MENU: 0}
        graph = {_MENU: [step.target for step, _ in self._menu.items]}
        for name, own in self._own.items():
            ways = [*(way for _, way in own), *self._others(name)]
            found[name] = self._named(ways)
            graph[name] = [step.target for step, _ in ways]
            if self._shares(name):
                found[name] |= named & ~only.get(name, 0)
                # One extra node, through which all of them lead to its targets.
                graph[name].append(_MENU)
            found[name] &= kept[name]
        sources = reversed_graph(graph)
        queue = list(found)
        waiting = set(queue)
        while queue:
            name = queue.pop()
            waiting.discard(name)
            for source in sources[name]:
                more = found[source] | (kept[source] & found[name])
                if more != found[source]:
                    found[source] = more
                    if source not in waiting:
                        waiting.add(source)
                        queue.append(source)
        return found

    @cached_property
    def _kept(self) -> Mapping[str, int]:
        """State to the names that nothing may write between the arrival in it and the next
        transition.
        """
        document = self.flow.document
        steady = told = 0
        parts: dict[str, int] = {}
        for name, bit in self._bits.items():
            key = self.flow.declared(name)
            source = "model" if key is None else document.source_of(key)
            outside = source == "host" or root_of(name) in assigned_keys(document)
            if not (name.startswith("_") or outside or (key is None and document.has_schema)):
                steady |= bit
                told |= bit if source == "model" else 0
            for part in {name, root_of(name)}:
                parts[part] = parts.get(part, 0) | bit
        found = {}
        for state, placed in document.states.items():
            kind = kind_of(document, state)
            if kind in ("wait", "converse", "task") and not placed.get("execute"):
                changed = told if kind == "converse" else 0
                for key in self.flow.written.get(state, ()):
                    changed |= parts.get(key, 0)
                found[state] = steady & ~changed
            else:
                found[state] = steady if kind == "decide" else 0
        return found


def _names_narrowed(ways: Iterable[Way]) -> dict[str, None]:
    """Return the names that the conditions of these steps narrow, in order."""
    names = {}
    for _, cases in ways:
        for case in cases or ():
            names.update(dict.fromkeys(case.sets))
    return names


def _narrowed(known: Known, cases: Cases | None) -> Known | None:
    """Return the values that keys may have in one of the cases; None if there are none."""
    if cases is None or ANY in cases:
        return known
    fitting = []
    for case in cases:
        sets = {
            name: values & known[name] if name in known else values
            for name, values in case.sets.items()
        }
        if not any(values.empty for values in sets.values()):
            fitting.append(sets)
    if not fitting:
        return None
    found = dict(known)
    for name in set.intersection(*(set(sets) for sets in fitting)):
        values = fitting[0][name]
        for sets in fitting[1:]:
            values = values | sets[name]
        found[name] = values
    return found


@once
def routes(document: Document) -> Routes:
    """Return the paths through a document."""
    return Routes(data_flow(document))
