"""Find paths through a machine: transitions in order, as messages, answers and task outputs.

Each value is set where it comes from: the model's values in its reply, all others in the context at
the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from llm_fsm._json import (
    JsonDict,
    JsonMap,
    json_text,
    object_at,
    of_kind,
    only,
    without,
    without_none,
)
from llm_fsm.definition.models import Definition
from llm_fsm.lint.graph import Arc, Arcs, arcs_from
from llm_fsm.lint.solver.cases import put
from llm_fsm.lint.solver.solver import Reasoning
from llm_fsm.session.quotes import SAID
from llm_fsm.testing.generate.solver import Solver
from llm_fsm.testing.generate.task_outputs import outputs
from llm_fsm.testing.generate.values import samples

Outputs = tuple[tuple[str, Any], ...]
"""Tasks in order, each with its output."""
_MOST_KNOWN = 40
"""The most keys that a conversation knows at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One event from outside: a message and the model's reply to it, an answer, or seconds that
    pass.

    Args:
        kind: `say`, `answer` or `wait`.
        to: The target that the reply names; None to stay.
        update: The values that the reply sets.
        outputs: The tasks that then begin, each with its output.
        garbled: True if the reply cannot be read.
    """

    kind: str = "say"
    to: str | None = None
    update: JsonMap = field(default_factory=dict)
    answer: Any = None
    wait: float | None = None
    outputs: Outputs = ()
    garbled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The context at the start, the events after it, and the outputs of tasks that begin at
    once.
    """

    context: JsonMap = field(default_factory=dict)
    acts: tuple[Act, ...] = ()
    outputs: Outputs = ()

    def known(self) -> JsonDict:
        """Return all values that are known at the end."""
        known = {**self.context}
        for act in self.acts:
            known.update(act.update)
        return known

    def then(self, after: Path) -> Path:
        """Join two paths; the later value of a key wins."""
        acts = self.acts
        begun = self.outputs
        if acts:
            acts = (*acts[:-1], replace(acts[-1], outputs=(*acts[-1].outputs, *after.outputs)))
        else:
            begun = (*begun, *after.outputs)
        return Path(
            context={**self.context, **after.context}, acts=(*acts, *after.acts), outputs=begun
        )

    def saying(self, update: JsonMap) -> Path:
        """Add values to the last reply of the model."""
        last = replace(self.acts[-1], update={**self.acts[-1].update, **update})
        return replace(self, acts=(*self.acts[:-1], last))


