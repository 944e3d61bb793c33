"""Graphs against networkx, which says the same by other means."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.graph import (
    components,
    gathered,
    path_in,
    reachable,
    reversed_graph,
    search_tree,
    shortest_path,
    shortest_round,
)

NODES = [f"n{number}" for number in range(7)]
GRAPHS = st.fixed_dictionaries(
    {node: st.lists(st.sampled_from(NODES), max_size=4) for node in NODES}
)


def oracle(graph: dict[str, list[str]]) -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from(graph)
    made.add_edges_from((node, target) for node, targets in graph.items() for target in targets)
    return made


@given(GRAPHS)
def test_reachable_nodes_are_those_with_a_path(graph: dict[str, list[str]]) -> None:
    assert reachable(graph, ["n0"]) == {"n0"} | nx.descendants(oracle(graph), "n0")
    assert reachable(reversed_graph(graph), ["n0"]) == {"n0"} | nx.ancestors(oracle(graph), "n0")


@given(GRAPHS)
def test_components_are_strongly_connected(graph: dict[str, list[str]]) -> None:
    expected = {frozenset(found) for found in nx.strongly_connected_components(oracle(graph))}
    found = components(graph)
    assert {frozenset(members) for members in found} == expected
    assert sum(map(len, found)) == len(NODES)


@given(GRAPHS, st.sampled_from(NODES))
def test_shortest_path_is_shortest(graph: dict[str, list[str]], goal: str) -> None:
    made = oracle(graph)
    path = shortest_path(graph, "n0", [goal])
    if nx.has_path(made, "n0", goal):
        assert len(path) == len(nx.shortest_path(made, "n0", goal))
        assert (path[0], path[-1]) == ("n0", goal)
        assert all(target in graph[node] for node, target in pairwise(path))
    else:
        assert path == ()


@given(GRAPHS, st.sampled_from(NODES))
def test_a_search_tree_has_a_shortest_path_to_every_node_that_is_reached(
    graph: dict[str, list[str]], goal: str
) -> None:
    tree = search_tree(graph, "n0")
    assert set(tree) == reachable(graph, ["n0"])
    assert len(path_in(tree, goal)) == len(shortest_path(graph, "n0", [goal]))


@given(GRAPHS, st.sampled_from(NODES))
def test_a_shortest_round_comes_back_as_soon_as_possible(
    graph: dict[str, list[str]], node: str
) -> None:
    lengths = [len(path) for after in graph[node] if (path := shortest_path(graph, after, [node]))]
    found = shortest_round(graph, node)
    assert len(found) == (min(lengths) + 1 if lengths else 0)
    assert all(target in graph[one] for one, target in pairwise(found))


def test_long_chains_need_no_recursion() -> None:
    chain = {str(number): [str(number + 1)] for number in range(20_000)}
    assert len(components(chain)) == 20_001
    assert len(shortest_path(chain, "0", ["20000"])) == 20_001


@given(GRAPHS, st.dictionaries(st.sampled_from(NODES), st.integers(0, 255)))
def test_bits_are_gathered_along_all_paths(
    graph: dict[str, list[str]], given_bits: dict[str, int]
) -> None:
    for own in (False, True):
        found = gathered(graph, given_bits, own=own)
        for node in NODES:
            before = {
                one
                for one in NODES
                if any(node in reachable(graph, [after]) for after in graph[one])
            }
            expected = 0
            for one in before | ({node} if own else set()):
                expected |= given_bits.get(one, 0)
            assert found[node] == expected
