"""What the table-driven tests of rules share: machines written short, and the findings of one rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.registry import BY_NAME

Written = dict[str, Any]


def when(logic: Any = None, *keys: str) -> Written:
    """A condition."""
    found: Written = {"requires_context_keys": list(keys)} if keys else {}
    return found if logic is None else {**found, "logic": logic}


def to(target: str, *conditions: Written, **more: Any) -> Written:
    """A transition."""
    return {
        "target_state": target,
        "description": f"to {target}",
        "conditions": list(conditions),
        **more,
    }


def machine(
    states: Mapping[str, Any], schema: Mapping[str, Any] | None = None, **more: Any
) -> Written:
    """A document that begins in its first state; targets that are not described are final states."""
    full = {name: dict(state) for name, state in states.items()}
    targets = [
        move["target_state"] for state in states.values() for move in state.get("transitions", ())
    ]
    for target in targets:
        full.setdefault(target, {"kind": "final", "purpose": "End"})
    document: Written = {
        "name": "case",
        "initial_state": next(iter(states)),
        "states": full,
        **more,
    }
    if schema is not None:
        document["context_schema"] = {"type": "object", "properties": dict(schema)}
    return document


def found_by(name: str, document: Written) -> list[Finding]:
    """The findings of one rule."""
    return list(BY_NAME[name].findings(Document(Placed("", document))))


def briefly(findings: list[Finding]) -> list[tuple[str, str]]:
    """(level, pointer) of each finding."""
    return [(finding.level, finding.pointer) for finding in findings]
