from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from drawn import documents
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.draw.extract import EVERYWHERE, Details, extract, light
from llm_fsm.documents.draw.mermaid import EVERYWHERE_ID, STANDS_FOR, mermaid, unlabelled
from llm_fsm.documents.loader import load
from mermaid_parser import MermaidParser, decoded, mermaid_parser


@pytest.fixture(scope="module")
def parser() -> Iterator[MermaidParser]:
    with mermaid_parser() as found:
        yield found


MACHINE: dict[str, Any] = {
    "name": "order",
    "initial_state": "ask",
    "states": {
        "ask": {
            "purpose": "What may it be?",
            "required_context_keys": ["pizza"],
            "transitions": [
                {
                    "target_state": "check",
                    "description": "Chosen",
                    "conditions": [{"logic": {">": [{"var": "n"}, 0]}}],
                }
            ],
        },
        "check": {"kind": "decide", "transitions": [{"target_state": "pay-now"}]},
        "pay-now": {"purpose": "Pay"},
    },
    "global_transitions": [{"target_state": "pay-now", "description": "The guest: pays"}],
}


def test_a_machine_as_a_state_diagram() -> None:
    assert mermaid(extract(MACHINE, Details(keys=True))).splitlines() == [
        "stateDiagram-v2",
        "    %% machine order",
        "    %% s3_pay_now stands for pay-now",
        "    ask : ask",
        "    ask : What may it be?",
        "    ask : needs pizza",
        "    check : check",
        "    s3_pay_now : pay-now",
        "    s3_pay_now : Pay",
        "    in_any_state : in every state that waits for the user",
        "    [*] --> ask",
        "    ask --> check : Chosen [n is more than 0]",
        "    check --> s3_pay_now",
        "    in_any_state --> s3_pay_now : The guest#58; pays",
        "    s3_pay_now --> [*]",
        "    classDef decide fill:#fff3cd,stroke:#8a6d00",
        "    classDef final fill:#e6f4e6,stroke:#2e7d32",
        "    classDef everywhere fill:#ffffff,stroke:#777777,stroke-dasharray:4 3",
        "    class check decide",
        "    class s3_pay_now final",
        "    class in_any_state everywhere",
    ]


def test_a_path_is_highlighted() -> None:
    drawn = mermaid(light(extract(MACHINE), path=("ask", "check")))
    assert "ask --> check : ▶ Chosen" in drawn
    assert "class ask lit" in drawn
    assert "class check lit" in drawn
    assert "class s3_pay_now lit" not in drawn


@pytest.mark.parametrize("name", definition_paths())
def test_mermaid_reads_the_shipped_definitions(name: str, parser: MermaidParser) -> None:
    definition = load(definition_paths()[name])
    read = parser.parse(
        mermaid(extract(definition.model_dump(mode="json", by_alias=True), Details(keys=True)))
    )
    assert set(definition.states) <= set(read["states"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_mermaid_reads_any_label_as_it_was_meant(
    document: dict[str, Any], parser: MermaidParser
) -> None:
    picture = extract(document, Details(keys=True))
    text = mermaid(picture)
    read = parser.parse(text)
    ids = {node.id: node.id for node in picture.nodes}
    ids |= {unlabelled(found[2]): found[1] for found in STANDS_FOR.finditer(text)} | {
        EVERYWHERE: EVERYWHERE_ID
    }
    for node in picture.nodes:
        shown = [decoded(line) for line in read["states"][ids[node.id]]]
        assert shown[0] == node.id
        assert shown[1:2] == ([node.label] if node.label else shown[1:2])
    wanted = Counter((ids[edge.source], ids[edge.target]) for edge in picture.edges)
    found = Counter(
        (source, target)
        for source, target, _ in read["moves"]
        if not {source, target} & {"root_start", "root_end"}
    )
    assert found == wanted
    labels = Counter(decoded(title) for *_, title in read["moves"] if title)
    auto = {False: "", True: "auto "}
    assert labels == Counter(
        shown
        for edge in picture.edges
        if (shown := f"{auto[edge.how == 'auto']}{edge.text}".strip())
    )
