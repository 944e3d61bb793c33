"""Count the elements of a definition that conversations touch: states, transitions, conditions,
keys, and so on.

The counts are computed from the events of turns on the compiled machine, as `why` does, so both
always agree. Elements are named by JSON pointers. Those of a called definition begin with its name
and `#`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, product, takewhile
from typing import Any, Literal

from llm_fsm._json import JsonDict, JsonMap, step, steps, without_none
from llm_fsm.conditions.compiler import test
from llm_fsm.definition.graph import path_in, search_tree
from llm_fsm.definition.models import State
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.reducer import apply
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Guard, Move, labelled, verdict

Kind = Literal["states", "transitions", "conditions", "keys", "key_results", "patterns"]
_HOW = ("passed", "failed")
_SHARED = "/global_transitions/"
_PATTERNS = "/patterns/"
KINDS: tuple[Kind, ...] = ("states", "transitions", "conditions", "keys", "key_results", "patterns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts of touches for each element of a definition.

    A condition counts twice. `…=true`: it was tried and held. `…=false`: it stopped a move, because
    a reply picked the move, or because the machine would have made it by itself.
    """

    counts: Mapping[Kind, Mapping[str, int]]

    def missing(self, kind: Kind) -> list[str]:
        """Return the elements that were never touched."""
        return [name for name, count in self.counts[kind].items() if not count]

    def untouched(self) -> list[str]:
        """Return everything that was never touched."""
        return [*chain.from_iterable(map(self.missing, KINDS))]

    def share(self, kind: Kind | None = None) -> float:
        """Return the percentage of elements that were touched; 100 if there are none."""
        kinds = KINDS if kind is None else (kind,)
        counts: list[int] = []
        for name in kinds:
            counts += self.counts[name].values()
        if not counts:
            return 100.0
        return 100.0 * sum(map(bool, counts)) / len(counts)

    def plus(self, other: Coverage) -> Coverage:
        """Add two counts of one definition."""
        return Coverage(
            counts={
                kind: {
                    name: count + other.counts[kind].get(name, 0)
                    for name, count in self.counts[kind].items()
                }
                for kind in KINDS
            }
        )

    def to_dict(self) -> JsonDict:
        """Return the JSON form: percentages, and the count of every element."""
        shares = {kind: round(self.share(kind), 1) for kind in KINDS}
        return {
            "percent": round(self.share(), 1),
            "percent_by_kind": shares,
            **{kind: dict(self.counts[kind]) for kind in KINDS},
        }


def coverage_of(program: CompiledMachine, conversations: Iterable[ev.Events]) -> Coverage:
    """Return the coverage by these conversations, each given by all its events in order."""
    touched = _Touched(program)
    for events in conversations:
        touched.follow(events)
    return touched.coverage()


def touched_by(program: CompiledMachine, events: ev.Events) -> set[str]:
    """Return the names that one conversation touches, without the work of counting all elements."""
    touched = _Touched(program)
    touched.follow(events)
    return {*chain.from_iterable(touched.counts.values())}


def elements(program: CompiledMachine) -> Iterator[tuple[Kind, str]]:
    """Yield everything that can be touched, in the order of the file."""
    for name, flow in (("", program), *program.flows.items()):
        for state_id, plan in flow.states.items():
            place = named(name, f"/states{step(state_id)}")
            yield "states", place
            for move in plan.moves:
                stays = plan.kind == "converse" and move.target == state_id and not move.auto
                if not stays and not move.pointer.startswith((_SHARED, _PATTERNS)):
                    yield from _of_move(name, move)
            for key in _by_itself(plan.definition):
                yield "transitions", f"{place}/{key}"
            for number, key in enumerate(plan.definition.required_context_keys):
                yield "keys", f"{place}/required_context_keys/{number} {key}"
            for number, how in product(range(len(plan.definition.key_results)), _HOW):
                yield "key_results", f"{place}/key_results/{number}={how}"
        shared: dict[str, Move] = {}
        for plan in flow.states.values():
            moves = (move for move in plan.moves if move.pointer.startswith(_SHARED))
            shared.update((move.pointer, move) for move in moves)
        for pointer in sorted(shared):
            yield from _of_move(name, shared[pointer])
        for pattern in flow.definition.patterns:
            yield "patterns", named(name, f"{_PATTERNS}{pattern}")


