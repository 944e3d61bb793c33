from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.registry import convert


def document(text: str) -> dict[str, Any]:
    return dict(convert(text, "dot", "x").document)


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (name, move["target_state"], move.get("description", ""))
        for name, state in found["states"].items()
        for move in state.get("transitions", ())
    ]


def test_the_classic_automaton() -> None:
    text = """
// finite state machine
digraph finite_state_machine {
    rankdir=LR;
    node [shape = doublecircle]; LR_0 LR_3;
    node [shape = point]; qi
    node [shape = circle];
    qi -> LR_0;
    LR_0 -> LR_2 [label = "SS(B)"];
    LR_0 -> LR_3 [label = "SS(S)"];
}
"""
    found = document(text)
    assert found["name"] == "finite_state_machine"
    assert found["initial_state"] == "LR_0"
    assert found["states"]["LR_3"] == {"kind": "final"}
    assert moves(found) == []
    assert "arrows that leave the final state" in convert(text, "dot", "x").notes[0].message


def test_chains_groups_defaults_and_comments() -> None:
    text = """strict digraph "a b" { # not a comment here
# a comment
    edge [label=next]
    a -> b -> {c d} /* both */ -> e:port:n [label="x [k == 1]"];
    subgraph cluster_1 { label="frame"; f; g }
    "graph" -> <b>; A1 -> f
}"""
    found = convert(text.replace(" # not a comment here", ""), "dot", "x")
    assert moves(dict(found.document)) == [
        ("a", "b", "x"),
        ("b", "c", "x"),
        ("b", "d", "x"),
        ("c", "e", "x"),
        ("d", "e", "x"),
        ("graph", "b", "next"),
        ("A1", "f", "next"),
    ]
    assert [(note.message, note.line) for note in found.notes if note.lost] == [
        ("a cluster is a frame around states, and is not kept", 5)
    ]


@pytest.mark.parametrize(
    ("attributes", "purpose"),
    [
        ('label="line one\\nline two"', "line one\nline two"),
        ('label="\\N is here"', "a is here"),
        ('label="a\\nAsk"', "Ask"),
        ("label=<Ask <b>now</b><br/>&amp; here>", "Ask now\n& here"),
        ('label="R&amp;D"', "R&D"),
        ('label="one" + " two"', "one two"),
        ("color=red", None),
    ],
)
def test_labels(attributes: str, purpose: str | None) -> None:
    assert document(f"digraph {{ a [{attributes}]; a -> b }}")["states"]["a"].get("purpose") == purpose


def test_shapes_tell_kinds() -> None:
    found = document(
        'digraph { s [shape=diamond]; s -> x [label="[n > 1]"]; s -> y; x [peripheries=2]; start -> s; start [label=""'
        " shape=circle] }"
    )
    assert found["initial_state"] == "s"
    assert [state.get("kind") for state in found["states"].values()] == ["decide", "final", None]


@pytest.mark.parametrize(
    ("marker", "is_start"),
    [
        ("x [shape=point]", True),
        ('x [shape=none label=""]', True),
        ('x [shape=circle label=""]', True),
        ("x [style=invis]", True),
        ('x [shape=plaintext label="start"]', True),
        ("x [shape=circle]", False),
        ("x [shape=none]", False),
        ("x", False),
    ],
)
def test_a_mark_that_only_leads_somewhere_is_the_start(marker: str, is_start: bool) -> None:
    found = document(f"digraph {{ {marker}; x -> b; a -> b; b -> a }}")
    assert ("x" in found["states"]) is not is_start
    assert found["initial_state"] == ("b" if is_start else "x")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("digraph {\n a -> \n}", "expected a name", 3),
        ("digraph {\n a", "not closed", 2),
        ('digraph {\n a [label="x]\n}', "a quoted text has no end", 2),
        ("digraph { /* }", "a comment has no end", 1),
        ("digraph { a [label=<x] }", "an HTML label has no end", 1),
        ("digraph {}", "there are no states in it", None),
        ("digraph " + "{ {" * 60, "nested deeper than 50", 1),
        ("digraph { a ! b }", "unexpected '!'", 1),
        ("graph", "expected '{'", 1),
    ],
)
def test_what_is_no_graph_is_refused(text: str, message: str, line: int | None) -> None:
    with pytest.raises(ConversionError, match=message.replace("{", "\\{")) as caught:
        convert(text, "dot", "x")
    assert caught.value.line == line


def test_a_graph_without_directions_is_reported() -> None:
    found = convert("graph { a -- b }", "dot", "x")
    assert moves(dict(found.document)) == [("a", "b", "")]
    assert found.notes[0].message.startswith("the graph has no directions")
