"""Draw a picture as boxes for a terminal: states one below the other, moves as rails on the right.

Every state that is entered from elsewhere has one rail. All moves to the state join it, and it ends
in the title line (`◀`). A move to the next box down is an arrow between the two. Lines that only
cross are drawn as `┼`. Rails that do not meet share a column (greedy colouring of intervals).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from llm_fsm._json import grouped
from llm_fsm.definition.graph import depth_first
from llm_fsm.documents.draw.extract import EVERYWHERE, UNKNOWN, DrawnState, Edge, Picture

_MIN_WIDTH = 24
_MAX_WIDTH = 64
_RAIL = 2
_JOINTS = "─┘┐┤"
"""The ends of moves at a rail that goes on to nowhere, upwards, downwards, and both ways."""
_NO_RAIL = " " * _RAIL
_FLAT = "─"
_MARKS: Mapping[str | None, str] = {
    None: "",
    "info": " (i)",
    "warning": " (!)",
    "error": " (✖)",
    "covered": " (✓)",
    "missed": " (✗)",
}
_EDGES: Mapping[bool, str] = {False: "┌─┐│└┘├", True: "╔═╗║╚╝╠"}


@dataclass(frozen=True, slots=True)
class _Port:
    """A line of the drawing from which a move leaves, or at which a rail ends."""

    row: int
    target: str


@dataclass(slots=True)
class _Sheet:
    """The lines so far, with the ports for the rails beside them."""

    width: int
    lines: list[str] = field(default_factory=list)
    exits: list[_Port] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)


def boxes(picture: Picture, width: int = 100) -> str:
    """Return the drawing, at most `width` cells wide if its rails leave enough room."""
    order = _ordered(picture)
    nodes = {node.id: node for node in picture.nodes}
    moves = grouped(((edge.source, edge) for edge in picture.own), order)
    down = _straight(order, moves)
    railed: set[str] = set()
    for name in order:
        railed.update(edge.target for edge in moves[name] if down.get(name) is not edge)
    room = width - _RAIL * (len(railed) + 2)
    sheet = _Sheet(width=max(_MIN_WIDTH, min(_MAX_WIDTH, room, _wanted(picture, moves))))
    for name in order:
        _box(sheet, nodes[name], moves[name], down.get(name), picture)
    _everywhere(sheet, picture, width)
    return "\n".join(line.rstrip() for line in _with_rails(sheet)) + "\n"


def _ordered(picture: Picture) -> list[str]:
    """Return states in reverse order of leaving them in a depth-first walk, so that most moves lead
    downwards.
    """
    below = {name: targets[::-1] for name, targets in picture.targets().items()}
    starts = [] if picture.initial is None else [picture.initial]
    order = []
    left = []
    depth = 0
    for name, is_entered in depth_first(below, (*starts, *below)):
        depth += 1 if is_entered else -1
        if not is_entered:
            left.append(name)
        if not depth:
            order += left[::-1]
            left.clear()
    return order


def _straight(order: Sequence[str], moves: Mapping[str, Sequence[Edge]]) -> dict[str, Edge]:
    """Return state id to its move to the box just below, which is drawn as an arrow between
    them.
    """
    found = {}
    for name, following in pairwise(order):
        for edge in moves[name]:
            if edge.target == following:
                found[name] = edge
                break
    return found


def _wanted(picture: Picture, moves: Mapping[str, Sequence[Edge]]) -> int:
    texts = [len(node.id) + len(node.kind) + 14 for node in picture.nodes]
    texts += [cell_len(node.label) + 4 for node in picture.nodes]
    for edges in moves.values():
        texts += [cell_len(_said(edge)) + 6 for edge in edges]
    return max(texts, default=_MIN_WIDTH)


def _box(
    sheet: _Sheet, node: DrawnState, moves: Sequence[Edge], down: Edge | None, picture: Picture
) -> None:
    left, flat, right, side, low_left, low_right, out = tuple(_EDGES[node.lit])
    inner = sheet.width - 4
    kind = "" if node.kind == "converse" else f" ({node.kind})"
    start = "● " if node.id == picture.initial else ""
    title = f"{start}{node.id}{kind}{_MARKS[node.level]}"
    sheet.lines.append(left + flat * (sheet.width - 2) + right)
    sheet.entries[node.id] = len(sheet.lines)
    sheet.lines.append(f"{side} {fitted(title, inner)} {side}")
    sheet.lines += [f"{side} {fitted(text, inner)} {side}" for text in node.lines(node.label)]
    for edge in moves:
        if edge is not down:
            sheet.exits.append(_Port(len(sheet.lines), edge.target))
            sheet.lines.append(f"{side} {fitted(_said(edge), inner - 1, right=True)} ─{out}")
    sheet.lines.append(low_left + flat * (sheet.width - 2) + low_right)
    if down is not None:
        arrow = "║" if down.lit else "│"
        text = f"  {arrow} {_said(down)}".rstrip()
        sheet.lines += [fitted(text, sheet.width), fitted("  ▼", sheet.width)]
    elif node.kind != UNKNOWN:
        sheet.lines.append(" " * sheet.width)


def _said(edge: Edge) -> str:
    how = "auto: " if edge.how == "auto" else ""
    return f"{'▶ ' if edge.lit else ''}{how}{edge.text}{_MARKS[edge.level]}"


def _everywhere(sheet: _Sheet, picture: Picture, width: int) -> None:
    """Draw global transitions, once, below everything."""
    if not picture.shared:
        return
    sheet.lines.append(fitted(f"{EVERYWHERE} in every state that waits for the user:", sheet.width))
    for edge in picture.shared:
        text = f"    → {edge.target}" + (f": {_said(edge)}" if _said(edge) else "")
        sheet.lines.append(fitted(text, max(sheet.width, width)))


def _with_rails(sheet: _Sheet) -> list[str]:
    spans: dict[str, tuple[int, int]] = {}
    ends = {}
    for port in sheet.exits:
        row = sheet.entries[port.target]
        low, high = spans.get(port.target, (row, row))
        spans[port.target] = (min(low, port.row), max(high, port.row))
        ends[port.row] = ends[row] = port.target
    columns = _columns(spans)
    count = max(columns.values(), default=-1) + 1
    alone = [_NO_RAIL] * count
    crossed = [_FLAT * _RAIL] * count
    drawn = []
    for row, line in enumerate(sheet.lines):
        target = ends.get(row)
        if target is None:
            drawn.append(line + "".join(alone))
            continue
        at, (low, high) = columns[target], spans[target]
        sign = _JOINTS[(row > low) + 2 * (row < high)]
        meeting = "".join((*crossed[:at], _FLAT * (_RAIL - 1), sign, *alone[at + 1 :]))
        drawn.append(line + ("◀" + meeting[1:] if row == sheet.entries[target] else meeting))
        alone[at] = " " * (_RAIL - 1) + "│" if row < high else _NO_RAIL
        crossed[at] = _FLAT * (_RAIL - 1) + ("┼" if row < high else _FLAT)
    return drawn


def _columns(spans: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return each rail's column, counted from 0, with short rails next to the boxes."""
    used: list[list[tuple[int, int]]] = []
    columns = {}
    for target, (low, high) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        places = (
            (column, place)
            for column, taken in enumerate(used)
            if (place := _gap(taken, low, high)) is not None
        )
        column, place = next(places, (len(used), 0))
        if column == len(used):
            used.append([])
        used[column].insert(place, (low, high))
        columns[target] = column
    return columns


def _gap(taken: Sequence[tuple[int, int]], low: int, high: int) -> int | None:
    """Return the place of a span among others that are in order and do not overlap; None if it
    would overlap.
    """
    place = bisect_left(taken, (high + 1, 0))
    if place == 0 or taken[place - 1][1] < low:
        return place
    return None


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Cut or pad a text to exactly `width` cells of a terminal."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    pad = " " * (width - cell_len(text))
    if right:
        return pad + text
    return text + pad
