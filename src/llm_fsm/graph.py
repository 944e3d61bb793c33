"""Directed graphs of state ids: what is reachable, what belongs together, and the shortest way.

All functions take an adjacency mapping, node to successors; nodes that are named only as successors count
too. Orders are those of the mapping, so answers are the same each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

Graph = Mapping[str, Sequence[str]]


def reachable(graph: Graph, starts: Iterable[str]) -> set[str]:
    """Every node on a path from one of `starts`, these included."""
    seen = set(starts)
    queue = list(seen)
    while queue:
        for target in graph.get(queue.pop(), ()):
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return seen


def reversed_graph(graph: Graph) -> dict[str, list[str]]:
    """The graph with every edge turned round."""
    turned: dict[str, list[str]] = {node: [] for node in graph}
    for node, targets in graph.items():
        for target in targets:
            turned.setdefault(target, []).append(node)
    return turned


def shortest_path(graph: Graph, start: str, goals: Iterable[str], avoid: Iterable[str] = ()) -> tuple[str, ...]:
    """A path of fewest edges from `start` to a goal that enters no node of `avoid`; () when there is none."""
    wanted, closed = frozenset(goals), frozenset(avoid)
    if start in closed:
        return ()
    before: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node in wanted:
            path = [node]
            while (previous := before[path[-1]]) is not None:
                path.append(previous)
            return tuple(reversed(path))
        for target in graph.get(node, ()):
            if target not in before and target not in closed:
                before[target] = node
                queue.append(target)
    return ()


def components(graph: Graph) -> list[tuple[str, ...]]:
    """Strongly connected components, each in order of discovery (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[tuple[str, ...]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.append(member)
                        if member == node:
                            break
                    found.append(tuple(sorted(members, key=index.__getitem__)))
    return found
