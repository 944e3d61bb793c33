"""Follow conversations, and collect the changes of a definition that their decisions tell apart.

A decision is a pick that was made or refused, a way that was taken or passed over, a stay while a
way was open, a value that was accepted or refused, and a key result. `names` lists every change
that could be told apart; `mutants` makes the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonMap, step
from llm_fsm.definition.names import VALID
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.reducer import apply
from llm_fsm.session.session import Session
from llm_fsm.testing.coverage import named
from llm_fsm.testing.generate.mutants import (
    MutantsOfMoves,
    SchemaMutant,
    rule_names,
    schema_mutants,
    told_apart_rule,
)
from llm_fsm.testing.generate.solver import holds as rule_holds
from llm_fsm.testing.generate.solver import value_rules
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Move, labelled, verdict

KEYS = "/context_schema/properties"


@dataclass(frozen=True)
class MachineMutants:
    """The changes of one machine, as names without the name of its flow."""

    program: CompiledMachine
    moves: MutantsOfMoves = field(default_factory=MutantsOfMoves)
    _schemas: dict[str, tuple[SchemaMutant, ...]] = field(default_factory=dict)

    def names(self) -> Iterator[str]:
        """Yield the name of each change."""
        for state_id, state in self.program.states.items():
            for move in state.moves:
                for mutant in self.moves.of(move):
                    yield mutant.name
                if has_auto(state, move):
                    yield f"{move.pointer}: auto"
                yield from (f"{move.pointer}: clears {key}" for key in cleared_by(move))
            for number, check in enumerate(state.checks):
                if check.by == "logic":
                    yield from rule_names(check.logic, check_place(state_id, number))
        for key in self.program.definition.key_schemas:
            for changed in self.schemas_of(key):
                yield f"{KEYS}{step(key)}: {changed.name}"
            for place, logic in self._rules_of(key):
                yield from rule_names(logic, place)

    def schemas_of(self, key: str) -> tuple[SchemaMutant, ...]:
        """Return the changes of the schema of a key."""
        if key not in self._schemas:
            definition = self.program.definition
            defs = (definition.context_schema or {}).get("$defs")
            schema = definition.key_schemas.get(key, {})
            self._schemas[key] = schema_mutants(schema, defs if isinstance(defs, dict) else None)
        return self._schemas[key]

    def _rules_of(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield (pointer, rule) of what must hold for the values of a key."""
        for number, logic in value_rules(self.program.definition.key_schemas.get(key)):
            yield f"{KEYS}{step(key)}/{VALID}/{number}", logic

    def told_by_value(self, key: str, value: Any, data: JsonMap) -> Iterator[str]:
        """Yield the changes of a key's schema and rules with which a value fares otherwise."""
        keys = self.program.keys
        fits = keys.fault(key, value) is None
        for mutant in self.schemas_of(key):
            if mutant.accepts(value) is not fits:
                yield f"{KEYS}{step(key)}: {mutant.name}"
        rules = [*self._rules_of(key)] if fits else []
        given = {**data, key: value}
        broken = [place for place, logic in rules if not rule_holds(logic, given)]
        for place, logic in rules:
            # A value that breaks two rules is refused without one of them, too.
            if broken in ([], [place]):
                yield from told_apart_rule(logic, given, place)


def has_auto(state: CompiledState, move: Move) -> bool:
    """Return True if it makes a difference that a move needs no pick."""
    return state.kind == "converse" and move.target != state.id and not move.asks_model


def cleared_by(move: Move) -> Sequence[str]:
    """Return the keys that a move clears."""
    return () if move.assignment is None else move.assignment.clear


def check_place(state_id: str, number: int) -> str:
    """Return the pointer of the rule of a key result."""
    return f"/states{step(state_id)}/key_results/{number}/check"


class Decisions:
    """The decisions of one machine and of those that it calls."""

    def __init__(self, program: CompiledMachine) -> None:
        self.program = program
        self.mutants = {
            "": MachineMutants(program),
            **{name: MachineMutants(flow) for name, flow in program.flows.items()},
        }

    def names(self) -> Iterator[str]:
        """Yield the name of each change that could be told apart."""
        for flow, mutants in self.mutants.items():
            yield from (named(flow, name) for name in mutants.names())

    def told_by(
        self, events: ev.Events, tried: JsonMap, outputs: Mapping[str, Sequence[Any]]
    ) -> set[str]:
        """Return the changes that a conversation tells apart.

        Args:
            events: Its events, in order.
            tried: The value of each key that its model gave last.
            outputs: The outputs of its tasks, by state.
        """
        following = _Following(self, tried, outputs)
        for event in events:
            following.take(event)
        return following.found


