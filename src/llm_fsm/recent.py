"""Sessions as their callers had them last, so that a turn need not read again what still holds.

Those of the last turns are left as they are quickest to read; what waits longer, as one of many, takes less memory.
"""

from __future__ import annotations

from collections import OrderedDict

from llm_fsm.copies import kept
from llm_fsm.session import Session

MOST = 64
"""Sessions that are quick to read."""


class Seen:
    """A session as a caller had it last, and what was stored of it then; "" where that is not known."""

    __slots__ = ("session", "text")

    def __init__(self, session: Session, text: str = "") -> None:
        self.session = session
        self.text = text


class Recent:
    """What was seen in the last turns of one machine."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[Seen, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, seen: Seen, session: Session, text: str) -> None:
        """Put down what a turn made of a session."""
        seen.session, seen.text = session, text
        self._seen[seen] = None
        self._seen.move_to_end(seen)
        if len(self._seen) > MOST:
            waiting, _ = self._seen.popitem(last=False)
            waiting.session = kept(waiting.session, window=tuple(waiting.session.window))
