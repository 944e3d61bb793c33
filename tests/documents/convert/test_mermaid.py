from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.registry import convert, detect, unfenced


def document(text: str) -> dict[str, Any]:
    return dict(convert(text, "mermaid", "x").document)


def notes(text: str) -> list[tuple[bool, str, int | None]]:
    return [(note.lost, note.message, note.line) for note in convert(text, "mermaid", "x").notes]


def targets(found: dict[str, Any], state: str) -> list[tuple[str, str]]:
    return [
        (move["target_state"], move.get("description", ""))
        for move in found["states"][state].get("transitions", ())
    ]


def test_states_labels_and_ends() -> None:
    text = """---
title: Lamp
---
stateDiagram-v2
    direction LR
    %% a comment
    [*] --> Still
    state "Being still" as Still
    Still --> Moving : push
    Moving --> Still: brake [speed == 0]
    Moving : It moves<br/>fast
    Moving --> Crash : wall ahead
    Crash --> [*]
    classDef bad fill:#f00
    class Crash bad
"""
    assert document(text) == {
        "name": "x",
        "initial_state": "Still",
        "states": {
            "Still": {
                "purpose": "Being still",
                "transitions": [{"target_state": "Moving", "description": "push"}],
            },
            "Moving": {
                "purpose": "It moves fast",
                "transitions": [
                    {
                        "target_state": "Still",
                        "description": "brake",
                        "conditions": [{"logic": {"==": [{"var": "speed"}, 0]}}],
                    },
                    {"target_state": "Crash", "description": "wall ahead"},
                ],
            },
            "Crash": {"kind": "final"},
        },
    }
    assert notes(text) == []


def test_an_end_that_is_not_the_only_way_on_becomes_a_state() -> None:
    found = document("stateDiagram\n[*] --> A\nA --> B : on\nA --> [*] : leave\nB --> [*]")
    assert targets(found, "A") == [("B", "on"), ("end", "leave")]
    assert found["states"]["end"] == {"kind": "final"}
    assert found["states"]["B"] == {"kind": "final"}


def test_composite_states_are_made_flat() -> None:
    text = """stateDiagram-v2
    [*] --> First
    state First {
        [*] --> one
        one --> two : next
        two --> [*]
        state Deep {
            [*] --> three
        }
        two --> Deep : deeper
    }
    First --> Second
    First --> Help : asks
    Second --> [*]
"""
    found = document(text)
    assert found["initial_state"] == "one"
    assert targets(found, "one") == [("two", "next"), ("Help", "asks")]
    assert targets(found, "two") == [("Second", ""), ("three", "deeper"), ("Help", "asks")]
    assert targets(found, "three") == [("Help", "asks")]
    assert set(found["states"]) == {"one", "two", "three", "Second", "Help"}


def test_an_arrow_without_words_from_a_composite_state_without_end_starts_in_each_state() -> None:
    found = document("stateDiagram\n[*] --> A\nstate A {\n[*] --> x\nx --> y : go\n}\nA --> B")
    assert targets(found, "x") == [("y", "go"), ("B", "")]
    assert targets(found, "y") == [("B", "")]


def test_a_choice_decides_by_expressions() -> None:
    text = """stateDiagram-v2
    state check <<choice>>
    [*] --> ask
    ask --> check
    check --> yes : [n > 0 && name != null]
    check --> no
    """
    found = document(text)["states"]["check"]
    assert found["kind"] == "decide"
    assert found["transitions"][0]["conditions"] == [
        {"requires_context_keys": ["name"], "logic": {">": [{"var": "n"}, 0]}}
    ]
    assert notes(text) == [(False, 'choice "check" becomes a state that decides', 2)]


def test_at_a_choice_a_label_can_be_the_guard() -> None:
    found = document(
        "stateDiagram-v2\n state if_state <<choice>>\n [*] --> IsPositive\n IsPositive --> if_state\n"
        " if_state --> False: if n < 0\n if_state --> True : if n >= 0"
    )
    assert found["states"]["if_state"]["kind"] == "decide"
    assert [move["conditions"] for move in found["states"]["if_state"]["transitions"]] == [
        [{"logic": {"<": [{"var": "n"}, 0]}}],
        [{"logic": {">=": [{"var": "n"}, 0]}}],
    ]


