"""Names of a definition in a file of its tests: their places, and tests that follow a renaming.

The places come from the models of the file: a field that is marked with `Naming` holds names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from llm_fsm._json import value_at
from llm_fsm.definition.marks import places_in
from llm_fsm.definition.naming import NamePlace, named_in
from llm_fsm.documents import renaming
from llm_fsm.documents.renaming import Renaming
from llm_fsm.testing.scenarios.models import Case, Suite

_COLUMN = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def renamed(text: str, renamings: Sequence[Renaming]) -> str:
    """Let a file of tests follow renamings of its definition. All other bytes stay.

    Args:
        text: The text of the file.
        renamings: The renamings. All are made at once, so two names can be swapped.

    Returns:
        The new text.

    Raises:
        PatchError: The text is no JSON, or an object has the old and the new key.
    """
    return renaming.renamed(text, renamings, places)


def places(document: Any) -> Iterator[NamePlace]:
    """Yield the places of all names in a file of tests, also in one with faults.

    A place that holds a column of a table is that column of each row.
    """
    for place in (*places_in(Suite, document), *places_in(Case, document)):
        yield place
        if place.at_key:
            continue
        column = _COLUMN.fullmatch(value_at(document, place.pointer))
        if column is None:
            continue
        case = ""
        parts = place.pointer.split("/")
        if parts[1] == "cases":
            case = "/".join(parts[:3])
        rows = value_at(document, f"{case}/table")
        for number in range(len(rows) if isinstance(rows, list) else 0):
            cell = f"{case}/table/{number}/{column[1]}"
            yield from named_in(value_at(document, cell), cell, place.naming)
