"""Recognise files of other tools, so that a message says whose file it is and guesses no names."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from llm_fsm._json import of_kind

_YAML_KEY = re.compile(r"^(?:- )?([A-Za-z_][A-Za-z0-9_-]{0,40}):(?:\s|$)", re.MULTILINE)
_YAML_BEGINNING = re.compile(r"(?:\s|#[^\n]*\n|---\s*\n|%YAML[^\n]*\n)*(?:- )?[A-Za-z_][\w-]*:\s")
_HEAD = 20_000
"""Characters of a text that are searched for its keys."""


class OtherTool(NamedTuple):
    """A tool, the keys that its files have at the top, and what to do with one."""

    name: str
    keys: str
    hint: str


_RASA = "docs/how-to/migrate-from-rasa.md says what becomes of its parts"
_PIPECAT = "docs/how-to/migrate-from-pipecat.md says what becomes of its parts"
_DIALOGFLOW = "docs/how-to/migrate-from-dialogflow-cx.md says what becomes of its parts"
_WRITE_ONE = "`llm-fsm new` writes a definition to begin with"
_TOOLS = (
    ("an XState machine", "id initial states", "`llm-fsm convert` reads it"),
    ("a Pipecat flow", "initial_node nodes", _PIPECAT),
    ("a Dialogflow CX flow", "transitionRoutes", _DIALOGFLOW),
    ("a Dialogflow CX page", "displayName form", _DIALOGFLOW),
    ("a skill of Watson Assistant", "dialog_nodes", _WRITE_ONE),
    ("a Dialogflow ES agent", "defaultTimezone language", _WRITE_ONE),
    ("an Alexa skill", "interactionModel", _WRITE_ONE),
    ("an Amazon Lex bot", "metadata resource", _WRITE_ONE),
    ("a Botpress flow", "startNode nodes", _WRITE_ONE),
    ("a Typebot", "groups edges", _WRITE_ONE),
    ("a Voiceflow project", "diagrams version", _WRITE_ONE),
    ("an OpenAPI document", "openapi paths", _WRITE_ONE),
    ("a file of Rasa", "flows", _RASA),
    ("a file of Rasa", "nlu", _RASA),
    ("a file of Rasa", "stories", _RASA),
    ("a file of Rasa", "intents", _RASA),
    ("an Amazon States Language file", "StartAt States", _WRITE_ONE),
    ("an n8n workflow", "nodes connections", _WRITE_ONE),
    ("a Flowise or LangFlow graph", "nodes edges", _WRITE_ONE),
    ("a Dify app", "app workflow", _WRITE_ONE),
    ("a LangGraph configuration", "graphs", _WRITE_ONE),
)
NODE_RED = OtherTool("a flow of Node-RED", "", _WRITE_ONE)


def tool_of(keys: Collection[str]) -> OtherTool | None:
    """Return the tool whose file has these keys at the top; None for a file of ours or nobody's."""
    if "initial_state" in keys or {"name", "states"}.issubset(keys):
        return None
    for name, needed, hint in _TOOLS:
        if set(needed.split()).issubset(keys):
            return OtherTool(name, needed, hint)
    return None


def is_node_red(value: object) -> bool:
    """Return true for the flows of Node-RED, which are a list of nodes with wires."""
    if not isinstance(value, list) or not value:
        return False
    nodes = of_kind(value, dict)
    return any({"id", "type", "wires"} <= node.keys() for node in nodes)


def yaml_keys(text: str) -> list[str] | None:
    """Return the keys at the top of a YAML text; None for any other text."""
    if _YAML_BEGINNING.match(text[:_HEAD]) is None:
        return None
    return _YAML_KEY.findall(text[:_HEAD])
