"""The JSON form of events in turn records: {"type": "UserSaid", …fields that differ from their defaults…}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from llm_fsm.session import events
from llm_fsm.session.events import Event
from llm_fsm.session.redaction import BLOT

_TYPES: Mapping[str, type[Event]] = {
    name: cls
    for name, cls in vars(events).items()
    if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
}


NAMES = frozenset(_TYPES)
"""The names of all events."""


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
_TUPLES: Mapping[type[Event], Mapping[str, bool]] = {
    cls: {item.name: str(item.type).startswith("tuple") for item in fields(cls)} for cls in _TYPES.values()
}
"""Which fields are tuples: a list in any other place is a JSON value and stays one."""


_OF_CONTEXTS = (
    *(events.Started, events.ContextSet, events.TurnUndone),
    *(events.FlowPushed, events.AnswersChanged, events.Restarted),
)
_CONTEXTS = frozenset(("context", "values", "before"))
"""Names under which these hold one; sessions, in `TurnUndone`, do so in all their parts."""


def to_dict(event: Event) -> dict[str, Any]:
    """The JSON form of an event."""
    cls = type(event)
    document: dict[str, Any] = {"type": cls.__name__}
    for name, default in _FIELDS[cls]:
        value = getattr(event, name)
        if value is not default and value != default:
            document[name] = value
    return document


def shown(event: Event, is_secret: Callable[[str], bool]) -> dict[str, Any]:
    """The JSON form of an event for others: each value of a secret key as dots, whatever kind of value it is."""
    document = to_dict(event)
    if isinstance(event, _OF_CONTEXTS):
        return {name: _masked(value, is_secret, within=name in _CONTEXTS) for name, value in document.items()}
    return document


def _masked(value: Any, is_secret: Callable[[str], bool], *, within: bool) -> Any:
    """A part of an event; `within`: its names are keys of a context."""
    if isinstance(value, list | tuple):
        return [_masked(item, is_secret, within=False) for item in value]
    if not isinstance(value, Mapping):
        return value
    if within:
        return {key: BLOT if is_secret(key) else item for key, item in value.items()}
    return {name: _masked(item, is_secret, within=name in _CONTEXTS) for name, item in value.items()}


def from_dict(document: Mapping[str, Any]) -> Event:
    """The event of a JSON form. Raises ValueError for a type that this version does not know."""
    values = dict(document)
    name = values.pop("type", None)
    cls = _TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown event type {name!r}; known are {', '.join(sorted(_TYPES))}")
    known = _TUPLES[cls]
    return cls(
        **{k: tuple(v) if known[k] and isinstance(v, list) else v for k, v in values.items() if k in known}
    )
