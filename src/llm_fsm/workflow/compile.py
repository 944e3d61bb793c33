"""Compile the states of a workflow to a definition of tasks, with the functions that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm._text import suggestion
from llm_fsm.definition.names import ids_of
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.returns import Function
from llm_fsm.workflow.errors import OwnError, WorkflowError
from llm_fsm.workflow.host import LIMITS
from llm_fsm.workflow.state import StateSpec, run_objective
from llm_fsm.workflow.tools import read_tool

CUSTOM = "validator"
"""The name of the one key result of a state that a class of the host judges."""


@dataclass
class Compiled:
    """A definition, its functions and tools, and the ids of the states by their names."""

    document: JsonDict
    ids: dict[str, str]
    functions: dict[str, Function] = field(default_factory=dict)
    tools: ToolRegistry = field(default_factory=ToolRegistry)

    @property
    def names(self) -> dict[str, str]:
        """The names of the states by their ids."""
        return {id: name for name, id in self.ids.items()}


def end_of(ids: TextMap) -> str:
    """Return the id of a final state beside states with these ids."""
    end = "end"
    while end in ids.values():
        end += "_"
    return end


def compile_states(
    *,
    objective: str,
    states: Mapping[str, StateSpec],
    transitions: JsonMap,
    initial: str,
    checks: Callable[[StateSpec], list[tuple[JsonDict, Function | None]]],
    execute: Callable[[StateSpec], Function],
) -> Compiled:
    """Return the definition of a workflow.

    Args:
        objective: The objective of the workflow.
        states: Name to state.
        transitions: Name to the next state: a name, None, {label: name}, or a function of the
            output.
        initial: The state to begin in.
        checks: Returns the key results of a state, each with the function that it names.
        execute: Returns the function of a state that does its work.

    Raises:
        WorkflowError: A transition names an unknown state, or two tools have one name.
    """
    ids = ids_of(list(states))
    end = end_of(ids)
    made = Compiled({}, ids)
    rows: JsonDict = {}
    for name, spec in states.items():
        row = rows[ids[name]] = _row(made, name, spec, checks, execute)
        if not spec.is_final:
            row |= _ways(made, name, transitions.get(name), end)
    ways = chain.from_iterable(row.get("transitions", ()) for row in rows.values())
    if any(way["target_state"] == end for way in ways):
        rows[end] = {"kind": "final"}
    for name in transitions:
        if name not in states:
            raise WorkflowError(
                f"transitions name the state {name!r}; {suggestion(name, states, 'the states are')}"
            )
    made.document = {
        "name": objective or "workflow",
        "description": objective,
        "initial_state": ids[initial],
        "tools": {tool.name: {"registered": tool.name} for tool in made.tools},
        "limits": dict(LIMITS),
        "states": rows,
    }
    return made


def _row(
    made: Compiled,
    name: str,
    spec: StateSpec,
    checks: Callable[[StateSpec], list[tuple[JsonDict, Function | None]]],
    execute: Callable[[StateSpec], Function],
) -> JsonDict:
    row: JsonDict = {"kind": "task", "purpose": spec.objective, "max_retries": spec.max_retries}
    if spec.execute is not run_objective:
        row["execute"] = f"execute {name}"
        made.functions[row["execute"]] = execute(spec)
    results = []
    for result, function in checks(spec):
        if function is not None:
            named = f"check {name}: {result['name']}"
            made.functions[named] = function
            result["check"] = {"registered": named}
        results.append(result)
    if results:
        row["key_results"] = results
    try:
        tools = [made.tools.add(read_tool(tool)) for tool in spec.tools]
    except ValueError as error:
        raise WorkflowError(f"state {name!r}: {error}") from error
    if tools:
        row["tools"] = [tool.name for tool in tools]
    return row


def _ways(made: Compiled, name: str, target: Any, end: str) -> JsonDict:
    """Return the transitions of a state, and the function that picks one of them."""

    def to(wanted: Any) -> str:
        if wanted is None:
            return end
        if wanted not in made.ids:
            hint = suggestion(str(wanted), made.ids, "the states are")
            raise WorkflowError(f"state {name!r} leads to {wanted!r}; {hint}")
        return made.ids[wanted]

    if target is None:
        return {}
    if isinstance(target, str):
        return {"transitions": [{"target_state": to(target)}]}
    if isinstance(target, Mapping) and not all(
        one is None or one in made.ids for one in target.values()
    ):
        target = _labelled(target)  # an unused label may have an unknown target
    if isinstance(target, Mapping):
        return {
            "transitions": [{"target_state": to(one), "on": label} for label, one in target.items()]
        }
    if not callable(target):
        raise WorkflowError(
            f"what follows state {name!r} is a name, None, a dict of labels or a function, not {target!r:.100}"
        )
    route = f"route {name}"
    made.functions[route] = _route(name, target, made.ids)
    return {
        "route": route,
        "transitions": [{"target_state": to(one), "on": one} for one in made.ids],
    }


def _labelled(ways: JsonMap) -> Callable[[Any], Any]:
    """Return the function that picks by label."""

    def pick(output: Any) -> Any:
        label = output.get("_transition") if isinstance(output, Mapping) else output
        known = label if isinstance(label, str) and label in ways else "default"
        if known not in ways:
            raise WorkflowError(
                f"no matching transition for the output {output!r:.200}; the labels are {', '.join(ways)}"
            )
        return ways[known]

    return pick


def _route(name: str, pick: Callable[[Any], Any], ids: TextMap) -> Callable[[Any], Any]:
    def route(output: Any) -> Any:
        try:
            label = pick(output)
        except Exception as error:
            raise OwnError(error) from error
        if label is not None and label not in ids:
            known = suggestion(str(label), ids, "the states are")
            raise OwnError(
                WorkflowError(f"the function after state {name!r} picked {label!r}; {known}")
            )
        return label

    return route
