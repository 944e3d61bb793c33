"""Write a picture as a DOT digraph, which Graphviz draws. All names and texts are quoted
strings.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from textwrap import wrap

from llm_fsm._json import TextMap
from llm_fsm.documents.draw.extract import EVERYWHERE, SIGNS, DrawnState, Edge, Picture

START_ID = "[*]"
"""The point from which an arrow leads to the initial state."""

_WIDTH = 34
_LINES = 4
_SHAPES: TextMap = {
    "decide": 'shape=diamond style="filled" fillcolor="#fff3cd"',
    "task": 'shape=component style="filled" fillcolor="#e2ecff"',
    "wait": 'shape=octagon style="filled" fillcolor="#f1e6ff"',
    "subflow": 'shape=box3d style="filled" fillcolor="#e0f5f2"',
    "final": 'style="rounded,filled" fillcolor="#e6f4e6" peripheries=2',
    "unknown": 'style="rounded,dashed" color="#999999"',
}
_COLOURS: TextMap = {
    "info": "#2f5fb3",
    "warning": "#d97700",
    "error": "#c62828",
    "covered": "#2e7d32",
    "missed": "#c62828",
}
_FILLS: TextMap = {"covered": "#dff2df", "missed": "#ffd9d6"}
_LIT = "#b36b00"


def dot(picture: Picture, *, whole: bool = False) -> str:
    """Return the text of the digraph, with a line break at its end. `whole`: labels are neither
    wrapped nor cut.
    """
    shaped = _whole if whole else _wrapped
    lines = [
        f"digraph {_shown(picture.name or 'machine')} {{",
        '  graph [rankdir=TB nodesep=0.35 ranksep=0.45 fontname="Helvetica"]',
        '  node [shape=box style="rounded,filled" fillcolor="#ffffff" fontname="Helvetica"'
        " fontsize=11]",
        '  edge [fontname="Helvetica" fontsize=9 color="#555555"]',
    ]
    if picture.initial is not None:
        lines.append(f'  {quoted(START_ID)} [shape=point width=0.14 label="" fillcolor="#000000"]')
    lines += [_node(node, shaped) for node in picture.nodes]
    if picture.shared:
        lines.append(
            f'  "{EVERYWHERE}" [label="in every state that waits" style="rounded,dashed"'
            ' color="#777777"]'
        )
    if picture.initial is not None:
        lines.append(f"  {quoted(START_ID)} -> {quoted(picture.initial)}")
    lines += [_edge(edge, shaped) for edge in picture.edges]
    return "\n".join((*lines, "}")) + "\n"


def quoted(text: str) -> str:
    """Return a text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _shown(text: str) -> str:
    """Return a text as a label, in which Graphviz reads entities."""
    return quoted(text.replace("&", "&amp;"))


def _whole(text: str) -> str:
    return text


def _wrapped(text: str) -> str:
    lines = wrap(text, _WIDTH)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1][: _WIDTH - 1] + "…"]
    return "\n".join(lines)


def _node(node: DrawnState, shaped: Callable[[str], str]) -> str:
    parts = [SIGNS[node.level] + node.id, *map(shaped, node.lines(node.label))]
    attributes = [f"label={_shown(chr(10).join(parts))}"]
    if node.kind in _SHAPES:
        attributes.append(_SHAPES[node.kind])
    if node.level is not None:
        attributes.append(f'color="{_COLOURS[node.level]}" penwidth=2.5')
    if node.level is not None and node.level in _FILLS:
        attributes.append(f'fillcolor="{_FILLS[node.level]}"')
    if node.lit:
        attributes.append(f'fillcolor="#ffe08a" color="{_LIT}" penwidth=2.5')
    return f"  {quoted(node.id)} [{' '.join(attributes)}]"


def _edge(edge: Edge, shaped: Callable[[str], str]) -> str:
    attributes = list(_edge_attributes(edge, shaped))
    shown = ""
    if attributes:
        shown = f" [{' '.join(attributes)}]"
    return f"  {quoted(edge.source)} -> {quoted(edge.target)}{shown}"


def _said(edge: Edge) -> str:
    """Join label and guard. Brackets in the label become entities, so that the guard can be
    recognised.
    """
    label = html.escape(edge.label, quote=False).replace("[", "&#91;").replace("]", "&#93;")
    guards = html.escape(edge.words, quote=False).replace("[", "&#91;").replace("]", "&#93;")
    if guards:
        return f"{label} [{guards}]"
    return label


def _edge_attributes(edge: Edge, shaped: Callable[[str], str]) -> Iterator[str]:
    if shaped is _whole:
        label = quoted(_said(edge).strip())
    else:
        label = _shown(shaped(f"{SIGNS[edge.level]}{edge.text}".strip()))
    if label != '""':
        yield f"label={label}"
    if edge.everywhere or edge.how in ("timeout", "exhausted"):
        yield "style=dashed"
    if edge.how == "auto":
        yield "arrowhead=vee auto=true"
    if edge.level is not None:
        yield f'color="{_COLOURS[edge.level]}" penwidth=2'
    if edge.lit:
        yield f'color="{_LIT}" penwidth=3'
