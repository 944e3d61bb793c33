"""What --fix changes in a text, what it leaves alone, and that nothing gets worse by it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.documents.check import check_data
from llm_fsm.errors import Finding
from llm_fsm.lint.fix.fixes import Fixed, fix
from paths import TESTS

DATA = TESTS / "data" / "definitions"


def judge(text: str) -> list[Finding]:
    return check_data(text.encode("utf-8", "surrogatepass"), file="f.json")


def mended(text: str) -> Fixed:
    return fix(text, judge)


def whole(state: str, more: str = "") -> str:
    return f'{{"name": "n", "initial_state": "a", "states": {{"a": {state}}}{more}}}'


CASES = [
    ('{"porpose": "x"}', '{"purpose": "x"}'),
    (
        '{"transitons": [], /* kept */ "purpose": "x"}',
        '{"transitions": [], /* kept */ "purpose": "x"}',
    ),
    ('{"max_retries": "2"}', '{"max_retries": 2}'),
    ('{"memory": "True"}', '{"memory": true}'),
    ('{"required_context_keys": "x"}', '{"required_context_keys": ["x"]}'),
    ('{"purpose": "x", "purpose": "x"}', '{"purpose": "x"}'),
    ('{"purpose": "x", "purpose": "x", "id": "a"}', '{"purpose": "x", "id": "a"}'),
    ('{"is_terminal": true}', '{"kind": "final"}'),
    ('{"transitions": [{"target": "a"}]}', '{"transitions": [{"target_state": "a"}]}'),
    ('{"transitions": [{"to": "a"}]}', '{"transitions": [{"target_state": "a"}]}'),
    ('{"context_scope": {"read_keys": ["x"]}}', '{"context_scope": {"read": ["x"]}}'),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_what_is_safe_is_mended_where_it_stands(before: str, after: str) -> None:
    done = mended(whole(before))
    assert done.text == whole(after)
    assert len(done.changes) == 1


@pytest.mark.parametrize(
    "state",
    [
        '{"purpose": "x", "purpose": "y"}',  # which one is meant?
        '{"porpose": "x", "purpose": "y"}',  # the right key is there
        '{"qqq": 1}',
        '{"message": "x"}',  # "reply" is a guess by meaning
        '{"max_retries": "many"}',
        '{"transitions": [{"target_state": "aa"}]}',
        '{"kind": "finall"}',
        '{"purpose": "x"}',
    ],
)
def test_what_is_not_safe_is_left_alone(state: str) -> None:
    assert mended(whole(state)) == Fixed(whole(state), ())


def test_lines_comments_order_and_the_byte_order_mark_stay() -> None:
    before = '\ufeff{\r\n  // who\r\n  "nmae": "n",\r\n\t"initial_state": "a", "states": {"a": {},},\r\n}\r\n'
    assert mended(before).text == before.replace("nmae", "name")


def test_a_member_on_lines_of_its_own_goes_with_its_lines() -> None:
    before = '{\n  "name": "n",\n  "persona": "x",\n  "persona": "x",\n  "initial_state": "a", "states": {"a": {}}\n}\n'
    assert mended(before).text == before.replace('  "persona": "x",\n', "", 1)
    last = '{\n  "name": "n", "initial_state": "a", "states": {"a": {}},\n  "ui": {"x": [1]},\n  "ui": {"x": [1]}\n}\n'
    assert mended(last).text == last.replace(',\n  "ui": {"x": [1]}\n', "\n", 1)


def test_many_changes_are_made_in_one_go_and_told() -> None:
    text = whole(
        '{"porpose": "x", "memory": "true", "transitions": [{"target_state": "z", "priority": "5"}]},'
        ' "z": {"is_final": true}'
    )
    done = mended(text)
    assert len(done.changes) == 4
    assert [found.level for found in judge(done.text) if found.level != "info"] == []


@pytest.mark.parametrize("text", ["", "{", '{"states": {', "[1]", '{"name": "\\ud800"}'])
def test_what_is_no_definition_stays_as_it_is(text: str) -> None:
    assert mended(text) == Fixed(text, ())


def test_mending_twice_changes_nothing_more() -> None:
    for path in sorted(DATA.glob("*.json*")):
        text = path.read_text(encoding="utf-8")
        once = mended(text).text
        assert mended(once).text == once, path.name


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mending_never_adds_an_error_and_never_breaks_a_text(data: st.DataObject) -> None:
    text = (
        DATA / data.draw(st.sampled_from(["every_key.json", "runtime_4.json", "faulty.jsonc"]))
    ).read_text(encoding="utf-8")
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at]
        + data.draw(st.sampled_from(["", '"', ",", "x", "1", " "]))
        + text[at + data.draw(st.integers(0, 2)) :]
    )
    after = mended(damaged)
    errors = [sum(found.level == "error" for found in judge(one)) for one in (damaged, after.text)]
    assert errors[1] <= errors[0]
    if not after.changes:
        assert after.text == damaged


def test_the_value_of_what_is_mended_is_the_same_but_for_the_fault() -> None:
    text = json.dumps(
        {
            "name": "n",
            "initial_state": "a",
            "states": {"a": {"porpose": 'q"uo\\te', "ui": [1, {"b": 2}]}},
        }
    )
    after = json.loads(mended(text).text)
    assert after["states"]["a"] == {"purpose": 'q"uo\\te', "ui": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"type": "integer", "minimun": 1}', '{"type": "integer", "minimum": 1}'),
        ('{"type": "string", "x-sorce": "host"}', '{"type": "string", "x-source": "host"}'),
        ('{"type": "string", "max_length": 9}', '{"type": "string", "maxLength": 9}'),
    ],
)
def test_misspelt_words_of_schemas_are_mended(before: str, after: str) -> None:
    more = ', "context_schema": {"type": "object", "properties": {"k": %s}}'
    assert mended(whole("{}", more % before)).text == whole("{}", more % after)


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "string", "x-sorce": "hots"}',  # it would be an error under the right name
        '{"type": "string", "format": "e-mail"}',  # a value, not a name
        '{"type": "string", "values": ["a"]}',  # "enum" is a guess by meaning
    ],
)
def test_words_of_schemas_that_are_not_safe_to_mend_stay(schema: str) -> None:
    text = whole("{}", f', "context_schema": {{"type": "object", "properties": {{"k": {schema}}}}}')
    assert mended(text).text == text
