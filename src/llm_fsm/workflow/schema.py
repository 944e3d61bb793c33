"""Convert workflows to JSON of version 2.0 and back, and to Python."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, member
from llm_fsm._text import nearest
from llm_fsm.conditions.compiler import collect_faults
from llm_fsm.tools.returns import Function
from llm_fsm.tools.schema import name_of
from llm_fsm.workflow.errors import WorkflowError
from llm_fsm.workflow.expressions import expression_to_logic, lambda_to_logic
from llm_fsm.workflow.state import KeyResult, StateSpec, run_objective
from llm_fsm.workflow.tools import ToolSpec
from llm_fsm.workflow.workflow import Workflow

VERSION = "2.0"
PASS_THROUGH = "pass_through"
"""Name of the function of a state whose output is its input."""

_LAMBDA = "<lambda>"
_TAKEN = (
    "ExecutionContext KeyResult OpenAIAdapter StateSpec Workflow run_objective "
    "STATES TRANSITIONS build input json llm options print"
)
"""Names that every program uses itself."""


def workflow_to_json(workflow: Workflow) -> JsonDict:
    """Return a workflow as JSON data.

    A lambda check becomes JsonLogic if that can express it. Other functions are written as their
    names, and a lambda as the name of its place: `state` for the function of a state, `state.name`
    for a key result, `state.route` for a transition.

    Args:
        workflow: The workflow.

    Returns:
        JSON data, from which `workflow_from_json` makes the same workflow.
    """
    states = {}
    for name, spec in workflow.states.items():
        row: JsonDict = {
            "objective": spec.objective,
            "key_results": [_result_row(name, result) for result in spec.key_results],
            "tools": [
                tool.name if isinstance(tool, ToolSpec) else name_of(tool) for tool in spec.tools
            ],
            "max_retries": spec.max_retries,
            "is_initial": spec.is_initial,
            "is_final": spec.is_final,
        }
        if spec.execute is None:
            row["execute"] = PASS_THROUGH
        elif spec.execute is not run_objective:
            own = name_of(spec.execute)
            row["execute"] = name if own == _LAMBDA else own
        states[name] = row
    return {
        "version": VERSION,
        "objective": workflow.objective,
        "states": states,
        "transitions": {name: _way_row(name, way) for name, way in workflow.transitions.items()},
        "graph_layout": dict(workflow.graph_layout),
    }


def _result_row(state: str, result: KeyResult) -> JsonDict:
    check: Any = result.check
    if callable(check):
        named = name_of(check)
        logic = lambda_to_logic(check) if named == _LAMBDA else None
        named = f"{state}.{result.name}" if named == _LAMBDA else named
        check = {"registered": named} if logic is None else logic
    return {"name": result.name, "description": result.description, "check": check}


def _way_row(state: str, way: Any) -> Any:
    if not callable(way):
        return dict(way) if isinstance(way, Mapping) else way
    named = name_of(way)
    return {"route": f"{state}.route" if named == _LAMBDA else named}


def workflow_from_json(
    data: JsonMap,
    *,
    llm: Any = None,
    tools: Mapping[str, Function] | None = None,
    execute_fns: Mapping[str, Function] | None = None,
    checks: Mapping[str, Function] | None = None,
    routes: Mapping[str, Function] | None = None,
    **options: Any,
) -> Workflow:
    """Make a workflow from JSON data of version 2.0.

    Args:
        data: The workflow.
        llm: The model.
        tools: The functions that it names as tools.
        execute_fns: The functions of states, by the state's name or their own. For a state without
            one, the model works on its objective.
        checks: The functions that it names as checks.
        routes: The functions that it names as transitions.
        options: Further arguments of `Workflow`.

    Returns:
        The workflow.

    Raises:
        WorkflowError: The data is no workflow, or names a function that was not given.
    """
    _check(data)
    works = dict(execute_fns or {})
    states = []
    for name, row in data["states"].items():
        states.append(
            StateSpec(
                name=name,
                objective=row.get("objective", ""),
                key_results=[
                    _read_result(name, one, checks or {}) for one in row.get("key_results", [])
                ],
                execute=_read_execute(name, row.get("execute") or row.get("execute_module"), works),
                tools=[
                    _found(f"state {name!r}: tool", tool, tools or {}, "tools")
                    for tool in row.get("tools", [])
                ],
                max_retries=row.get("max_retries", 3),
                is_initial=row.get("is_initial", False),
                is_final=row.get("is_final", False),
            )
        )
    unknown = [name for name in works if name not in data["states"] and not _named(data, name)]
    if unknown:
        raise WorkflowError(
            f"execute_fns names {unknown[0]!r}, which is neither a state nor a function of one"
        )
    ways = {
        name: _found(f"state {name!r}: route", way["route"], routes or {}, "routes")
        if isinstance(way, Mapping) and set(way) == {"route"} and way["route"] not in data["states"]
        else way
        for name, way in data.get("transitions", {}).items()
    }
    made = Workflow(data.get("objective", ""), states, ways, llm, **options)
    made.graph_layout = dict(data.get("graph_layout", {}))
    return made


def _named(data: JsonMap, name: str) -> bool:
    return any(row.get("execute") == name for row in data["states"].values())


def _read_execute(state: str, named: Any, works: Mapping[str, Function]) -> Function | None:
    if state in works:
        return works[state]
    if named is None:
        return run_objective
    if named == PASS_THROUGH:
        return None
    return _found(f"state {state!r}: execute", named, works, "execute_fns")


def _read_result(state: str, row: JsonMap, checks: Mapping[str, Function]) -> KeyResult:
    check, name = row.get("check"), row["name"]
    place = f"state {state!r}: the check of key result {name!r}"
    match check:
        case str():
            logic = expression_to_logic(check)
            check = _found(place, check, checks, "checks") if logic is None else logic
        case {"registered": named, **rest} if not rest:
            check = _named_check(named, _found(place, named, checks, "checks"))
    return KeyResult(name, row.get("description", ""), check)


def _named_check(name: str, function: Function) -> Callable[[Any], Any]:
    """Return a check with the name that JSON gives it, even if its function has another name."""

    def check(output: Any) -> Any:
        return function(output)

    check.__name__ = name
    return check


def _found(place: str, name: Any, given: Mapping[str, Function], argument: str) -> Function:
    if name in given:
        return given[name]
    guess = nearest(str(name), list(given))
    hint = f"did you mean {guess!r}?" if guess else f"give {argument}={{{str(name)!r}: function}}"
    raise WorkflowError(f"{place} {name!r:.200} was not given; {hint}")


def validate_workflow_json(data: Any) -> list[str]:
    """List the faults of a workflow as JSON data.

    Args:
        data: The workflow.

    Returns:
        One sentence for each fault or missing part; an empty list if there are none.
    """
    faults = _faults(data)
    rows = member(data, "states")
    if (
        not isinstance(rows, Mapping)
        or not rows
        or not all(isinstance(row, Mapping) for row in rows.values())
    ):
        return faults
    for key, what in (("is_initial", "initial"), ("is_final", "final")):
        if not any(row.get(key) for row in rows.values()):
            faults.append(f"no {what} state: set {key} on one")
    faults += [
        f"state {name!r} is missing an objective"
        for name, row in rows.items()
        if not row.get("objective")
    ]
    for name, row in rows.items():
        checks = [
            one.get("check") for one in row.get("key_results", []) if isinstance(one, Mapping)
        ]
        faults += [
            f"state {name!r}: invalid check expression {check!r:.100}"
            for check in checks
            if isinstance(check, str)
            and not check.isidentifier()
            and expression_to_logic(check) is None
        ]
    return faults


def _check(data: JsonMap) -> None:
    faults = _faults(data)
    if faults:
        raise WorkflowError("this is no workflow: " + "; ".join(faults))


def _faults(data: Any) -> list[str]:
    """Return the faults that make data no workflow at all."""
    states = member(data, "states")
    if not isinstance(states, Mapping) or not states:
        return ["Missing 'states': an object of at least one state"]
    if not all(isinstance(row, Mapping) for row in states.values()):
        return ['each entry of "states" is an object']
    faults = []
    first = [name for name, row in states.items() if row.get("is_initial")]
    if len(first) > 1:
        faults.append(f"one state is initial, not {len(first)}: {', '.join(first)}")
    ways = data.get("transitions", {})
    if not isinstance(ways, Mapping):
        return [*faults, '"transitions" is an object of states']
    for name, way in ways.items():
        if name not in states:
            faults.append(f"transitions name the state {name!r}, which does not exist")
        targets = list(way.values()) if isinstance(way, Mapping) and "route" not in way else [way]
        faults += [
            f"state {name!r} leads to {one!r}, which does not exist"
            for one in targets
            if isinstance(one, str) and one not in states
        ]
    for name, row in states.items():
        for number, result in enumerate(row.get("key_results", [])):
            faults += _result_faults(f"state {name!r}, key result {number + 1}", result)
    return faults


def _result_faults(place: str, result: Any) -> list[str]:
    if not isinstance(member(result, "name"), str):
        return [f"{place}: it has no name"]
    check = result.get("check")
    match check:
        case Mapping():
            is_named = set(check) in ({"registered"}, {"judge"})
            faults = [] if is_named else collect_faults(dict(check))
            return [f"{place}: {fault}" for fault in faults]
        case str() | None:
            return []
    return [f"{place}: its check is JsonLogic, the name of a function, or null"]


# -- Python


def workflow_to_python(data: JsonMap) -> str:
    """Write a workflow as a Python program.

    The function of a state asks the model for its objective. You write the tools, checks and routes
    that the data
    names: the program has functions for them that raise NotImplementedError.

    Args:
        data: The workflow as JSON data.

    Returns:
        The source of the program.

    Raises:
        WorkflowError: The data is no workflow.
    """
    _check(data)
    objective, states = str(data.get("objective", "")), data["states"]
    functions = _Functions()
    named = chain.from_iterable(row.get("tools", []) for row in states.values())
    tools = dict.fromkeys(named)
    own = {tool: functions.missing("tool", tool, "request: str") for tool in tools}
    specs = "".join(_spec(name, row, own, functions) for name, row in states.items())
    ways = "".join(
        f"    {_text(name)}: {_way(way, functions)},\n"
        for name, way in data.get("transitions", {}).items()
    )
    about = " ".join(objective.split()) or "A workflow."
    about += "\n\nWritten from JSON. Functions that raise NotImplementedError are yours to write."
    return f'''{_text(about)}

import json

from llm_fsm.workflow import (
    ExecutionContext,
    KeyResult,
    OpenAIAdapter,
    StateSpec,
    Workflow,
    run_objective,
)
{"".join(functions.sources)}

STATES = [
{specs}]

TRANSITIONS = {{
{ways}}}


def build(llm: object, **options: object) -> Workflow:
    """Make the workflow for a model."""
    return Workflow({_text(objective)}, STATES, TRANSITIONS, llm, **options)


if __name__ == "__main__":
    llm = OpenAIAdapter(model="gpt-4o")
    wf = build(llm, validator_llm=llm)
    print(wf.run(input("Input: ")).history[-1].output)
'''


class _Functions:
    """The functions of a program, each with its own name."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self._taken = set(_TAKEN.split())

    def add(self, wanted: str, parameter: str, *lines: str) -> str:
        """Write a function, and return its name."""
        stem = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        stem = stem if re.match("[A-Za-z_]", stem) else f"_{stem}"
        name, number = stem, 2
        while name in self._taken or keyword.iskeyword(name):
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        body = "".join(f"    {line}\n" for line in lines)
        self.sources.append(f"\n\ndef {name}({parameter}) -> object:\n{body}")
        return name

    def missing(self, what: str, name: str, parameter: str = "output: object") -> str:
        """Write a function that you have to write yourself, and return its name."""
        wanted = f"check_{name}" if what == "check" else name
        return self.add(
            wanted, parameter, f"raise NotImplementedError({_text(f'write the {what} {name}')})"
        )


