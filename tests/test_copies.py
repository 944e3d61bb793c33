"""Frozen values made, and copies with some fields changed."""

from __future__ import annotations

import sys
from dataclasses import FrozenInstanceError, asdict, replace
from dataclasses import fields as dataclass_fields
from inspect import signature

import pytest

from llm_fsm._copies import changed, fields, kept, made, row, stored
from llm_fsm.session.events import UserSaid
from llm_fsm.session.messages import ModelReply, Usage
from llm_fsm.session.session import Frame, Session
from llm_fsm.stores.base import Loaded


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


def test_a_row_is_the_named_tuple_that_its_class_makes() -> None:
    found = row(Loaded, "{}", 3, None, "sha")
    assert (type(found), found) == (Loaded, Loaded("{}", 3, None, "sha"))
    assert (found.version, found.definition_sha) == (3, "sha")


def test_a_row_takes_no_names_that_it_would_lose() -> None:
    with pytest.raises(TypeError):
        row(Loaded, "{}", 3, None, definition_sha="sha")  # type: ignore[call-arg]


def test_a_reply_with_a_constructor_of_its_own_is_as_any_frozen_value() -> None:
    reply = ModelReply(text="Hi", model="m")
    defaults = {item.name: item.default for item in dataclass_fields(ModelReply)}
    assert list(defaults) == list(signature(ModelReply).parameters) == list(vars(reply))
    assert asdict(reply) == defaults | {"text": "Hi", "model": "m"}
    assert replace(reply, seconds=2.0) == ModelReply(text="Hi", model="m", seconds=2.0) != reply
    with pytest.raises(FrozenInstanceError):
        reply.text = "Ho"  # type: ignore[misc]
    with pytest.raises(TypeError):
        ModelReply(model="m")  # type: ignore[call-arg]


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


def test_stored_fields_that_a_class_does_not_know_are_left_out() -> None:
    assert stored(Usage, {"calls": 1, "mood": 3}) == Usage(calls=1)
