"""What happened in a conversation: frozen facts in the past tense.

A turn is a list of events; `llm_fsm.session.apply` folds them into the session, so everything that a
session holds came in through one of them. `to_dict` and `from_dict` are the JSON form in turn records:
{"type": "UserSaid", …fields that differ from their defaults…}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """A conversation began, with the caller's context. `definition` is the definition's SHA-256."""

    conversation_id: str
    definition: str
    state: str
    time: float
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSaid(Event):
    """A message came in at `time` (seconds since the epoch)."""

    text: str
    time: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied(Event):
    """A model answered. `asked_for`: turn, greeting or words. `prompt`: section name to characters."""

    asked_for: str
    text: str
    model: str = ""
    mode: str = ""
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    prompt: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRejected(Event):
    """A model's text was not a reply; `fault` is a short name, `reason` a sentence."""

    fault: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePicked(Event):
    """The model named a target (its own state: it stays), with its reasoning where it gave one."""

    target: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSet(Event):
    """Values were accepted and keys removed. `source`: model, host, tool or answer."""

    source: str
    values: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRefused(Event):
    """A value was not stored under its key, and why. `kept_in` names where it went instead, if anywhere.

    `told`: the next prompt tells the model.
    """

    key: str
    reason: str
    source: str
    kept_in: str | None = None
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRefused(Event):
    """A move did not stand. `by`: unknown, closed or veto."""

    target: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFailed(Event):
    """A condition could not be evaluated and so did not hold."""

    transition: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntered(Event):
    """The machine moved. `by`: model, auto, decide or host; `transition` is its place in the definition."""

    state: str
    previous: str
    by: str
    transition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailed(Event):
    """A handler raised or ran out of time, and the turn went on without it."""

    handler: str
    point: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed(Event):
    """The turn could not be finished; an ERROR handler gave the words that were shown."""

    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(Event):
    """A limit of the definition stopped the turn."""

    limit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BotSaid(Event):
    """The words of the turn. `kept_chars`: how much of each message the prompt's history keeps.

    `kept_user`, `kept_text`: what it keeps of the user's message and of these words, where a secret stands in them.
    """

    text: str
    kept_chars: int = 1000
    fallback: bool = False
    kept_user: str | None = None
    kept_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTrimmed(Event):
    """The oldest exchanges left the prompt's window; turn records still hold them."""

    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """The conversation is over. `outcome`: final, stuck or host."""

    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUndone(Event):
    """The turn of record `record` was taken back; `session` is the session document before it."""

    record: int
    session: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta(Event):
    """Words on their way to the user, while streaming. Never part of a turn record."""

    text: str
    provisional: bool = True


_TYPES: Mapping[str, type[Event]] = {cls.__name__: cls for cls in Event.__subclasses__()}


def _defaults(cls: type[Event]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in fields(cls):
        if item.default is not MISSING:
            found[item.name] = item.default
        elif item.default_factory is not MISSING:
            found[item.name] = item.default_factory()
        else:
            found[item.name] = MISSING
    return found


_FIELDS: Mapping[type[Event], tuple[tuple[str, Any], ...]] = {
    cls: tuple(_defaults(cls).items()) for cls in _TYPES.values()
}


def to_dict(event: Event) -> dict[str, Any]:
    """The JSON form of an event."""
    cls = type(event)
    document: dict[str, Any] = {"type": cls.__name__}
    for name, default in _FIELDS[cls]:
        value = getattr(event, name)
        if value != default:
            document[name] = value
    return document


def from_dict(document: Mapping[str, Any]) -> Event:
    """The event of a JSON form. Raises ValueError for a type that this version does not know."""
    values = dict(document)
    name = values.pop("type", None)
    cls = _TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown event type {name!r}; known are {', '.join(sorted(_TYPES))}")
    known = {field_name for field_name, _ in _FIELDS[cls]}
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known})
