"""Forked children let go of what their parents hold, and nothing is kept for them that is gone."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.stores.locks.file_locks import FolderLocks, RangeLocks
from llm_fsm.stores.locks.forks import in_forked_children

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes fork here")


class Holder:
    """What holds a handle."""

    left = False

    def leave(self) -> None:
        """Let go of it."""
        self.left = True


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_lets_go_and_its_parent_does_not() -> None:
    holder = Holder()
    in_forked_children(holder, Holder.leave)
    child = os.fork()
    if child == 0:
        os._exit(int(not holder.left))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not holder.left


@pytest.mark.parametrize("kind", [RangeLocks, FolderLocks])
def test_of_locks_that_are_gone_nothing_stays(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **doing: told.append(doing))
    gone = []
    for number in range(3):
        locks = kind(tmp_path / f"locks-{number}", tmp_path)
        assert locks.take("a")
        locks.close()
        gone.append(weakref.ref(locks))
    del locks
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    assert len(told) <= 1
