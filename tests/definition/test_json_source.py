import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._json import escape
from llm_fsm.definition.json_source import Position, SourceError, parse, scan

FLOW = """{
  // the smallest machine
  "name": "greeter",
  "states": {
    "hello": {"transitions": [{"target_state": "bye"}, {"target_state": "gret"}]}, /* two */
    "a/b~c": 1,
  },
}
"""


@pytest.mark.parametrize(
    ("pointer", "position", "key_position"),
    [
        ("", (1, 1), (1, 1)),
        ("/name", (3, 11), (3, 3)),
        ("/states/hello", (5, 14), (5, 5)),
        ("/states/hello/transitions/1", (5, 56), (5, 56)),
        ("/states/hello/transitions/1/target_state", (5, 73), (5, 57)),
        ("/states/a~1b~0c", (6, 14), (6, 5)),
        ("/states/gone/purpose", (4, 13), (4, 13)),
        ("/states/hello/transitions/7", (5, 30), (5, 30)),
        ("/name/deeper", (3, 11), (3, 11)),
        ("/gone", (1, 1), (1, 1)),
    ],
)
def test_every_pointer_has_a_place(pointer, position, key_position):
    found = scan(FLOW)
    assert found.position(pointer) == Position(*position)
    assert found.position(pointer, at_key=True) == Position(*key_position)


def test_comments_and_trailing_commas_are_read():
    expected = {
        "name": "greeter",
        "states": {
            "hello": {"transitions": [{"target_state": "bye"}, {"target_state": "gret"}]},
            "a/b~c": 1,
        },
    }
    assert parse(FLOW) == scan(FLOW).value == expected


def test_duplicate_keys_are_reported_and_the_last_one_counts():
    found = scan('{"s": {"a": {"old": {"x": 1}},\n "b": 2,\n "a": {"new": 3}, "a": 4}}')
    assert found.value == {"s": {"a": 4, "b": 2}}
    assert [(d.pointer, d.key, d.position, d.first) for d in found.duplicates] == [
        ("/s/a", "a", Position(3, 2), Position(1, 8)),
        ("/s/a", "a", Position(3, 19), Position(1, 8)),
    ]
    assert found.position("/s/a") == found.position("/s/a/old/x") == Position(3, 24)
    assert found.position("/s/a", at_key=True) == Position(3, 19)


def test_duplicates_inside_lists_and_escaped_keys_are_named():
    [found] = scan('[0, {"a/b": 1, "a\\u002fb": 2}]').duplicates
    assert (found.pointer, found.key) == ("/1/a~1b", "a/b")


READABLE = [
    ("1", 1),
    ("-0", 0),
    ("-1.5e+3", -1500.0),
    (' "a" ', "a"),
    ("true//x", True),
    ("/**/null/***/", None),
    ("1/* a * / b */", 1),
    ("[]", []),
    ("[ /* none */ ]", []),
    ("[1,]", [1]),
    ("{}", {}),
    ('{"a":{},"b":[[]],}', {"a": {}, "b": [[]]}),
    ('"\\u00e9\\n\\"\\/\\\\"', 'é\n"/\\'),
    ('"\\ud83d\\ude00"', "😀"),
    ('"\\ud83d"', "\ud83d"),
    ('"\ud83d"', "\ud83d"),
    ('\ufeff{"a":\r\n\t1}', {"a": 1}),
    ('"// no comment /* at all"', "// no comment /* at all"),
    ('{"": 1}', {"": 1}),
    ("9" * 1000, int("9" * 1000)),
    ("[" * 200 + "]" * 200, None),
]


