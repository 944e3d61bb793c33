"""Ways through a machine: transitions one after the other as what people say, answer and let tasks put out. Pure.

Values stand where they come from: what the model writes is in its reply, all else is known from the start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from typing import Any

from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import SYSTEM_NAMES, Arc
from llm_fsm.lint.solver.cases import placed, put
from llm_fsm.lint.solver.solver import Reasoning, read_names
from llm_fsm.testing.generate.bounds import at_bounds
from llm_fsm.testing.generate.solutions import Solver
from llm_fsm.testing.generate.task_outputs import outputs
from llm_fsm.testing.generate.values import samples

_TRIED = 1000
_NUMBER = re.compile(r"(?<=[\[ ])-?\d{1,15}(?:\.\d{1,15})?(?=[,\]}])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that happens: a message and the move that the model tries, an answer, or seconds that pass.

    `said`: the user's words, where they matter. `outputs`: the tasks that begin then, each with what it puts out.
    `garbled`: the model's reply is none.
    """

    to: str | None = None
    update: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    wait: float | None = None
    kind: str = "say"
    said: str = ""
    outputs: tuple[tuple[str, Any], ...] = ()
    garbled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What is known at first, what then happens, and what the tasks put out that begin at once."""

    context: Mapping[str, Any] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()
    outputs: tuple[tuple[str, Any], ...] = ()

    def known(self) -> dict[str, Any]:
        """All values that are known at the end."""
        said = {key: value for act in self.acts for key, value in act.update.items()}
        return {**self.context, **said}

    def then(self, after: Journey) -> Journey:
        """Both, one after the other; what one value is given last holds."""
        acts, begun = self.acts, self.outputs
        if acts:
            acts = (*acts[:-1], replace(acts[-1], outputs=(*acts[-1].outputs, *after.outputs)))
        else:
            begun = (*begun, *after.outputs)
        return Journey(context={**self.context, **after.context}, acts=(*acts, *after.acts), outputs=begun)


@dataclass(frozen=True)
class Journeys:
    """The ways through one machine. `called`: state to the ways through the machine that it calls."""

    definition: Definition
    known: Reasoning
    called: Mapping[str, Journeys] = field(default_factory=dict)

    @cached_property
    def solver(self) -> Solver:
        """Values for the conditions."""
        return Solver(self.known)

    @cached_property
    def full(self) -> Mapping[str, Any]:
        """A value of each key."""
        return self.solver.everything()

    def sorted_out(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is known from the start, and what the model writes."""
        subject = self.known.subject
        keys = subject.keys
        wrote = {
            key: value
            for key, value in values.items()
            if value is not None and (keys is None or (key in keys and subject.source_of(key) == "model"))
        }
        return {key: value for key, value in values.items() if key not in wrote and value is not None}, wrote

    def leg(self, arc: Arc) -> Journey | None:
        """One transition; None where no values are found that open it."""
        values = self.solver.solution(arc)
        if values is None or arc.target not in self.definition.states:
            return None
        kind = self.definition.kind_of(arc.source)
        if kind == "converse":
            context, update = self.sorted_out(values)
            return Journey(context=context, acts=(Act(to=None if arc.auto else arc.target, update=update),))
        if kind == "wait":
            return self._answered(arc, values)
        if kind == "task":
            return Journey(context={**self.full, **values}, outputs=((arc.source, self._output(arc)),))
        if kind == "subflow":
            child = self.called.get(arc.source)
            return Journey(context=values, acts=() if child is None else next(child.ends(), ()))
        return self._decided(arc, {}) if kind == "decide" else Journey(context=values)

    def _decided(self, arc: Arc, known: Mapping[str, Any]) -> Journey | None:
        """Values by which a state decides for this transition, as few as possible besides those that are known."""
        guards = []
        for before in self.known.decided(arc.source):
            guard = self.known.guard(before.placed)
            if guard is None:
                return None
            guards.append(guard)
            if before is arc:
                break
        names = [name for name in read_names(guards) if name not in SYSTEM_NAMES][:4]
        opened = self.solver.solution(arc) or {}
        bounds = [bound for before in self.known.decided(arc.source) for bound in _numbers(before.placed.value)]
        options = []
        for name in names:
            fitting = [bound for bound in bounds if self.known.accepts(name, bound)]
            options.append([(name, value) for value in (opened.get(name), *self.solver.values(name), *fitting, None)])
        for chosen in ((), *islice(_by_few(options), _TRIED)):
            values = placed(chosen)
            everything = {**known, **values}
            if [self.solver.opens(guard, everything) for guard in guards] == [*(False for _ in guards[1:]), True]:
                return Journey(context=values)
        return None

    def _answered(self, arc: Arc, values: Mapping[str, Any]) -> Journey:
        state = self.known.subject.states[arc.source].value
        given, schema = state.get("output"), state.get("answer_schema")
        written: Mapping[str, Any] = given if isinstance(given, dict) else {}
        made = answer_of(written, values)
        whole = next(iter(answers(schema)), None) if isinstance(schema, dict) else True
        answer = {**whole, **made} if isinstance(whole, dict) and isinstance(made, dict) else made or whole
        context = {key: value for key, value in values.items() if key not in written}
        return Journey(context=context, acts=(Act(kind="answer", answer=answer),))

    def _output(self, arc: Arc) -> Any:
        label = arc.placed.value.get("on")
        labels = [str(label)] if label is not None and label != "default" else ["nothing"]
        fitting = outputs(self.known.subject.states[arc.source], labels, self.full)
        named = {"_transition": labels[0]}
        tried = [*fitting, named] if label is None else [named, *fitting]
        return next((one for one in tried if label is None or _says(one, labels[0])), named)

    def along(self, arcs: Sequence[Arc]) -> Journey | None:
        """These transitions one after the other; None where one of them has no values.

        Values by which a state decides that the way enters without a word belong to what was said last.
        """
        whole = Journey()
        for arc in arcs:
            decides = self.definition.kind_of(arc.source) == "decide"
            leg = self._decided(arc, whole.known()) if decides else self.leg(arc)
            if leg is None:
                return None
            if whole.acts and decides:
                known, update = self.sorted_out(leg.context)
                last = whole.acts[-1]
                if last.kind == "say":
                    said = replace(last, update={**last.update, **update})
                    whole, leg = replace(whole, acts=(*whole.acts[:-1], said)), replace(leg, context=known)
            whole = whole.then(leg)
        return whole

    def path(self, states: Sequence[str]) -> Journey:
        """Along these states, as far as conditions can be met."""
        chosen = []
        for state, after in pairwise(states):
            fitting = [arc for arc in self.known.subject.arcs_from[state] if arc.target == after]
            arc = next((arc for arc in fitting if self.leg(arc) is not None), None)
            if arc is None:
                break
            chosen.append(arc)
        return self.along(chosen) or Journey()

    def after(self, arc: Arc) -> Iterator[tuple[Arc, Journey]]:
        """Each transition that can follow one, and both together."""
        for following in self.known.subject.arcs_from[arc.target]:
            journey = self.along([arc, following])
            if journey is not None:
                yield following, journey

    @cached_property
    def shortest(self) -> Mapping[str, tuple[Arc, ...]]:
        """State to the transitions of a shortest way there from the initial state."""
        initial = self.known.subject.initial
        found: dict[str, tuple[Arc, ...]] = {} if initial is None else {initial: ()}
        queue = list(found)
        while queue:
            state = queue.pop(0)
            for arc in self.known.subject.arcs_from[state]:
                if arc.target not in found and self.leg(arc) is not None:
                    found[arc.target] = (*found[state], arc)
                    queue.append(arc.target)
        return found

    def to(self, state: str) -> Journey | None:
        """A shortest way to a state; None where there is none."""
        arcs = self.shortest.get(state)
        return None if arcs is None else self.along(arcs)

    def ways(self) -> Iterator[tuple[Act, ...]]:
        """What happens on a shortest way through each transition."""
        for state, before in self.shortest.items():
            for arc in self.known.subject.arcs_from[state]:
                whole = self.along([*before, arc])
                if whole is not None:
                    yield whole.acts

    def ends(self) -> Iterator[tuple[Act, ...]]:
        """What happens on a shortest way to each final state."""
        for state in self.shortest:
            whole = self.to(state) if self.definition.kind_of(state) == "final" else None
            if whole is not None:
                yield whole.acts


