"""The keys that may or must be set when a state is entered, and the readers of each key.

The model may write its keys in any state, the host any key at any time. So "may" counts states that
ask for a key. They collect it, name it, decide by it, or set it by an output mapping. "Must"
follows the demands of transitions: a key is set if every path demands it. Keys that were taken back
are not considered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from llm_fsm._json import filled, frozen, grouped, step
from llm_fsm.definition.graph import explored, gathered, path_in, reachable
from llm_fsm.definition.names import declared_key, root_of
from llm_fsm.definition.reply_names import Mention, mentions, placeholders
from llm_fsm.lint.document import (
    SYSTEM_NAMES,
    Computed,
    Document,
    Pairs,
    Placed,
    once,
    texts_of_states,
)
from llm_fsm.lint.graph import (
    Arc,
    GlobalTransitions,
    arcs_from,
    fallback_targets,
    global_arcs,
    global_arcs_to,
    graph_of,
    kind_of,
    offers_globals,
    own_arcs_from,
    pattern_targets,
    reached_states,
)
from llm_fsm.lint.logics import assignments_of, compiled_rules, transitions_of
from llm_fsm.lint.solver.solver import Reasoning, reasoning

STATE_TEXTS = ("purpose", "objective", "instructions", "state_instructions", "description")
OTHER_TEXTS = ("extraction_instructions", "response_instructions")
_SHARED = "\x00menu"
_TREES = 150
"""The most keys of a file for which paths without the key are searched."""


def is_system(name: str) -> bool:
    """Return true for names that are not keys of the context."""
    return name in SYSTEM_NAMES or name.startswith("_")


Way = tuple[str, frozenset[str]]
"""A state, and the keys that are set when it is reached."""


class Use(NamedTuple):
    """A place where a key is read. `state` is None for a global transition or a tool."""

    state: str | None
    key: str
    pointer: str


@dataclass(frozen=True, eq=False)
class DataFlow:
    """The flow of keys through one machine."""

    document: Document
    known: Reasoning
    _trees: dict[str, Mapping[str, str | None]] = field(default_factory=dict)
    _unasked: list[None] = field(default_factory=list)
    _without: dict[str, frozenset[str]] = field(default_factory=dict)

    # -- names

    def declared(self, name: str) -> str | None:
        """Return the declared key that a name means or looks into; None if there is none, or no
        schema.
        """
        return declared_key(name, self.document.keys)

    def is_secret(self, name: str) -> bool:
        """Return true if the value must not be shown."""
        key = self.declared(name)
        return key is not None and self.document.keys[key].get("x-secret") is True

    # -- writers of a key

    @cached_property
    def collected(self) -> Mapping[str, list[tuple[str, str]]]:
        """Key to the (state, pointer) that collect it."""
        return grouped(
            (key if self.declared(key) == key else root_of(key), (name, pointer))
            for name, pointer, key in texts_of_states(self.document, "required_context_keys")
        )

    @cached_property
    def outputs(self) -> Mapping[str, frozenset[str]]:
        """Key to the states whose answer, called machine or tool sets it."""
        found: dict[str, set[str]] = {}
        for name, keys in self.written.items():
            for key in keys:
                found.setdefault(key, set()).add(name)
        document = self.document
        offering = [state for state in document.states if offers_globals(document, state)]
        for placed in document.root.items("global_transitions"):
            for key in _set_by(placed):
                found.setdefault(key, set()).update(offering)
        return frozen(found)

    @cached_property
    def written(self) -> Mapping[str, Sequence[str]]:
        """State to the keys that its answer, the machine that it calls and its tools set."""
        tools = {tool.name: _keys_of(tool) for tool in self.document.root.members("tools")}
        found = {}
        for name, state in self.document.states.items():
            keys = _keys_of(state)
            for tool in state.names("tools"):
                keys |= tools.get(tool, {})
            for transition in (state, *state.items("transitions")):
                keys |= dict.fromkeys(_set_by(transition))
            found[name] = tuple(keys)
        return found

    @cached_property
    def named(self) -> Mapping[str, frozenset[str]]:
        """Declared key to the states whose texts name it, because the user may give it there."""
        found: dict[str, set[str]] = {key: set() for key in self.document.keys}
        for name, state in self.document.states.items():
            words = set(_words(state))
            for transition in state.items("transitions"):
                words.update(_split(transition.text("description")))
            for key in words & found.keys():
                found[key].add(name)
        return frozen(found)

    @cached_property
    def tested(self) -> Mapping[str, frozenset[str]]:
        """Key to the states that have a condition on it and a model that may set it."""
        found: dict[str, set[str]] = {}
        for name, state in self.document.states.items():
            if kind_of(self.document, name) != "decide":
                for transition in state.items("transitions"):
                    for key in self.condition_names(transition):
                        found.setdefault(root_of(key), set()).add(name)
        return frozen(found)

    def condition_names(self, transition: Placed) -> Iterator[str]:
        """Yield the names that a transition's conditions read."""
        for condition in transition.items("conditions"):
            yield from condition.names("requires_context_keys")
            rule = compiled_rules(self.document).get(condition.pointer + "/logic")
            yield from sorted(rule.reads) if rule is not None else ()

    def setters(self, key: str) -> frozenset[str]:
        """Return the states that, by the file, ask for a key or set it."""
        collecting = frozenset(state for state, _ in self.collected.get(key, ()))
        return collecting | self.outputs.get(key, frozenset()) | self.named.get(key, frozenset())

    def may_be_set(self, key: str, state: str) -> bool:
        """Return true if some path enters a state after one that asks for the key, tests it or sets
        it.
        """
        if key in self._numbers:
            return bool(self._after[state] >> self._numbers[key] & 1)
        return False

    def asked_for(self, key: str, state: str) -> bool:
        """Return true if a state, or one on some path to it, asks for a key or sets it."""
        if key in self._numbers:
            return bool(self._asked[state] >> self._numbers[key] & 1)
        return False

    def is_asked_after(self, key: str, state: str) -> bool:
        """Return true if every state that asks for a key or sets it can only be entered after this
        state.
        """
        asking = self.setters(key) & reached_states(self.document)
        return (
            key in self.collected
            and bool(asking)
            and asking.isdisjoint(self._entered_without(state))
        )

    def _entered_without(self, state: str) -> frozenset[str]:
        """Return the states that some path enters without this one, and this one; all states after
        many questions.
        """
        if state not in self._without and len(self._without) < _TREES:
            graph = {**graph_of(self.document), state: ()}
            before = {state} if self.document.initial is None else {state, self.document.initial}
            self._without[state] = frozenset(reachable(graph, before))
        return self._without.get(state, reached_states(self.document))

    def leads_round(self, state: str, key: str, pointer: str) -> bool:
        """Return true if another transition leads to a state that asks for the key, without
        demanding it.
        """
        others = [arc for arc in arcs_from(self.document)[state] if arc.pointer != pointer]
        starts = {
            arc.target
            for arc in others
            if arc.target in self.document.states and key not in self.demands(arc)
        }
        starts.update(target for target, _ in self.asides(state))
        reached = explored(starts - {state}, self._without_key(key))
        return not self.setters(key).isdisjoint(reached)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """Keys that some state asks for, tests or sets, to their bits in the sets below."""
        every = dict.fromkeys((*self.collected, *self.outputs, *self.named, *self.tested))
        return {key: number for number, key in enumerate(every)}

    @cached_property
    def _asked(self) -> Mapping[str, int]:
        return gathered(
            graph_of(self.document), _bits(self.document, self._numbers, self.setters), own=True
        )

    @cached_property
    def _after(self) -> Mapping[str, int]:
        def sources(key: str) -> frozenset[str]:
            return self.setters(key) | self.tested.get(key, frozenset())

        return gathered(
            graph_of(self.document), _bits(self.document, self._numbers, sources), own=False
        )

    # -- demanded keys

    @cached_property
    def must(self) -> Mapping[str, frozenset[str]]:
        """State to the keys that every path to it demands or sets; empty for states that no path
        enters.
        """
        found = {}
        initial = self.document.initial
        if initial is None:
            return {name: frozenset() for name in self.document.states}
        ways = {
            name: [*(way for _, way in self.own_ways(name)), *self.asides(name)]
            for name in self.document.states
        }
        for name, own in ways.items():
            if self.shares(name):
                # One extra node, through which all of them lead to its targets.
                own.append((_SHARED, frozenset()))
        ways[_SHARED] = self.global_ways.items
        found[initial] = _set_by(self.document.states[initial])
        queue = deque([initial])
        waiting = {initial}
        while queue:
            state = queue.popleft()
            waiting.discard(state)
            for target, gained in ways[state]:
                keys = found[state] | gained
                before = found.get(target)
                if before is None or not before <= keys:
                    found[target] = keys if before is None else before & keys
                    if target not in waiting:
                        waiting.add(target)
                        queue.append(target)
        return {name: found.get(name, frozenset()) for name in self.document.states}

    @cached_property
    def ways_from(self) -> Computed[str, Sequence[Way]]:
        """State to its ways, in order of priority."""
        return Computed(self._ways)

    def _ways(self, state: str) -> Sequence[Way]:
        own = self.own_ways(state)
        ways = (
            self.global_ways.beside(state, own) if self.shares(state) else [way for _, way in own]
        )
        return ways + self.asides(state)

    @cached_property
    def global_ways(self) -> GlobalTransitions[Way]:
        """The steps by global transitions in each state that `shares` them."""
        arcs = [
            arc
            for arc in global_arcs(self.document)
            if arc.target in self.document.states and self.known.may_hold(arc)
        ]
        return GlobalTransitions(
            (arc.priority, arc.target, (arc.target, self._gained(arc))) for arc in arcs
        )

    def shares(self, state: str) -> bool:
        """Return true if global transitions work as in other states: none is covered, and nothing
        else is set.
        """
        offers = bool(global_arcs(self.document)) and offers_globals(self.document, state)
        return (
            offers
            and state not in self.known.shadowed
            and not self.document.states[state].get("output")
        )

    def own_ways(self, state: str) -> list[tuple[int, Way]]:
        """Return (priority, way) for the transitions of a state; only its own ones if it `shares`
        the global ones.
        """
        document = self.document
        made = frozenset(key for key, _ in mapped(document.states[state]))
        arcs = (own_arcs_from(document) if self.shares(state) else arcs_from(document))[state]
        going = [arc for arc in arcs if arc.target in document.states and self.known.takeable(arc)]
        return [(arc.priority, (arc.target, made | self._gained(arc))) for arc in going]

    def asides(self, state: str) -> list[Way]:
        """Return the ways from a state that are no transitions: repair patterns, time-outs and
        exhaustion.
        """
        document = self.document
        others = dict.fromkeys(
            [*pattern_targets(document, state), *fallback_targets(document, state)]
        )
        if not others:
            return []
        told = {arc.target for arc in own_arcs_from(document)[state]}
        if offers_globals(document, state):
            told.update(
                other for other in others if other in global_arcs_to(document) and other != state
            )
        found = dict.fromkeys(
            [*(other for other in others if other not in told), *fallback_targets(document, state)]
        )
        return [(target, _set_by(document.states[target])) for target in found]

    def _gained(self, arc: Arc) -> frozenset[str]:
        """Return the keys that are set after an arc: those that it demands, and those that it
        sets.
        """
        return self.demands(arc) | _set_by(arc.placed) | _set_by(self.document.states[arc.target])

    def demands(self, arc: Arc) -> frozenset[str]:
        """Return the keys that are set whenever an arc is taken."""
        guard = self.known.guard(arc)
        return frozenset() if guard is None else guard.needs

    def path_without(self, state: str, key: str) -> tuple[str, ...]:
        """Return a shortest path to a state on which nothing demands or sets the key; () if there
        is none.

        Also () after many keys of one file.
        """
        initial = self.document.initial
        if key not in self._trees and initial is not None and len(self._trees) < _TREES:
            self._trees[key] = explored([initial], self._without_key(key))
        return path_in(self._trees.get(key, {}), state)

    def path_unasked(self, state: str, key: str) -> tuple[str, ...]:
        """Return a shortest path to a state on which no state asks for the key, tests it or sets
        it.

        () if there is none, or after many keys of one file.
        """
        asking = self.setters(key) | self.tested.get(key, frozenset()) - {state}
        initial = self.document.initial
        if initial is None or state in asking or initial in asking or len(self._unasked) >= _TREES:
            return ()
        self._unasked.append(None)
        return path_in(explored([initial], self._without_key(key, asking)), state)

    def _without_key(self, key: str, closed: Container[str] = ()) -> Callable[[str], Sequence[str]]:
        """Return the ways from a state that neither demand or set a key nor enter a `closed`
        state.
        """

        def after(state: str) -> Sequence[str]:
            found = (target for target, gained in self.ways_from[state] if key not in gained)
            return [target for target in found if target not in closed]

        return after

    # -- readers of a key

    @cached_property
    def replies(self) -> Mapping[str, list[Mention]]:
        """State to the names in its fixed reply."""
        found = {
            name: mentions(state.text("reply")) for name, state in self.document.states.items()
        }
        return filled(found)

    @cached_property
    def read(self) -> frozenset[str]:
        """Every key that a condition, check, reply, mapping, scope, property or text of the file
        reads.
        """
        found = frozenset(self._readings())
        return found | frozenset(root_of(name) for name in found)

    def _readings(self) -> Iterator[str]:
        for _, transition in transitions_of(self.document):
            yield from self.condition_names(transition)
            yield from _split(transition.text("description"))
        for names in self.replies.values():
            yield from (mention.name for mention in names)
        yield from (use.key for use in inputs(self.document))
        for given in assignments_of(self.document):
            rule = compiled_rules(self.document).get(given.pointer)
            yield from rule.reads - {given.key} if rule is not None else ()
        for key, schema in self.document.keys.items():
            yield from _strings(schema.get("x-from"))
            yield from (name for name in _strings(schema.get("x-valid")) if name != key)
        yield from _split(self.document.root.text("persona"))
        yield from _split(self.document.root.text("description"))
        for state in self.document.states.values():
            yield from _words(state)
            yield from (key for _, key in state.at("context_scope").texts("read"))
            yield from _strings(state.get("key_results"))
            yield from _strings(state.get("example_dialogue"))
        yield from _strings(self.document.root.get("properties"))


