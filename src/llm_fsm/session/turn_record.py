"""Turn records: the events of one turn, as JSON text that is written once.

Shape: {"format": 1, "kind": …, "turn": n, "usage": {…}, "events": [{"type": …}], "time": seconds};
`Kind` lists the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from llm_fsm._json import of_kind, read, text_of, value_of
from llm_fsm._text import INTERRUPTED
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Message, Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session

FORMAT = 1
E = TypeVar("E", bound=ev.Event)
Kind = Literal[
    "start", "message", "update", "run", "answer", "due", "end", "undo", "migrate", "heard"
]


class TurnRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stored turn. `turn` counts messages and answers; the start is turn 0. `time`: when it was
    committed. `missed`: nothing came of its message."""

    kind: Kind
    turn: int
    usage: Usage
    events: tuple[ev.AnyEvent, ...]
    time: float | None = None
    missed: bool = False

    @property
    def text(self) -> str:
        """The words said to the user."""
        return "\n\n".join([said.text for said in of_kind(self.events, ev.BotSaid) if said.text])

    @property
    def by(self) -> str:
        """The person who said the words; "" is the machine."""
        return next((said.by for said in of_kind(self.events, ev.BotSaid)), "")

    @property
    def user_message(self) -> ev.UserSaid | None:
        """The user's message, if there was one."""
        return first_of(self.events, ev.UserSaid)

    @property
    def request_ids(self) -> tuple[str, ...]:
        """The ids of the requests that the turn answers, in order of arrival.

        A turn that merged messages answers the request of each of them.
        """
        found: dict[str | None, None] = {}
        for event in self.events:
            match event:
                case ev.UserSaid():
                    found |= dict.fromkeys([event.request_id, *dict(event.merged)])
                case ev.Answered() | ev.Updated():
                    found[event.request_id] = None
        return tuple(request_id for request_id in found if request_id is not None)


Records = Sequence[TurnRecord]
"""The turns of a conversation, oldest first."""


def dump(record: TurnRecord) -> str:
    """Write a record as canonical JSON text that is valid in UTF-8."""
    return f'{{"format":{FORMAT},{text_of(record)[1:]}'


def parse(text: str) -> TurnRecord:
    """Read the record of a JSON text.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    try:
        document = value_of(text)
        found = document.get("format")
    except (ValueError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"a turn record cannot be read: {error}") from error
    if found != FORMAT:
        raise UnreadableError(
            f"a turn record has format {found!r}; this version reads format {FORMAT}"
        )
    return read(document, TurnRecord, "a turn record cannot be read: record")


def without_undone(records: Iterable[TurnRecord]) -> list[tuple[int, TurnRecord]]:
    """Return the records that were not undone, with their numbers (from 1)."""
    kept: dict[int, TurnRecord] = {}
    for number, record in enumerate(records, 1):
        if record.kind == "undo":
            for event in of_kind(record.events, ev.TurnUndone):
                # An undo takes later migrations back, too.
                kept = {known: one for known, one in kept.items() if known < event.record}
        else:
            kept[number] = record
    return list(kept.items())


class _Eventful(Protocol):
    @property
    def events(self) -> Sequence[ev.Event]: ...


def events_of(turns: Iterable[_Eventful]) -> Iterator[ev.Event]:
    """Yield the events of turns, or of their records, in order."""
    for turn in turns:
        yield from turn.events


def first_of(events: ev.Events, kind: type[E]) -> E | None:
    """Return the first event of a kind; None if there is none."""
    return next(iter(of_kind(events, kind)), None)


def replay(conversation_id: str, records: Records) -> Session:
    """Fold the events of all records into the session after them."""
    session = Session(conversation_id=conversation_id)
    for record in records:
        session = fold(session, record.events)
    return session


def _role(role: str) -> Literal["user", "assistant"]:
    return "user" if role == "user" else "assistant"


def transcript(records: Iterable[TurnRecord]) -> tuple[Message, ...]:
    """Return the whole conversation as its caller reads it, without turns that were undone.

    Of a message that was interrupted, it shows what was heard, with a mark.
    """
    messages: list[Message] = []
    spoken: dict[int, int] = {}
    """Number of a record to the place of its last words among the messages."""
    for number, record in without_undone(records):
        for event in record.events:
            match event:
                case ev.Started():
                    messages += [
                        Message(role=_role(role), text=text, turn=record.turn, claimed=True)
                        for role, text in event.history
                    ]
                case ev.UserSaid():
                    messages.append(Message(role="user", text=event.text, turn=record.turn))
                case ev.BotSaid() if event.text:
                    spoken[number] = len(messages)
                    messages.append(
                        Message(role="assistant", text=event.text, turn=record.turn, by=event.by)
                    )
                case ev.WordsHeard() if event.record in spoken:
                    place = spoken[event.record]
                    messages[place] = replace(
                        messages[place],
                        text=event.text + (INTERRUPTED if event.interrupted else ""),
                        interrupted=event.interrupted,
                    )
    return tuple(messages)
