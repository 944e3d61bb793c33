"""Plan conversations that could touch the elements of a definition, from its graph and its
conditions.

A plan begins in a state with values that conditions make interesting, and tries one thing there.
That is a transition, open or closed, staying, a repair pattern, an answer, a time-out, or an output
that passes or fails. The result of a plan is only known after the machine has played it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from llm_fsm._json import JsonDict, JsonMap, TextMap, of_kind, step, without
from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.graph import arcs_from, digressions_of, global_arcs
from llm_fsm.lint.solver.solver import Reasoning, reasoning
from llm_fsm.testing.coverage import guard_holds, named
from llm_fsm.testing.generate.decisions import MachineMutants, check_place, has_auto
from llm_fsm.testing.generate.mutants import MutantsOfMoves, edges, told_apart_rule
from llm_fsm.testing.generate.paths import Act, MachinePaths, Outputs, Path, answer_of, answers
from llm_fsm.testing.generate.solver import COUNTED, SAID, text
from llm_fsm.testing.generate.task_outputs import candidates, outputs
from llm_fsm.testing.scenarios.models import BEGINNING
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.repair.patterns import named as named_patterns

_MOST_TRIALS = 60
_LONGEST_PATH = 10
"""The most transitions before a state. Conversations about a state behind more begin in it."""
_PROOFS = 2
"""The plans for each change, because a conversation may turn out otherwise than planned."""
_SILENT = (299, 2, 598, 2, 898, 2)
"""Seconds to wait, before and after each of the two reminders and the end of a silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One conversation to try.

    Args:
        state: The state in which it begins; empty for the initial state.
        context: The context at the start.
        greet: True begins with a greeting.
        input: The input of the first task.
        outputs: The tasks that begin at once, each with its output.
        refuses: The key results that fail: `checks`, the registered ones, or `judge`, those that a
            model judges.
    """

    name: str
    state: str = ""
    context: JsonMap = field(default_factory=dict)
    acts: tuple[Act, ...] = ()
    greet: bool = False
    input: Any = None
    outputs: Outputs = ()
    refuses: Literal["", "checks", "judge"] = ""
    calls: str = ""
    """The tool that the model calls as soon as it is offered; empty for none."""
    aims: frozenset[str] = frozenset()
    """The elements and changes that it is made for; empty if only playing it tells."""
    explores: bool = False
    """True if it is also played for what else it may touch."""


Plans = Iterator[Plan]


@dataclass(frozen=True)
class Planner:
    """The plans for one definition.

    Args:
        definition: The definition.
        called: State to the planner of the machine that it calls.
        flow: The name by which the definition is called; empty for the first one.
        mutants: Name of a flow to its compiled machine with the changes of it. It is filled before
            the first plan is asked for.
    """

    definition: Definition
    called: Mapping[str, Planner] = field(default_factory=dict)
    flow: str = ""
    mutants: Mapping[str, MachineMutants] = field(default_factory=dict)

    @property
    def _mine(self) -> MachineMutants:
        return self.mutants[self.flow]

    def _named(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(named(self.flow, name) for name in names)

    @cached_property
    def _known(self) -> Reasoning:
        return reasoning(Document(Placed("", self.definition.document)))

    @cached_property
    def paths(self) -> MachinePaths:
        """The paths through the machine."""
        return MachinePaths(
            self.definition, self._known, {state: one.paths for state, one in self.called.items()}
        )

    @cached_property
    def before(self) -> Mapping[str, set[str]]:
        """Map each state to the states that lead to it at once."""
        document = self._known.document
        before: dict[str, set[str]] = {}
        for source in document.states:
            for arc in arcs_from(document)[source]:
                before.setdefault(arc.target, set()).add(source)
        for name, one in self.definition.states.items():
            for target in (one.on_timeout, one.on_exhausted):
                if target is not None:
                    before.setdefault(target, set()).add(name)
        return before

    def plans(self, state: str) -> Plans:
        """Yield the plans for a state, after a shortest path and then directly in the state, short
        plans first.
        """
        tried = sorted(self._tried(state), key=lambda plan: len(plan.acts))
        arcs = self.paths.shortest.get(state)
        # A long path would make the tests of a machine grow with its square.
        near = arcs is not None and len(arcs) <= _LONGEST_PATH
        before = self.paths.along(arcs) if arcs is not None and near else None
        if before is not None:
            yield from (self._after(before, plan) for plan in tried if plan.state == state)
        yield from tried

    def tool_plans(self) -> Plans:
        """Yield a plan for each tool of a state; two if a person approves the call: a yes and a no."""
        for state, settings in self.definition.states.items():
            said = (Act(),) if self.definition.kind_of(state) == "converse" else ()
            for tool in settings.tools:
                plan = Plan(name=f"{state}: calls {tool}", state=state, acts=said, calls=tool)
                ref = self.definition.tools.get(tool)
                if ref is None or not ref.approval:
                    yield plan
                    continue
                for approved in (True, False):
                    word = "approved" if approved else "declined"
                    answer = Act(kind="answer", answer={"approved": approved})
                    yield replace(plan, name=f"{plan.name}, {word}", acts=(*said, answer))

    def _after(self, before: Path, plan: Plan) -> Plan:
        """Put a plan after the path to its state; the model writes its values on that path."""
        context = plan.context
        if before.acts and before.acts[-1].kind == "say":
            context, update = self.paths.sorted_out(context)
            before = before.saying(update)
        whole = before.then(Path(context=context, acts=plan.acts, outputs=plan.outputs))
        greet = plan.greet and not before.acts
        return replace(
            plan,
            state="",
            context=whole.context,
            acts=whole.acts,
            outputs=whole.outputs,
            greet=greet,
        )

    def _tried(self, state: str) -> list[Plan]:
        kind = self.definition.kind_of(state)
        first = [*self._silence()] if state == self._known.document.initial else []
        tried = {
            "converse": self._talks,
            "wait": self._waits,
            "task": self._works,
            "subflow": self._calls,
            "decide": self._decides,
        }.get(kind, lambda _: iter(()))
        return [*first, *tried(state)]

    def _talks(self, state: str) -> Plans:
        plan = self._mine.program.states[state]
        picks: dict[str, list[Move]] = {}
        for move in plan.moves:
            if move.target != state and not move.auto:
                picks.setdefault(move.target, []).append(move)
        for target, moves in picks.items():
            for trial in self._trials(state, moves):
                yield self._picking(state, target, target, trial)
        for trial in self._trials(state, plan.autos) if plan.autos else ():
            yield self._picking(state, plan.autos[0].target, None, trial)
        for move in plan.moves:
            if has_auto(plan, move):
                yield from self._open_but_stays(state, move)
        full, wrote = self.paths.sorted_out(self.paths.near(state))
        yield Plan(name=f"{state}: stays", state=state, acts=(Act(),))
        yield Plan(
            name=f"{state}: stays, everything known",
            state=state,
            context=full,
            acts=(Act(update=wrote),),
        )
        yield from self._values(state)
        for pattern in named_patterns(self.definition.patterns):
            garbled = pattern == "cannot_handle"
            acts = (Act(garbled=True),) if garbled else (Act(to=pattern),)
            yield Plan(name=f"{state}: {pattern}", state=state, acts=acts)
            known = (Act(update=wrote), *acts)
            yield Plan(
                name=f"{state}: {pattern}, everything known", state=state, context=full, acts=known
            )

    def _picking(self, state: str, target: str, to: str | None, trial: _Trial) -> Plan:
        """Plan to say the values of a trial, and to pick a state with them; None to stay."""
        context, update = self.paths.sorted_out(trial.context)
        acts = (*(Act() for _ in range(trial.turn - 1)), Act(to=to, update=update))
        return Plan(
            name=f"{state}: to {target}", state=state, context=context, acts=acts, aims=trial.aims
        )

    def _open_but_stays(self, state: str, move: Move) -> Plans:
        """Plan to stay although a way is open: a way that needs no pick would be taken."""
        aims = self._named([f"{move.pointer}: auto"])
        for trial in self._trials(state, [move]):
            if verdict(move, self._data(state, trial.context, trial.turn)).holds:
                yield replace(self._picking(state, state, None, trial), aims=aims)

    def _values(self, state: str) -> Plans:
        """Plan to say values at the bounds of the keys that a state collects, on both sides."""
        for key in self._keys_of(state):
            proofs = Counter[str]()
            schema = self._known.keys.schema(key) or {}
            told = {key} == {*self.paths.sorted_out({key: "said"})[1]}
            for value in edges(schema, self.paths.solver.values(key)):
                data = self._data(state, {}, 1)
                names = [*self._mine.told_by_value(key, value, data)]
                if all(proofs[name] >= _PROOFS for name in names):
                    continue
                proofs.update(names)
                yield Plan(
                    name=f"{state}: {key}",
                    state=state,
                    context={} if told else {key: value},
                    acts=(Act(update={key: value}),) if told else (),
                    aims=self._named(names),
                )

    def _keys_of(self, state: str) -> list[str]:
        """List the keys whose values are tried in a state: each in the first that collects it."""
        return [key for key, where in self._places.items() if where == state]

    @cached_property
    def _places(self) -> TextMap:
        states = self._mine.program.states
        talking = [name for name in self.paths.shortest if states[name].kind == "converse"]
        talking += [name for name in states if states[name].kind == "converse"]
        found: dict[str, str] = {}
        for name in talking:
            for key in states[name].collects:
                found.setdefault(key, name)
        for key in self.definition.key_schemas if talking else ():
            found.setdefault(key, talking[0])
        return found

    def _data(self, state: str, context: JsonMap, turn: int) -> JsonDict:
        """Return what conditions probably read in a state, with these values known."""
        counts = dict.fromkeys(COUNTED, turn)
        system = {"_timestamp": BEGINNING, "_user_input": SAID, "_current_state": state}
        return {**context, **system, **counts}

    def _trials(self, state: str, considered: Sequence[Move]) -> list[_Trial]:
        """List values with which a decision between these moves tells something, best first."""
        kind = self.definition.kind_of(state)
        arcs = {arc.pointer: arc for arc in arcs_from(self._known.document)[state]}
        names = {}
        bases = []
        for move in considered:
            for guard in move.guards:
                reads = guard.rule.reads if guard.rule is not None else ()
                names.update(dict.fromkeys((*guard.keys, *sorted(reads))))
            arc = arcs.get(move.pointer)
            if arc is None:
                continue
            decides = kind == "decide"
            opened = self.paths.solver.decided(arc, {}) if decides else None
            opened = self.paths.solver.solution(arc) if opened is None else opened
            bases += [] if opened is None else [opened]
        turns = self.paths.solver.turns if not names.keys().isdisjoint(COUNTED) else [1]
        decision = _Decision(considered, self._mine.moves)
        found = []
        tried = set()
        for context in self.paths.solver.drawn([*names], bases):
            written = text(context)
            if written in tried:
                continue
            tried.add(written)
            for turn in turns:
                aims = decision.new(self._data(state, context, turn))
                if aims:
                    found.append(_Trial(context=context, turn=turn, aims=self._named(aims)))
            if decision.is_told:
                break
        return found

    def _silence(self) -> Plans:
        talks = self.definition.kind_of(self.definition.initial_state) == "converse"
        if talks and "silence" in self.definition.patterns:
            yield Plan(
                name="silence",
                acts=(Act(), *(Act(kind="wait", wait=seconds) for seconds in _SILENT)),
            )

    def _waits(self, state: str) -> Plans:
        placed = self._known.document.states[state].value
        schema = placed.get("answer_schema")
        given = placed.get("output")
        accepted = answers(schema) if isinstance(schema, dict) else []
        base = next(iter(of_kind(accepted, dict)), {})
        written = given if isinstance(given, dict) else {}
        plain = Plan(name=f"{state}: answer", state=state)
        for answer in (*accepted, True, False, "yes", "no"):
            yield replace(plain, acts=(Act(kind="answer", answer=answer),))
        for trial in self._apart(state):
            made = answer_of(written, trial.context)
            context = without(trial.context, written)
            whole = {**base, **made} if isinstance(made, dict) else made
            acts = (Act(kind="answer", answer=whole),)
            yield replace(plain, context=context, acts=acts, aims=trial.aims)
        for moment in (placed.get("timeout"), *(placed.get("remind") or ())):
            if isinstance(moment, int | float):
                yield Plan(
                    name=f"{state}: {moment:g} s pass",
                    state=state,
                    acts=(Act(kind="wait", wait=moment),),
                )

    def _works(self, state: str) -> Plans:
        placed = self._known.document.states[state]
        full = self.paths.near(state)
        arcs = arcs_from(self._known.document)[state]
        labels = [str(arc.placed.value["on"]) for arc in arcs if "on" in arc.placed.value]
        passing = [
            *outputs(placed, labels, full),
            *({"_transition": label} for label in [*labels, "nothing"]),
        ]
        unique = list({text(output): output for output in (*passing, "Done.", ["a"], {})}.values())[
            :_MOST_TRIALS
        ]
        base = Plan(
            name=f"{state}: puts out",
            state=state,
            context=full,
            greet=True,
            input=["a"],
            outputs=((state, unique[0]),),
        )
        yield from self._checked(state, labels, base)
        for context in (full, {}):
            for output in unique:
                yield replace(base, context=context, outputs=((state, output),))
        refused: tuple[Literal["checks", "judge"], ...] = ("checks", "judge")
        for refuses in refused:
            yield replace(base, name=f"{state}: fails", refuses=refuses)

    def _checked(self, state: str, labels: Sequence[str], base: Plan) -> Plans:
        """Plan outputs with which a key result passes, and would not if it were changed."""
        checks = [
            (check_place(state, number), check.logic)
            for number, check in enumerate(self._mine.program.states[state].checks)
            if check.by == "logic"
        ]
        proofs = Counter[str]()
        placed = self._known.document.states[state]
        for context in (self.paths.near(state), {}) if checks else ():
            for output in candidates(placed, labels, context):
                data = {"output": output, "context": context, "input": base.input}
                told: set[str] = set()
                for place, logic in checks:
                    told.update(told_apart_rule(logic, data, place))
                if any(proofs[name] < _PROOFS for name in told):
                    proofs.update(told)
                    works = ((state, output),)
                    aims = self._named(told)
                    yield replace(base, context=context, outputs=works, aims=aims)

    def _calls(self, state: str) -> Plans:
        """Try every path through the called machine, each transition out of it, and the plans
        inside it.
        """
        yield from self._decides(state)
        child = self.called.get(state)
        if child is None:
            return
        base = Plan(name=f"{state}: in the called machine", state=state, greet=True)
        document = self._known.document
        aside = [
            arc.target for arc in global_arcs(document) if arc.target in digressions_of(document)
        ]
        leaving = [*(["cancel"] if "cancel" in self.definition.patterns else []), *aside]
        for within, arcs in child.paths.shortest.items():
            before = child.paths.along(arcs) if len(arcs) <= _LONGEST_PATH else None
            if before is None:
                continue
            for plan in child._tried(within):
                if plan.state == within:
                    acts = child._after(before, plan).acts
                    yield replace(base, acts=acts, aims=plan.aims, explores=True)
            if child.definition.kind_of(within) == "converse":
                yield from (
                    replace(base, acts=(*before.acts, Act(to=target), Act())) for target in leaving
                )

    def _decides(self, state: str) -> Plans:
        yield Plan(name=f"{state}: begins", state=state, greet=True)
        for trial in self._apart(state):
            name = f"{state}: decides"
            yield Plan(name=name, state=state, context=trial.context, greet=True, aims=trial.aims)

    def _apart(self, state: str) -> list[_Trial]:
        """List values by which the ways out of a state are told apart."""
        moves = self._mine.program.states[state].moves
        trials = self._trials(state, moves)
        # A way with a label is not compared with those of another label.
        for label in {move.on: None for move in moves} if len(moves) > 1 else ():
            mine = [move for move in moves if move.on == label]
            trials += self._trials(state, mine) if len(mine) < len(moves) else []
        return trials[:_MOST_TRIALS]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Values to try, the number of messages before them, and the names that they may tell."""

    context: JsonDict
    turn: int
    aims: frozenset[str]