def test_a_choice_by_words_waits_for_the_user() -> None:
    text = "stateDiagram\nstate c <<choice>>\n[*] --> a\na --> c\nc --> x : [if it is late]\nc --> y : otherwise"
    assert "kind" not in document(text)["states"]["c"]
    assert notes(text)[-1][:2] == (
        True,
        '"c" chooses by guards in words, which only a model can judge: it waits for the user',
    )


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("A --> B : go / ring", None),
        ("A --> B : go [x > 1] / ring", (True, 'the action "ring" of an arrow', 3)),
        ("state f <<fork>>\nA --> f\nf --> B\nf --> C", (True, '"f" forks: only the first branch is followed', 3)),
        ("state j <<join>>\nA --> j\nj --> B", (False, 'join "j" becomes a state that decides', 3)),
        ("note right of A : Mind the gap", (False, 'the note beside "A" becomes its description', 3)),
        ("note left of A\n two\n lines\nend note", (False, 'the note beside "A" becomes its description', 3)),
        ("[*] --> B", (True, 'a second initial state, "B"', 3)),
        ("this is --> no: line -->", None),
        ("what ever (this) is", (True, "not understood: what ever (this) is", 3)),
        ("state X {\n[*] --> p\n--\n[*] --> q\n}",
         (True, '"X" runs regions side by side: only the first one is entered', 5)),
    ],
)  # fmt: skip
def test_what_becomes_of_the_rest_is_reported_with_its_line(lines: str, note: Any) -> None:
    found = notes(f"stateDiagram-v2\n[*] --> A\n{lines}")
    assert note is None or note in found


@pytest.mark.parametrize(
    ("line", "commented"),
    [
        ("[*] --> A", "[*] --> A %% begin {here}"),
        ("A --> B", "A --> B %% a --> b"),
        ("A --> B", "A-->B%%at once"),
        ("A:::big --> B", "A:::big --> B %% styled"),
        ("state B <<choice>>", "state B <<choice>> %% pick: one"),
        ('state "50 %% off {x}" as B', 'state "50 %% off {x}" as B %% sale'),
        ("state X {\nA --> B\n}", "state X { %% {\nA --> B %% }\n} %% end: of it"),
        ("note left of A\n 50 %% off\nend note", "note left of A %% why\n 50 %% off\nend note"),
        ("class A big", "class A big %% loud"),
        ("A", "%% only: words {\nA\n   %%{init: {}}%%"),
    ],
)
def test_a_comment_at_the_end_of_a_line_changes_nothing(line: str, commented: str) -> None:
    start = "stateDiagram-v2\n[*] --> A\nA --> B : go\n"
    assert document(start + commented) == document(start + line)
    assert "not understood" not in str(notes(start + commented))


def test_words_behind_a_colon_hold_any_marks() -> None:
    found = document("stateDiagram-v2\n[*] --> A\nA --> B : 50 %% off { x } : now")
    assert found["states"]["A"]["transitions"][0]["description"] == "50 %% off { x } : now"


def test_notes_become_descriptions() -> None:
    found = document(
        "stateDiagram\n[*] --> A\nnote right of A : one\nnote left of A\n two #59; x\nend note"
    )
    assert found["states"]["A"] == {"description": "one\ntwo ; x"}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("stateDiagram-v2\nA --> B\n}", '"}" closes nothing here', 3),
        ("stateDiagram-v2\nstate A {\nB", 'the composite state "A" is not closed by "}"', None),
        ("stateDiagram-v2\nnote right of A\nx", 'a note has no "end note"', 2),
        ("stateDiagram-v2\n%% nothing", "there are no states in it", None),
        (
            "stateDiagram-v2\n" + "".join(f"state A{number} {{\n" for number in range(60)),
            "states are nested",
            52,
        ),
        ("flowchart LR\nA --> B", "a Mermaid state diagram begins with", 1),
    ],
)
def test_what_is_no_diagram_is_refused(text: str, message: str, line: int | None) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(text, "mermaid", "x")
    assert message in str(caught.value)
    assert line is None or caught.value.line == line


def test_ids_that_no_definition_takes_are_renamed() -> None:
    found = convert("stateDiagram\n[*] --> Größe\nGröße --> 2nd", "mermaid", "x")
    assert list(found.document["states"]) == ["Grosse", "state_2nd"]
    assert found.document["states"]["Grosse"]["purpose"] == "Größe"
    assert [note.message for note in found.notes] == [
        'state "Größe" is called "Grosse"',
        'state "2nd" is called "state_2nd"',
    ]


def test_a_diagram_in_markdown_keeps_its_lines() -> None:
    text = "# Title\n\n```mermaid\nstateDiagram-v2\n[*] --> A\nthis is (odd)\n```\nmore\n"
    assert detect(unfenced(text)) == "mermaid"
    assert notes(text) == [(True, "not understood: this is (odd)", 6)]


def test_an_end_inside_a_state_that_holds_no_other_is_that_state_done() -> None:
    found = document("stateDiagram\n[*] --> A\nstate C {\nA --> [*]\n}\nC --> B")
    assert targets(found, "A") == [("B", "")]


def test_a_choice_is_not_left_by_way_of_the_states_around_it() -> None:
    text = """stateDiagram-v2
    [*] --> pay
    state pay {
        [*] --> card
        card --> check
        state check <<choice>>
        check --> card : [tries < 3]
        check --> blocked
    }
    pay --> cancelled : cancels
"""
    found = document(text)
    assert found["states"]["check"]["kind"] == "decide"
    assert targets(found, "check") == [("card", ""), ("blocked", "")]
    assert targets(found, "card") == [("check", ""), ("cancelled", "cancels")]
