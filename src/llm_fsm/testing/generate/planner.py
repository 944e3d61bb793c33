"""Which conversations bring out what a definition says: pure, from its graph and its conditions.

A plan begins in a state with values that its conditions make interesting, and lets the model try one thing: each
transition, open and closed, staying, and values that a key's schema refuses. Values stand where they come from: what
the model writes is in its reply, all else is known from the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import SYSTEM_NAMES, Arc, Placed, Subject
from llm_fsm.lint.facts.properties import paths, statements
from llm_fsm.lint.solver.solver import Reasoning, read_names, reasoning
from llm_fsm.testing.generate.bounds import at_bounds
from llm_fsm.testing.generate.paths import Act, Journey, Journeys, answer_of, answers
from llm_fsm.testing.generate.plan import Plan
from llm_fsm.testing.generate.solutions import COUNTED, text
from llm_fsm.testing.generate.task_cases import Tasks
from llm_fsm.turn.repair.patterns import named

_MOST_TRIALS = 60
_MOST_SPOKEN = 16
_MOST_SAID = 6
_WORKING = ("task", "decide", "subflow")
_SILENT = (299, 2, 598, 2, 898, 2)
"""Seconds after which a silence is looked at again: around the two reminders and the end."""
_DAY = 86400
_MOST_STEPS = 16
_QUOTED = re.compile(r"'([^']+)'")


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
    def journeys(self) -> Journeys:
        """The ways through the machine."""
        return Journeys(self.definition, self._known, {state: one.journeys for state, one in self.called.items()})

    def plans(self) -> Iterator[Plan]:
        """Plans for everything, those that matter most first."""
        yield Plan(name="begins", state="", context={}, greet=True)
        yield from self._counter_examples()
        for state in self._known.subject.states:
            yield from self.plans_in(state)
        yield from self.plans_at_first()

    def plans_at_first(self) -> Iterator[Plan]:
        """What is tried from the beginning on."""
        yield from self._corrections()
        yield from self._silence()
        yield from self._set_by_host()

    def plans_in(self, state: str) -> Iterator[Plan]:
        """What is tried in a state."""
        kind = self.definition.kind_of(state)
        if kind == "converse":
            yield from self._talks(state)
        elif kind == "wait":
            yield from self._waits(state)
        elif kind == "task":
            yield from Tasks(self.definition, self._known, self.journeys).plans(state)
        elif kind == "subflow":
            yield from self._calls(state)
        elif kind != "final":
            yield from self._runs(state)
        if kind != "final":
            yield from self._pairs(state)
        yield from self._spoken(state)

    def _counter_examples(self) -> Iterator[Plan]:
        """The paths on which the author's statements do not hold."""
        subject = self._known.subject
        for pointer, statement in statements(subject):
            violation = paths(subject).broken(statement)
            if violation is not None:
                journey = self.journeys.path(violation.path)
                yield self._plan(f"against {pointer}", violation.path[0], journey)

    def _plan(self, name: str, state: str, journey: Journey) -> Plan:
        works = self.definition.kind_of(state) in _WORKING
        return Plan(name=name, state=state, context=journey.context, acts=journey.acts, outputs=journey.outputs,
                    greet=works, input=["a"] if journey.outputs else None)

    # -- what is tried in a state

    def _talks(self, state: str) -> Iterator[Plan]:
        arcs = [arc for arc in self._known.subject.arcs_from[state] if arc.target in self.definition.states]
        for arc in arcs:
            word = "auto " if arc.auto else ""
            trials = self._trials(arc)
            if not arc.auto and trials:
                context, update = self.journeys.sorted_out(trials[0])
                yield Plan(name=f"{state}: stay", state=state, context=context, acts=(Act(update=update),))
            for values in trials:
                context, update = self.journeys.sorted_out(values)
                act = Act(to=None if arc.auto else arc.target, update=update)
                for turns in self._turns(arc):
                    acts = (*(Act() for _ in range(turns)), act)
                    yield Plan(name=f"{state}: {word}to {arc.target}", state=state, context=context, acts=acts)
        for name, act in (("stay", Act()), ("nowhere", Act(to="no_such_state")), ("garbled", Act(garbled=True))):
            yield Plan(name=f"{state}: {name}", state=state, context={}, acts=(act,))
        yield Plan(name=f"{state}: stay, everything known", state=state, context=self.journeys.full, acts=(Act(),))
        for key, bounds in self._refused(state):
            tried = [Act(update={key: value}) for value in bounds]
            for at in range(0, len(tried), _MOST_STEPS):
                some = tuple(tried[at : at + _MOST_STEPS])
                yield Plan(name=f"{state}: {key} at its bounds", state=state, context={}, acts=some)
        yield from self._recognised(state)
        yield from self._repairs(state)

    def _recognised(self, state: str) -> Iterator[Plan]:
        """Values that are the whole message: which of these need no model, and that the others do."""
        subject = self._known.subject
        for _, key in subject.states[state].texts("required_context_keys"):
            fast = ((subject.keys or {}).get(key) or {}).get("x-fast") is True
            rest = {name: value for name, value in self.journeys.full.items() if name != key}
            values = self.journeys.solver.values(key)[: _MOST_SAID if fast else 1]
            for value, context in product(values, ({}, rest) if fast else (rest,)):
                said = ("yes" if value else "no") if isinstance(value, bool) else str(value)
                act = Act(said=said, update={key: value})
                yield Plan(name=f"{state}: {key} said alone", state=state, context=context, acts=(act,))

    def _turns(self, arc: Arc) -> list[int]:
        """How many messages come before, where a condition counts them."""
        guard = self._known.guard(arc.placed)
        counts = guard is not None and not {*COUNTED}.isdisjoint(read_names([guard]))
        return sorted({turn - 1 for turn in self.journeys.solver.turns}) if counts else [0]

    def _pairs(self, state: str) -> Iterator[Plan]:
        """A transition and the next one, both open."""
        for arc in self._known.subject.arcs_from[state]:
            if arc.target not in self.definition.states:
                continue
            for after, journey in self.journeys.after(arc):
                yield self._plan(f"{state}: to {arc.target}, then to {after.target}", state, journey)

    @cached_property
    def _first_to_talk(self) -> str | None:
        return next((name for name in self._known.subject.states if self.definition.kind_of(name) == "converse"), None)

    def _set_by_host(self) -> Iterator[Plan]:
        """Values that a handler gives to the keys that only the host may write."""
        subject = self._known.subject
        state = self._first_to_talk
        for key, schema in (subject.keys or {}).items() if state is not None else ():
            if subject.source_of(key) == "host":
                given = tuple({key: value} for value in at_bounds(schema)[:_MOST_STEPS])
                acts = tuple(Act() for _ in given)
                yield Plan(name=f"{state}: the host sets {key}", state=state or "", context={}, acts=acts, host=given)

    def _repairs(self, state: str) -> Iterator[Plan]:
        """Each repair pattern, with nothing known and with everything."""
        for pattern in named(self.definition.patterns):
            times = 3 if pattern == "cannot_handle" else 1
            for context in ({}, self.journeys.full) if pattern in ("skip", "restart") else ({},):
                known, wrote = self.journeys.sorted_out(context)
                acts = (*([Act(update=wrote)] if wrote else []), *(Act(to=pattern) for _ in range(times)))
                yield Plan(name=f"{state}: {pattern}", state=state, context=known, acts=acts)

    def _corrections(self) -> Iterator[Plan]:
        """Answers changed after each way, with and without the pattern's name."""
        for acts in self.journeys.ways() if "correct" in self.definition.patterns else ():
            said = {key: value for act in acts for key, value in act.update.items()}
            for key, value in said.items():
                others = [one for one in self.journeys.solver.values(key) if text(one) != text(value)]
                for other in others[: 2 if key in acts[-1].update else 1]:
                    changed = (*acts, Act(to="correct", update={key: other}))
                    yield Plan(name=f"begins: corrects {key}", state="", context={}, acts=changed)

    def _silence(self) -> Iterator[Plan]:
        """Nobody says anything: whether, and when, the conversation reminds and ends by itself."""
        waits = _SILENT if "silence" in self.definition.patterns else (_DAY,)
        if self.definition.kind_of(self.definition.initial_state) == "converse":
            acts = (Act(), *(Act(kind="wait", wait=seconds) for seconds in waits))
            yield Plan(name="begins: silence", state="", context={}, acts=acts)

    def _waits(self, state: str) -> Iterator[Plan]:
        placed = self._known.subject.states[state].value
        arcs = self._known.subject.arcs_from[state]
        schema = placed.get("answer_schema")
        tried = answers(schema) if isinstance(schema, dict) else []
        tried += [True, False, "yes", "no"]
        base: Mapping[str, Any] = next((answer for answer in tried if isinstance(answer, dict)), {})
        given = placed.get("output")
        written: Mapping[str, Any] = given if isinstance(given, dict) else {}
        for arc in arcs:
            for values in self._trials(arc):
                made = answer_of(written, values)
                tried.append({**base, **made} if isinstance(made, dict) else made)
                context = {key: value for key, value in values.items() if key not in written}
                if context:
                    yield Plan(name=f"{state}: with {text(context)[:60]}", state=state, context=context,
                               acts=(Act(kind="answer", answer=tried[-1]),))
        unique = list({text(answer): answer for answer in tried}.values())
        for answer in unique[:_MOST_TRIALS]:
            yield Plan(name=f"{state}: answer", state=state, context={},
                       acts=(Act(kind="answer", answer=answer),))
        due = [placed.get("timeout") or _DAY, *_listed(placed.get("remind"))]
        for moment in due:
            for shift in (-1.0, 0.0, 1.0) if isinstance(moment, int | float) else ():
                seconds = max(0.5, float(moment) + shift)
                yield Plan(name=f"{state}: {seconds:g} s pass", state=state, context={},
                           acts=(Act(kind="wait", wait=seconds),))

    def _calls(self, state: str) -> Iterator[Plan]:
        """Every way through the machine that is called, to each of its transitions, and out of it again.

        Where several states call it, all but the first only try the ways to its ends.
        """
        child = self.called.get(state)
        base = Plan(name=f"{state}: in the called machine", state=state, context={}, greet=True)
        callers = [name for name, one in self.called.items() if child is not None and one.document == child.document]
        again = callers[:1] != [state]
        for way in () if child is None else child.journeys.ends() if again else child.journeys.ways():
            for context in ({}, self.journeys.full):
                yield replace(base, context=context, acts=way)
            if "cancel" in self.definition.patterns:
                yield replace(base, acts=(*way[:-1], Act(to="cancel")))
        first = next(iter(() if child is None or again else child.journeys.ways()), ())
        for arc in self._known.subject.shared if first else ():
            if arc.target in self._known.subject.digressions:
                acts = (*first[:-1], Act(to=arc.target), Act())
                yield replace(base, name=f"{state}: aside to {arc.target}", acts=acts)
        yield from self._runs(state)

    def _runs(self, state: str) -> Iterator[Plan]:
        yield Plan(name=f"{state}: begins", state=state, context={}, greet=True)
        for arc in self._known.subject.arcs_from[state]:
            for values in self._trials(arc):
                yield Plan(name=f"{state}: towards {arc.target}", state=state, context=values, greet=True)

    def _spoken(self, state: str) -> Iterator[Plan]:
        """A state's fixed words: with all keys, without each of them, with each value that the words compare."""
        words = text(self._known.subject.states[state].value.get("reply") or "")
        full = self.journeys.full
        keys = [key for key in full if key in words]
        known = [full, *({other: full[other] for other in full if other != key} for key in keys)]
        quoted = [(key, value) for key in keys for value in _QUOTED.findall(words)]
        known += [{**full, key: value} for key, value in quoted if self._known.accepts(key, value)]
        arcs = [arc for source in self._known.subject.states for arc in self._known.subject.arcs_from[source]]
        into = [arc for arc in arcs if arc.target == state and not arc.is_global][:2]
        legs = [(arc.source, leg) for arc in into if (leg := self.journeys.leg(arc)) is not None]
        if self.definition.kind_of(state) == "converse":
            legs = [(state, Journey(acts=(Act(),)))]
        for begin, leg in legs if keys else ():
            for context in known[:_MOST_SPOKEN]:
                plan = self._plan(f"{state}: says", begin, leg)
                yield replace(plan, context={**context, **leg.context})

    # -- values

    def _trials(self, arc: Arc) -> list[dict[str, Any]]:
        """Values of the keys that an arc, and what may follow at once, decide by: first ones that open it."""
        guard = self._known.guard(arc.placed)
        opened = self.journeys.solver.solution(arc)
        bases = [{}] if opened is None else self.journeys.solver.lean(arc, opened)
        found: list[dict[str, Any]] = [] if opened is None else [opened, *bases]
        names = list(read_names([guard])) if guard is not None else []
        names += [name for name in self._ahead(arc.target) if name not in names]
        for base in bases:
            for name in names:
                if name in SYSTEM_NAMES or "." in name:
                    continue
                for value in [None, *self.journeys.solver.values(name)]:
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

    def _refused(self, state: str) -> Iterator[tuple[str, list[Any]]]:
        """Values at the bounds of the keys that a state collects; in the first that talks also of the other keys."""
        subject = self._known.subject
        collected = [key for _, key in subject.states[state].texts("required_context_keys")]
        if state == self._first_to_talk:
            every = {key for one in subject.states.values() for _, key in one.texts("required_context_keys")}
            collected += [key for key in subject.keys or {} if key not in every]
        for key in collected if subject.keys is not None else ():
            yield key, at_bounds((subject.keys or {}).get(key) or {})


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