def _of_move(flow: str, move: Move) -> Iterator[tuple[Kind, str]]:
    place = named(flow, move.pointer)
    yield "transitions", place
    for number, guard in enumerate(move.guards):
        for holds in () if guard.judged else ("true", "false"):
            yield "conditions", f"{place}/conditions/{number}={holds}"


def named(flow: str, pointer: str) -> str:
    """Return the name of an element: its pointer, behind the name of the flow that has it."""
    if flow:
        return f"{flow}#{pointer}"
    return pointer


@dataclass(slots=True)
class _Touched:
    """Follows conversations and counts."""

    program: CompiledMachine
    counts: dict[Kind, Counter[str]] = field(
        default_factory=lambda: {kind: Counter() for kind in KINDS}
    )

    def follow(self, events: ev.Events) -> None:
        session = Session(conversation_id="")
        for event in events:
            if session.state:
                self.before(session, event)
            place = (session.flow, session.state, session.turns_in_state)
            session = apply(session, event)
            if session.state and (
                isinstance(event, ev.StateEntered) or place[:2] != (session.flow, session.state)
            ):
                self.touch("states", session, _at(session))
            if isinstance(event, ev.ContextSet | ev.Started | ev.StateEntered):
                self.keys(session)

    def touch(self, kind: Kind, session: Session, pointer: str) -> None:
        self.counts[kind][named(session.flow, pointer)] += 1

    def plan(self, session: Session) -> CompiledState | None:
        program = self.program.at(session)
        return None if program is None else program.states.get(session.state)

    def before(self, session: Session, event: ev.Event) -> None:
        """Count the elements that an event touches in the session before it."""
        match event:
            case ev.StateEntered():
                self.decided(session, event)
                if event.transition.startswith(_PATTERNS):
                    self.pattern(session, event.transition.removeprefix(_PATTERNS))
                elif event.transition:
                    self.touch("transitions", session, event.transition)
                elif event.by in ("timeout", "exhausted"):
                    self.touch("transitions", session, f"{_at(session)}/on_{event.by}")
            case ev.MovePicked() | ev.MoveRefused() | ev.BotSaid() | ev.Ended():
                self.decided(session, event)
            case ev.KeyResultChecked():
                self.key_result(session, event)
            case ev.Repaired(pattern=pattern):
                self.pattern(session, pattern)
            case ev.Corrected():
                self.pattern(session, "correct")
            case ev.Reminded(id="silence"):
                self.pattern(session, "silence")

    def pattern(self, session: Session, name: str) -> None:
        """Count a pattern that was used, if the running definition or the first one switches it
        on.
        """
        for place in {session.flow, ""}:
            self.counts["patterns"][named(place, f"{_PATTERNS}{name}")] += 1

    def decided(self, session: Session, event: ev.Event) -> None:
        """Count the conditions that were tried; in states that decide, only up to the move that
        was made.
        """
        plan = self.plan(session)
        if plan is None:
            return
        data = session.data()
        taken = event.transition if isinstance(event, ev.StateEntered) else ""
        stopped = {move.pointer for move in _tried(plan, event, taken, session.input)}
        for move in plan.moves:
            for number, guard in enumerate(move.guards):
                holds = guard_holds(guard, data)
                place = f"{move.pointer}/conditions/{number}"
                if holds:
                    self.touch("conditions", session, f"{place}=true")
                elif holds is False and move.pointer in stopped:
                    self.touch("conditions", session, f"{place}=false")
                if plan.kind == "decide" and holds is False:
                    break
            if plan.kind == "decide" and (move.pointer == taken or verdict(move, data).holds):
                break

    def keys(self, session: Session) -> None:
        plan = self.plan(session)
        for number, key in enumerate(() if plan is None else plan.definition.required_context_keys):
            if has(session.context, key):
                place = f"{_at(session)}/required_context_keys/{number} {key}"
                self.touch("keys", session, place)

    def key_result(self, session: Session, event: ev.KeyResultChecked) -> None:
        plan = self.plan(session)
        for number, result in enumerate(() if plan is None else plan.definition.key_results):
            if result.name == event.name:
                how = "passed" if event.passed else "failed"
                place = f"{_at(session)}/key_results/{number}={how}"
                self.touch("key_results", session, place)

    def coverage(self) -> Coverage:
        found: dict[Kind, dict[str, int]] = {kind: {} for kind in KINDS}
        for kind, name in elements(self.program):
            found[kind][name] = self.counts[kind][name]
        return Coverage(counts=found)


