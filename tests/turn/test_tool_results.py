from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.turn.tool_results import MAX_RESULT, SHORT, ResultFault, result_value, shortened

texts = st.text(max_size=400)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(texts, inner, max_size=8),
    max_leaves=40,
)


def size(value) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@given(values, st.integers(200, 3000))
def test_a_shortened_value_is_json_within_the_limit_and_a_short_one_stays(value, limit):
    short = shortened(value, limit)
    assert size(short) <= limit
    assert type(short) is type(value)
    if size(value) <= limit:
        assert short == value


@given(st.text(min_size=200, max_size=3000))
def test_a_text_keeps_its_beginning_and_says_what_is_missing(text):
    short = shortened(text, 200)
    if short != text:
        kept, _, mark = short.rpartition("… [")
        assert text.startswith(kept)
        assert mark == f"{len(text) - len(kept)} characters missing]"
        assert size(short) > 190 or size(text[len(kept)]) > 3


def test_strings_are_cut_before_members_are_dropped():
    value = {"content": "x" * 20_000, "note": "y" * 900, "status": "ok", "lines": [1, 2]}
    short = shortened(value)
    assert (short["note"], short["status"], short["lines"]) == (value["note"], "ok", [1, 2])
    assert short["content"].endswith("characters missing]")
    assert size(short) <= SHORT


def test_lists_and_objects_keep_their_first_members_and_say_how_many_are_missing():
    short = shortened(list(range(10_000)), 300)
    assert short[:3] == [0, 1, 2]
    assert short[-1] == f"… [{10_000 - (len(short) - 1)} items missing]"
    named = shortened({f"key{n}": n for n in range(1000)}, 300)
    assert named["…"] == f"[{1000 - (len(named) - 1)} members missing]"
    inner = shortened({"rows": [{"n": n} for n in range(1000)], "…": 1}, 400)
    assert inner["rows"][0] == {"n": 0}
    assert inner["rows"][-1].endswith("items missing]")
    assert inner["……"] == "[1 members missing]"


def test_a_limit_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="200 characters or more, not 10"):
        shortened("x", 10)


@pytest.mark.parametrize("count", [MAX_RESULT - 2, MAX_RESULT - 1, 5 * MAX_RESULT])
def test_the_largest_result_is_one_of_so_many_characters(count):
    if count == MAX_RESULT - 2:
        assert result_value("x" * count) == "x" * count
        return
    with pytest.raises(ResultFault, match="too large"):
        result_value("x" * count)


@given(values)
def test_json_values_stay_what_they_are(value):
    try:
        assert result_value(value) == value
    except ResultFault as fault:
        assert "64 bits" in str(fault)  # noqa: PT017
