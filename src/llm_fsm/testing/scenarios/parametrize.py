"""Tables of inputs: one case played for each row, with the row's values in its texts.

`{{column}}` in a text is the row's value; where the text is nothing else, the value keeps its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from llm_fsm._json import JsonMap, as_text, step, without

_COLUMN = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_TEXTS = frozenset(
    {"say", "name", "description", "message", "question", "text", "contains", "matches", "equals"}
)
Row = JsonMap


def expanded(value: Any, row: Row, key: str = "") -> Any:
    """Return the value with the row's values in its texts and keys. Columns that the row lacks stay
    as they are.

    `key`: the key of the value; some keys hold texts only.
    """
    match value:
        case str():
            whole = _COLUMN.fullmatch(value)
            if whole is not None and whole[1] in row and key not in _TEXTS:
                return row[whole[1]]
            return _COLUMN.sub(
                lambda found: as_text(row[found[1]]) if found[1] in row else found[0], value
            )
        case list():
            return [expanded(item, row, key) for item in value]
        case dict():
            return {
                expanded(name, row, "name"): expanded(item, row, name)
                for name, item in value.items()
            }
    return value


def columns(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield every column that a value names, with the pointer of the text."""
    match value:
        case str():
            yield from ((name, pointer) for name in _COLUMN.findall(value))
        case list():
            for index, item in enumerate(value):
                yield from columns(item, f"{pointer}/{index}")
        case dict():
            for key, item in value.items():
                yield from columns(item, f"{pointer}{step(key)}")


def lacking(case: JsonMap, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the faults between a case and its rows: the pointer inside the case, and a sentence."""
    known = set(chain.from_iterable(rows))
    template = without(case, {"table"})
    named = list(columns(template))
    for name, pointer in named:
        if name not in known:
            yield pointer, f"no row of the table has the column {name}"
    used = {name for name, _ in named}
    for number, row in enumerate(rows):
        for name in sorted((used & known) - row.keys()):
            yield f"/table/{number}", f"this row lacks the column {name}, which the case names"
    for name in sorted(known - used):
        number = next(index for index, row in enumerate(rows) if name in row)
        yield f"/table/{number}{step(name)}", f"the case names the column {name} nowhere"


def named_apart(names: Sequence[str]) -> list[str]:
    """Return the names of a case's rows, with numbers if they are equal."""
    if len(set(names)) == len(names):
        return list(names)
    return [f"{name} [{number}]" for number, name in enumerate(names, start=1)]
