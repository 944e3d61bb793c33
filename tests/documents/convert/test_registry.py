from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.names import STATE_ID_PATTERN
from llm_fsm.documents.check import check
from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.flatten import state_ids
from llm_fsm.documents.convert.registry import (
    CHARTS,
    READ_FORMS,
    WRITERS,
    convert,
    detect,
    left_out,
    unfenced,
)
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.errors import DefinitionError

SAMPLES = {
    "mermaid": """stateDiagram-v2
[*] --> A
A --> B : go [n > 1]
state C {
[*] --> D
D --> [*]
}
B --> C
note right of A : x
""",
    "xstate": json.dumps(
        {
            "initial": "a",
            "states": {"a": {"on": {"E": ["b"]}, "states": {"x": {"type": "final"}}}, "b": {}},
        }
    ),
}
STATE_ID = re.compile(STATE_ID_PATTERN)
OLDER: dict[str, Any] = {
    "table": {"states": {"a": ["b"], "b": []}, "initial_state": "a", "terminal_states": ["b"]},
    "workflow": {
        "name": "w",
        "states": [
            {"name": "Do it", "objective": "x", "is_initial": True},
            {"name": "done", "is_final": True},
        ],
        "transitions": {"Do it": "done"},
    },
    "version 4": {
        "name": "v4",
        "version": 4.1,
        "initial_state": "a",
        "states": {
            "a": {
                "id": "a",
                "objective": "Ask",
                "transitions": [{"target_state": "b", "llm_description": "go"}],
            },
            "b": {"is_terminal": True},
        },
    },
}


@pytest.mark.parametrize("text", SAMPLES.values(), ids=list(SAMPLES))
def test_every_result_can_be_loaded(text: str) -> None:
    found = convert(text, detect(text), "x")
    assert [one for one in check(found.document) if one.level == "error"] == []


def ended(text: str, form: str) -> str:
    """What became of a text: nothing to say, or the sentence that refuses it. Everything else is
    raised.
    """
    try:
        found = convert(text, form, "x")
    except (ConversionError, DefinitionError) as error:
        return str(error)
    assert [one for one in check(found.document) if one.level == "error"] == []
    return "converted"


@pytest.mark.parametrize("form", CHARTS)
@given(data=st.data())
def test_damaged_texts_end_in_a_definition_or_a_sentence(form: str, data: st.DataObject) -> None:
    text = SAMPLES[form]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    patch = data.draw(st.one_of(st.text(max_size=4), st.sampled_from(list("{}[]<>\"'-:;&#*/\\\n"))))
    assert ended(text[:start] + patch + text[end:], form)


@given(text=st.text(max_size=60), form=st.sampled_from(list(READ_FORMS)))
def test_any_text_ends_in_a_definition_or_a_sentence(text: str, form: str) -> None:
    assert ended(text, form)


@pytest.mark.parametrize("document", OLDER.values(), ids=list(OLDER))
def test_older_definitions_come_out_in_todays_form(document: dict[str, Any]) -> None:
    found = convert(json.dumps(document, indent=1), "definition", "old.json")
    assert found.notes
    assert not [one for one in check(found.document) if one.name in ("older-form", "not-mapped")]
    assert found.definition.states.keys() == found.document["states"].keys()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("%% x\nstateDiagram\nA", "mermaid"),
        ("---\ntitle: x\n---\nstateDiagram-v2\nA", "mermaid"),
        ("```mermaid\nstateDiagram-v2\nA\n```", "mermaid"),
        ("```dot\ndigraph { a }\n```\n```mermaid\nstateDiagram-v2\nA\n```", "mermaid"),
        ('{"initial": "a", "states": {"a": {}}}', "xstate"),
        ('{"states": {"a": {"on": {}}}}', "xstate"),
        ('{"name": "x", "initial_state": "a", "states": {}}', "definition"),
        ("{ not json", "definition"),
    ],
)
def test_the_form_is_found_by_what_a_text_begins_with(text: str, form: str) -> None:
    assert detect(unfenced(text)) == form


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph TD\nA --> B", "this is a Mermaid graph; of Mermaid only state diagrams are read"),
        ("flowchart LR", "this is a Mermaid flowchart"),
        ("const m = createMachine({});", "this is JavaScript, which is not run"),
        (
            "// x\n/* y */ strict digraph { }",
            "this is a DOT graph, which is written but not read; give a definition",
        ),
        ("graph { a }", "this is a DOT graph"),
        ('digraph "}{" { a }', "this is a DOT graph"),
        (
            "\ufeff<scxml/>",
            "this is XML such as SCXML, which is written but not read; give a definition",
        ),
        ("hello", "a definition (JSON), a Mermaid state diagram or XState JSON"),
        ("", "none of the forms"),
    ],
)
def test_an_unknown_form_names_those_that_are_read(text: str, said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        detect(text)
    assert said in str(caught.value)


def test_the_name_of_a_file_decides_where_its_text_does_not() -> None:
    assert detect("A --> B", "x.mmd") == "mermaid"
    with pytest.raises(ConversionError, match="none of the forms"):
        detect("a -> b", "x.dot")


@given(names=st.lists(st.text(max_size=80), unique=True, max_size=8))
def test_any_names_become_ids_each_used_once(names: list[str]) -> None:
    ids = state_ids(names)
    assert len(set(ids.values())) == len(names)
    assert all(STATE_ID.fullmatch(one) for one in ids.values())


def test_what_a_notation_has_no_place_for_is_told() -> None:
    definition = load(definition_paths()["greeting"])
    told = {form: [note.message for note in left_out(definition, form)] for form in WRITERS}
    assert '"instructions" of 3 states' in told["mermaid"]
    assert '"description" of 2 conditions that have a rule' in told["dot"]
    assert not any("conditions" in message for message in told["xstate"])


def test_a_rule_whose_text_a_label_shows_otherwise_is_told() -> None:
    rules = [{"==": [{"var": "city"}, "New  York"]}, {"==": [{"var": "city"}, "New York"]}]
    moves = [{"target_state": "b", "conditions": [{"logic": rule}]} for rule in rules]
    states = {"a": {"purpose": "Ask", "transitions": moves}, "b": {"purpose": "Bye"}}
    definition = load_dict({"name": "n", "initial_state": "a", "states": states}).definition
    told = [note.message for note in left_out(definition, "mermaid")]
    assert told == ["rules of 1 condition are only shown, not readable back"]
