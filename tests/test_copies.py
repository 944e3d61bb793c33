"""Copies with some fields changed."""

from __future__ import annotations

from dataclasses import replace

from llm_fsm.copies import changed
from llm_fsm.session import Session


def test_a_copy_is_what_replace_makes_and_leaves_the_original() -> None:
    before = Session(conversation_id="c", state="a", context={"k": 1})
    after = changed(before, state="b", turn=3)
    assert after == replace(before, state="b", turn=3)
    assert (before.state, before.turn) == ("a", 0)
    assert after.context is before.context
