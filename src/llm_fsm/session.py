"""What one conversation is between turns: a frozen value that changes only by `apply`.

It holds what the next turn needs and no more; the whole history is in the turn records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from llm_fsm import events as ev
from llm_fsm.errors import StoreError

FORMAT = 1
TRUNCATED = "... [truncated]"


def cut(text: str, chars: int) -> str:
    """The first `chars` characters of a text, marked when something is missing."""
    return text if len(text) <= chars else text[:chars] + TRUNCATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation. `window` holds (user or None, system) exchanges; `origins` key to (turn, source)."""

    conversation_id: str
    definition: str = ""
    state: str = ""
    previous_state: str | None = None
    turn: int = 0
    turns_in_state: int = 0
    context: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    window: tuple[tuple[str | None, str], ...] = ()
    user_input: str | None = None
    time: float = 0.0
    notes: tuple[tuple[str, str], ...] = ()
    """(key, reason) of refused values that the next prompt tells the model."""
    ended: bool = False
    outcome: str | None = None

    def system_names(self) -> dict[str, Any]:
        """The read-only names that conditions, prompts, handlers and fixed replies may use."""
        return {
            "_conversation_id": self.conversation_id,
            "_current_state": self.state,
            "_previous_state": self.previous_state,
            "_user_input": self.user_input,
            "_turn": self.turn,
            "_turns_in_state": self.turns_in_state,
            "_timestamp": self.time,
        }

    def data(self) -> dict[str, Any]:
        """What conditions read: the context and the system names."""
        return {**self.context, **self.system_names()}


def _started(_: Session, event: ev.Started) -> Session:
    return Session(
        conversation_id=event.conversation_id,
        definition=event.definition,
        state=event.state,
        context=event.context,
        origins=dict.fromkeys(event.context, (0, "host")),
        time=event.time,
    )


def _user_said(session: Session, event: ev.UserSaid) -> Session:
    return replace(
        session,
        user_input=event.text,
        time=event.time,
        turn=session.turn + 1,
        turns_in_state=session.turns_in_state + 1,
    )


def _model_replied(session: Session, _: ev.ModelReplied) -> Session:
    return replace(session, notes=()) if session.notes else session


def _context_set(session: Session, event: ev.ContextSet) -> Session:
    context = {**session.context, **event.values}
    origin = (session.turn, event.source)
    origins = {**session.origins, **dict.fromkeys(event.values, origin)}
    for key in event.removed:
        context.pop(key, None)
        origins.pop(key, None)
    return replace(session, context=context, origins=origins)


def _context_refused(session: Session, event: ev.ContextRefused) -> Session:
    if not event.told:
        return session
    return replace(session, notes=(*session.notes, (event.key, event.reason)))


def _state_entered(session: Session, event: ev.StateEntered) -> Session:
    return replace(session, state=event.state, previous_state=event.previous, turns_in_state=0)


def _bot_said(session: Session, event: ev.BotSaid) -> Session:
    user = session.user_input if event.kept_user is None else event.kept_user
    said = event.text if event.kept_text is None else event.kept_text
    exchange = (None if user is None else cut(user, event.kept_chars), cut(said, event.kept_chars))
    return replace(session, window=(*session.window, exchange), user_input=None)


def _history_trimmed(session: Session, event: ev.HistoryTrimmed) -> Session:
    return replace(session, window=session.window[event.dropped :])


def _ended(session: Session, event: ev.Ended) -> Session:
    return replace(session, ended=True, outcome=event.outcome)


def _turn_undone(_: Session, event: ev.TurnUndone) -> Session:
    return from_dict(event.session)


_APPLY: Mapping[type[ev.Event], Callable[[Session, Any], Session]] = {
    ev.Started: _started,
    ev.UserSaid: _user_said,
    ev.ModelReplied: _model_replied,
    ev.ContextSet: _context_set,
    ev.ContextRefused: _context_refused,
    ev.StateEntered: _state_entered,
    ev.BotSaid: _bot_said,
    ev.HistoryTrimmed: _history_trimmed,
    ev.Ended: _ended,
    ev.TurnUndone: _turn_undone,
}


def apply(session: Session, event: ev.Event) -> Session:
    """The session after an event. Events that only record something leave it as it is."""
    change = _APPLY.get(type(event))
    return session if change is None else change(session, event)


def fold(session: Session, events: Iterable[ev.Event]) -> Session:
    """The session after all events, in order."""
    return reduce(apply, events, session)


def to_dict(session: Session) -> dict[str, Any]:
    """The JSON form of a session, with the number of its format."""
    return {
        "format": FORMAT,
        "conversation_id": session.conversation_id,
        "definition": session.definition,
        "state": session.state,
        "previous_state": session.previous_state,
        "turn": session.turn,
        "turns_in_state": session.turns_in_state,
        "context": session.context,
        "origins": session.origins,
        "window": session.window,
        "user_input": session.user_input,
        "time": session.time,
        "notes": session.notes,
        "ended": session.ended,
        "outcome": session.outcome,
    }


def from_dict(document: Mapping[str, Any]) -> Session:
    """The session of a JSON form. Raises StoreError for a format that this version cannot read."""
    found = document.get("format")
    if found != FORMAT:
        raise StoreError(
            f"this conversation is stored in format {found!r}; this version of llm_fsm reads format {FORMAT}: "
            "use the version that wrote it, or a newer one"
        )
    values = {key: value for key, value in document.items() if key != "format"}
    values["window"] = tuple((user, system) for user, system in values["window"])
    values["notes"] = tuple((key, reason) for key, reason in values["notes"])
    values["origins"] = {key: (turn, source) for key, (turn, source) in values["origins"].items()}
    return Session(**values)