def _at(session: Session) -> str:
    return f"/states{step(session.state)}"


def _tried(plan: CompiledState, event: ev.Event, taken: str, output: Any) -> Iterator[Move]:
    """Yield the moves that would have been made at an event, or would have stopped the move that
    was taken, if their conditions held.
    """
    if isinstance(event, ev.MoveRefused):
        yield from (move for move in plan.moves if move.target == event.target)
    if plan.kind == "decide":
        yield from plan.moves
    elif plan.kind == "converse":
        yield from takewhile(lambda move: move.pointer != taken, plan.autos)
        match event:
            case ev.StateEntered(by="known"):
                yield from plan.own  # the values lead on only where one way is open
            case ev.StateEntered(by="model", state=target):
                same = [move for move in plan.moves if move.target == target]
                yield from takewhile(lambda move: move.pointer != taken, same)
    elif taken:
        # Work and answers name a label. Moves with another one were not tried.
        label = next((move.on for move in plan.moves if move.pointer == taken), None)
        tried = [move for move in plan.moves if move.on in (None, label)]
        if isinstance(event, ev.StateEntered) and event.by == "task":
            tried = [*labelled(plan.moves, output)]
        yield from takewhile(lambda move: move.pointer != taken, tried)


def guard_holds(guard: Guard, data: JsonMap) -> bool | None:
    """Return True if a condition holds; None if only the model can tell."""
    if guard.judged:
        return None
    return all(has(data, key) for key in guard.keys) and (
        guard.rule is None or test(guard.rule, data).holds
    )


def ways(program: CompiledMachine, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each name of the definition itself to the states of a shortest conversation that would
    touch it.
    """
    graph = {
        state_id: [*(move.target for move in plan.moves), *_by_itself(plan.definition).values()]
        for state_id, plan in program.states.items()
    }
    tree = search_tree(graph, program.definition.initial_state)
    targets: dict[str, str] = {}
    for plan in program.states.values():
        targets.update((move.pointer, move.target) for move in plan.moves)
    offering: dict[str, str] = {}
    for state_id in sorted(tree, key=lambda name: len(path_in(tree, name))):
        for move in program.states[state_id].moves:
            offering.setdefault(move.pointer, state_id)
    found = {}
    for name in names:
        if "#" in name:
            continue
        pointer = name.partition("/conditions/")[0]
        if pointer in offering:
            further = (targets[pointer],) if name == pointer or name.endswith("=true") else ()
            found[name] = (*path_in(tree, offering[pointer]), *further)
        elif name.startswith("/states/"):
            [_, state_id, *rest] = steps(name.split(" ", 1)[0])
            way = path_in(tree, state_id)
            state = program.states[state_id].definition
            found[name] = (
                (*way, str(getattr(state, rest[0])))
                if rest and rest[0].startswith("on_") and way
                else way
            )
    return found


def _by_itself(state: State) -> dict[str, str]:
    """Return the states that follow without a transition, by the settings that name them."""
    targets = {"on_timeout": state.on_timeout, "on_exhausted": state.on_exhausted}
    named_ones = without_none(targets)
    return {
        key: target for key, target in named_ones.items() if target not in ("raise", "continue")
    }