def _by_few(options: Sequence[Sequence[tuple[str, Any]]]) -> Iterator[tuple[tuple[str, Any], ...]]:
    """One of each, those first in which few are another than the first."""
    for few in range(len(options) + 1):
        for changed in combinations(range(len(options)), few):
            yield from product(*(some[1:] if at in changed else some[:1] for at, some in enumerate(options)))


def _numbers(transition: Mapping[str, Any]) -> list[int | float]:
    """The numbers in the conditions of a transition."""
    written = json.dumps(transition.get("conditions") or [])
    return [float(one) if "." in one else int(one) for one in dict.fromkeys(_NUMBER.findall(written))]


def _says(output: Any, label: str) -> bool:
    return output == label or (isinstance(output, dict) and output.get("_transition") == label)


def answers(schema: Mapping[str, Any]) -> list[Any]:
    """Answers that a schema accepts first, then the members of an object changed one by one."""
    found = samples(schema)[:6]
    members = schema.get("properties")
    whole: dict[str, Any] = next((value for value in found if isinstance(value, dict)), {})
    for name, part in members.items() if isinstance(members, dict) else ():
        values = [*samples(part)[:6], *at_bounds(part)] if isinstance(part, dict) else []
        found += [{**whole, name: value} for value in values]
        found.append({**whole, name: None})
        found.append({key: value for key, value in whole.items() if key != name})
    found += [{**whole, "something_else": True}] if whole else []
    return found or [True]


def answer_of(output: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """The answer that an output mapping turns into these values."""
    answer: dict[str, Any] = {}
    for key, path in output.items():
        parts = [part for part in str(path).removeprefix("$").split(".") if part]
        if key not in values:
            continue
        if not parts:
            return values[key]
        put(answer, parts, values[key])
    return answer
