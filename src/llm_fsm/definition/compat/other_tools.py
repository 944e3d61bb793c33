"""Recognise files of other tools, so that a message says whose file it is and guesses no names."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_YAML_KEY = re.compile(r"^(?:- )?([A-Za-z_][A-Za-z0-9_-]{0,40}):(?:\s|$)", re.MULTILINE)
_YAML_BEGINNING = re.compile(r"(?:\s|#[^\n]*\n|---\s*\n|%YAML[^\n]*\n)*(?:- )?[A-Za-z_][\w-]*:\s")
_HEAD = 20_000
"""Characters of a text that are searched for its keys."""


class OtherTool(NamedTuple):
    """A tool, the keys that its files have at the top, and what to do with one."""

    name: str
    keys: frozenset[str]
    hint: str


def _page(name: str) -> str:
    return f"docs/how-to/migrate-from-{name}.md says what becomes of its parts"


_WRITE_ONE = "`llm-fsm new` writes a definition to begin with"
_TOOLS = (
    OtherTool(
        "an XState machine", frozenset({"id", "initial", "states"}), "`llm-fsm convert` reads it"
    ),
    OtherTool("a Pipecat flow", frozenset({"initial_node", "nodes"}), _page("pipecat")),
    OtherTool("a Dialogflow CX flow", frozenset({"transitionRoutes"}), _page("dialogflow-cx")),
    OtherTool("a Dialogflow CX page", frozenset({"displayName", "form"}), _page("dialogflow-cx")),
    OtherTool("a file of Rasa", frozenset({"flows"}), _page("rasa")),
    OtherTool("a file of Rasa", frozenset({"nlu"}), _page("rasa")),
    OtherTool("a file of Rasa", frozenset({"stories"}), _page("rasa")),
    OtherTool("a file of Rasa", frozenset({"intents"}), _page("rasa")),
    OtherTool("an Amazon States Language file", frozenset({"StartAt", "States"}), _WRITE_ONE),
    OtherTool("an n8n workflow", frozenset({"nodes", "connections"}), _WRITE_ONE),
    OtherTool("a Flowise or LangFlow graph", frozenset({"nodes", "edges"}), _WRITE_ONE),
    OtherTool("a Dify app", frozenset({"app", "workflow"}), _WRITE_ONE),
    OtherTool("a LangGraph configuration", frozenset({"graphs"}), _WRITE_ONE),
)
NODE_RED = OtherTool("a flow of Node-RED", frozenset(), _WRITE_ONE)


def tool_of(keys: Collection[str]) -> OtherTool | None:
    """Return the tool whose file has these keys at the top; None for a file of ours or nobody's."""
    if "initial_state" in keys or {"name", "states"}.issubset(keys):
        return None
    return next((tool for tool in _TOOLS if tool.keys.issubset(keys)), None)


def is_node_red(value: object) -> bool:
    """Return true for the flows of Node-RED, which are a list of nodes with wires."""
    if not isinstance(value, list) or not value:
        return False
    nodes = [node for node in value if isinstance(node, dict)]
    return any({"id", "type", "wires"} <= node.keys() for node in nodes)


def yaml_keys(text: str) -> list[str] | None:
    """Return the keys at the top of a YAML text; None for any other text."""
    if _YAML_BEGINNING.match(text[:_HEAD]) is None:
        return None
    return _YAML_KEY.findall(text[:_HEAD])
