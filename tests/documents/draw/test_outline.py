from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given

from drawn import documents
from llm_fsm.documents.check import check
from llm_fsm.documents.draw.extract import Details, extract, mark
from llm_fsm.documents.draw.outline import listing, outline

MACHINE: dict[str, Any] = {
    "name": "order",
    "initial_state": "ask",
    "states": {
        "ask": {
            "purpose": "What may it be?",
            "required_context_keys": ["pizza"],
            "tools": ["menu"],
            "transitions": [
                {
                    "target_state": "pay",
                    "description": "chosen",
                    "conditions": [
                        {
                            "requires_context_keys": ["pizza"],
                            "logic": {"in": [{"var": "size"}, ["s", "m"]]},
                        }
                    ],
                }
            ],
        },
        "pay": {
            "kind": "decide",
            "transitions": [{"target_state": "ask"}, {"target_state": "gone"}],
        },
        "lost": {"transitions": [{"target_state": "pay", "auto": True}]},
    },
    "global_transitions": [{"target_state": "ask", "description": "again"}],
}


def test_a_listing_has_states_in_order_of_the_file() -> None:
    assert listing(extract(MACHINE, Details(keys=True, tools=True))).splitlines() == [
        "order",
        "",
        "ask (initial)",
        '  "What may it be?"',
        "  needs pizza",
        "  tools menu",
        '  -> pay: chosen [pizza is known and size is one of "s", "m"]',
        "",
        "pay (decide)",
        "  -> ask",
        "  -> gone",
        "",
        "lost (not reached)",
        "  -> pay (auto)",
        "",
        "* (in every state that waits for the user)",
        "  -> ask: again",
    ]


def test_fixed_words_stand_in_place_of_the_purpose() -> None:
    document = {
        **MACHINE,
        "states": {
            **MACHINE["states"],
            "pay": {"purpose": "Pay", "reply": "That makes {{ sum }}."},
        },
    }
    for text in (listing(extract(document)), outline(extract(document))):
        assert 'says "That makes {{ sum }}."' in text
        assert '"Pay"' not in text


def test_an_outline_opens_each_state_once() -> None:
    assert outline(extract(MACHINE, Details(conditions=False))).splitlines() == [
        "order",
        "ask (initial)",
        '  "What may it be?"',
        "  -> pay: chosen",
        "    (decide)",
        "    -> ask ^",
        "    -> gone",
        "      (unknown)",
        "lost",
        "  -> pay ^ (auto)",
        "* (in every state that waits for the user)",
        "  -> ask: again",
    ]


def test_findings_mark_the_innermost_state_or_move() -> None:
    picture = mark(extract(MACHINE), check(MACHINE))
    levels = {(edge.source, edge.target): edge.level for edge in picture.edges}
    assert levels["pay", "gone"] == "error"
    assert levels["ask", "pay"] is None
    assert "  -> gone (error)" in listing(picture).splitlines()


@given(document=documents())
def test_an_outline_shows_every_state_and_every_move(document: dict[str, Any]) -> None:
    picture = extract(document)
    for text in (outline(picture), listing(picture)):
        moves = Counter(
            line.strip().removeprefix("-> ").split(":")[0].split(" ")[0]
            for line in text.splitlines()
            if "-> " in line[:40] and line.strip().startswith("-> ")
        )
        assert moves == Counter(edge.target for edge in picture.edges)
        for name in document["states"]:
            assert any(
                line.strip().removeprefix("-> ").startswith(name) for line in text.splitlines()
            )
