"""Read coverage files: the number of touches of each place of a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT = 1


def counts_of(value: Any, name: str) -> Mapping[str, int] | None:
    """Return pointer to count for the definition of this name in a coverage file; None: not in it.

    Raises:
        ValueError: It is no coverage file.
    """
    if not isinstance(value, dict) or value.get("coverage") != FORMAT or not isinstance(value.get("definitions"), list):
        raise ValueError("this is no coverage file; `llm-fsm test --coverage FILE.json` makes one")
    for one in value["definitions"]:
        if isinstance(one, dict) and one.get("name") == name:
            kinds = [one.get(kind) for kind in ("states", "transitions")]
            return {
                place: int(count) for counts in kinds if isinstance(counts, dict) for place, count in counts.items()
            }
    return None
