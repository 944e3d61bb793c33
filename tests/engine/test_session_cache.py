"""Sessions as their callers had them last."""

from __future__ import annotations

import sys

import pytest

from llm_fsm._copies import changed
from llm_fsm.engine.session_cache import MOST, Recent, Seen
from llm_fsm.session.session import Session
from llm_fsm.session.window import Window, longer


def _session(number: int, turn: int = 1) -> Session:
    return changed(Session(conversation_id=f"c{number}"), turn=turn)


def _size(seen: Seen) -> int:
    return sys.getsizeof(vars(seen.session))


def test_a_turn_puts_down_its_session_and_what_was_stored_of_it() -> None:
    recent, seen = Recent(), Seen(_session(0))
    recent.see(seen, _session(0, turn=2), "{}")
    assert (seen.session.turn, seen.text) == (2, "{}")


def test_what_was_read_anew_is_not_read_again() -> None:
    recent, seen = Recent(), Seen(_session(0))
    recent.read(seen, _session(0, turn=2), "{}")
    assert (seen.as_of("{}"), seen.as_of("{ }")) == (_session(0, turn=2), None)


def test_what_waits_longer_than_the_last_turns_takes_less_memory_and_is_the_same() -> None:
    recent, all_seen = Recent(), [Seen(_session(number)) for number in range(MOST + 2)]
    for number, seen in enumerate(all_seen):
        recent.see(seen, _session(number), "")
    assert len(recent) == MOST
    assert [_size(seen) < _size(all_seen[-1]) for seen in all_seen] == [True, True] + [False] * MOST
    assert [seen.session for seen in all_seen] == [_session(number) for number in range(MOST + 2)]


def test_what_waits_longer_keeps_no_json_of_its_exchanges() -> None:
    recent, said = Recent(), longer((), ("a", "b"))
    all_seen = [Seen(changed(_session(number), window=said)) for number in range(MOST + 1)]
    for seen in all_seen:
        recent.see(seen, seen.session, "")
    assert {type(seen.session.window) for seen in all_seen[1:]} == {Window}
    assert type(all_seen[0].session.window) is tuple
    assert all_seen[0].session == Session(conversation_id="c0", turn=1, window=(("a", "b"),))


class _Watched(Seen):
    """One at which another thread looks after each step of a change."""

    __slots__ = ("found",)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if hasattr(self, "found"):
            self.found.extend((text, found.turn) for text in ("1", "2") if (found := self.as_of(text)) is not None)


def test_who_looks_while_a_turn_is_put_down_never_takes_another_turn_for_it() -> None:
    recent, seen = Recent(), _Watched(_session(0, turn=1), "1")
    seen.found = []
    recent.see(seen, _session(0, turn=2), "2")
    recent.see(seen, _session(0, turn=1), "1")
    assert set(seen.found) == {("2", 2), ("1", 1)}


class _Interrupted(Seen):
    """One at which another thread puts the second turn down while its session is looked at."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name == "session":
            Recent().see(self, _session(0, turn=2), "2")
        return found


@pytest.mark.parametrize("text", ["1", "2"])
def test_a_turn_put_down_while_someone_looks_is_never_mixed_with_the_one_before(text: str) -> None:
    assert _Interrupted(_session(0, turn=1), "1").as_of(text) is None


def test_what_waits_longer_keeps_no_copy_of_its_lists() -> None:
    recent, all_seen = Recent(), [Seen(_session(number)) for number in range(MOST + 2)]
    for seen in all_seen:
        recent.see(seen, seen.session, "{}", "" if seen is all_seen[0] else "of a list")
    assert [(seen.text, seen.loose) for seen in all_seen[:3]] == [("{}", ""), ("", ""), ("{}", "of a list")]


def test_one_that_takes_many_turns_pushes_no_other_out() -> None:
    recent, first, busy = Recent(), Seen(_session(0)), Seen(_session(1))
    recent.see(first, _session(0), "")
    for turn in range(MOST + 1):
        recent.see(busy, _session(1, turn), "")
    assert len(recent) == 2
    assert _size(first) == _size(busy)
