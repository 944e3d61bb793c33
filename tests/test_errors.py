import dataclasses

import pytest

from llm_fsm.errors import Finding

UNKNOWN_TARGET = Finding(
    code="F101",
    name="unknown-target",
    level="error",
    message='transition to unknown state "gret"',
    hint='did you mean "greet"?',
    file="flow.json",
    line=12,
    column=9,
    pointer="/states/a/transitions/0/target_state",
)


def test_a_finding_reads_as_one_line():
    assert str(UNKNOWN_TARGET) == (
        'flow.json:12:9: error: transition to unknown state "gret"; '
        'did you mean "greet"? (unknown-target F101)'
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hint": None}, "flow.json:12:9: error: M (unknown-target F101)"),
        ({"hint": None, "file": None}, "<definition>:12:9: error: M (unknown-target F101)"),
        ({"hint": None, "line": None}, "flow.json: error: M (unknown-target F101)"),
        ({"hint": None, "column": None}, "flow.json:12: error: M (unknown-target F101)"),
        ({"hint": "H", "level": "warning"}, "flow.json:12:9: warning: M; H (unknown-target F101)"),
        (
            {"hint": "H", "file": None, "line": None, "column": None},
            "<definition>: error: M; H (unknown-target F101)",
        ),
    ],
)
def test_what_is_not_known_is_left_out_of_the_line(changes, expected):
    assert str(dataclasses.replace(UNKNOWN_TARGET, message="M", **changes)) == expected


def test_the_json_form_has_exactly_the_published_keys():
    finding = dataclasses.replace(UNKNOWN_TARGET, path=("a", "b"))
    assert finding.to_dict() == {
        "code": "F101",
        "name": "unknown-target",
        "level": "error",
        "message": 'transition to unknown state "gret"',
        "hint": 'did you mean "greet"?',
        "file": "flow.json",
        "line": 12,
        "column": 9,
        "pointer": "/states/a/transitions/0/target_state",
        "path": ["a", "b"],
    }


def test_a_finding_is_a_value():
    assert dataclasses.replace(UNKNOWN_TARGET) == UNKNOWN_TARGET
    assert len({UNKNOWN_TARGET, dataclasses.replace(UNKNOWN_TARGET)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        UNKNOWN_TARGET.message = "other"
