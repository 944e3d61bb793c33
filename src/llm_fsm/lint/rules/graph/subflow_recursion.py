"""Subflows that call each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, FlowReader
from llm_fsm.lint.facts.subflows import flow_paths, is_path
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.rule import lint_rule

_MOST = 200
"""Files that are looked at in search of a circle."""


def _way_back(read: FlowReader, home: str, file: str, document: Mapping[str, Any] | None) -> list[str] | None:
    """The files from `file` to `home`, both included; None where no call leads there. Breadth first."""
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
    """(state id, what it calls) of every subflow."""
    named = ((name, state.value.get("flow")) for name, state in document.states.items())
    return [(name, flow) for name, flow in named if isinstance(flow, str) and document.kind_of(name) == "subflow"]


def _ways(document: Document) -> Iterator[tuple[str, list[str]]]:
    """State and the way on which its call comes home; names of registered definitions lead home at once or never."""
    own, read = document.root.value.get("name"), document.read_flow
    calls = _calls(document)
    paths = [(name, flow) for name, flow in calls if is_path(flow)]
    yield from ((name, [flow]) for name, flow in calls if flow == own and not is_path(flow))
    if not paths or read is None or document.file is None:
        return
    home = read(_basename(document.file), None).file
    for name, flow in paths:
        after, called, _ = read(flow, None)
        way = _way_back(read, home, after, called)
        if way is not None:
            yield name, way


@lint_rule("F113", "error", blocks=False)
def subflow_recursion(document: Document) -> Iterator[Finding]:
    """A subflow calls, directly or through others, the definition that it belongs to.

    Why it is bad:
    Each call would begin the same machine once more inside itself, without end. The machine cannot be made.

    Example:
        "name": "booking",
        "states": {"again": {"kind": "subflow", "flow": "booking", "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Lead back by a transition instead of calling the machine again. This machine's own name as a registered one is a
    warning only: the host may register another definition under it.
    """
    for name, way in _ways(document):
        through = f" through {route(way[:-1])}" if way[:-1] else ""
        yield subflow_recursion.finding(
            f"state {quoted(name)} calls its own machine{through}",
            pointer=document.states[name].pointer + "/flow",
            hint="lead back by a transition instead",
            level="error" if is_path(str(document.states[name].value.get("flow"))) else "warning",
        )


def _basename(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
