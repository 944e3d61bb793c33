"""A definition made ready to run, and why one that no loader has looked at cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.errors import DefinitionError
from machines import program

UNKNOWN: dict[str, Any] = {"conditions": [{"logic": {"nope": [1]}}]}
NO_TYPE = {"type": "nope"}


@pytest.mark.parametrize(
    ("state", "top", "name", "pointer"),
    [
        ({"transitions": [{"target_state": "b", **UNKNOWN}]}, {}, "bad-condition",
         "/states/a/transitions/0/conditions/0/logic/nope"),
        ({"kind": "final", "transitions": [{"target_state": "b", **UNKNOWN}]}, {}, "bad-condition",
         "/states/a/transitions/0/conditions/0/logic/nope"),
        ({}, {"global_transitions": [{"target_state": "b", **UNKNOWN}]}, "bad-condition",
         "/global_transitions/0/conditions/0/logic/nope"),
        ({"kind": "task", "key_results": [{"name": "n", "check": {"nope": [1]}}]}, {}, "bad-condition",
         "/states/a/key_results/0/check/nope"),
        ({"reply": "{{ x"}, {}, "bad-template", "/states/a/reply"),
        ({"kind": "wait", "answer_schema": NO_TYPE}, {}, "bad-context-schema", "/states/a/answer_schema/type"),
        ({}, {"context_schema": {"properties": {"k": NO_TYPE}}}, "bad-context-schema", "/context_schema"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_one_finding_with_its_place(
    state: dict[str, Any], top: dict[str, Any], name: str, pointer: str
) -> None:
    document = {"name": "m", "initial_state": "a", "states": {"a": state, "b": {}}, **top}
    with pytest.raises(DefinitionError) as caught:
        program(document)
    assert [(found.name, found.pointer) for found in caught.value.findings] == [(name, pointer)]
