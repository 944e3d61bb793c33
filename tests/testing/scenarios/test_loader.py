"""Files of conversation tests: their short forms, their tables, and everything that can be wrong
with them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from llm_fsm.testing.scenarios.checks import warnings
from llm_fsm.testing.scenarios.loader import LoadedCases, read_suite, suite_of
from llm_fsm.testing.scenarios.models import Written
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.schema import suite_schema
from paths import ROOT

ORDER = '{"definition": "order", "cases": [{"steps": [\n'
GREETER = {
    "name": "greeter",
    "initial_state": "hello",
    "states": {
        "hello": {"purpose": "Learn the name", "transitions": [{"target_state": "bye"}]},
        "bye": {"reply": "Goodbye!"},
    },
}


def read(**document: Any) -> LoadedCases:
    return suite_of(
        json.dumps({"definition": GREETER, **document}), file="x.test.json", drafts=True
    )


def faults(text: str) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        suite_of(text, file="x.test.json")
    return [str(fault).removeprefix("x.test.json:") for fault in caught.value.faults]


def step(expect: object, **more: Any) -> Any:
    [play] = read(steps=[{"say": "hi", "expect": expect, **more}]).plays
    return play.case.steps[0]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("bye", {"state": "bye"}),
        ({"state": ["bye"]}, {"state": "bye"}),
        ({"text": "Good"}, {"text": {"contains": ["Good"]}}),
        ({"text": ["Good", "bye"]}, {"text": {"contains": ["Good", "bye"]}}),
        ({"events": ["Ended"]}, {"events": [{"type": "Ended"}]}),
        ({"paused": "signature"}, {"paused": {"what": "signature"}}),
        ({"not": "bye"}, {"not": {"state": ["bye"]}}),
    ],
)
def test_a_short_form_stands_for_a_long_one(short: object, long: object) -> None:
    assert step(short).expect == step(long).expect


def test_waiting_for_nothing_is_said_by_false() -> None:
    assert step({"paused": False}).expect.paused is None
    assert "paused" in step({"paused": False}).expect.model_fields_set
    assert "paused" not in step({"state": "bye"}).expect.model_fields_set


def test_a_file_with_steps_is_one_case_named_like_the_file() -> None:
    assert [(play.name, play.pointer) for play in read(steps=[{"say": "hi"}]).plays] == [("x", "")]


def test_a_case_has_the_settings_of_its_file_and_its_own_over_them() -> None:
    loaded = read(
        context={"a": 1, "b": 1},
        time="2030-05-17T09:30:00Z",
        cases=[{"name": "own", "context": {"b": 2}, "greet": False}, {"name": "other", "time": 5}],
    )
    own, other = (play.setup for play in loaded.plays)
    assert (own["context"], own["greet"], own["time"]) == ({"a": 1, "b": 2}, False, 1905240600.0)
    assert (other["context"], other["greet"], other["time"]) == ({"a": 1, "b": 1}, None, 5)


def test_a_table_makes_a_case_of_each_row_and_values_keep_their_types() -> None:
    case = {
        "name": "for {{who}}",
        "table": [{"who": "Ada", "n": 1}, {"who": "Bob", "n": [2]}],
        "context": {"n": "{{n}}", "said": "n is {{ n }}"},
    }
    plays = read(cases=[case]).plays
    assert [play.name for play in plays] == ["for Ada", "for Bob"]
    assert [play.setup["context"] for play in plays] == [
        {"n": 1, "said": "n is 1"},
        {"n": [2], "said": "n is [2]"},
    ]


def test_what_is_always_a_text_stays_one_in_a_table() -> None:
    case = {
        "name": "{{n}}",
        "table": [{"n": 5}],
        "steps": [{"say": "{{n}}", "expect": {"text": ["{{n}}"]}}],
    }
    [play] = read(cases=[case]).plays
    assert (play.name, play.case.steps[0].say) == ("5", "5")


def test_rows_of_one_name_are_numbered() -> None:
    case = {
        "name": "same",
        "table": [{"who": "Ada"}, {"who": "Bob"}],
        "context": {"who": "{{who}}"},
    }
    assert [play.name for play in read(cases=[case]).plays] == ["same [1]", "same [2]"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"definition": "order",\n "cass": []}',
            ['2:2: error: unknown key "cass"; did you mean "cases"?'],
        ),
        (
            '{"definition": "order",\n "steps": [], "steps": []}',
            ['2:15: error: the key "steps" is repeated here, first in line 2; keep one of them'],
        ),
        (
            '{"definition": "order", "cases": [{"table": []}]}',
            ["1:45: error: the table has no rows"],
        ),
        (
            '{"definition": "order", "cases": [7]}',
            ["1:35: error: a case: expected an object, found the number 7"],
        ),
        (
            '{"definition": "order", "steps": [{"wait": 0}]}',
            ["1:44: error: wait: it must be greater than 0"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"text": {"matches": "("}}}]}]}',
            ["2:45: error: '(' is no regular expression (RE2)"],
        ),
        (
            '{"definition": "order", "steps": [{"end": false}]}',
            ["1:43: error: end: it can only be true, found false"],
        ),
        (
            '{"definition": "order", "expect": {"any_of": []}}',
            ["1:46: error: any_of: there must be at least one"],
        ),
        (
            '{"definition": "tickets", "steps": [], "context": {"seats": 9}}',
            [
                "1:61: error: no conversation begins with seats 9: 9 is greater than the maximum of 8"
            ],
        ),
        ('{"definition": "order",\n "steps": []}', ["2:11: error: this case plays nothing"]),
        (
            '{"definition": "order", "cases": [{"name": "a", "expect": {}},\n {"name": "b", "steps": []},'
            ' {"name": "c", "skip": "later"}]}',
            ["1:35: error: this case plays nothing", "2:25: error: this case plays nothing"],
        ),
        (
            '{"name": "x", "initial_state": "a", "states": {}}',
            ["1:1: error: this is a definition, not a file of tests"],
        ),
        (
            ORDER + '{"say": "x", "reply": {"mesage": "x"}}]}]}',
            ['2:24: error: unknown key "mesage"; did you mean "message"?'],
        ),
        (
            ORDER + '{"say": "x", "reply": {"mesage": "x", "text": "y"}}]}]}',
            ['2:24: error: unknown key "mesage"; did you mean "message"?'],
        ),
        ('{"definition": "order"}', ["1:1: error: there is no case in this file"]),
        ('{"steps": []}', ['1:1: error: the key "definition" is missing']),
        ("[]", ["1:1: error: a file of tests is one JSON object, not an empty list"]),
        (
            '{"definition": "order",\n "steps": [{"say": 3}]}',
            ["2:20: error: say: expected text, found the number 3"],
        ),
        (
            '{"definition": "order",\n "steps": [{"expect": "choose"}]}',
            ["2:12: error: a step has one of say, answer, wait and end"],
        ),
        (
            '{"definition": "order", "steps": [{"say": "x"',
            ["1:46: error: the text ends inside the object"],
        ),
        ('{"definition": 3, "steps": []}', ["1:16: error: a definition is a path or an object"]),
        (
            '{"definition": "ordr", "steps": []}',
            ["1:16: error: there is no definition 'ordr' beside this file"],
        ),
        (
            '{"definition": {"name": "x", "initial_state": "a",\n "states": {"a": {"transitions": '
            '[{"target_state": "b"}]}}}, "steps": []}',
            ["2:52: error: the definition cannot be used"],
        ),
        (
            ORDER + '{"say": "x", "expect": "plced"}]}]}',
            ["2:24: error: the definition has no state 'plced'; did you mean"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"open": ["plced"]}}]}]}',
            ["2:34: error: the definition has no state 'plced'"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"not": "plced"}}]}]}',
            ["2:32: error: the definition has no state 'plced'"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"context": {"quantty": 1}}}]}]}',
            ["2:37: error: nothing can set the context key 'quantty'"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"context": {"quantity": "one"}}}]}]}',
            ['2:49: error: quantity can never be "one"'],
        ),
        (
            ORDER + '{"say": "x", "expect": {"tools": ["find"]}}]}]}',
            ["2:35: error: the definition has no tool 'find'"],
        ),
        (
            ORDER + '{"say": "x", "expect": {"events": ["Endd"]}}]}]}',
            ['2:36: error: there is no event "Endd"; did you mean "Ended"?'],
        ),
        (
            ORDER + '{"say": "x", "expect": {"events": [{"type": "Ended", "state": 1}]}}]}]}',
            ['2:54: error: unknown key "state"'],
        ),
        (
            ORDER + '{"say": "x", "expect": {"logic": {"foo": 1}}}]}]}',
            ['2:34: error: this is no rule: unknown operator "foo"'],
        ),
        (
            ORDER + '{"say": "x", "reply": {"to": "confrm"}}]}]}',
            ["2:30: error: the reply moves to 'confrm', which is no state"],
        ),
        (
            ORDER + '{"say": "x", "reply": {"message": "x", "too": "confirm"}}]}]}',
            ['2:40: error: unknown key "too"; did you mean "to"?'],
        ),
        (
            '{"definition": "order", "cases": [{"name": "a"},\n {"name": "a"}]}',
            ["2:11: error: a case 'a' stands in line 1 already; rename one"],
        ),
        (
            '{"definition": "order", "cases": [{"table": [{"a": 1, "c": 1}, {"a": 2}],\n'
            ' "steps": [{"say": "{{a}} {{b}}"}]}]}',
            [
                "1:55: error: the case names the column c nowhere",
                "2:20: error: no row of the table has the column b",
            ],
        ),
        (
            '{"definition": "order", "tools": {"f": {"result": 1}}, "steps": []}',
            ["1:35: error: the definition has no tool 'f'"],
        ),
        (
            '{"definition": "order", "functions": {"f": {"output": 1}}, "steps": []}',
            ["1:39: error: the definition names no function 'f'"],
        ),
        (
            '{"definition": "order", "steps": [], "cases": [{}]}',
            ["1:38: error: a file has steps of its own or cases, not both"],
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: list[str]) -> None:
    found = faults(text)
    assert len(found) == len(said), found
    for one, beginning in zip(found, said, strict=True):
        assert one.startswith(beginning)


@pytest.mark.parametrize("name", ["appointment", "order", "reservation", "returns", "support_desk"])
def test_the_language_of_a_conversation_can_be_expected(name: str) -> None:
    said = {"say": "hi", "expect": {"context": {"language": "de"}}}
    loaded = suite_of(json.dumps({"definition": name, "steps": [said]}), file="x.test.json")
    assert len(loaded.plays) == 1


def test_no_language_is_expected_where_a_definition_has_only_one() -> None:
    text = '{"definition": "greeting", "steps": [\n{"say": "x", "expect": {"context": {"language": 1}}}]}'
    assert "nothing can set the context key 'language'" in faults(text)[0]


def test_faults_of_the_definition_are_told_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(
        '{"name": "x", "initial_state": "nowhere",\n "states": {"a": {}}}'
    )
    path = tmp_path / "x.test.json"
    path.write_text('{"definition": "bad.json", "steps": []}')
    with pytest.raises(SuiteError) as caught:
        read_suite(path)
    [fault] = caught.value.faults
    assert (fault.file, fault.line) == (str(tmp_path / "bad.json"), 1)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"none\.test\.json: error: the file cannot be read"):
        read_suite(tmp_path / "none.test.json")


def test_the_published_schema_is_what_the_models_say() -> None:
    place = ROOT / "src" / "llm_fsm" / "testing" / "scenarios" / "case.schema.json"
    written = json.loads(place.read_text(encoding="utf-8"))
    assert written == suite_schema(), (
        "run: llm-fsm schema --tests > src/llm_fsm/testing/scenarios/case.schema.json"
    )
    jsonschema_rs.meta.validate(written)


def test_every_key_is_described_and_of_a_model() -> None:
    def shapes(value: Any) -> Any:
        if isinstance(value, dict):
            if "properties" in value and "description" in value:
                yield value["properties"]
            for item in value.values():
                yield from shapes(item)
        elif isinstance(value, list):
            for item in value:
                yield from shapes(item)

    found = [
        (name, key)
        for shape in shapes(suite_schema())
        for name, key in shape.items()
        if name != "properties"
    ]
    assert len(found) > 80
    assert [name for name, key in found if not key.get("description")] == []
    assert {model.__name__ for model in Written.__subclasses__()} > {"Expect", "Case", "CaseReply"}


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"steps": [{"say": "x"}]}, False),
        ({"steps": [{"say": "x", "expect": {}}], "start": {}}, False),
        ({"steps": [{"say": "x", "expect": {"context": {}, "not": {"absent": []}}}]}, False),
        (
            {"steps": [{"say": "x", "expect": {"text": "", "any_of": ["hello", {"text": {}}]}}]},
            False,
        ),
        ({"steps": [{"say": "x", "expect": {"any_of": ["hello", {"text": "Hi"}]}}]}, True),
        ({"steps": [{"say": "x", "expect": {"text": {"equals": ""}}}]}, True),
        ({"steps": [{"say": "x", "expect": "hello"}]}, True),
        ({"steps": [{"say": "x"}], "expect": {"not": "hello"}}, True),
        ({"steps": [{"say": "x"}], "start": {"expect": {"paused": None}}}, True),
        ({"steps": [{"say": "x", "expect": {"tools": []}}]}, True),
        ({"skip": "later"}, True),
    ],
)
def test_a_case_that_expects_nothing_is_noticed(case: dict[str, Any], says: bool) -> None:
    loaded = read(cases=[{"name": "a", **case}])
    found = warnings(loaded.text, ((play.pointer, play.case) for play in loaded.plays))
    assert ["warning: this case expects nothing" in str(one) for one in found] == (
        [] if says else [True]
    )


def test_a_table_that_expects_nothing_is_noticed_once() -> None:
    rows = [{"who": "Ada"}, {"who": "Bob"}]
    loaded = read(cases=[{"name": "{{who}}", "table": rows, "steps": [{"say": "{{who}}"}]}])
    assert len(loaded.plays) == 2
    assert len(warnings(loaded.text, ((play.pointer, play.case) for play in loaded.plays))) == 1
