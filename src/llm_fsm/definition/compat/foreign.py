"""Convert documents of other systems to the form of a definition, before anything else reads them.

There are two forms. In workflows of version 2.0, tasks prove their work and transitions are in one
table at the top. The others are plain tables `{"states": {"a": ["b"]}, "initial_state": "a"}`.
"""

from __future__ import annotations

import re
from typing import Any

from llm_fsm._json import JsonDict, as_list, is_list_of, list_at, object_at, of_kind, step, without
from llm_fsm.definition.compat.legacy import Ledger
from llm_fsm.definition.names import ids_of

_EDITOR_KEYS = ("position", "x", "y", "width", "height", "color", "ui", "layout")
_TASK_KEYS = frozenset(
    {"objective", "key_results", "max_retries", "is_initial", "is_final", "execute"}
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")


def rewrite(document: JsonDict, ledger: Ledger, stem: str | None) -> None:
    """Rewrite a document of another system in place, and leave our own unchanged. `stem`: a name
    for it.
    """
    if _is_workflow(document):
        _workflow(document, ledger, stem)
    elif _is_table(document):
        _table(document, ledger, stem)


def _is_workflow(document: JsonDict) -> bool:
    """Return true for a workflow, which lists its states or has their transitions in one table at
    the top.
    """
    states = document.get("states")
    rows = list_at(document, "states") or [*object_at(document, "states").values()]
    if "initial_state" in document or not rows or not is_list_of(rows, dict):
        return False
    tabled = isinstance(document.get("transitions"), dict)
    return tabled or (isinstance(states, list) and any(_TASK_KEYS & row.keys() for row in rows))


def _is_table(document: JsonDict) -> bool:
    states = document.get("states")
    return isinstance(states, dict) and any(isinstance(value, list) for value in states.values())


def _named(document: JsonDict, stem: str | None, otherwise: str, ledger: Ledger) -> None:
    if document.get("name") is None:
        document["name"] = stem or otherwise
        ledger.note("older-form", f'it has no "name" and is called "{document["name"]}"', "")


def _table(document: JsonDict, ledger: Ledger, stem: str | None) -> None:
    """Convert lists of next states to converse states with plain transitions."""
    states: JsonDict = document["states"]
    ends = document.pop("terminal_states", None) or []
    document["states"] = {name: _row(name, value, ledger) for name, value in states.items()}
    ledger.note("older-form", "lists of next states are read as states with transitions", "/states")
    named: set[str] = set()
    for value in states.values():
        if isinstance(value, list):
            named.update(of_kind(value, str))
    for index, end in enumerate(as_list(ends)):
        if isinstance(end, str) and end in named:
            document["states"].setdefault(end, {})
        _end(document["states"], end, f"/terminal_states/{index}", ledger)
    _named(document, stem, "machine", ledger)


def _row(name: str, value: Any, ledger: Ledger) -> Any:
    if not isinstance(value, list):
        return value
    place = "/states" + step(name)
    base = place + "/transitions"
    ledger.origins[base] = place
    return {"transitions": _route(value, base, place, {}, ledger)}


def _end(states: JsonDict, name: Any, pointer: str, ledger: Ledger) -> None:
    """Make a terminal state final, also one that has transitions."""
    state = None
    if isinstance(name, str):
        state = states.get(name)
    if not isinstance(state, dict):
        ledger.note("not-mapped", "a terminal state that is not among the states", pointer)
    elif state.get("transitions"):
        states[name] = {**state, "transitions": None, "kind": "final"}
        ledger.note("not-mapped", "the transitions of a terminal state are never taken", pointer)
    else:
        states[name] = {**state, "kind": "final"}


def _workflow(document: JsonDict, ledger: Ledger, stem: str | None) -> None:
    table = document.pop("transitions", None)
    objective = document.pop("objective", None)
    if objective is not None:
        document.setdefault("description", objective)
        ledger.moved("/description", "/objective")
    ledger.note("older-form", "a workflow is read as a machine of task states", "")
    _named(document, stem, "workflow", ledger)
    written = _rows(document["states"], ledger)
    if written is None:
        return
    ids = _ids(written, ledger)
    first = [name for name, row in written.items() if row.get("is_initial") is True]
    document["initial_state"] = ids[first[0] if first else next(iter(written))]
    states: JsonDict = {}
    tools: JsonDict = {}
    for name, row in written.items():
        states[ids[name]] = _task(row, "/states" + step(ids[name]), tools, ledger)
    document["states"] = states
    declared = document.get("tools")
    if tools and isinstance(declared, dict | None):
        document["tools"] = {**tools, **(declared or {})}
    if isinstance(table, dict):
        _routes(states, table, ids, ledger)
    elif table:
        hint = 'write {"name of a state": "its target"}'
        ledger.note("not-mapped", "transitions that are no object of states", "/transitions", hint)


def _rows(states: Any, ledger: Ledger) -> dict[str, JsonDict] | None:
    """Return name to state, as written; None if a name is missing or given twice."""
    if isinstance(states, dict):
        return states
    rows: dict[str, JsonDict] = {}
    for index, row in enumerate(states):
        name = row.get("name", row.get("id"))
        if not isinstance(name, str) or name in rows:
            what = "a state without a name"
            if isinstance(name, str):
                what = "a second state of this name"
            ledger.note("not-mapped", what, f"/states/{index}")
            return None
        rows[name] = row
        ledger.origins["/states" + step(name)] = f"/states/{index}"
    return rows


def _ids(names: JsonDict, ledger: Ledger) -> dict[str, str]:
    """Map the name of a workflow's state to a state id, because names may have blanks and ids may
    not.
    """
    ids = ids_of(names)
    for name, unique in ids.items():
        if name != unique:
            place = "/states" + step(unique)
            ledger.moved(place, "/states" + step(name))
            ledger.note("older-form", f'state "{name[:80]}" is called "{unique}"', place)
    return ids


def _task(row: JsonDict, pointer: str, tools: JsonDict, ledger: Ledger) -> JsonDict:
    state = without(row, {"name", "id", "is_initial", "is_final"})
    state.setdefault("kind", "task")
    for key in _EDITOR_KEYS:
        if state.pop(key, None) is not None:
            ledger.note("no-effect", f'"{key}" of the editor is not kept', pointer + step(key))
    _tools(state, tools)
    _execute(state, pointer, ledger)
    results = state.get("key_results")
    if isinstance(results, list):
        place = pointer + "/key_results"
        state["key_results"] = [
            _key_result(one, place, index, ledger) for index, one in enumerate(results)
        ]
    if row.get("is_final") is True:
        state["transitions"] = None
    return state


def _tools(state: JsonDict, tools: JsonDict) -> None:
    """Convert tools given by name, or by an object with a name, to tools that the host
    registers.
    """
    listed = state.get("tools")
    if not isinstance(listed, list):
        return
    names = [tool.get("name") if isinstance(tool, dict) else tool for tool in listed]
    if is_list_of(names, str):
        state["tools"] = names
        tools.update({str(name): {"registered": name} for name in names})


def _execute(state: JsonDict, pointer: str, ledger: Ledger) -> None:
    """Keep the name of a registered function and remove code, which a definition never carries."""
    execute = state.get("execute")
    if execute is None or (isinstance(execute, str) and _NAME.fullmatch(execute)):
        return
    del state["execute"]
    hint = (
        "register a function and give its name; without one the task runs the model with its tools"
    )
    ledger.note("not-mapped", '"execute" is not the name of a function', pointer + "/execute", hint)


def _key_result(value: Any, place: str, index: int, ledger: Ledger) -> Any:
    pointer = f"{place}/{index}"
    if isinstance(value, str):
        ledger.moved(pointer + "/description", pointer)
        return {"name": f"result_{index + 1}", "description": value}
    if not isinstance(value, dict):
        return value
    result = dict(value)
    check = result.get("check")
    if isinstance(check, str):
        if _NAME.fullmatch(check):
            result["check"] = {"registered": check}
        else:
            del result["check"]
            hint = "without a check a model judges the description"
            what = '"check" is code, which a definition never carries'
            ledger.note("not-mapped", what, pointer + "/check", hint)
    return result


def _routes(states: JsonDict, table: JsonDict, ids: dict[str, str], ledger: Ledger) -> None:
    """Map the table of transitions, state by state."""
    for name, target in table.items():
        place = "/transitions" + step(name)
        state = states.get(ids.get(name, ""))
        if state is None:
            ledger.note("not-mapped", "transitions of a state that is not among the states", place)
            continue
        if "transitions" in state:
            if target is not None:
                ledger.note("not-mapped", "the transitions of a final state are never taken", place)
            continue
        base = f"/states{step(ids[name])}/transitions"
        ledger.origins[base] = place
        state["transitions"] = _route(target, base, place, ids, ledger)


def _route(target: Any, base: str, place: str, ids: dict[str, str], ledger: Ledger) -> Any:
    ways: list[tuple[str, Any, JsonDict]] = []
    match target:
        case None:
            return []
        case str():
            ways.append((place, target, {}))
        case list():
            ways += [(f"{place}/{index}", one, {}) for index, one in enumerate(target)]
        case dict():
            ways += [(place + step(label), to, {"on": label}) for label, to in target.items()]
        case _:
            return target
    branches: list[Any] = []
    for origin, to, label in ways:
        if to is None and label:
            hint = "lead the branch to a state without transitions"
            ledger.note("not-mapped", "a branch that ends the workflow", origin, hint)
            continue
        ledger.origins[f"{base}/{len(branches)}"] = origin
        ledger.origins[f"{base}/{len(branches)}/target_state"] = origin
        name = ids.get(to, to) if isinstance(to, str) else to
        branches.append({"target_state": name, **label} if label or isinstance(to, str) else to)
    return branches
