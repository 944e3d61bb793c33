"""Tools that are bound to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


def _fault(tool: Mapping[str, Any], shown: str) -> str | None:
    bound = [key for key in ("registered", "mcp") if tool.get(key) is not None]
    if len(bound) != 1:
        return f"tool {shown} is bound {'both ways' if bound else 'to nothing'}"
    if bound == ["mcp"] and tool.get("tool") is None:
        return f'tool {shown} does not name its "tool" on the MCP server'
    return None


@lint_rule("S108", "error", at_key=True)
def bad_tool(document: Document) -> Iterator[Finding]:
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
            yield bad_tool.finding(fault, pointer=tool.pointer, hint=way)
