"""The guards of the transitions of one machine, and the decisions that they make.

`reasoning` makes it once for a document. A transition whose conditions do not compile has no guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from llm_fsm._json import JsonMap
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import SYSTEM_NAMES, Computed, Document, Placed
from llm_fsm.lint.facts.schema_parts import answers
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.facts.transitions import arriving
from llm_fsm.lint.graph import (
    Arc,
    Arcs,
    arcs_from,
    calls_definition,
    global_arcs,
    graph_of,
    kind_of,
    offers_globals,
    other_targets,
    own_arcs,
    own_arcs_from,
)
from llm_fsm.lint.logics import compiled_rules, transitions_of
from llm_fsm.lint.solver.cases import ANY, Cases, Conjunction, Effort, both, contexts, either
from llm_fsm.lint.solver.formulas import Tests
from llm_fsm.lint.solver.guards import SHARE, GuardCases, guard_of
from llm_fsm.lint.solver.keys import KeyValues
from llm_fsm.lint.solver.value_sets import SET

_TRIED_CONTEXTS = 64
_GUARDS = 200_000
"""The budget for the cases of all guards of a file."""
_LEAST = 100
_DECISIONS = 200_000
"""The budget for comparing them with each other."""

Context = JsonMap


@dataclass(frozen=True, eq=False)
class Reasoning:
    """Guards and decisions of one machine."""

    document: Document
    _alike: dict[tuple[tuple[str, ...], tuple[int, ...]], GuardCases] = field(default_factory=dict)
    _tests: Tests = field(default_factory=Tests)
    _for_guards: Effort = field(default_factory=lambda: Effort(_GUARDS))
    _for_decisions: Effort = field(default_factory=lambda: Effort(_DECISIONS))

    @cached_property
    def keys(self) -> KeyValues:
        """The values that its keys may have."""
        return KeyValues(self.document)

    # -- guards

    def guard(self, transition: Arc | Placed) -> GuardCases | None:
        """Return the guard of a transition; None if one of its rules does not compile."""
        return self._guards[transition.pointer]

    @cached_property
    def _guards(self) -> Mapping[str, GuardCases | None]:
        """Pointer of each transition to its guard."""
        return {
            placed.pointer: self.guard_of(placed.items("conditions"))
            for _, placed in transitions_of(self.document)
        }

    def guard_of(self, conditions: Sequence[Placed]) -> GuardCases | None:
        """Return the guard that these condition objects make up."""
        demanded = []
        for condition in conditions:
            demanded += condition.names("requires_context_keys")
        keys = tuple(demanded)
        ruled = [condition for condition in conditions if condition.get("logic") is not None]
        rules = [
            compiled_rules(self.document).get(condition.pointer + "/logic") for condition in ruled
        ]
        sound = [rule for rule in rules if rule is not None]
        if len(sound) < len(rules):
            return None
        # The document has one rule for all logics that are written alike.
        mark = (keys, tuple(map(id, sound)))
        if mark not in self._alike:
            logics = [condition.value["logic"] for condition in ruled]
            effort = self._for_guards.part(SHARE, _LEAST)
            self._alike[mark] = guard_of(
                keys, logics, self.keys.domain, compiled=sound, known=self._tests, effort=effort
            )
        return self._alike[mark]

    def both(self, first: Cases | None, second: Cases | None) -> Cases | None:
        """Return the contexts of two answers; also None after the budget of the file."""
        return both(first, second, self._for_decisions)

    @property
    def exhausted(self) -> bool:
        """True if the budget of the file is used up. Then `both` only knows no case or any case."""
        return not self._for_decisions.left

    def may_hold(self, arc: Arc) -> bool:
        """Return false only if it is proven that the conditions of an arc are never true."""
        return arc.pointer not in self._never

    @cached_property
    def _never(self) -> frozenset[str]:
        """The pointers of the transitions that no context opens."""
        return frozenset(
            pointer for pointer, guard in self._guards.items() if guard is not None and guard.never
        )

    @cached_property
    def live(self) -> Mapping[str, tuple[str, ...]]:
        """The machine's graph without arcs that are never taken."""
        dead: dict[str, set[str]] = {}
        for arc in own_arcs(self.document) if self._never else ():
            if not self.may_hold(arc):
                dead.setdefault(arc.source, set()).add(arc.target)
        shut = {arc.target for arc in global_arcs(self.document) if not self.may_hold(arc)}
        for state in self.document.states if shut else ():
            if offers_globals(self.document, state) or calls_definition(self.document, state):
                dead.setdefault(state, set()).update(shut - {state})
        for state, pointers in self.shadowed.items():
            dead.setdefault(state, set()).update(arc.target for arc in pointers)
        graph = dict(graph_of(self.document))
        for state, targets in dead.items():
            kept = {arc.target for arc in arcs_from(self.document)[state] if self.takeable(arc)}
            kept |= set(other_targets(self.document, state))
            graph[state] = tuple(
                target for target in graph[state] if target not in targets or target in kept
            )
        return graph

    def takeable(self, arc: Arc) -> bool:
        """Return false only if it is proven that an arc is never taken."""
        return self.may_hold(arc) and arc not in self.shadowed.get(arc.source, ())

    # -- decisions

    @cached_property
    def decided(self) -> Computed[str, Arcs]:
        """State to the arcs that only conditions decide, in the order in which they are tried."""
        return Computed(self._decided_in)

    def _decided_in(self, state: str) -> Arcs:
        kind = kind_of(self.document, state)
        if kind == "converse" and not self._pushes:
            return tuple(
                [
                    arc
                    for arc in own_arcs_from(self.document)[state]
                    if arc.auto and arc.target != state
                ]
            )
        arcs = arcs_from(self.document)[state]
        if kind == "decide":
            return arcs
        if kind == "wait" and not any(arc.placed.get("on") is not None for arc in arcs):
            return arcs
        if kind == "converse":
            return tuple([arc for arc in arcs if arc.auto and arc.target != state])
        return ()

    @cached_property
    def _pushes(self) -> bool:
        """True if global transitions are taken without asking."""
        return any(arc.auto for arc in global_arcs(self.document))

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """The states in which only conditions decide."""
        return tuple(state for state in self.document.states if self.decided[state])

    @cached_property
    def shadowed(self) -> Mapping[str, Arcs]:
        """State to its arcs that earlier ones cover, if only conditions decide."""
        found = {}
        for state in self.deciding:
            arcs = tuple(arc for arc in self._covered(state) if self.may_hold(arc))
            if arcs:
                found[state] = arcs
        return found

    def _covered(self, state: str) -> Iterator[Arc]:
        left: Cases | None = (ANY,)
        arcs = self.decided[state]
        for arc in arcs:
            guard = self.guard(arc)
            if guard is None:
                return
            if self.both(left, guard.holds) == ():
                yield arc
            left = self.both(left, guard.fails)
            if left is None:
                return
        for arc in arcs_from(self.document)[state]:
            guard = self.guard(arc)
            if (
                arc not in arcs
                and arc.target != state
                and guard
                and self.both(left, guard.holds) == ()
            ):
                yield arc

    @cached_property
    def entries(self) -> Computed[str, Cases | None]:
        """State to the cases of the contexts in which it decides; None if they are too many."""
        return Computed(self._entries)

    def _entries(self, state: str) -> Cases | None:
        waits = kind_of(self.document, state) == "wait"  # the answer changes the entered values
        if waits:
            return self._answered(state)
        return self._entered(state, frozenset())

    def _answered(self, state: str) -> Cases:
        case: Conjunction | None = ANY
        for key, values in answers(self.document.states[state]).items():
            case = None if case is None else case.having(key, values, self.keys.domain)
        return () if case is None else (case,)

    def _entered(self, state: str, seen: frozenset[str]) -> Cases | None:
        found: Cases | None = (ANY,) if state == self.document.initial else ()
        for arc in arriving(self.document, state):
            found = either(found, self._arrival(arc, seen | {state}))
            if found is None or ANY in found:
                break
        return found

    def _arrival(self, arc: Arc, seen: frozenset[str]) -> Cases | None:
        guard = self.guard(arc)
        if guard is None:
            return (ANY,)
        if kind_of(self.document, arc.source) != "decide" or arc.source in seen or len(seen) > 4:
            return guard.holds
        found = self.both(self._entered(arc.source, seen), guard.holds)
        for earlier in self.decided[arc.source]:
            if earlier == arc:
                break
            before = self.guard(earlier)
            found = None if before is None else self.both(found, before.fails)
        return found

    # -- witnesses

    def witness(
        self, cases: Cases, keep: Iterable[GuardCases] = (), refuse: Iterable[GuardCases] = ()
    ) -> Context | None:
        """Return a context of one of these cases, found by evaluation to open `keep` and to close
        `refuse`.

        None if none is found, or if it would depend on system names.
        """
        kept = tuple(keep)
        refused = tuple(refuse)
        for context in islice(self._drawn(cases), _TRIED_CONTEXTS):
            if not all(guard.test(context) for guard in kept):
                continue
            if not any(guard.test(context) for guard in refused):
                return context
        return None

    def _drawn(self, cases: Cases) -> Iterator[Context]:
        for case in cases:
            # Nobody can bring about a value of a system name.
            if SYSTEM_NAMES.isdisjoint(case.sets):
                yield from contexts(case, self.keys.drawn)

    def with_set(self, cases: Cases | None, names: Iterable[str]) -> Cases | None:
        """Return the contexts of these cases in which the names are also set."""
        if cases is None:
            return None
        for name in sorted(names):  # the order shows in messages
            cases = tuple(
                found
                for case in cases
                if (found := case.having(name, SET, self.keys.domain)) is not None
            )
        return cases


def described(context: Context, names: Iterable[str]) -> str:
    """Describe a context, as `"tier" is "gold" and "age" is not set`. Unset `names` are
    mentioned.
    """
    parts = [f"{quoted(name)} is {as_json(value)}" for name, value in context.items()]
    roots = {root_of(name) for name in context}
    parts += [
        f"{quoted(name)} is not set"
        for name in dict.fromkeys(names)
        if root_of(name) not in roots and name not in SYSTEM_NAMES
    ]
    return " and ".join(parts[:5])


def read_names(guards: Iterable[GuardCases]) -> list[str]:
    """Return the names that these guards read, in order."""
    found = {}
    for guard in guards:
        found.update(dict.fromkeys(guard.keys))
        for rule in guard.rules:
            found.update(dict.fromkeys(sorted(rule.reads)))
    return list(found)


def reasoning(document: Document) -> Reasoning:
    """Return the reasoning about a document, made once."""
    return document.once(Reasoning)