def _spec(name: str, row: JsonMap, tools: TextMap, functions: _Functions) -> str:
    objective, execute = row.get("objective", ""), "run_objective"
    if row.get("execute") == PASS_THROUGH:
        execute = "None"
    elif row.get("execute") is not None:
        execute = functions.add(
            f"execute_{row['execute']}",
            "ctx: ExecutionContext",
            'work = {"input": ctx.input, "failed_before": ctx.feedback}',
            f"return ctx.llm.run_with_tools({_text(objective or name)}, json.dumps(work))",
        )
    arguments = {"name": _text(name), "objective": _text(objective)}
    if row.get("key_results"):
        results = "".join(f"            {_result(one, functions)},\n" for one in row["key_results"])
        arguments["key_results"] = f"[\n{results}        ]"
    arguments["execute"] = execute
    if row.get("tools"):
        arguments["tools"] = f"[{', '.join(tools[tool] for tool in row['tools'])}]"
    arguments["max_retries"] = str(int(row.get("max_retries", 3)))
    arguments |= {flag: "True" for flag in ("is_initial", "is_final") if row.get(flag)}
    lines = "".join(f"        {argument}={value},\n" for argument, value in arguments.items())
    return f"    StateSpec(\n{lines}    ),\n"


def _result(row: JsonMap, functions: _Functions) -> str:
    check = row.get("check")
    said = repr(check)
    match check:
        case str():
            logic = expression_to_logic(check)
            said = functions.missing("check", row["name"]) if logic is None else repr(logic)
        case {"registered": named, **rest} if not rest:
            said = functions.missing("check", named)
    return f"KeyResult({_text(row['name'])}, {_text(row.get('description', ''))}, check={said})"


def _way(way: Any, functions: _Functions) -> str:
    if not isinstance(way, Mapping):
        return _text(way)
    if set(way) == {"route"}:
        return functions.missing("route", way["route"])
    return f"{{{', '.join(f'{_text(label)}: {_text(to)}' for label, to in way.items())}}}"


def _text(value: Any) -> str:
    """Return a text, or None, in Python. A JSON string is the same in Python."""
    return "None" if value is None else json.dumps(value)
