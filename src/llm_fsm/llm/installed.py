"""Adapters that other packages bring: the entry point group `llm_fsm.llms`.

An entry point's name stands before the first ":" or "/" of the model's name; it refers to a callable
`(model, *, api_key, environ) -> LLM`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "llm_fsm.llms"


def find(name: str) -> EntryPoint | None:
    """The installed adapter of this name, if there is one."""
    return next(iter(entry_points(group=GROUP, name=name)), None)


def names() -> list[str]:
    """The names of all installed adapters."""
    return sorted(entry_points(group=GROUP).names)
