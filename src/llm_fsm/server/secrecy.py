"""The last step before an answer leaves: no value that a secret key of the conversation ever had.

Every door asks `Secrecy.shown` for a `Redactor`, and passes all documents, values and texts of a
conversation through it. Values are found in the records, so one that was refused, replaced or taken
back counts, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from llm_fsm import AsyncMachine
from llm_fsm import events as ev
from llm_fsm.server.machines import Served
from llm_fsm.server.turns import LiveTurn
from llm_fsm.session.events import Event
from llm_fsm.session.redaction import blotted, is_foreign_name, redacted
from llm_fsm.session.turn_record import parse
from llm_fsm.turn.secrets import secrets_in

_CACHED = 4_096


class _Known(NamedTuple):
    """The values in the first `total` records, the last of which is `last`."""

    total: int
    last: str
    values: frozenset[str]


class Redactor:
    """Blots the secrets of one conversation out of what leaves. `hides`: it has secret keys at all."""

    def __init__(self, machine: AsyncMachine, values: frozenset[str], *, hides: bool) -> None:
        self.hides = hides
        self._machine = machine
        self._values = values
        self._ordered: tuple[str, ...] = ()
        self._sort()

    def _sort(self) -> None:
        self._ordered = tuple(sorted(self._values, key=len, reverse=True))

    def learn(self, event: ev.Event) -> None:
        """Take the values that an event gives to secret keys."""
        if not self.hides:
            return
        found = self._values.union(secrets_in([event], self._machine.program.is_secret))
        if found != self._values:
            self._values = found
            self._sort()

    def document(self, document: Any) -> Any:
        """Return a document of this server without secrets."""
        return blotted(self._ordered, document)

    def value(self, value: Any) -> Any:
        """Return a JSON value of any form without secrets."""
        return redacted(self._ordered, value, foreign=is_foreign_name)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        found: str = redacted(self._ordered, text)
        return found

    async def follow(self, live: LiveTurn, after: int = 0) -> AsyncGenerator[tuple[int, ev.Event]]:
        """Yield the events of a turn as `LiveTurn.follow`, with texts that may leave.

        If the machine has secret keys, texts are held until they are whole. A reply may repeat what
        it only then sets, and two pieces may share a secret.
        """
        if not self.hides:
            async for number, event in live.follow(after):
                yield number, event
            return
        held, restarts, told = "", False, False
        number = after
        async for number, event in live.follow(after):
            if isinstance(event, ev.MessageDelta):
                if event.restart:
                    held, restarts = "", told
                held += event.text
                continue
            self.learn(event)
            if isinstance(event, ev.BotSaid) and (held or restarts):
                yield number - 1, ev.MessageDelta(text=self.text(held), restart=restarts)
                held, restarts, told = "", False, True
            yield number, event
        if held or restarts:
            yield number, ev.MessageDelta(text=self.text(held), restart=restarts)


def _has_secrets(machine: AsyncMachine) -> bool:
    program = machine.program
    return any(one.keys.secrets for one in (program, *program.flows.values()))


class Secrecy:
    """Makes redactors, and remembers what it has read of conversations."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def shown(self, served: Served) -> Redactor:
        """Return the redactor of a conversation as it is now."""
        if not _has_secrets(served.machine):
            return Redactor(served.machine, frozenset(), hides=False)
        return Redactor(served.machine, await self._values(served), hides=True)

    def forget(self, stored: str) -> None:
        """Forget a conversation that was deleted."""
        self._known.pop(stored, None)

    async def _values(self, served: Served) -> frozenset[str]:
        stored, store = served.stored, served.store
        known = self._known.pop(stored, None)
        texts = []
        if known is not None:
            texts = list(await store.records(stored, after=known.total - 1))
        # it is another conversation of the same id
        if known is None or not texts or texts[0] != known.last:
            known = _Known(0, "", frozenset())
            texts = list(await store.records(stored))
        else:
            texts = texts[1:]
        if texts:
            events: list[Event] = []
            for text in texts:
                events += parse(text).events
            found = known.values.union(secrets_in(events, served.machine.program.is_secret))
            known = _Known(known.total + len(texts), texts[-1], found)
        if known.total:
            self._known[stored] = known
            if len(self._known) > _CACHED:
                self._known.popitem(last=False)
        return known.values
