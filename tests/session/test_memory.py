from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.session.memory import MAX_BUCKET, NAMES, SPECS, Background, Memory, MemoryFault, call

contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
steps = st.lists(
    st.tuples(st.sampled_from(["set", "append", "clear"]), st.integers(0, 9), contents), max_size=30
)


@given(steps)
def test_buckets_behave_as_a_list_of_texts(steps):
    memory, model = Memory(), [""] * 10
    for what, index, content in steps:
        if what == "set":
            memory, model[index] = memory.set(index, content), content
        elif what == "append":
            memory = memory.append(index, content)
            model[index] = "\n".join(part for part in (model[index], content) if part)
        else:
            memory, model[index] = memory.clear(index), ""
    assert [memory.get(index) for index in range(10)] == model
    assert memory.non_empty() == {index: text for index, text in enumerate(model) if text}
    assert Memory.from_dict(json.loads(json.dumps(memory.to_dict()))) == memory


@given(
    st.sampled_from([*sorted(NAMES), "other"]),
    st.dictionaries(
        st.sampled_from(["bucket_index", "content", "x"]),
        st.none()
        | st.integers(-2, 11)
        | st.floats()
        | st.text(max_size=5)
        | st.lists(st.integers()),
    ),
)
def test_whatever_a_model_calls_is_answered_in_words(name, arguments):
    before = Memory().set(1, "one")
    after, told = call(before, name, arguments)
    assert told
    if told.startswith("error: "):
        assert after == before


def test_a_memory_never_changes():
    memory = Memory()
    changed = memory.set(0, "a")
    assert (memory.get(0), changed.get(0), memory.non_empty()) == ("", "a", {})


def test_empty_buckets_are_hidden():
    memory = Memory().set(3, "c").set(7, "g").clear(7)
    assert memory.to_context() == {"bucket 3": "c"}
    assert memory.to_dict() == {"3": "c"}


@pytest.mark.parametrize(
    ("index", "content", "says"),
    [
        (10, "x", "bucket_index is a whole number from 0 to 9, not 10"),
        (-1, "x", "not -1"),
        (True, "x", "not True"),
        (1.5, "x", "not 1.5"),
        ("one", "x", "not 'one'"),
        (None, "x", "not None"),
        (0, 7, "the content is text, not int"),
        (
            0,
            "x" * 4001,
            "bucket 0 holds at most 4000 characters, and this would be 4001; shorten it",
        ),
        (0, "\ud800", "half of a surrogate pair"),
    ],
)
def test_what_does_not_fit_is_refused(index, content, says):
    for change in (Memory().set, Memory().append):
        with pytest.raises(MemoryFault, match=says):
            change(index, content)


def test_appending_counts_what_is_there():
    memory = Memory().set(2, "x" * MAX_BUCKET)
    with pytest.raises(MemoryFault, match="this would be 4002"):
        memory.append(2, "y")
    assert memory.append(2, "") == memory


def test_the_tools_of_the_model():
    assert [spec.name for spec in SPECS] == [
        "set_memory",
        "append_memory",
        "get_memory",
        "clear_memory",
        "view_all_memory",
    ]
    assert list(SPECS[0].parameters["properties"]) == ["bucket_index", "content"]
    assert all(spec.parameters["additionalProperties"] is False for spec in SPECS)


@pytest.mark.parametrize(
    ("name", "arguments", "told", "buckets"),
    [
        (
            "set_memory",
            {"bucket_index": 0, "content": "n"},
            "bucket 0 holds 1 of 4000",
            {0: "n", 1: "one"},
        ),
        ("set_memory", {"bucket_index": "1", "content": ""}, "bucket 1 holds 0 of 4000", {}),
        (
            "append_memory",
            {"bucket_index": 1.0, "content": "two"},
            "bucket 1 holds 7",
            {1: "one\ntwo"},
        ),
        ("get_memory", {"bucket_index": 1}, "one", {1: "one"}),
        ("get_memory", {"bucket_index": 2}, "bucket 2 is empty", {1: "one"}),
        ("clear_memory", {"bucket_index": 1}, "bucket 1 is empty now", {}),
        ("view_all_memory", {}, '{"1": "one"}', {1: "one"}),
        (
            "set_memory",
            {"bucket_index": 1},
            "error: set_memory takes bucket_index and content",
            {1: "one"},
        ),
        ("view_all_memory", {"x": 1}, "error: view_all_memory takes no arguments", {1: "one"}),
        ("get_memory", {"bucket_index": 12}, "error: bucket_index is a whole number", {1: "one"}),
        (
            "wipe_memory",
            {},
            "error: there is no memory tool 'wipe_memory'; there are set_memory",
            {1: "one"},
        ),
    ],
)
def test_a_call_gives_the_memory_after_it_and_what_to_tell(name, arguments, told, buckets):
    after, said = call(Memory().set(1, "one"), name, arguments)
    assert said.startswith(told)
    assert after.non_empty() == buckets


def test_all_of_an_empty_memory_is_said_in_words():
    assert call(Memory(), "view_all_memory", {}) == (Memory(), "all buckets are empty")


def test_a_background_shows_what_it_says():
    background = Background.from_dict({"goals": ["win"], "custom_fields": {"team": {"size": 3}}})
    assert background.to_dict() == {"goals": ["win"], "custom_fields": {"team": {"size": 3}}}
    more = background.with_todo_list(["a", "b"])
    assert more.to_dict() == {
        "goals": ["win"],
        "todo_list": ["a", "b"],
        "custom_fields": {"team": {"size": 3}},
    }
    assert Background.from_dict(json.loads(json.dumps(more.to_dict()))) == more
    assert Background().to_dict() == {}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (["goals"], "the background is an object, not list"),
        ({"goal": []}, "no field 'goal'; did you mean 'goals'?"),
        ({"zzz": []}, "the fields are vision_mission, goals, todo_list, custom_fields"),
        ({"goals": "win"}, "background.goals: expected a list, got text"),
        ({"todo_list": [1]}, r"background.todo_list\[0\]: expected text, got a whole number"),
        ({"vision_mission": 1}, "background.vision_mission: expected text, got a whole number"),
        ({"custom_fields": []}, "background.custom_fields: expected an object, got a list"),
        ({"custom_fields": {"a": object()}}, "custom_fields: a object has no JSON form"),
        ({"vision_mission": "x" * 20_000}, "would have 20"),
        ({"goals": ["\ud800"]}, "half of a surrogate pair"),
    ],
)
def test_what_is_no_background_is_refused(document, says):
    with pytest.raises(MemoryFault, match=says):
        Background.from_dict(document)
