"""Which other definitions a document calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:|[a-z]+://")


def is_path(flow: str) -> bool:
    """True for a path; other names are those of definitions that the host registers."""
    return "/" in flow or "\\" in flow or flow.endswith((".json", ".jsonc"))


def is_absolute(flow: str) -> bool:
    """True for a path that does not begin at the file that names it."""
    return _ABSOLUTE.match(flow) is not None


def flow_paths(document: Mapping[str, Any] | None) -> Iterator[str]:
    """The relative paths that a document's states name under `flow`."""
    states = (document or {}).get("states")
    for state in states.values() if isinstance(states, dict) else ():
        flow = state.get("flow") if isinstance(state, dict) else None
        if isinstance(flow, str) and is_path(flow) and not is_absolute(flow):
            yield flow
