"""Turn records: what one turn did, as JSON text that is written once and read for ever.

Shape: {"format": 1, "kind": …, "turn": n, "usage": {…}, "events": [{"type": …}]}; the kinds are `Kind`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from llm_fsm._copies import stored
from llm_fsm._json import in_unicode, value_of
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session import serialization as event_json
from llm_fsm.session import session as se
from llm_fsm.session.messages import Message, Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session

FORMAT = 1
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
Kind = Literal["start", "message", "run", "answer", "due", "end", "undo", "migrate"]


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class TurnRecord:
    """One turn as it is kept. `turn` is the session's number of the turn; 0 is the start."""

    kind: Kind
    turn: int
    usage: Usage
    events: tuple[ev.Event, ...]

    @property
    def text(self) -> str:
        """What was said to the user in it."""
        return "\n\n".join([event.text for event in self.events if isinstance(event, ev.BotSaid)])

    @property
    def heard(self) -> ev.UserSaid | None:
        """The user's message that it answers, if there was one."""
        return next((event for event in self.events if isinstance(event, ev.UserSaid)), None)


def dump(record: TurnRecord) -> str:
    """The record as canonical JSON text that is valid in UTF-8."""
    document = {
        "format": FORMAT,
        "kind": record.kind,
        "turn": record.turn,
        "usage": record.usage.__dict__,
        "events": [event_json.to_dict(event) for event in record.events],
    }
    return in_unicode(document)


def parse(text: str) -> TurnRecord:
    """The record of a text. Raises UnreadableError for what this version cannot read."""
    try:
        document = value_of(text)
        if document["format"] != FORMAT:
            raise UnreadableError(
                f"a turn record has format {document['format']!r}; this version reads format {FORMAT}"
            )
        return TurnRecord(
            kind=document["kind"],
            turn=document["turn"],
            usage=stored(Usage, document["usage"]),
            events=tuple(event_json.from_dict(event) for event in document["events"]),
        )
    except _DAMAGED as error:
        raise UnreadableError(f"a turn record cannot be read: {error}") from error


def dump_session(session: Session) -> str:
    """A session as canonical JSON text that is valid in UTF-8."""
    return in_unicode(se.to_dict(session))


def parse_session(text: str) -> Session:
    """The session of a text. Raises UnreadableError for what this version cannot read."""
    try:
        return se.from_dict(value_of(text))
    except _DAMAGED as error:
        raise UnreadableError(f"a stored conversation cannot be read: {error}") from error


def standing(records: Iterable[TurnRecord]) -> list[tuple[int, TurnRecord]]:
    """The records that were not taken back, with their numbers (from 1)."""
    kept: dict[int, TurnRecord] = {}
    for number, record in enumerate(records, 1):
        if record.kind == "undo":
            for event in record.events:
                if isinstance(event, ev.TurnUndone):  # what carried the conversation over since goes with it
                    kept = {known: one for known, one in kept.items() if known < event.record}
        else:
            kept[number] = record
    return list(kept.items())


def replay(conversation_id: str, records: Sequence[TurnRecord]) -> Session:
    """The session after all records: a fold over their events."""
    session = Session(conversation_id=conversation_id)
    for record in records:
        session = fold(session, record.events)
    return session


def transcript(records: Iterable[TurnRecord]) -> tuple[Message, ...]:
    """The whole conversation as its caller reads it, without turns that were taken back."""
    messages: list[Message] = []
    for _, record in standing(records):
        for event in record.events:
            if isinstance(event, ev.UserSaid):
                messages.append(Message(role="user", text=event.text, turn=record.turn))
            elif isinstance(event, ev.BotSaid):
                messages.append(Message(role="assistant", text=event.text, turn=record.turn))
    return tuple(messages)
