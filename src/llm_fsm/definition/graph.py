"""Directed graphs of state ids: reachable nodes, components, and shortest paths.

All functions take an adjacency mapping, node to successors. Nodes that are only successors also
count. Orders are those of the mapping, so results are the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Graph = Mapping[str, Sequence[str]]


def explored(
    starts: Iterable[Node], after: Callable[[Node], Iterable[Node]]
) -> dict[Node, Node | None]:
    """Return for each node that `starts` reach the one before it on a path of fewest edges; None
    for `starts`. `after` returns the nodes that follow one.
    """
    before: dict[Node, Node | None] = dict.fromkeys(starts)
    queue = list(before)
    for node in queue:  # it grows
        for target in after(node):
            if target not in before:
                before[target] = node
                queue.append(target)
    return before


def reachable(graph: Graph, starts: Iterable[str]) -> set[str]:
    """Return every node on a path from one of `starts`, including these."""
    return set(explored(starts, lambda node: graph.get(node, ())))


def reversed_graph(graph: Graph) -> dict[str, list[str]]:
    """Return the graph with every edge reversed."""
    turned: dict[str, list[str]] = {node: [] for node in graph}
    for node, targets in graph.items():
        for target in targets:
            turned.setdefault(target, []).append(node)
    return turned


def shortest_path(graph: Graph, start: str, goals: Iterable[str]) -> tuple[str, ...]:
    """Return a shortest path from `start` to a goal; () if there is none."""
    wanted = frozenset(goals)
    tree = search_tree(graph, start) if wanted else {}
    return next((path_in(tree, node) for node in tree if node in wanted), ())


def search_tree(graph: Graph, start: str) -> dict[str, str | None]:
    """Return for each node that `start` reaches the one before it on a path of fewest edges; None
    for `start`.
    """
    return explored([start], lambda node: graph.get(node, ()))


def path_in(tree: Mapping[Node, Node | None], goal: Node) -> tuple[Node, ...]:
    """Return the path of a search tree from its root to a node; () for a node outside it."""
    path = []
    node = goal if goal in tree else None
    while node is not None:
        path.append(node)
        node = tree[node]
    return tuple(reversed(path))


def shortest_round(graph: Graph, node: str) -> tuple[str, ...]:
    """Return a shortest path of at least one edge from a node back to it; () if there is none."""
    tree = search_tree(graph, node)
    last = next((here for here in tree if node in graph.get(here, ())), None)
    if last is None:
        return ()
    return (*path_in(tree, last), node)


def depth_first(graph: Graph, roots: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Walk through a graph depth first, without recursion.

    Args:
        graph: The graph.
        roots: The nodes to begin at, one after the other.

    Yields:
        Each node that the roots reach twice: with True when it is entered, with False when it is
        left.
    """
    seen = set()
    work = [("", iter(roots))]
    while work:
        node, targets = work[-1]
        target = next((one for one in targets if one not in seen), None)
        if target is not None:
            seen.add(target)
            yield target, True
            work.append((target, iter(graph.get(target, ()))))
            continue
        work.pop()
        if work:
            yield node, False


def components(graph: Graph) -> list[tuple[str, ...]]:
    """Return the strongly connected components, each in order of discovery (Sharir 1981)."""
    index: dict[str, int] = {}
    left = []
    for node, is_entered in depth_first(graph, graph):
        if is_entered:
            index[node] = len(index)
        else:
            left.append(node)
    before = reversed_graph(graph)
    found = []
    while left:
        members = explored([left[-1]], lambda node: [one for one in before[node] if one in index])
        found.append(tuple(sorted(members, key=index.__getitem__)))
        for node in members:
            del index[node]
        while left and left[-1] not in index:
            left.pop()
    return found[::-1]


def gathered(graph: Graph, given: Mapping[str, int], *, own: bool) -> dict[str, int]:
    """Return for each node all bits of the nodes on paths to it.

    The bits of the node itself only count if `own`. A node on a loop comes after itself.
    """
    arrived = dict.fromkeys(graph, 0)
    for members in reversed(components(graph)):
        inside = set(members)
        bits = 0
        for node in members:
            bits |= arrived[node]
        if len(members) > 1 or members[0] in graph.get(members[0], ()):
            for node in members:
                bits |= given.get(node, 0)
        for node in members:
            arrived[node] = bits
            leaving = bits | given.get(node, 0)
            for target in graph.get(node, ()):
                if target not in inside:
                    arrived[target] = arrived.get(target, 0) | leaving
    if own:
        return {node: bits | given.get(node, 0) for node, bits in arrived.items()}
    return arrived
