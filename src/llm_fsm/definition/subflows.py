"""The definitions of a machine: the one that is started and the ones that it calls.

`documents.subflows` finds and loads them. Here they are values, with one canonical JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.definition.models import Definition

MAX_DEPTH = 8
"""The most definitions that may run at once, each called by the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One definition of a machine. `calls`: id of a subflow state to the name of the called
    definition.
    """

    definition: Definition
    calls: TextMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """All definitions of a machine: the one that is started, and those that are called, by name."""

    root: Flow
    called: Mapping[str, Flow] = field(default_factory=dict)


def document_of(flows: Flows) -> str:
    """Return all definitions of a machine as one canonical JSON text; only the definition's own if
    it calls none.
    """
    if not flows.called:
        return flows.root.definition.canonical
    called = {name: _plain(flow) for name, flow in flows.called.items()}
    return json.dumps(
        {**_plain(flows.root), "called": called}, sort_keys=True, separators=(",", ":")
    )


def _plain(flow: Flow) -> JsonDict:
    return {"definition": json.loads(flow.definition.canonical), "calls": dict(flow.calls)}


def read_document(text: str) -> Flows:
    """Return the definitions in a text of `document_of`. Raises ValidationError for other texts."""
    document = json.loads(text)
    if "called" not in document:
        return Flows(root=Flow(definition=Definition.model_validate_json(text)))
    return Flows(
        root=_read(document),
        called={name: _read(flow) for name, flow in document["called"].items()},
    )


def secret_keys(text: str) -> frozenset[str]:
    """Return the keys that are secret in any definition in a text of `document_of`."""
    flows = read_document(text)
    secret: set[str] = set()
    for flow in (flows.root, *flows.called.values()):
        secret.update(filter(flow.definition.is_secret, flow.definition.key_schemas))
    return frozenset(secret)


def _read(document: JsonMap) -> Flow:
    text = json.dumps(document["definition"])
    return Flow(definition=Definition.model_validate_json(text), calls=document["calls"])
