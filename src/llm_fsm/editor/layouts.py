"""Positions of states, in a file beside the definition: one state a line, sorted, rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llm_fsm._json import JsonMap, json_text, object_at, texts_at, without_none
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.editor.folder import Folder, layout_path
from llm_fsm.editor.models import CanvasPoint, Layout

FAR = 1_000_000
"""The largest coordinate. A canvas that is larger can be scrolled by nobody."""


def read_layout(folder: Folder, path: str, document: object) -> Layout:
    """Return the positions of a file: those beside it, else those inside it.

    Args:
        folder: The folder.
        path: The path of the definition.
        document: The parsed definition, whose `ui` or `graph_layout` may have positions.

    Returns:
        The positions. A file of positions that cannot be read counts as none.
    """
    kept = folder.find(layout_path(path))
    if kept is None:
        return Layout(positions=_inside(document))
    try:
        value = parse(kept.text)
    except SourceError:
        return Layout(sha256=kept.sha256)
    names = texts_at(value, "folded")
    return Layout(
        positions=_points(object_at(value, "positions")), folded=names, sha256=kept.sha256
    )


def layout_text(positions: Mapping[str, CanvasPoint], folded: list[str]) -> str:
    """Return the text of positions, with one state a line, so that two people's moves merge."""
    rows = [
        f"    {json_text(name)}: {json_text([point.x, point.y])}"
        for name, point in sorted(positions.items())
    ]
    inner = ",\n".join(rows)
    placed = f"{{\n{inner}\n  }}" if rows else "{}"
    parts = [f'  "positions": {placed}']
    if folded:
        lines = ",\n".join(f"    {json_text(name)}" for name in sorted(set(folded)))
        parts.append(f'  "folded": [\n{lines}\n  ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _inside(document: object) -> dict[str, CanvasPoint]:
    found = object_at(object_at(document, "ui"), "positions") or object_at(document, "graph_layout")
    return _points(object_at(found, "positions") or found)


def _points(given: JsonMap) -> dict[str, CanvasPoint]:
    read = {name: _point(value) for name, value in given.items()}
    return without_none(read)


def _point(value: object) -> CanvasPoint | None:
    """Return the point of `[x, y]` or `{"x", "y"}`; None for anything else."""
    pair = value
    if isinstance(value, dict):
        pair = [value.get("x"), value.get("y")]
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    numbers = [one for one in pair if is_number(one)]
    if len(numbers) != 2 or not all(math.isfinite(one) and abs(one) <= FAR for one in numbers):
        return None
    return CanvasPoint(x=round(numbers[0]), y=round(numbers[1]))