class _Decision:
    """A decision between moves, and what trials told of it so far."""

    def __init__(self, considered: Sequence[Move], mutants: MutantsOfMoves) -> None:
        self._considered = considered
        self._mutants = mutants
        self._proofs = Counter[str]()
        self._every: set[str] = set()
        for move in considered:
            self._every.add(move.pointer)
            self._every.update(mutant.name for mutant in mutants.of(move))
            for number, guard in enumerate(move.guards):
                if not guard.judged:
                    place = f"{move.pointer}/conditions/{number}"
                    self._every |= {f"{place}=true", f"{place}=false"}

    @property
    def is_told(self) -> bool:
        """True if every change was told often enough."""
        return all(self._proofs[name] >= _PROOFS for name in self._every)

    def new(self, data: JsonMap) -> set[str]:
        """Return what these values tell; nothing if all of it was told often enough."""
        told = {*self._mutants.told_apart(self._considered, data), *self._outcome(data)}
        if all(self._proofs[name] >= _PROOFS for name in told):
            return set()
        self._proofs.update(told)
        return told

    def _outcome(self, data: JsonMap) -> Iterator[str]:
        """Yield the move that is made, and the conditions that were tried."""
        for move in self._considered:
            for number, guard in enumerate(move.guards):
                holds = guard_holds(guard, data)
                if holds is not None:
                    yield f"{move.pointer}/conditions/{number}={'true' if holds else 'false'}"
            if verdict(move, data).holds:
                yield move.pointer
                yield f"/states{step(move.target)}"
                return
