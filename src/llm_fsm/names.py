"""Names that a definition file uses: what ids and keys look like, and the words that stand for themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

STATE_ID_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
KEY_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
"""Context keys that an author may name; those that begin with `_` belong to the system."""

Kind = Literal["converse", "decide", "final", "task", "wait", "subflow"]
PatternName = Literal[
    "correct",
    "cancel",
    "digress",
    "clarify",
    "repeat",
    "skip",
    "restart",
    "handover",
    "cannot_handle",
    "silence",
]

PATTERNS: tuple[str, ...] = get_args(PatternName)
"""All repair patterns, in the order in which prompts show them."""

ALIASES: Mapping[str, Mapping[str, str]] = {
    "State": {"objective": "purpose", "state_instructions": "instructions"},
}
"""Second names of keys by the model that has them, which `legacy` replaces before the form is looked at."""
