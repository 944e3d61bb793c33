"""The stored JSON form of events and sessions.

An event is {"type": "UserSaid", …}; fields that equal their defaults are left out. A session is {"format": 1, …};
`_ALWAYS` lists the fields that it always has. Names in both forms never change, because stores hold them. Large values
may stand elsewhere, see `llm_fsm.session.large_values`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from llm_fsm._json import in_unicode, value_of
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events
from llm_fsm.session.events import EVENTS, AnyEvent, Event
from llm_fsm.session.redaction import DOTS
from llm_fsm.session.session import Session

T = TypeVar("T")
FORMAT = 1
_ALWAYS: Mapping[str, Any] = {
    "format": FORMAT,
    "conversation_id": "",
    "definition": "",
    "state": "",
    "previous_state": None,
    "turn": 0,
    "turns_in_state": 0,
    "context": {},
    "origins": {},
    "window": (),
    "user_input": None,
    "time": 0.0,
    "notes": (),
    "ended": False,
    "outcome": None,
}
NAMES = frozenset(EVENTS)
"""The names of all events."""
_OF_CONTEXTS = (
    *(events.Started, events.ContextSet, events.TurnUndone),
    *(events.FlowPushed, events.AnswersChanged, events.Restarted, events.Updated),
)
"""Events that hold contexts. `TurnUndone` holds a whole session."""
_CONTEXTS = frozenset(("context", "values", "before"))
"""Fields of these events, or of that session, that are contexts."""
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


class Reference(NamedTuple):
    """The place of a large value: the record's number, a JSON pointer into it, and the SHA-256 of the JSON text."""

    record: int
    pointer: str
    sha256: str


def plain(value: Any) -> Any:
    """Convert a frozen value to JSON data: dicts, lists or tuples, text, numbers, booleans and None."""
    return msgspec.to_builtins(value, enc_hook=_without_subclass)


def text_of(value: Any) -> str:
    """Write a frozen value, or data made of such, as compact JSON text that is valid in UTF-8. Numbers are finite."""
    try:
        return msgspec.json.encode(value, enc_hook=_without_subclass).decode()
    except UnicodeEncodeError:
        return in_unicode(plain(value))  # which writes halves of surrogate pairs


def _without_subclass(value: object) -> object:
    """Convert a value of a class that msgspec does not know, as a host may give one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def read(document: Any, kind: type[T], name: str, *, strict: bool = True) -> T:
    """Convert JSON data to a frozen value.

    Args:
        document: The data as `plain` gave it, or the same data read from JSON text.
        kind: The class of the value.
        name: The name of the data, with which an error message begins.
        strict: False also accepts a number that is written as text, and a whole number that is a float.

    Raises:
        UnreadableError: The data does not have this shape. The message says where, and what would be right.
    """
    try:
        return msgspec.convert(document, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise UnreadableError(_explained(str(error), name)) from error


def _explained(message: str, name: str) -> str:
    """Write a message of msgspec ("Expected `str | null`, got `int` - at `$.state`") as a sentence for people."""
    what, _, place = message.partition(" - at `$")
    what = re.sub(r"`([^`]+)`", _in_words, what)
    return f"{name}{place.rstrip('`')}: {what[:1].lower()}{what[1:]}"


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_TYPES.get(kind, kind) for kind in types[1].split(" | "))


def to_dict(event: Event) -> dict[str, Any]:
    """Return the JSON form of an event."""
    document: dict[str, Any] = plain(event)
    return document


def from_dict(document: Mapping[str, Any]) -> Event:
    """Return the event of a JSON form, without fields that this version does not know.

    Raises:
        UnreadableError: It is no event that this version knows.
    """
    name = document.get("type")
    if not isinstance(name, str) or name not in EVENTS:
        raise UnreadableError(f"unknown event type {name!r}; known are {', '.join(sorted(EVENTS))}")
    return read(document, AnyEvent, f"an event cannot be read: {name}")


def shown(event: Event, is_secret: Callable[[str], bool]) -> dict[str, Any]:
    """Return the JSON form of an event for others, with dots in place of the value of each secret key."""
    document = to_dict(event)
    if isinstance(event, _OF_CONTEXTS):
        return {name: _masked(value, is_secret, within=name in _CONTEXTS) for name, value in document.items()}
    return document


def _masked(value: Any, is_secret: Callable[[str], bool], *, within: bool) -> Any:
    """Mask a part of an event. `within`: its names are context keys."""
    if isinstance(value, list | tuple):
        return [_masked(item, is_secret, within=False) for item in value]
    if not isinstance(value, Mapping):
        return value
    if within:
        return {key: DOTS if is_secret(key) else item for key, item in value.items()}
    return {name: _masked(item, is_secret, within=name in _CONTEXTS) for name, item in value.items()}


def session_to_dict(session: Session) -> dict[str, Any]:
    """Return the JSON form of a session. It shares the values of the context, which may be large."""
    rest = plain(msgspec.structs.replace(session, context={}))
    return {**_ALWAYS, **rest, "context": dict(session.context), "ended": session.ended}


def session_from_dict(document: Mapping[str, Any]) -> Session:
    """Return the session of a JSON form.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    found = document.get("format")
    if found != FORMAT:
        raise UnreadableError(
            f"this conversation is stored in format {found!r}; this version of llm_fsm reads format {FORMAT}: "
            "use the version that wrote it, or a newer one"
        )
    values = {name: value for name, value in document.items() if name not in ("format", "ended", "large")}
    if document.get("ended") and values.get("outcome") is None:
        values["outcome"] = "final"
    if more := sorted(values.keys() - set(Session.__struct_fields__)):
        raise UnreadableError(
            "this conversation was saved by a newer version of llm_fsm: this one does not know its "
            f"{more[0]!r}; use the version that wrote it, or a newer one"
        )
    return read(values, Session, "a stored conversation cannot be read: session")


def dump_session(session: Session, large: Mapping[str, Reference] | None = None) -> str:
    """Write a session as canonical JSON text that is valid in UTF-8.

    Args:
        session: The session.
        large: The places of values that it is stored without, see `llm_fsm.session.large_values`.
    """
    document = session_to_dict(session)
    return text_of({**document, "large": large} if large else document)


def parse_session(text: str) -> Session:
    """Read the session of a JSON text that holds all its values.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    session, large = parse_stored_session(text)
    if large:
        raise UnreadableError(
            f"a stored conversation cannot be read: the value at {min(large)} stands in one of its turn records"
        )
    return session


def parse_stored_session(text: str) -> tuple[Session, Mapping[str, Reference]]:
    """Read the session of a JSON text as a store holds it.

    Returns:
        The session, and the places of large values, in whose place it has None.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    try:
        document = value_of(text)
        large = document.get("large", {})
        session = session_from_dict(document)
        return session, read(large, dict[str, Reference], "a stored conversation cannot be read: large")
    except (ValueError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"a stored conversation cannot be read: {error}") from error
