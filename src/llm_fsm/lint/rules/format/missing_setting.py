"""States and tools that lack what their kind needs."""

from __future__ import annotations

from llm_fsm._json import JsonMap
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("F109", "error", at_key=True, blocks=False)
def decide_without_transitions(document: Document) -> Faults:
    """A state of kind `decide` has no transitions.

    Why it is bad:
    It has nothing to decide between, so every run that comes here is stuck.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "route"}]},
                   "route": {"kind": "decide"}}

    Fix:
    Add its transitions. A last one without conditions takes all other cases.
    """
    for name, state in document.states.items():
        if state.get("kind") == "decide" and not state.get("transitions"):
            yield Fault(
                f"state {quoted(name)} is to decide and has no transitions",
                pointer=state.pointer,
                hint='add "transitions", the last one without conditions',
            )


@lint_rule("T512", "error", at_key=True)
def subflow_without_flow(document: Document) -> Faults:
    """A state of kind `subflow` does not name the definition that it calls.

    Why it is bad:
    There is nothing to call, so the machine cannot continue from here.

    Example:
        "states": {"pay": {"kind": "subflow", "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Add `flow`: a relative path, or the name of a definition that the host registers.
    """
    for name, state in document.states.items():
        if state.get("kind") == "subflow" and state.get("flow") in (None, ""):
            yield Fault(
                f"state {quoted(name)} is a subflow and names no definition to call",
                pointer=state.pointer,
                hint='add "flow"',
            )


def _fault(tool: JsonMap, shown: str) -> str | None:
    bound = [key for key in ("registered", "mcp") if tool.get(key) is not None]
    if len(bound) != 1:
        return f"tool {shown} is bound {'both ways' if bound else 'to nothing'}"
    if bound == ["mcp"] and tool.get("tool") is None:
        return f'tool {shown} does not name its "tool" on the MCP server'
    return None


@lint_rule("S108", "error", at_key=True)
def bad_tool(document: Document) -> Faults:
    """A tool is bound to nothing, to two things, or to an MCP server without the name of a tool.

    Why it is bad:
    No call of it could be made.

    Example:
        "tools": {"search": {"mcp": "library"}}, "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    Write either `{"registered": "name"}` or `{"mcp": "server alias", "tool": "name"}`.
    """
    for tool in document.root.members("tools"):
        fault = _fault(tool.value, quoted(tool.name))
        if fault is not None:
            way = 'write either {"registered": "name"} or {"mcp": "server alias", "tool": "name"}'
            yield Fault(fault, pointer=tool.pointer, hint=way)
