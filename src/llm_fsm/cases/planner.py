"""Which conversations bring out what a definition says: pure, from its graph and its conditions.

A plan begins in a state with values that its conditions make interesting, and lets the model try one thing: each
transition, open and closed, staying, and values that a key's schema refuses. Values stand where they come from: what
the model writes is in its reply, all else is known from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from llm_fsm.cases.samples import samples
from llm_fsm.cases.solutions import Solver, outputs, text
from llm_fsm.definition import Definition
from llm_fsm.lint.properties import paths, statements
from llm_fsm.lint.reasoning import Reasoning, read_names, reasoning
from llm_fsm.lint.subject import SYSTEM_NAMES, Arc, Placed, Subject

_MOST_TRIALS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that happens: a message and the move that the model tries, an answer, or seconds that pass."""

    to: str | None = None
    update: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    wait: float | None = None
    kind: str = "say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One conversation. `state`: where it begins, "" where the definition says; `context`: what is known then.

    `input`: what the first task is given; `output`: what the first work puts out;
    `checks`: whether registered checks pass; `calls`: the tools that are called before.
    """

    name: str
    state: str
    context: Mapping[str, Any]
    acts: tuple[Act, ...] = ()
    input: Any = None
    output: Any = None
    checks: bool = True
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planner:
    """The plans for one definition."""

    definition: Definition
    document: Mapping[str, Any]
    called: Mapping[str, Planner] = field(default_factory=dict)
    """State to the planner of the machine that it calls."""

    @cached_property
    def _known(self) -> Reasoning:
        return reasoning(Subject(Placed("", self.document)))

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self._known)

    def plans(self) -> Iterator[Plan]:
        """Plans for everything, those that matter most first."""
        yield Plan(name="begins", state="", context={})
        yield from self._counter_examples()
        for state in self._known.subject.states:
            kind = self.definition.kind_of(state)
            if kind == "converse":
                yield from self._talks(state)
            elif kind == "wait":
                yield from self._waits(state)
            elif kind == "task":
                yield from self._works(state)
            elif kind == "subflow":
                yield from self._calls(state)
            elif kind != "final":
                yield from self._runs(state)

    def _counter_examples(self) -> Iterator[Plan]:
        """The paths on which the author's statements do not hold."""
        subject = self._known.subject
        for pointer, statement in statements(subject):
            violation = paths(subject).broken(statement)
            if violation is not None:
                yield self._walk(violation.path, f"against {pointer}")

    def _walk(self, path: Sequence[str], name: str) -> Plan:
        """A conversation along these states, as far as conditions can be met."""
        context: dict[str, Any] = {}
        acts: list[Act] = []
        for state, after in pairwise(path):
            arcs = (arc for arc in self._known.subject.arcs_from[state] if arc.target == after)
            values = next((found for arc in arcs if (found := self._solver.solution(arc)) is not None), {})
            more, update = self._sorted_out(values)
            context |= more
            if self.definition.kind_of(state) == "converse":
                acts.append(Act(to=after, update=update))
            elif acts:
                acts[-1] = replace(acts[-1], update={**acts[-1].update, **update})
            else:
                context |= update
        return Plan(name=name, state=path[0], context=context, acts=tuple(acts))

    # -- what is tried in a state

    def _talks(self, state: str) -> Iterator[Plan]:
        arcs = [arc for arc in self._known.subject.arcs_from[state] if arc.target in self.definition.states]
        for arc in arcs:
            word = "auto " if arc.auto else ""
            for values in self._trials(arc):
                context, update = self._sorted_out(values)
                act = Act(to=None if arc.auto else arc.target, update=update)
                for turns in self._turns(arc):
                    acts = (*(Act() for _ in range(turns)), act)
                    yield Plan(name=f"{state}: {word}to {arc.target}", state=state, context=context, acts=acts)
        yield Plan(name=f"{state}: stay", state=state, context={}, acts=(Act(),))
        yield Plan(name=f"{state}: nowhere", state=state, context={}, acts=(Act(to="no_such_state"),))
        for update in self._refused(state):
            yield Plan(name=f"{state}: refused", state=state, context={}, acts=(Act(update=update),))
        yield from self._pairs(state, arcs)

    def _turns(self, arc: Arc) -> list[int]:
        """How many messages come before, where a condition counts them."""
        literals = [value for value in self._solver.literals.get("_turns_in_state", ()) if isinstance(value, int)]
        guard = self._known.guard(arc.placed)
        counts = guard is not None and "_turns_in_state" in read_names([guard])
        return sorted({max(0, value + shift) for value in literals for shift in (-2, -1, 0)}) if counts else [0]

    def _pairs(self, state: str, arcs: Sequence[Arc]) -> Iterator[Plan]:
        """A transition and the next one, both open."""
        for arc in arcs:
            first = self._solver.solution(arc)
            if first is None or self.definition.kind_of(arc.target) != "converse" or arc.auto:
                continue
            for after in self._known.subject.arcs_from[arc.target]:
                second = self._solver.solution(after)
                if second is None or after.target not in self.definition.states or after.auto:
                    continue
                context, update = self._sorted_out(first)
                more, further = self._sorted_out(second)
                acts = (Act(to=arc.target, update=update), Act(to=after.target, update=further))
                name = f"{state}: to {arc.target}, then to {after.target}"
                yield Plan(name=f"{name}",
                           state=state, context={**more, **context}, acts=acts)

    def _waits(self, state: str) -> Iterator[Plan]:
        placed = self._known.subject.states[state].value
        arcs = self._known.subject.arcs_from[state]
        schema = placed.get("answer_schema")
        answers = _answers(schema) if isinstance(schema, dict) else []
        answers += [True, False, "yes", "no"]
        base: dict[str, Any] = next((answer for answer in answers if isinstance(answer, dict)), {})
        given = placed.get("output")
        written: Mapping[str, Any] = given if isinstance(given, dict) else {}
        for arc in arcs:
            for values in self._trials(arc):
                made = _answer(written, values)
                answers.append({**base, **made} if isinstance(made, dict) else made)
                context = {key: value for key, value in values.items() if key not in written}
                if context:
                    yield Plan(name=f"{state}: with {text(context)[:60]}", state=state, context=context,
                               acts=(Act(kind="answer", answer=answers[-1]),))
        unique = list({text(answer): answer for answer in answers}.values())
        for answer in unique[:_MOST_TRIALS]:
            yield Plan(name=f"{state}: answer", state=state, context={},
                       acts=(Act(kind="answer", answer=answer),))
        if isinstance(placed.get("timeout"), int | float):
            for shift in (-1.0, 1.0):
                seconds = max(0.5, float(placed["timeout"]) + shift)
                yield Plan(name=f"{state}: {seconds:g} s pass", state=state, context={},
                           acts=(Act(kind="wait", wait=seconds),))

    def _works(self, state: str) -> Iterator[Plan]:
        placed = self._known.subject.states[state]
        arcs = self._known.subject.arcs_from[state]
        labels = [str(arc.placed.value["on"]) for arc in arcs if "on" in arc.placed.value]
        full = self._solver.everything()
        tried = [*outputs(placed, labels, full), *({"_transition": label} for label in [*labels, "nothing"])]
        tried += ["Done.", ["a"], ["a", "b"], {}, "", 1]
        unique = list({text(output): output for output in tried}.values())[:_MOST_TRIALS]
        for context in ({}, full):
            for output in unique:
                yield Plan(name=f"{state}: puts out", state=state, context=context, input=["a"], output=output)

        tools = [name for _, name in placed.texts("tools")]
        for calls in dict.fromkeys([*((name,) for name in tools), tuple(tools)] if tools else ()):
            for output in unique[:8]:
                for acts in ((), (Act(kind="answer", answer=True),), (Act(kind="answer", answer=False),)):
                    yield Plan(name=f"{state}: calls {calls[0]}", state=state, context=full, input=["a"],
                               output=output, calls=calls, acts=acts)
        yield Plan(name=f"{state}: fails", state=state, context=full, input=["a"], output=unique[0], checks=False)

    def _calls(self, state: str) -> Iterator[Plan]:
        """Every way through the machine that is called, to each of its transitions."""
        child = self.called.get(state)
        full = self._solver.everything()
        for way in child.ways() if child is not None else ():
            for context in ({}, full):
                yield Plan(name=f"{state}: in the called machine", state=state, context=context, acts=way)
        yield from self._runs(state)

    def ways(self) -> Iterator[tuple[Act, ...]]:
        """What to say to come through each transition from the initial state on, by a shortest way."""
        initial = self._known.subject.initial
        found: dict[str, tuple[Act, ...]] = {} if initial is None else {initial: ()}
        queue = list(found)
        while queue:
            state = queue.pop(0)
            for arc in self._known.subject.arcs_from[state]:
                values = self._solver.solution(arc)
                if values is None or arc.target not in self.definition.states:
                    continue
                _, update = self._sorted_out(values)
                talks = self.definition.kind_of(state) == "converse" and not arc.auto
                acts = (*found[state], *((Act(to=arc.target, update=update),) if talks else ()))
                yield acts
                if arc.target not in found:
                    found[arc.target] = acts
                    queue.append(arc.target)

    def _runs(self, state: str) -> Iterator[Plan]:
        yield Plan(name=f"{state}: begins", state=state, context={})
        for arc in self._known.subject.arcs_from[state]:
            for values in self._trials(arc):
                yield Plan(name=f"{state}: towards {arc.target}", state=state, context=values)

    # -- values

    def _sorted_out(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is known from the start, and what the model writes."""
        keys = self._known.subject.keys
        wrote = {
            key: value
            for key, value in values.items()
            if value is not None and (keys is None or (key in keys and self._known.subject.source_of(key) == "model"))
        }
        return {key: value for key, value in values.items() if key not in wrote and value is not None}, wrote

    def _trials(self, arc: Arc) -> list[dict[str, Any]]:
        """Values of the keys that an arc, and what may follow at once, decide by: first ones that open it."""
        guard = self._known.guard(arc.placed)
        opened = self._solver.solution(arc)
        bases = [{}] if opened is None else self._solver.lean(arc, opened)
        found: list[dict[str, Any]] = [] if opened is None else [opened, *bases]
        names = list(read_names([guard])) if guard is not None else []
        names += [name for name in self._ahead(arc.target) if name not in names]
        for base in bases:
            for name in names:
                if name in SYSTEM_NAMES or "." in name:
                    continue
                for value in [None, *self._solver.values(name)]:
                    changed = {key: item for key, item in base.items() if key != name}
                    found.append(changed if value is None else {**changed, name: value})
        return list({text(one): one for one in found}.values())[:_MOST_TRIALS]

    def _ahead(self, state: str, depth: int = 3) -> list[str]:
        """The names by which the states that decide at once behind a move decide."""
        if depth == 0 or state not in self.definition.states or self.definition.kind_of(state) == "final":
            return []
        found: list[str] = []
        for arc in self._known.decided(state):
            guard = self._known.guard(arc.placed)
            found += read_names([guard]) if guard is not None else []
            found += self._ahead(arc.target, depth - 1)
        return list(dict.fromkeys(found))

    def _refused(self, state: str) -> Iterator[dict[str, Any]]:
        """Values at the bounds of the keys that a state collects: some that are accepted, some that are not."""
        subject = self._known.subject
        collected = [key for _, key in subject.states[state].texts("required_context_keys")]
        for key in collected if subject.keys is not None else ():
            schema = (subject.keys or {}).get(key) or {}
            odd: list[Any] = ["", "nonsense", -1, 0, 10**9, 1.5, True, [], {}]
            for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                bound = schema.get(word)
                odd += [bound - 1, bound, bound + 1] if isinstance(bound, int | float) else []
            for word in ("minLength", "maxLength"):
                length = schema.get(word)
                if isinstance(length, int) and 0 <= length < 500:
                    odd += ["a" * size for size in (length - 1, length, length + 1) if size > 0]
            listed = schema.get("enum")
            odd += listed[:8] if isinstance(listed, list) else []
            for value in odd:
                yield {key: value}


def _answers(schema: Mapping[str, Any]) -> list[Any]:
    """Answers that a schema accepts: the members of an object changed one by one."""
    found = samples(schema)[:6]
    members = schema.get("properties")
    whole: dict[str, Any] = next((value for value in found if isinstance(value, dict)), {})
    for name, part in members.items() if isinstance(members, dict) else ():
        found += [{**whole, name: value} for value in (samples(part)[:6] if isinstance(part, dict) else ())]
        found.append({key: value for key, value in whole.items() if key != name})
    return found or [True]


def _answer(output: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """The answer that an output mapping turns into these values."""
    answer: Any = {}
    for key, path in output.items():
        parts = [part for part in str(path).removeprefix("$").split(".") if part]
        if key not in values:
            continue
        if not parts:
            return values[key]
        place = answer
        for part in parts[:-1]:
            place = place.setdefault(part, {})
        place[parts[-1]] = values[key]
    return answer
