"""JSON pointers: made, read and followed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._json import places_of, step, steps, value_at

DOCUMENT = {"a/b": {"~1": [10, {"": 11}]}, "0": None}


@given(st.lists(st.text(max_size=5), max_size=5))
def test_what_is_made_of_steps_reads_back_as_them(path: list[str]) -> None:
    assert steps("".join(map(step, path))) == path


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", DOCUMENT),
        ("/a~1b/~01/0", 10),
        ("/a~1b/~01/1/", 11),
        ("/a~1b/~01/2", None),
        ("/0/x", None),
        ("/a", None),
    ],
)
def test_a_pointer_is_followed_as_far_as_something_stands_there(
    pointer: str, found: object
) -> None:
    assert value_at(DOCUMENT, pointer) == found


def test_a_place_stands_in_those_above_it() -> None:
    assert [*places_of("/a/0/b")] == ["/a/0/b", "/a/0", "/a", ""]