@dataclass(frozen=True)
class MachinePaths:
    """The paths through one machine. `called` maps a state to the paths of the machine that it
    calls.
    """

    definition: Definition
    known: Reasoning
    called: Mapping[str, MachinePaths] = field(default_factory=dict)

    @cached_property
    def solver(self) -> Solver:
        """The values for the conditions."""
        return Solver(self.known)

    @cached_property
    def full(self) -> JsonMap:
        """A value for each key."""
        return self.solver.everything()

    def near(self, state: str) -> JsonMap:
        """Return a value for each key; in a machine of many keys, for those that a state names.

        So the tests of a machine grow with it, and not with its square.
        """
        if len(self.full) <= _MOST_KNOWN:
            return self.full
        text = json_text(self.known.document.states[state].value)
        words = frozenset(re.findall(r"\w+", text))
        return only(self.full, words)

    def sorted_out(self, values: JsonMap) -> tuple[JsonDict, JsonDict]:
        """Divide values into those of the start and those that the model writes."""
        document = self.known.document
        given = without_none(values)
        wrote = {
            key: value
            for key, value in given.items()
            if not document.has_schema or (key in document.keys and self._is_told(key))
        }
        return without(given, wrote), wrote

    def _is_told(self, key: str) -> bool:
        """Return true if a reply writes a key without proof that the user said it."""
        schema = self.known.keys.schema(key) or {}
        return self.known.document.source_of(key) == "model" and SAID not in schema

    def leg(self, arc: Arc) -> Path | None:
        """Return one transition as a path; None if no values open it."""
        values = self.solver.solution(arc)
        if values is None or arc.target not in self.definition.states:
            return None
        kind = self.definition.kind_of(arc.source)
        if kind == "converse":
            context, update = self.sorted_out(values)
            return Path(
                context=context, acts=(Act(to=None if arc.auto else arc.target, update=update),)
            )
        if kind == "wait":
            return self._answered(arc, values)
        if kind == "task":
            known = {**self.near(arc.source), **values}
            return Path(context=known, outputs=((arc.source, self._output(arc)),))
        if kind == "subflow":
            child = self.called.get(arc.source)
            return Path(context=values, acts=() if child is None else next(child.ends(), ()))
        if kind == "decide":
            return self._decided(arc, {})
        return Path(context=values)

    def _decided(self, arc: Arc, known: JsonMap) -> Path | None:
        values = self.solver.decided(arc, known)
        return None if values is None else Path(context=values)

    def _answered(self, arc: Arc, values: JsonMap) -> Path:
        state = self.known.document.states[arc.source].value
        schema = state.get("answer_schema")
        written = object_at(state, "output")
        made = answer_of(written, values)
        whole: Any = True
        if isinstance(schema, dict):
            whole = next(iter(answers(schema)), None)
        answer = (
            {**whole, **made}
            if isinstance(whole, dict) and isinstance(made, dict)
            else made or whole
        )
        context = without(values, written)
        return Path(context=context, acts=(Act(kind="answer", answer=answer),))

    def _output(self, arc: Arc) -> Any:
        label = arc.placed.get("on")
        labels = [str(label)] if label is not None and label != "default" else ["nothing"]
        fitting = outputs(self.known.document.states[arc.source], labels, self.near(arc.source))
        named = {"_transition": labels[0]}
        tried = [*fitting, named] if label is None else [named, *fitting]
        return next((one for one in tried if label is None or _names(one, labels[0])), named)

    def along(self, arcs: Sequence[Arc]) -> Path | None:
        """Return these transitions as one path; None if one of them has no values.

        The values by which a state decides belong to the message that led there.
        """
        whole = Path()
        for arc in arcs:
            decides = self.definition.kind_of(arc.source) == "decide"
            leg = self._decided(arc, whole.known()) if decides else self.leg(arc)
            if leg is None:
                return None
            if decides and whole.acts and whole.acts[-1].kind == "say":
                context, update = self.sorted_out(leg.context)
                whole = whole.saying(update)
                leg = replace(leg, context=context)
            whole = whole.then(leg)
        return whole

    @cached_property
    def shortest(self) -> Mapping[str, Arcs]:
        """The transitions of a shortest path to each state that has one."""
        initial = self.known.document.initial
        found: dict[str, Arcs] = {} if initial is None else {initial: ()}
        queue = list(found)
        while queue:
            state = queue.pop(0)
            for arc in arcs_from(self.known.document)[state]:
                if arc.target not in found and self.leg(arc) is not None:
                    found[arc.target] = (*found[state], arc)
                    queue.append(arc.target)
        return found

    def ends(self) -> Iterator[tuple[Act, ...]]:
        """Yield the events of a shortest path to each final state."""
        for state, arcs in self.shortest.items():
            whole = None
            if self.definition.kind_of(state) == "final":
                whole = self.along(arcs)
            if whole is not None:
                yield whole.acts


def _names(output: Any, label: str) -> bool:
    return output == label or (isinstance(output, dict) and output.get("_transition") == label)


def answers(schema: JsonMap) -> list[Any]:
    """List answers that a schema accepts, then one without each member of an object."""
    found = samples(schema)[:6]
    whole = next(iter(of_kind(found, dict)), {})
    found += [without(whole, {name}) for name in whole]
    return found or [True]


def answer_of(output: JsonMap, values: JsonMap) -> Any:
    """Return the answer that an output mapping turns into these values."""
    answer: JsonDict = {}
    for key, path in output.items():
        parts = [part for part in str(path).removeprefix("$").split(".") if part]
        if key not in values:
            continue
        if not parts:
            return values[key]
        put(answer, parts, values[key])
    return answer
