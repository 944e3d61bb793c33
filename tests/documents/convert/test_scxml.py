from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.registry import convert, detect

OVEN = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- the W3C's microwave -->
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="ecmascript" initial="off" name="oven">
  <datamodel><data id="cook_time" expr="5"/></datamodel>
  <state id="off">
    <transition event="turn.on" target="on"/>
  </state>
  <state id="on">
    <initial><transition target="idle"/></initial>
    <transition event="turn.off" target="off"/>
    <transition cond="timer &gt;= cook_time" target="off"/>
    <transition event="done.state.on" target="off"/>
    <state id="idle">
      <onentry><log expr="'idle'"/></onentry>
      <transition cond="door_closed" target="cooking"/>
      <transition event="turn.off" cond="In('x')" target="idle"/>
    </state>
    <state id="cooking">
      <transition event="door.open" target="idle"><assign location="door_closed" expr="false"/></transition>
      <transition event="*" target="burnt"/>
    </state>
    <final id="burnt"/>
  </state>
</scxml>
"""


def moves(text: str, state: str) -> list[tuple[str, str, Any, bool]]:
    found = convert(text, "scxml", "x").document["states"][state].get("transitions", ())
    return [
        (move["target_state"], move.get("description", ""), move.get("conditions"), move.get("auto", False))
        for move in found
    ]


def wrapped(inner: str, attributes: str = "") -> str:
    return f'<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" {attributes}>{inner}</scxml>'


def test_a_nested_document_is_made_flat() -> None:
    found = convert(OVEN, "scxml", "x")
    assert found.document["name"] == "oven"
    assert found.document["initial_state"] == "off"
    assert list(found.document["states"]) == ["off", "idle", "cooking", "burnt"]
    assert moves(OVEN, "off") == [("idle", "turn.on", None, False)]
    late = [{"logic": {">=": [{"var": "timer"}, {"var": "cook_time"}]}}]
    assert moves(OVEN, "cooking") == [
        ("idle", "door.open", None, False),
        ("burnt", "any other event", None, False),
        ("off", "turn.off", None, False),
        ("off", "", late, True),
    ]
    assert found.document["states"]["burnt"]["kind"] == "decide"


def test_conditions_are_expressions_or_for_the_model() -> None:
    assert moves(OVEN, "idle")[:2] == [
        ("cooking", "", [{"logic": {"var": "door_closed"}}], True),
        ("idle", "turn.off", [{"description": "In('x')"}], False),
    ]


def test_what_cannot_be_mapped_is_reported_with_its_line() -> None:
    told = {(note.message, note.line) for note in convert(OVEN, "scxml", "x").notes}
    assert {
        ("<datamodel> of the document: what it does is done by handlers or tools", 4),
        ('<onentry> of "idle": what it does is done by handlers or tools', 14),
        ('<assign> in a transition of "cooking"', 19),
        ("the condition \"In('x')\" is for the model to judge", 16),
    } <= told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE scxml [<!ENTITY a "aa">]><scxml>&a;</scxml>', "document type declaration"),
        ('<!DOCTYPE scxml SYSTEM "file:///etc/passwd"><scxml/>', "document type declaration"),
        ("<scxml>&unknown;</scxml>", "it is no XML: undefined entity"),
        ("<scxml><state></scxml>", "it is no XML: mismatched tag"),
        ("<html/>", "begins with <scxml>"),
        (wrapped(""), "there are no states"),
        (wrapped('<state id="a"/><state id="a"/>'), "a second state has the id"),
        ("<scxml>" + "<state>" * 60, "nested deeper"),
        ("", "it is no XML: no element found"),
    ],
)
def test_what_is_no_document_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        convert(text, "scxml", "x")


def test_entities_are_never_expanded() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
    with pytest.raises(ConversionError, match="document type declaration"):
        convert(f'<!DOCTYPE x [<!ENTITY e0 "ha">{levels}]><scxml name="&e8;"/>', "scxml", "x")


def test_the_first_state_is_where_it_begins() -> None:
    assert convert(wrapped('<state id="b"/><state id="a"/>'), "scxml", "x").document["initial_state"] == "b"
    assert convert(wrapped('<state/><state id="a"/>'), "scxml", "x").document["initial_state"] == "state_1"
    assert (
        convert(wrapped('<state id="b"/><state id="a"/>', 'initial="a"'), "scxml", "x").document[
            "initial_state"
        ]
        == "a"
    )


def test_parallel_states_and_history_are_reported() -> None:
    text = wrapped('<parallel id="p"><state id="a"/><state id="b"/><history id="h"/></parallel>')
    assert [note.message for note in convert(text, "scxml", "x").notes if note.lost] == [
        '"p" runs regions side by side: only the first one is entered',
        'history "h" is read as the state around it',
    ]


def test_documents_are_recognised() -> None:
    assert detect(OVEN) == "scxml"
