"""Sessions as their callers had them last, so that a turn need not read again what still holds.

Those last resumed or in a turn are left as they are quickest to read; what waits longer, as one of many,
takes less memory.
"""

from __future__ import annotations

from collections import OrderedDict

from llm_fsm._copies import kept
from llm_fsm.session.session import Session, loose_parts, with_parts

MOST = 64
"""Sessions that are quick to read."""


class Seen:
    """A session as a caller had it last, and what was stored of it then; "" where that is not known.

    `loose`: the parts of it that callers could change since, as of `loose_parts`.
    """

    __slots__ = ("loose", "session", "text")

    def __init__(self, session: Session, text: str = "", loose: str = "") -> None:
        self.session = session
        self.text = text
        self.loose = loose

    def as_of(self, text: str) -> Session | None:
        """The session as it was then, if this is what was stored of it."""
        if self.text != text:
            return None
        session, loose = self.session, self.loose
        return with_parts(session, loose) if self.text == text else None  # looked at last, too, see `Recent.see`


class Recent:
    """What was seen last in turns of one machine, and when conversations were resumed."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[Seen, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def found(self, session: Session, text: str) -> Seen:
        """What was read of a conversation, for whoever goes on with it: its next turn does not read it again."""
        seen, loose = Seen(session), loose_parts(session)
        if loose is not None:
            self.see(seen, session, text, loose)
        return seen

    def read(self, seen: Seen, session: Session, text: str) -> None:
        """Put down what was read of a session anew: nor does its next turn read that again."""
        loose = loose_parts(session)
        self.see(seen, session, "" if loose is None else text, loose or "")

    def see(self, seen: Seen, session: Session, text: str, loose: str = "") -> None:
        """Put down what a turn made of a session."""
        seen.text = ""  # another thread may look meanwhile, and would take parts of two turns for one
        seen.session, seen.loose = session, loose
        seen.text = text
        self._seen[seen] = None
        self._seen.move_to_end(seen)
        if len(self._seen) > MOST:
            waiting, _ = self._seen.popitem(last=False)
            waiting.session = kept(waiting.session, window=tuple(waiting.session.window))
            if waiting.loose:  # as much again as its lists and objects
                waiting.text, waiting.loose = "", ""
