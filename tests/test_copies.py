"""Frozen values made, and copies with some fields changed."""

from __future__ import annotations

import sys
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from llm_fsm.copies import changed, fields, kept, made
from llm_fsm.events import UserSaid
from llm_fsm.messages import Usage
from llm_fsm.session import Frame, Session


def test_a_copy_is_what_replace_makes_and_leaves_the_original() -> None:
    before = Session(conversation_id="c", state="a", context={"k": 1})
    after = changed(before, state="b", turn=3)
    assert after == replace(before, state="b", turn=3)
    assert (before.state, before.turn) == ("a", 0)
    assert after.context is before.context


def test_a_value_is_made_as_its_constructor_makes_it() -> None:
    assert made(UserSaid, text="Hi", time=3.0) == UserSaid(text="Hi", time=3.0)
    assert hash(made(UserSaid, text="Hi", time=3.0)) == hash(UserSaid(text="Hi", time=3.0))
    assert made(Usage, calls=1) + Usage(calls=2, attempts=3) == Usage(calls=3, attempts=3)


def test_the_fields_of_a_value_are_its_own() -> None:
    frame = Frame(kind="subflow", kept={"context": {"k": [1]}}, wanted=("k",))
    assert fields(frame) == asdict(frame)
    assert fields(frame)["kept"] is frame.kept


def test_what_was_made_stays_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        made(UserSaid, text="Hi", time=3.0).text = "Ho"  # type: ignore[misc]


def test_what_is_kept_is_the_same_in_less_memory_and_can_be_changed_again() -> None:
    session = changed(Session(conversation_id="c", context={"k": 1}), turn=3)
    small = kept(session)
    assert small == session
    assert small.context is session.context
    assert sys.getsizeof(vars(small)) < sys.getsizeof(vars(session))
    after = changed(small, turn=4)
    assert (after, small.turn) == (changed(session, turn=4), 3)
    assert list(vars(small)) == list(vars(after)) == list(vars(session))


def test_two_that_are_kept_share_no_values() -> None:
    first, second = (kept(Session(conversation_id=name)) for name in "ab")
    assert (first.conversation_id, second.conversation_id) == ("a", "b")
