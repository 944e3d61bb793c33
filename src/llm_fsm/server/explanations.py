"""Explanations of turns as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from llm_fsm.engine.explain import Explanation


def explained(account: Explanation) -> dict[str, Any]:
    """Return an explanation; each note says in `type` what it is."""
    notes = [{"type": type(note).__name__.lower(), **asdict(note)} for note in account.notes]
    return {**asdict(account), "notes": notes}