@dataclass(slots=True)
class _Following:
    decisions: Decisions
    tried: JsonMap
    outputs: Mapping[str, Sequence[Any]]
    session: Session = field(default_factory=lambda: Session(conversation_id=""))
    found: set[str] = field(default_factory=set)
    picked: str = ""
    """The state that the reply of the turn names."""

    def take(self, event: ev.Event) -> None:
        session = self.session
        machine = self.decisions.mutants.get(session.flow)
        state = None if machine is None else machine.program.states.get(session.state)
        if machine is not None and state is not None:
            names = self.told(event, machine, state)
            self.found.update(named(session.flow, name) for name in names)
        match event:
            case ev.Started():
                root = self.decisions.mutants[""]
                for key, value in event.context.items():
                    self.found.update(root.told_by_value(key, value, event.context))
            case ev.UserSaid():
                self.picked = ""
            case ev.MovePicked():
                self.picked = event.target
        self.session = apply(session, event)

    def told(self, event: ev.Event, machine: MachineMutants, state: CompiledState) -> Iterator[str]:
        match event:
            case ev.MoveRefused(target=target):
                yield from self.refused(target, machine, state)
                yield from self.passed_over(machine, state)
            case ev.StateEntered():
                yield from self.entered(event, machine, state)
            case ev.BotSaid():
                yield from self.passed_over(machine, state)
            case ev.ContextSet(source="model", values=values):
                for key, value in values.items():
                    yield from machine.told_by_value(key, value, self.session.data())
            case ev.ContextRefused(key=key, source="model") if key in self.tried:
                value = self.tried[key]
                yield from machine.told_by_value(key, value, self.session.data())
            case ev.KeyResultChecked(by="logic"):
                yield from self.checked(event, state)

    def refused(self, target: str, machine: MachineMutants, state: CompiledState) -> Iterator[str]:
        considered = [move for move in state.moves if move.target == target]
        data = self.session.data()
        if not any(verdict(move, data).holds for move in considered):
            yield from machine.moves.told_apart(considered, data)

    def passed_over(self, machine: MachineMutants, state: CompiledState) -> Iterator[str]:
        """Yield what a stay tells apart: no way that needs no pick was open, and others were."""
        if state.kind != "converse":
            return
        data = self.session.data()
        if not any(verdict(move, data).holds for move in state.autos):
            yield from machine.moves.told_apart(state.autos, data)
            for move in state.moves:
                if not move.auto and has_auto(state, move) and verdict(move, data).holds:
                    yield f"{move.pointer}: auto"

    def entered(
        self, event: ev.StateEntered, machine: MachineMutants, state: CompiledState
    ) -> Iterator[str]:
        taken = next((move for move in state.moves if move.pointer == event.transition), None)
        if taken is None:
            return
        data = self.session.data()
        considered: Sequence[Move] = state.moves
        if state.kind != "decide":
            considered = [move for move in state.moves if move.on == taken.on]
        if event.by == "task":
            considered = labelled(state.moves, self.session.input)  # the output of the task
        every = False
        if event.by == "model":
            yield from machine.moves.told_apart(state.autos, data)
            considered = [move for move in state.moves if move.target == taken.target]
        elif event.by == "auto":
            considered = state.autos
            if self.picked != taken.target:
                yield f"{taken.pointer}: auto"
        elif event.by == "known":
            considered = [move for move in state.own if move.guards]
            every = True
        yield from machine.moves.told_apart(considered, data, every=every)
        for key in cleared_by(taken):
            if has(self.session.context, key):
                yield f"{taken.pointer}: clears {key}"

    def checked(self, event: ev.KeyResultChecked, state: CompiledState) -> Iterator[str]:
        session = self.session
        for number, check in enumerate(state.checks):
            if check.name != event.name or check.rule is None:
                continue
            for output in self.outputs.get(state.id, ()):
                data = {"output": output, "context": session.context, "input": session.input}
                place = check_place(state.id, number)
                yield from told_apart_rule(check.logic, data, place)