def _bits(
    document: Document, numbers: Mapping[str, int], sources: Callable[[str], frozenset[str]]
) -> dict[str, int]:
    """Return for each state the set of keys of which it is a source, as bits by their numbers."""
    found = dict.fromkeys(document.states, 0)
    for key, number in numbers.items():
        for state in sources(key) & reached_states(document):
            found[state] |= 1 << number
    return found


def inputs(document: Document) -> Iterator[Use]:
    """Yield the keys that are passed to called machines."""
    for name, state in document.states.items():
        for pointer, _, key in state.mapping("input"):
            yield Use(name, key, pointer)


def mapped(placed: Placed) -> Pairs:
    """Yield (context key, pointer) for every key that an `output` mapping sets."""
    for key in placed.at("output").value:
        yield key, f"{placed.pointer}/output{step(key)}"


def _keys_of(placed: Placed) -> dict[str, None]:
    """Return the keys that an `output` mapping sets, in their order."""
    return dict.fromkeys(key for key, _ in mapped(placed))


def _set_by(placed: Placed) -> frozenset[str]:
    """Return the keys that a transition or a state sets by its `set`."""
    return frozenset(key for key, rule in placed.at("set").value.items() if rule is not None)


def _words(state: Placed) -> Iterator[str]:
    for key in (*STATE_TEXTS, *OTHER_TEXTS):
        yield from _split(state.text(key))


def _split(text: str) -> list[str]:
    """Return the words in a text that could be names of keys."""
    if text:
        return [
            word.strip(".,;:!?\"'`()[]")
            for word in text.replace("{", " ").replace("}", " ").split()
        ]
    return []


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    inner: Iterable[Any] = ()
    match value:
        case str():
            yield value
            yield from placeholders(value)
        case dict():
            inner = value.values()
        case list():
            inner = value
    for item in inner if depth < 64 else ():
        yield from _strings(item, depth + 1)


@once
def data_flow(document: Document) -> DataFlow:
    """Return the flow of keys in a document."""
    return DataFlow(document, reasoning(document))
