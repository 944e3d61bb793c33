"""The ways through a machine, with what conditions that were passed tell of the keys until they may change.

A stop is a state together with what is known of the keys when it is left. Known is what every condition on the way
demanded, until somebody may write the key anew: in a `converse` state the model, which may correct any key that it
may write; in a `task` its tools, and the program where it does the work; in a `wait` the answer; in a `subflow` whoever
is asked there; everywhere the program, for keys of its own. Where a machine leaves its transitions (by repair patterns,
by digressions that come back) or has too many stops, nothing is known and a stop is a state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

from llm_fsm.graph import reversed_graph
from llm_fsm.lint.cases import ANY, Cases
from llm_fsm.lint.flow import Flow, flow, root_of
from llm_fsm.lint.guards import Guard
from llm_fsm.lint.subject import Arc, Placed, Subject
from llm_fsm.lint.values import ValueSet

Known = Mapping[str, ValueSet]

_MOST_STOPS = 3000
_MOST_STEPS = 20_000
_MOST_WEIGHT = 300_000
"""So many values of keys are carried over steps."""
_PARTED = "\x00"


class Step(NamedTuple):
    """A transition as it may be taken. `gained`: keys that are then set; `certain`: and that is all of them.

    `arc` is None for time-outs and for what follows exhaustion.
    """

    target: str
    gained: frozenset[str]
    certain: bool
    arc: Arc | None


class Travelled(NamedTuple):
    """Stop to the steps from it, the first stop being the initial state; stop to what is known there.

    `known` is empty where conditions were not followed.
    """

    steps: Mapping[str, list[Step]]
    known: Mapping[str, Known]


def state_of(stop: str) -> str:
    """The state of a stop."""
    return stop.partition(_PARTED)[0]


@dataclass(frozen=True)
class Routes:
    """The ways through one machine."""

    ways: Flow

    @cached_property
    def travelled(self) -> Travelled:
        """Every stop that can be come to, and the steps from it; all states and arcs where conditions tell nothing."""
        initial = self.ways.subject.initial
        found = None if initial is None or self._leaves_its_transitions else self._explored(initial)
        if found is not None:
            return found
        return Travelled({name: [way for way, _ in self._ways[name]] for name in self.ways.subject.states}, {})

    @cached_property
    def alive(self) -> frozenset[str]:
        """The states that some way comes to, digressions that come back among them."""
        steps = self.travelled.steps
        seen: set[str] = set()
        queue = [] if self.ways.subject.initial is None else [self.ways.subject.initial]
        while queue:
            stop = queue.pop()
            if stop not in seen:
                seen.add(stop)
                queue.extend(step.target for step in steps.get(stop, ()))
                queue.extend(self.asides.get(state_of(stop), ()))
        return frozenset(map(state_of, seen))

    def closed(self) -> Iterator[Arc]:
        """The arcs of living states that may hold by themselves, but on no way to their state."""
        if not self.travelled.known:
            return
        taken = {
            (step.arc.source, step.arc.placed.pointer)
            for steps in self.travelled.steps.values()
            for step in steps
            if step.arc
        }
        for state in self.ways.subject.states:
            for way, _ in self._ways[state] if state in self.alive else ():
                arc = way.arc
                if arc is not None and (arc.source, arc.placed.pointer) not in taken:
                    yield arc

    @cached_property
    def asides(self) -> Mapping[str, list[str]]:
        """State to where repair patterns lead from it, and to the digressions without transitions that come back."""
        subject = self.ways.subject
        found: dict[str, list[str]] = {}
        for name, targets in subject.graph.items():
            told = {arc.target for arc in subject.arcs_from[name] if not (arc.is_global and self._comes_back(arc))}
            told.update(_other_targets(subject.states[name]))
            if aside := [target for target in targets if target not in told]:
                found[name] = aside
        return found

    # -- steps

    @property
    def _leaves_its_transitions(self) -> bool:
        root = self.ways.subject.root
        returns = any(placed.value.get("return") is True for placed in root.items("global_transitions"))
        return bool(root.value.get("patterns")) or returns

    def _comes_back(self, arc: Arc) -> bool:
        subject = self.ways.subject
        returns = arc.is_global and arc.placed.value.get("return") is True
        return returns and arc.target in subject.states and subject.kind_of(arc.target) == "final"

    @cached_property
    def _ways(self) -> Mapping[str, list[tuple[Step, Cases | None]]]:
        """State to the steps from it, and the cases in which each may be taken; None where it cannot be told."""
        subject, known = self.ways.subject, self.ways.known
        found: dict[str, list[tuple[Step, Cases | None]]] = {}
        told: dict[str, tuple[Guard | None, frozenset[str], bool]] = {}
        for name, state in subject.states.items():
            ways = found[name] = []
            decided = known.decided(name)
            left: Cases | None = (ANY,)
            covered = known.shadowed.get(name, ())
            for arc in subject.arcs_from[name]:
                pointer = arc.placed.pointer
                if pointer not in told:
                    guard = known.guard(arc.placed)
                    told[pointer] = guard, self.ways.demands(arc), known.may_hold(arc) and not self._comes_back(arc)
                guard, gained, goes = told[pointer]
                cases = None if guard is None else guard.holds
                certain = cases is not None
                if decided and guard is not None and arc in decided:
                    narrowed = known.both(left, cases)
                    cases = cases if narrowed is None else narrowed
                    left = known.both(left, guard.fails) or left
                if goes and arc.target in subject.states and not (covered and arc in covered):
                    ways.append((Step(arc.target, gained, certain, arc), cases))
            for target in _other_targets(state):
                if target in subject.states:
                    ways.append((Step(target, frozenset(), certain=True, arc=None), None))
        return found

    # -- what is known

    def there(self, state: str, name: str) -> ValueSet:
        """The values that a key may have when a state is left."""
        found = [known.get(name) for stop, known in self.travelled.known.items() if state_of(stop) == state]
        sets = [self.ways.known.domain(name) if values is None else values for values in found]
        return reduce(ValueSet.__or__, sets) if sets else self.ways.known.domain(name)

    def _explored(self, initial: str) -> Travelled | None:
        """Stops in order of distance; None when there are too many."""
        names: dict[tuple[str, frozenset[tuple[str, ValueSet]]], str] = {(initial, frozenset()): initial}
        count = dict.fromkeys(self.ways.subject.states, 0)
        count[initial] = 1
        queue: deque[tuple[str, str, Known]] = deque([(initial, initial, {})])
        steps: dict[str, list[Step]] = {}
        told: dict[str, Known] = {}
        bits, worth = self._bits, self._worth_keeping
        total = weight = 0
        while queue:
            stop, state, known = queue.popleft()
            steps[stop], told[stop] = [], known
            for way, cases in self._ways[state]:
                narrowed = _narrowed(known, cases)
                if narrowed is None:
                    continue
                wanted = worth[way.target]
                kept = {name: values for name, values in narrowed.items() if wanted & bits[name]} if wanted else {}
                mark = (way.target, frozenset(kept.items()))
                if mark not in names:
                    number = count[way.target]
                    names[mark] = f"{way.target}{_PARTED}{number}" if number else way.target
                    count[way.target] += 1
                    queue.append((names[mark], way.target, kept))
                steps[stop].append(way._replace(target=names[mark]))
                total += 1
                weight += len(narrowed)
            if weight > _MOST_WEIGHT or len(names) > _MOST_STOPS + len(count) or total > _MOST_STEPS + len(count):
                return None
        return Travelled(steps, told)

    @cached_property
    def _bits(self) -> Mapping[str, int]:
        """Names that conditions tell something of, to their bits in the sets below."""
        names: dict[str, int] = {}
        for ways in self._ways.values():
            for _, cases in ways:
                for case in cases or ():
                    for name in case.sets:
                        names.setdefault(name, 1 << len(names))
        return names

    @cached_property
    def _worth_keeping(self) -> Mapping[str, int]:
        """State to the names of which it matters, on some way from it, what is known when it is entered."""
        sources = reversed_graph({name: [way.target for way, _ in ways] for name, ways in self._ways.items()})
        kept = self._kept
        found: dict[str, int] = {}
        for name, ways in self._ways.items():
            named = {key for _, cases in ways for case in cases or () for key in case.sets}
            found[name] = kept[name] & sum(self._bits[key] for key in named)
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
        """State to the names that nobody may write between the arrival in it and the next transition."""
        subject = self.ways.subject
        steady = told = 0
        parts: dict[str, int] = {}
        for name, bit in self._bits.items():
            key = self.ways.declared(name)
            source = "model" if key is None else subject.source_of(key)
            if not (name.startswith("_") or source == "host" or (key is None and subject.keys is not None)):
                steady |= bit
                told |= bit if source == "model" else 0
            for part in {name, root_of(name)}:
                parts[part] = parts.get(part, 0) | bit
        found: dict[str, int] = {}
        for state, placed in subject.states.items():
            kind = subject.kind_of(state)
            if kind in ("wait", "converse", "task") and not placed.value.get("execute"):
                changed = told if kind == "converse" else 0
                for key in self._written.get(state, ()):
                    changed |= parts.get(key, 0)
                found[state] = steady & ~changed
            else:
                found[state] = steady if kind == "decide" else 0
        return found

    @cached_property
    def _written(self) -> Mapping[str, list[str]]:
        """State to the keys that its output and its tools set."""
        found: dict[str, list[str]] = {}
        for key, setters in self.ways.outputs.items():
            for state, _ in setters:
                found.setdefault(state, []).append(key)
        return found


def _other_targets(state: Placed) -> list[str]:
    """Where time-outs and exhaustion lead."""
    found = (state.value.get(key) for key in ("on_timeout", "on_exhausted"))
    return [target for target in found if isinstance(target, str)]


def _narrowed(known: Known, cases: Cases | None) -> Known | None:
    """What is known once one of the cases holds; None when none of them can."""
    if cases is None or ANY in cases:
        return known
    fitting: list[dict[str, ValueSet]] = []
    for case in cases:
        sets = {name: values & known[name] if name in known else values for name, values in case.sets.items()}
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


def routes(subject: Subject) -> Routes:
    """The ways through a document, made once."""
    return subject.once(_routes)


def _routes(subject: Subject) -> Routes:
    return Routes(flow(subject))
