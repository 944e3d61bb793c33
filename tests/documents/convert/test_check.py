"""What a conversion writes is read back before anybody sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.definition import json_source as source
from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.check import check_written
from llm_fsm.documents.convert.registry import (
    DEFINITION,
    WRITERS,
    WRITTEN_FORMS,
    Converted,
    convert,
)
from paths import ROOT

SHIPPED = sorted((ROOT / "fsm_definitions").glob("*.json"))


def written(found: Converted, form: str) -> str:
    return json.dumps(found.document) if form == DEFINITION else WRITERS[form](found.definition)


@pytest.mark.parametrize("form", WRITTEN_FORMS)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_definition_can_be_read_back_from_every_form(path: Any, form: str) -> None:
    found = convert(path.read_text(encoding="utf-8"), DEFINITION, str(path))
    assert check_written(found, form, written(found, form)) == ()


TEXTS = [
    "x\u0001y",
    "a --> b",
    "%% c",
    '"q"',
    "<b>&amp;",
    "line\nnew",
    "[*]",
    "}",
    "\u2028",
    "```",
    "note right of a",
]


@pytest.mark.parametrize("form", WRITTEN_FORMS)
@pytest.mark.parametrize("text", TEXTS)
def test_no_text_of_an_author_breaks_what_is_written(text: str, form: str) -> None:
    way = {"target_state": "b", "description": text, "conditions": [{"description": text}]}
    states = {"a": {"purpose": text, "transitions": [way]}, "b": {"kind": "final", "purpose": text}}
    document = {"name": text, "description": text, "initial_state": "a", "states": states}
    found = convert(json.dumps(document), DEFINITION, "d.json")
    check_written(found, form, written(found, form))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (DEFINITION, "{"),
        (DEFINITION, '{"name": "other", "initial_state": "a", "states": {"a": {"purpose": "P"}}}'),
        (DEFINITION, '{"name": "d"}'),
        ("mermaid", "stateDiagram-v2\n[*] --> other"),
        ("mermaid", "flowchart"),
        ("xstate", "[]"),
        ("scxml", "<scxml>"),
    ],
)
def test_what_cannot_be_read_or_means_another_machine_is_not_given_out(
    form: str, text: str
) -> None:
    document = '{"name": "d", "initial_state": "a", "states": {"a": {"purpose": "P"}}}'
    found = convert(document, DEFINITION, "d.json")
    with pytest.raises(ConversionError, match=f"what would be written as {form} cannot be read"):
        check_written(found, form, text)


def test_errors_that_validate_finds_in_what_comes_out_are_told() -> None:
    states = [
        {"name": "a", "tools": ["look up"], "is_initial": True},
        {"name": "b", "is_final": True},
    ]
    workflow = {"version": "2.0", "objective": "o", "states": states, "transitions": {"a": "b"}}
    found = convert(json.dumps(workflow), DEFINITION, "w.json")
    text = written(found, DEFINITION)
    assert source.parse(text) == found.document
    assert [fault.name for fault in check_written(found, DEFINITION, text)] == ["bad-tool-name"]
