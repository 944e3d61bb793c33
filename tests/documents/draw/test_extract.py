from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.documents.draw.extract import Details, extract, faults_of_path, light, mark, one_line
from llm_fsm.errors import Finding

MACHINE: dict[str, Any] = {
    "name": "m",
    "initial_state": "a",
    "states": {
        "a": {
            "purpose": ["Ask", "twice"],
            "transitions": [
                {
                    "target_state": "b",
                    "conditions": [
                        {"requires_context_keys": ["k"]},
                        {"description": "is late", "logic": {">": [{"var": "h"}, 5]}},
                    ],
                }
            ],
        },
        "b": {"kind": "wait", "on_timeout": "a", "on_exhausted": "raise"},
    },
    "global_transitions": [{"target_state": "b", "description": "leave"}],
}


def test_conditions_are_words_else_expressions() -> None:
    assert [edge.guards for edge in extract(MACHINE).own] == [("k is known and is late",), ()]
    assert extract(MACHINE, Details(rules=True)).own[0].guards == ("k != null && h > 5",)
    assert extract(MACHINE, Details(conditions=False)).own[0].guards == ()


def test_time_outs_are_edges_and_texts_of_several_lines_one() -> None:
    picture = extract(MACHINE)
    assert [(edge.source, edge.target, edge.how) for edge in picture.edges] == [
        ("a", "b", "picked"),
        ("b", "a", "timeout"),
        ("*", "b", "picked"),
    ]
    assert [(node.id, node.kind, node.label) for node in picture.nodes] == [
        ("a", "converse", "Ask twice"),
        ("b", "wait", ""),
    ]


@pytest.mark.parametrize(
    "document",
    [{}, {"states": 3}, {"states": {"": {}}},
     {"states": {"a": None, "b": {"transitions": [1, {"target_state": 2}, {}]}}},
     {"states": {"a\n\x1b[2J": {"purpose": 5, "required_context_keys": [1]}}, "name": ["x"], "global_transitions": {}}],
)  # fmt: skip
def test_a_document_of_any_shape_has_a_picture(document: dict[str, Any]) -> None:
    picture = extract(document, Details(keys=True, tools=True))
    assert all(node.id.isprintable() for node in picture.nodes)


def test_a_path_lights_its_states_and_moves() -> None:
    picture = light(extract(MACHINE), path=("a", "b", "a"))
    assert [edge.lit for edge in picture.edges] == [True, True, False]
    assert all(node.lit for node in picture.nodes)


@pytest.mark.parametrize(
    ("path", "faults"),
    [
        (("a", "b", "a"), []),
        (("a", "a"), ["no transition leads from 'a' to 'a'"]),
        (("a", "x", "y"), ["there is no state 'x'", "there is no state 'y'"]),
    ],
)
def test_an_impossible_path_says_why(path: tuple[str, ...], faults: list[str]) -> None:
    assert faults_of_path(extract(MACHINE), path) == faults


def test_the_worst_finding_marks_the_innermost_holder() -> None:
    findings = [
        Finding(
            code="X1",
            name="x",
            level="info",
            message="",
            pointer="/states/a/transitions/0/conditions/1/logic",
        ),
        Finding(
            code="X1", name="x", level="warning", message="", pointer="/states/a/transitions/0"
        ),
        Finding(code="X1", name="x", level="error", message="", pointer="/states/b/kind"),
        Finding(code="X1", name="x", level="info", message="", pointer="/persona"),
    ]
    picture = mark(extract(MACHINE), findings)
    assert [edge.level for edge in picture.edges] == ["warning", None, None]
    assert [node.level for node in picture.nodes] == [None, "error"]


def test_labels_cannot_steer_a_terminal() -> None:
    assert one_line("a\x1b[31m\n b\u202e \u2028c") == "a[31m b c"
