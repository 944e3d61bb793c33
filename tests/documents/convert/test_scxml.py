from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from hypothesis import given

from drawn import documents
from llm_fsm.documents.convert import scxml
from llm_fsm.documents.loader import load_dict
from llm_fsm.errors import DefinitionError

SCXML = "{http://www.w3.org/2005/07/scxml}"
OWN = "{urn:llm-fsm}"


def written(states: dict[str, Any], **more: Any) -> ElementTree.Element:
    document = {"name": "oven", "initial_state": next(iter(states)), "states": states, **more}
    return ElementTree.fromstring(scxml.write(load_dict(document).definition))


def test_states_become_elements_with_their_kind_and_purpose() -> None:
    root = written(
        {
            "off": {
                "purpose": "Off & <cold>",
                "transitions": [{"target_state": "way", "description": "turn on"}],
            },
            "way": {"kind": "decide", "transitions": [{"target_state": "on"}]},
            "on": {"purpose": "Done"},
        }
    )
    assert (root.tag, root.get("name"), root.get("initial")) == (f"{SCXML}scxml", "oven", "off")
    assert [
        (one.tag.removeprefix(SCXML), one.get("id"), one.get(f"{OWN}kind")) for one in root
    ] == [("state", "off", None), ("state", "way", "decide"), ("final", "on", None)]
    assert root[0].get(f"{OWN}purpose") == "Off & <cold>"


def test_a_transition_has_an_event_if_somebody_has_to_choose_it() -> None:
    root = written(
        {
            "a": {
                "transitions": [
                    {"target_state": "b", "description": "go on"},
                    {
                        "target_state": "b",
                        "auto": True,
                        "conditions": [{"requires_context_keys": ["n"]}],
                    },
                ]
            },
            "b": {},
        },
        global_transitions=[{"target_state": "b", "description": "give up"}],
    )
    chosen, auto = root[0]
    assert (chosen.get("event"), chosen.get("target"), chosen.get(f"{OWN}description")) == (
        "GO_ON",
        "b",
        "go on",
    )
    assert (auto.get("event"), auto.get("cond")) == (None, "n != null")
    assert root[-1].get("event") == "GIVE_UP"


def test_characters_that_xml_cannot_hold_are_left_out_and_hidden_ones_escaped() -> None:
    states = {"a": {"purpose": "x\x01y\u202ez\nw"}}
    text = scxml.write(load_dict({"name": "n", "initial_state": "a", "states": states}).definition)
    assert 'llm:purpose="xy&#8238;z&#10;w"' in text


@given(document=documents())
def test_any_definition_becomes_well_formed_xml_with_its_states(document: dict[str, Any]) -> None:
    try:
        definition = load_dict(document).definition
    except DefinitionError:
        return
    root = ElementTree.fromstring(scxml.write(definition))
    names = [one.get("id") for one in root if one.tag != f"{SCXML}transition"]
    assert names == list(definition.states)