@pytest.mark.parametrize(("text", "expected"), READABLE)
def test_both_ways_read_the_same(text, expected):
    value = parse(text)
    assert json.dumps(value) == json.dumps(scan(text).value)
    if expected is not None:
        assert value == expected


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("", 1, 1, "the text is empty", None),
        (" \n// only this\n", 3, 1, "the text is empty", None),
        (
            "{",
            1,
            2,
            "ends inside the object that begins in line 1, column 1",
            "expected ',' or '}'",
        ),
        ("[\n {\n", 3, 1, "ends inside the object that begins in line 2, column 2", "'}'"),
        ("[1,2", 1, 5, "ends inside the list", "']'"),
        ('{"a":', 1, 6, "ends inside the object", "'}'"),
        ('{"a":1\r\n "b":2}', 2, 2, "expected ',' or '}'", None),
        ('{"a":1\r "b":2}', 2, 2, "expected ',' or '}'", None),
        ("[1 2]", 1, 4, "expected ',' or ']'", None),
        ("[1}", 1, 3, "expected ',' or ']'", None),
        ("{'a':1}", 1, 2, "expected a key or '}'", "double quotes"),
        ("{a:1}", 1, 2, "expected a key or '}', here is a", "double quotes"),
        ("{,}", 1, 2, "expected a key or '}', here is ','", "double quotes"),
        ('{"a" 1}', 1, 6, "expected ':' after the key", None),
        ('{"a":}', 1, 6, "expected a value, here is '}'", None),
        ("[,]", 1, 2, "expected a value, here is ','", None),
        ("[1,,2]", 1, 4, "expected a value, here is ','", None),
        ("1 2", 1, 3, "expected the end of the text", None),
        ("{}}", 1, 3, "expected the end of the text", None),
        ('["abc', 1, 2, "a text has no end", "double quote"),
        ('["a\nb"]', 1, 2, "not closed on its line", "\\n"),
        ('["é\\x"]', 1, 4, "unknown escape", "\\\\"),
        ('["\\u12G4"]', 1, 3, "unknown escape", None),
        ('["a\x01"]', 1, 4, "control character U+0001", "\\u0001"),
        ('{"a\tb": 1}', 1, 4, "a key has the control character U+0009", "\\u0009"),
        ("[01]", 1, 2, "01 is not a number as JSON writes it", None),
        ("[1.]", 1, 2, "1. is not a number", None),
        ("[.5]", 1, 2, "expected a value, here is .5", "numbers look like"),
        ("[+1]", 1, 2, "expected a value, here is +1", "numbers look like"),
        ("[-]", 1, 2, "expected a value, here is -", "numbers look like"),
        ("[0x1F]", 1, 2, "0x1F is not a number", None),
        ("[٣]", 1, 2, "expected a value", None),
        ("[NaN]", 1, 2, "expected a value, here is NaN", "did you mean null?"),
        ("[-Infinity]", 1, 2, "expected a value, here is -Infinity", "did you mean null?"),
        ("[True]", 1, 2, "expected a value, here is True", "did you mean true?"),
        ("[flase]", 1, 2, "expected a value, here is flase", "did you mean false?"),
        ("[hello]", 1, 2, "expected a value, here is hello", "double quotes"),
        ("[1e999]", 1, 2, "the number is too large", "1.7e308"),
        ("[" + "9" * 5000 + "]", 1, 2, "5,000 characters", None),
        ("[1] /* x", 1, 5, "the comment has no end", "*/"),
        ("[1] / 2", 1, 5, "expected the end of the text", None),
        ("[" * 10_000, 1, 201, "deeper than 200", None),
        ('{"a":' * 10_000, 1, 1001, "deeper than 200", None),
        ("[" * 201 + "]" * 201, 1, 201, "deeper than 200", None),
        ("[" * 500 + "]" * 500, 1, 201, "deeper than 200", None),
        ("\ufeff[x]", 1, 2, "expected a value, here is x", None),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text, line, column, message, hint):
    for read in (parse, scan):
        with pytest.raises(SourceError) as caught:
            read(text)
        error = caught.value
        assert (error.line, error.column) == (line, column)
        assert message in error.message
        assert hint is None or hint in (error.hint or "")
        assert str(error).startswith(f"line {line}, column {column}: {error.message}")


def test_a_text_over_the_limit_is_not_read():
    assert parse("[1]", limit=3)
    with pytest.raises(SourceError, match="4 characters, at most 3 are read"):
        parse("[12]", limit=3)


def test_a_long_key_is_not_repeated_for_each_place():
    key = "k" * 200_000
    found = scan(json.dumps({key: [1] * 50_000}))
    assert found.position(f"/{key}/49999") == Position(1, 200_007 + 49_999 * 3)


keys = st.text(max_size=6) | st.sampled_from(["a", "a/b", "~", "~1", "", "0", "\ud800"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("\udc00"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
layouts = st.sampled_from(
    [{}, {"indent": 2}, {"indent": "\t", "ensure_ascii": False}, {"separators": (",", ":")}]
)


def members(value, pointer=""):
    """Every pointer of a value, with the key (None for elements) and the value there."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{pointer}/{escape(key)}", key, item
            yield from members(item, f"{pointer}/{escape(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{pointer}/{index}", None, item
            yield from members(item, f"{pointer}/{index}")


@given(values, layouts, st.sampled_from(["\n", "\r\n", "\r"]))
def test_written_json_is_read_back_with_its_places(value, layout, line_end):
    text = json.dumps(value, **layout).replace("\n", line_end)
    found = scan(text)
    assert found.value == value
    assert found.duplicates == ()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    decoder = json.JSONDecoder()

    def read_at(position):
        rest = "\n".join([lines[position.line - 1][position.column - 1 :], *lines[position.line :]])
        return decoder.raw_decode(rest)[0]

    for pointer, key, item in members(value):
        assert read_at(found.position(pointer)) == item
        if key is not None:
            assert read_at(found.position(pointer, at_key=True)) == key


@given(st.text(st.sampled_from('{}[]",:/*\\ \n01.-etruflasn\ud800\x00'), max_size=30) | st.text())
def test_any_text_is_read_or_refused(text):
    try:
        value = parse(text)
    except SourceError:
        return
    assert json.loads(json.dumps(value)) == value


@given(st.text(st.sampled_from('{}[]",: 01.-etruflasn'), max_size=20))
def test_what_strict_json_accepts_has_the_same_value_here(text):
    try:
        expected = json.loads(text)
    except ValueError:
        return
    if not isinstance(expected, float) or math.isfinite(expected):
        assert parse(text) == expected
