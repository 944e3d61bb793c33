"""Plan conversations that could touch the elements of a definition, from its graph and its
conditions.

A plan begins in a state with values that conditions make interesting, and tries one thing there.
That is a transition, open or closed, staying, a repair pattern, an answer, a time-out, or an output
that passes or fails. The result of a plan is only known after the machine has played it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import SYSTEM_NAMES, Document, Placed
from llm_fsm.lint.graph import Arc, arcs_from, digressions_of, global_arcs
from llm_fsm.lint.solver.solver import Reasoning, read_names, reasoning
from llm_fsm.testing.generate.paths import Act, MachinePaths, Path, answer_of, answers
from llm_fsm.testing.generate.solver import COUNTED, text
from llm_fsm.testing.generate.task_outputs import outputs
from llm_fsm.turn.repair.patterns import named

_MOST_TRIALS = 60
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
    context: Mapping[str, Any] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()
    greet: bool = False
    input: Any = None
    outputs: tuple[tuple[str, Any], ...] = ()
    refuses: Literal["", "checks", "judge"] = ""


@dataclass(frozen=True)
class Planner:
    """The plans for one definition. `called` maps a state to the planner of the machine that it
    calls.
    """

    definition: Definition
    called: Mapping[str, Planner] = field(default_factory=dict)

    @cached_property
    def _known(self) -> Reasoning:
        return reasoning(Document(Placed("", self.definition.document)))

    @cached_property
    def paths(self) -> MachinePaths:
        """The paths through the machine."""
        return MachinePaths(
            self.definition, self._known, {state: one.paths for state, one in self.called.items()}
        )

    def before(self, state: str) -> set[str]:
        """Return the states that lead to a state at once."""
        document = self._known.document
        before: set[str] = set()
        for source in document.states:
            if any(arc.target == state for arc in arcs_from(document)[source]):
                before.add(source)
        for name, one in self.definition.states.items():
            if state in (one.on_timeout, one.on_exhausted):
                before.add(name)
        return before

    def plans(self, state: str) -> Iterator[Plan]:
        """Yield the plans for a state, after a shortest path and then directly in the state, short
        plans first.
        """
        tried = sorted(self._tried(state), key=lambda plan: len(plan.acts))
        arcs = self.paths.shortest.get(state)
        before = None if arcs is None else self.paths.along(arcs)
        if before is not None:
            yield from (self._after(before, plan) for plan in tried if plan.state == state)
        yield from tried

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

    def _talks(self, state: str) -> Iterator[Plan]:
        for arc in arcs_from(self._known.document)[state]:
            for values in self._trials(arc):
                context, update = self.paths.sorted_out(values)
                act = Act(to=None if arc.auto else arc.target, update=update)
                for turns in self._turns(arc):
                    acts = (*(Act() for _ in range(turns)), act)
                    yield Plan(
                        name=f"{state}: to {arc.target}", state=state, context=context, acts=acts
                    )
        full, wrote = self.paths.sorted_out(self.paths.full)
        yield Plan(name=f"{state}: stays", state=state, acts=(Act(),))
        yield Plan(
            name=f"{state}: stays, everything known",
            state=state,
            context=full,
            acts=(Act(update=wrote),),
        )
        for pattern in named(self.definition.patterns):
            garbled = pattern == "cannot_handle"
            acts = (Act(garbled=True),) if garbled else (Act(to=pattern),)
            yield Plan(name=f"{state}: {pattern}", state=state, acts=acts)
            known = (Act(update=wrote), *acts)
            yield Plan(
                name=f"{state}: {pattern}, everything known", state=state, context=full, acts=known
            )

    def _turns(self, arc: Arc) -> list[int]:
        """List how many messages may come before, if a condition counts them."""
        guard = self._known.guard(arc.placed)
        counts = guard is not None and not {*COUNTED}.isdisjoint(read_names([guard]))
        if counts:
            return sorted({turn - 1 for turn in self.paths.solver.turns})
        return [0]

    def _silence(self) -> Iterator[Plan]:
        talks = self.definition.kind_of(self.definition.initial_state) == "converse"
        if talks and "silence" in self.definition.patterns:
            yield Plan(
                name="silence",
                acts=(Act(), *(Act(kind="wait", wait=seconds) for seconds in _SILENT)),
            )

    def _waits(self, state: str) -> Iterator[Plan]:
        placed = self._known.document.states[state].value
        schema = placed.get("answer_schema")
        given = placed.get("output")
        accepted = answers(schema) if isinstance(schema, dict) else []
        base: Mapping[str, Any] = next(
            (answer for answer in accepted if isinstance(answer, dict)), {}
        )
        written: Mapping[str, Any] = given if isinstance(given, dict) else {}
        trials: list[tuple[Mapping[str, Any], Any]] = [
            ({}, answer) for answer in (*accepted, True, False, "yes", "no")
        ]
        for arc in arcs_from(self._known.document)[state]:
            for values in self._trials(arc):
                made = answer_of(written, values)
                context = {key: value for key, value in values.items() if key not in written}
                trials.append((context, {**base, **made} if isinstance(made, dict) else made))
        for known, answer in {text(trial): trial for trial in trials}.values():
            yield Plan(
                name=f"{state}: answer",
                state=state,
                context=known,
                acts=(Act(kind="answer", answer=answer),),
            )
        for moment in (placed.get("timeout"), *(placed.get("remind") or ())):
            if isinstance(moment, int | float):
                yield Plan(
                    name=f"{state}: {moment:g} s pass",
                    state=state,
                    acts=(Act(kind="wait", wait=moment),),
                )

    def _works(self, state: str) -> Iterator[Plan]:
        placed = self._known.document.states[state]
        full = self.paths.full
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
        for context in (full, {}):
            for output in unique:
                yield replace(base, context=context, outputs=((state, output),))
        refused: tuple[Literal["checks", "judge"], ...] = ("checks", "judge")
        for refuses in refused:
            yield replace(base, name=f"{state}: fails", refuses=refuses)

    def _calls(self, state: str) -> Iterator[Plan]:
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
            before = child.paths.along(arcs)
            if before is None:
                continue
            for plan in child._tried(within):
                if plan.state == within:
                    yield replace(base, acts=child._after(before, plan).acts)
            if child.definition.kind_of(within) == "converse":
                yield from (
                    replace(base, acts=(*before.acts, Act(to=target), Act())) for target in leaving
                )

    def _decides(self, state: str) -> Iterator[Plan]:
        yield Plan(name=f"{state}: begins", state=state, greet=True)
        for arc in arcs_from(self._known.document)[state]:
            for values in self._trials(arc):
                yield Plan(
                    name=f"{state}: towards {arc.target}", state=state, context=values, greet=True
                )

    def _trials(self, arc: Arc) -> list[dict[str, Any]]:
        """List values by which a transition decides; those that open it come first."""
        guard = self._known.guard(arc.placed)
        decides = self.definition.kind_of(arc.source) == "decide"
        opened = self.paths.solver.decided(arc, {}) if decides else self.paths.solver.solution(arc)
        base = {} if opened is None else opened
        found: list[dict[str, Any]] = [] if opened is None else [opened]
        for name in read_names([guard]) if guard is not None else ():
            if name in SYSTEM_NAMES or "." in name:
                continue
            others = {key: item for key, item in base.items() if key != name}
            found += [
                others,
                *({**others, name: value} for value in self.paths.solver.values(name)),
            ]
        return list({text(one): one for one in found}.values())[:_MOST_TRIALS]
