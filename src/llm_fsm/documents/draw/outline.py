"""Write a picture as text: an outline with one line per state and one per move, from the initial
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llm_fsm._json import grouped
from llm_fsm._text import shortened
from llm_fsm.definition.graph import reachable
from llm_fsm.documents.draw.extract import EVERYWHERE, UNKNOWN, DrawnState, Edge, Picture

_CHARS = 100
"""The most characters of a label or a reply."""


def outline(picture: Picture) -> str:
    """Return states as a tree in which each appears once, below the first move that leads to it."""
    below, order = _tree(picture)
    nodes = {node.id: node for node in picture.nodes}
    lines = [picture.name] if picture.name else []
    for root in order:
        lines += _branch(root, nodes, below, picture)
    lines += _shared(picture)
    return "\n".join(lines) + "\n"


def listing(picture: Picture) -> str:
    """Return states one below the other in order of the file, each with its moves."""
    lines = [picture.name] if picture.name else []
    below, _ = _tree(picture)
    offered = {edge.target for edge in picture.shared}
    seen = reachable(_graph(picture), [picture.initial]) if picture.initial is not None else set()
    for node in picture.nodes:
        if node.kind == UNKNOWN:
            continue
        apart = " (not reached)"
        if node.id in seen or node.id in offered:
            apart = ""
        lines += ["", _title(node, picture) + apart]
        lines += [f"  {line}" for line in _about(node)]
        lines += [f"  {_move(edge)}" for edge in below[node.id]]
    return "\n".join((*lines, "", *_shared(picture))).strip("\n") + "\n"


def _graph(picture: Picture) -> dict[str, list[str]]:
    graph = picture.targets()
    shared = [edge.target for edge in picture.shared]
    for node in picture.nodes:
        if node.kind == "converse":
            graph[node.id] += shared
    return graph


def _tree(picture: Picture) -> tuple[dict[str, list[Edge]], list[str]]:
    """Return state id to its moves, and the roots: the initial state, then the states that nothing
    leads to.
    """
    graph = picture.targets()
    below = grouped(((edge.source, edge) for edge in picture.own), graph)
    aimed = {edge.target for edge in picture.edges if edge.source != edge.target}
    roots = [] if picture.initial is None else [picture.initial]
    shared = [edge.target for edge in picture.shared]
    loose = [node.id for node in picture.nodes if node.id not in aimed]
    order = dict.fromkeys((*roots, *shared, *loose, *below))
    kept = []
    covered = set()
    for name in order:
        if name not in covered:
            kept.append(name)
            covered |= reachable(graph, [name])
    return below, kept


def _branch(
    root: str, nodes: Mapping[str, DrawnState], below: dict[str, list[Edge]], picture: Picture
) -> Iterator[str]:
    """Yield one root and its tree. Each state is opened where breadth-first search meets it
    first.
    """
    opened: dict[str, Edge | None] = {root: None}
    queue = [root]
    for name in queue:
        for out in below.get(name, ()):
            if out.target not in opened:
                opened[out.target] = out
                queue.append(out.target)
    stack: list[tuple[int, Edge | None]] = [(0, None)]
    while stack:
        level, edge = stack.pop()
        name = root if edge is None else edge.target
        indent = "  " * level
        if edge is not None and (opened.get(name) is not edge or name not in below):
            yield f"{indent}{_move(edge, again=True)}"
            continue
        if edge is not None:
            yield f"{indent}{_move(edge)}"
        else:
            yield f"{indent}{_title(nodes[name], picture)}"
        inner = level + 1
        node = nodes[name]
        shown = [f"({_kind(node)})"] if edge is not None and _kind(node) else []
        yield from (f"{'  ' * inner}{line}" for line in (*shown, *_about(node)))
        stack += [(inner, out) for out in reversed(below.pop(name, []))]


def _kind(node: DrawnState) -> str:
    kind = "" if node.kind == "converse" else node.kind
    lit = "highlighted" if node.lit else ""
    return ", ".join(filter(None, (kind, lit, node.level)))


def _title(node: DrawnState, picture: Picture) -> str:
    initial = "initial" if node.id == picture.initial else ""
    words = ", ".join(filter(None, (initial, _kind(node))))
    return f"{node.id} ({words})" if words else node.id


def _about(node: DrawnState) -> Iterator[str]:
    words = f'"{shortened(node.label, _CHARS)}"' if node.label else ""
    return node.lines(f'says "{shortened(node.reply, _CHARS)}"' if node.reply else words)


def _move(edge: Edge, *, again: bool = False) -> str:
    lit = "*" if edge.lit else ""
    how = " (auto)" if edge.how == "auto" else ""
    text = f": {shortened(edge.text, 160)}" if edge.text else ""
    level = f" ({edge.level})" if edge.level else ""
    return f"{lit}-> {edge.target}{' ^' if again else ''}{how}{text}{level}"


def _shared(picture: Picture) -> Iterator[str]:
    if picture.shared:
        yield f"{EVERYWHERE} (in every state that waits for the user)"
        yield from (f"  {_move(edge)}" for edge in picture.shared)
