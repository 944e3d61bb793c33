"""Subflows whose file, mapping or ending does not fit the definition that they call."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import JsonMap
from llm_fsm.definition.graph import reachable
from llm_fsm.definition.names import declared_key
from llm_fsm.lint.document import Document, FlowReader
from llm_fsm.lint.facts.endings import ends, graph_without_returns
from llm_fsm.lint.facts.subflows import (
    called,
    flow_paths,
    is_absolute,
    is_path,
    leads_out,
    mapping_fault,
    side,
)
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.graph import path_to, reached_states, states_of_kind
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("F114", "error", blocks=False)
def missing_flow(document: Document) -> Faults:
    """The file of a subflow does not exist, is no definition, or is outside the folder of its caller.

    Why it is bad:
    There is nothing to call, so the machine cannot be made.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "/tmp/payment.json", "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Correct the path, which is relative to the file that names it. Neither the path nor a link may leave the folder of
    the first file. A name without a slash and without `.json` is a definition that the host registers.
    """
    for state in document.states.values():
        flow = state.get("flow")
        pointer = state.pointer + "/flow"
        if not isinstance(flow, str) or not is_path(flow):
            continue
        if is_absolute(flow):
            message = f"{quoted(flow)} is not a relative path"
            yield Fault(message, pointer=pointer, hint="name a file of the same folder tree")
        elif document.read_flow is not None:
            place, found, why = document.read_flow(flow, None)
            if leads_out(flow):
                yield Fault(
                    f"{quoted(flow)} leads out of the folder of this file: a machine that begins"
                    " here cannot call it",
                    pointer=pointer,
                    hint="keep a machine's files in one folder tree, and begin with the one at"
                    " its root",
                    level="warning" if found is not None else None,
                )
            elif found is None:
                yield Fault(
                    f"there is no definition in {quoted(place)}: {why}",
                    pointer=pointer,
                    hint="the path is relative to this file",
                )


_MOST = 200
"""The most files to search for a loop."""


def _way_back(read: FlowReader, home: str, file: str, document: JsonMap | None) -> list[str] | None:
    """Return the files from `file` to `home`, both included, breadth first; None if no call leads
    there.
    """
    before: dict[str, str | None] = {file: None}
    queue = [(file, document)]
    for here, content in queue:
        if here == home:
            way = [here]
            while (previous := before[way[-1]]) is not None:
                way.append(previous)
            return way[::-1]
        for path in flow_paths(content):
            after, inner, _ = read(path, here)
            if after not in before and len(before) < _MOST:
                before[after] = here
                queue.append((after, inner))
    return None


def _calls(document: Document) -> list[tuple[str, str]]:
    """Return (state id, called name) for every subflow."""
    named = [(name, state.get("flow")) for name, state in states_of_kind(document, "subflow")]
    return [(name, flow) for name, flow in named if isinstance(flow, str)]


def _ways(document: Document) -> Iterator[tuple[str, list[str]]]:
    """Yield each state with the path on which its call returns here; a registered name does so at
    once or never.
    """
    own = document.root.get("name")
    read = document.read_flow
    calls = _calls(document)
    paths = [(name, flow) for name, flow in calls if is_path(flow)]
    yield from ((name, [flow]) for name, flow in calls if flow == own and not is_path(flow))
    if not paths or read is None or document.file is None:
        return
    home = read(document.file.replace("\\", "/").rpartition("/")[2], None).file
    for name, flow in paths:
        after, called, _ = read(flow, None)
        way = _way_back(read, home, after, called)
        if way is not None:
            yield name, way


@lint_rule("F113", "error", blocks=False)
def subflow_recursion(document: Document) -> Faults:
    """A subflow calls, directly or through others, the definition that it belongs to.

    Why it is bad:
    Each call would begin the same machine again inside itself, without end. The machine cannot be made.

    Example:
        "name": "booking",
        "states": {"again": {"kind": "subflow", "flow": "booking", "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Lead back by a transition instead of calling the machine again. This machine's own name as a registered one is a
    warning only: the host may register another definition under it.
    """
    for name, way in _ways(document):
        through = ""
        if way[:-1]:
            through = f" through {route(way[:-1])}"
        yield Fault(
            f"state {quoted(name)} calls its own machine{through}",
            pointer=document.states[name].pointer + "/flow",
            hint="lead back by a transition instead",
            level="error" if is_path(str(document.states[name].get("flow"))) else "warning",
        )


@lint_rule("R903", "error", blocks=False)
def flow_mapping(document: Document) -> Faults:
    """The `input` or `output` of a subflow names an unknown key, or maps a secret to a public key.

    Why it is bad:
    The value never arrives, or a value that must stay out of prompts and logs would be shown in them. The machine
    cannot be made.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "payment.json", "output": {"paid": "piad"},
                           "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    `input` is key of the called definition ← key here, `output` is key here ← key of the called definition. Correct
    the name, or declare the key with `x-secret` on both sides. Definitions that the host registers are looked at when
    the machine is made.
    """
    here = side(document)
    for name, inner in called(document).items():
        state = document.states[name]
        there = side(inner)
        for option, taker, giver in (("input", there, here), ("output", here, there)):
            for pointer, key, source_key in state.mapping(option):
                own = source_key if option == "input" else key
                fault = None
                if here.keys is None or declared_key(own, here.keys) is not None:
                    fault = mapping_fault(key, source_key, taker, giver)
                if fault is not None:
                    yield Fault(fault[0], pointer, fault[1])


_ALWAYS = ("default", "cancelled")


@lint_rule("T518", "warning")
def unknown_ending(document: Document) -> Faults:
    """A subflow names an ending that the called definition does not have, or lacks one.

    Why it is bad:
    A transition with `on` waits for a final state of that name. The run ends there, stuck, if no label fits and no
    transition has `default` or no label.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "payment.json",
                           "transitions": [{"target_state": "done", "on": "piad"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Write the id of a final state of the called definition, `cancelled` or `default`.
    """
    for name, inner in called(document).items():
        transitions = list(document.states[name].items("transitions"))
        last = [end for end in inner.states if end in ends(inner)]
        if not last or not transitions:
            continue
        for transition in transitions:
            label = transition.get("on")
            if isinstance(label, str) and label.strip() not in (*last, *_ALWAYS):
                yield Fault(
                    f'no final state of the called definition is named {quoted(label)}: "on"'
                    " never fits",
                    pointer=transition.pointer + "/on",
                    hint=document.speller.hint(label, last, "final states"),
                )
        labels = [transition.get("on") for transition in transitions]
        graph = graph_without_returns(inner)
        on_the_way = (
            reached_states(inner) if inner.initial is None else reachable(graph, [inner.initial])
        )
        left = [end for end in last if end in on_the_way and end not in labels]
        if left and None not in labels and "default" not in labels:
            yield Fault(
                f"state {quoted(name)} has no transition for what the called definition ends in: "
                f"{', '.join(map(quoted, left[:4]))}",
                pointer=document.states[name].pointer + "/transitions",
                hint='add one with "on": "default"',
                path=path_to(document, name),
            )
