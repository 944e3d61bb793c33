"""What the author of a text may make this program read or call.

A definition or a file of tests may name a model. To resolve such a name means to read a file, to
use a key of the environment, or to reach an address. So it depends on who wrote the text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

Author = Literal["operator", "stranger"]
"""`operator`: the text is a file that you play yourself. `stranger`: it came over a network, or
from an assistant, that may have read it on a poisoned page."""


def model_fault(author: Author, model: str, allowed: Collection[str] = ()) -> str | None:
    """Return why a text may not name a model.

    Args:
        author: The author of the text.
        model: The name of the model, which is not resolved.
        allowed: The names that the operator lets a stranger use.

    Returns:
        A sentence; None: it may be resolved.
    """
    if author == "operator":
        return None
    if model in allowed:
        return None
    return (
        f"a test from elsewhere names no model, and this one names {model!r:.100}; write its"
        " replies instead"
    )
