"""What is tried in a state that works: outputs that pass and fail, tools called, refused and called without an end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import Placed
from llm_fsm.lint.solver.solver import Reasoning
from llm_fsm.testing.generate.bounds import at_bounds
from llm_fsm.testing.generate.paths import Act, Journeys, answer_of
from llm_fsm.testing.generate.plan import Plan
from llm_fsm.testing.generate.solutions import text
from llm_fsm.testing.generate.task_outputs import failing, outputs

_MOST_TRIALS = 60
_MOST_LACKING = 8
_MOST_TRIES = 6
_MOST_CALLS = 60
"""The largest limit that a test goes up to."""
_MEMORY = "view_all_memory"
"""A tool that only states with a memory have."""
_REPLIED: tuple[Any, ...] = ({"approved": True}, {"approved": False, "reason": "no"}, True)
"""What a person may answer where a call waits."""
_OF_CONTEXT = re.compile(r'"var": "context"\}, "(\w+)"|"context\.(\w+)')


@dataclass(frozen=True)
class Tasks:
    """The plans for the tasks of one definition."""

    definition: Definition
    known: Reasoning
    journeys: Journeys

    def plans(self, state: str) -> Iterator[Plan]:
        placed = self.known.subject.states[state]
        arcs = self.known.subject.arcs_from[state]
        labels = [str(arc.placed.value["on"]) for arc in arcs if "on" in arc.placed.value]
        full = self.journeys.full
        tried = [*outputs(placed, labels, full), *({"_transition": label} for label in [*labels, "nothing"])]
        tried += ["Done.", ["a"], ["a", "b"], {}, "", 1, *failing(placed, labels, full)]
        unique = list({text(output): output for output in tried}.values())[:_MOST_TRIALS]
        base = Plan(name=f"{state}: puts out", state=state, context=full, greet=True, input=["a"],
                    outputs=((state, unique[0]),))
        for context in ({}, full):
            for output in unique:
                yield replace(base, context=context, outputs=((state, output),))
        for lacking in self._read_by_checks(placed):
            known = {key: value for key, value in full.items() if key != lacking}
            for output in unique[:_MOST_LACKING]:
                yield replace(base, name=f"{state}: without {lacking}", context=known, outputs=((state, output),))
        for output in unique[:_MOST_LACKING]:
            yield replace(base, name=f"{state}: is given two", input=["a", "b"], outputs=((state, output),))
        for output in islice(failing(placed, labels, full), _MOST_LACKING):
            tries = self.definition.states[state].max_retries + 1
            yield replace(base, name=f"{state}: fails each time", outputs=((state, output),) * min(tries, _MOST_TRIES))
        yield replace(base, name=f"{state}: fails", checks=False)
        yield replace(base, name=f"{state}: is judged bad", judged=False)
        yield from self._called(base, [name for _, name in placed.texts("tools")], unique)

    def _called(self, base: Plan, tools: Sequence[str], tried: Sequence[Any]) -> Iterator[Plan]:
        """Each tool of a task, all of them, those that it does not have, and calls without an end."""
        full = self.journeys.full
        for calls in dict.fromkeys([*((name,) for name in tools), tuple(tools)] if tools else ()):
            plan = replace(base, name=f"{base.state}: calls {calls[0]}", calls=tuple((name,) for name in calls))
            for output, context in product(tried[:8], ({}, full)):
                for acts in ((), *(tuple([Act(kind="answer", answer=answer)] * len(calls)) for answer in _REPLIED)):
                    yield replace(plan, outputs=((base.state, output),), context=context, acts=acts)
            asked = sum(self._asks(tool) for tool in calls)
            for results in self._results(calls):
                acts = tuple([Act(kind="answer", answer=_REPLIED[0])] * asked)
                yield replace(plan, results=results, context={}, acts=acts)
        for other in (*self.definition.tools, _MEMORY):
            if other not in tools:
                yield replace(base, name=f"{base.state}: calls {other}", calls=((other,),))
        limits = self.definition.limits
        for tool in [tool for tool in tools if not self._asks(tool)][:1]:
            for count in (limits.tool_calls, limits.tool_calls + 1) if limits.tool_calls <= _MOST_CALLS else ():
                yield replace(base, name=f"{base.state}: {count} calls", calls=((tool,) * count,))
            for count in (limits.llm_calls - 1, limits.llm_calls) if limits.llm_calls <= _MOST_CALLS else ():
                yield replace(base, name=f"{base.state}: {count} rounds of calls", calls=((tool,),) * count)

    def _read_by_checks(self, placed: Placed) -> list[str]:
        """The context keys that the rules among a task's key results read."""
        rules = [item.value.get("check") for item in placed.items("key_results")]
        named = [key for rule in rules for found in _OF_CONTEXT.findall(text(rule)) for key in found]
        return [key for key in dict.fromkeys(named) if key in self.journeys.full]

    def _asks(self, tool: str) -> bool:
        """Whether a call of a tool waits for a person."""
        ref = self.definition.tools.get(tool)
        return ref is not None and bool(ref.approval or ref.breaking)

    def _results(self, calls: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """What tools give back, at the bounds of the keys that it is written to."""
        keys = self.known.subject.keys or {}
        for tool in calls:
            written = self.definition.tools[tool].output if tool in self.definition.tools else None
            for key in written or {}:
                for value in at_bounds(keys.get(key) or {}):
                    yield {tool: answer_of(written or {}, {**self.journeys.full, key: value})}
