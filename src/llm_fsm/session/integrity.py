"""Whether what was read of a conversation is what its types say, to the last value in it.

Reading takes JSON as it comes, for it is read in every turn and was written by this package. A conversation from
elsewhere, or one that a doctor looks at, is held against its types here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session import session as se
from llm_fsm.session.session import OF_FLOW, OF_PLACE, Session
from llm_fsm.session.turn_record import TurnRecord, dump_session, replay, standing

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


class _Call(TypedDict):
    id: str
    name: str
    arguments: str


class _Said(TypedDict):
    role: str
    content: str
    tool_calls: list[_Call]
    tool_call_id: str


class _Loop(TypedDict):
    """What a loop of model and tools that waits for somebody goes on from."""

    asked_for: str
    messages: list[_Said]
    refused: list[str]
    tries: int
    calls: list[_Call]
    keys: Mapping[str, str]
    answers: Mapping[str, Any]
    done: Mapping[str, Mapping[str, Any]]


class _Answered(TypedDict):
    asked_for: Literal["execute"]
    answers: list[Any]
    log: Mapping[str, Any]


class _Executing(_Answered, total=False):
    """What a function that waits for somebody goes on from: what came before, and what it asked of models and tools.

    An older version wrote neither key nor what answers are about.
    """

    key: str
    about: list[list[Any] | None]


def session_fault(session: Session) -> str | None:
    """What in a session is of another type than it should be; None when nothing is."""
    fault = misfit(session, Session, "session")
    if fault is not None:
        return fault
    for number, frame in enumerate(session.stack):
        names = OF_FLOW if frame.kind == "subflow" else OF_PLACE
        fault = fault or _fields_fault(frame.kept, names, f"session.stack[{number}].kept")
    work, pause = session.work, session.pause
    if work is not None:
        fault = fault or _fields_fault(work.checkpoint, tuple(work.checkpoint), "session.work.checkpoint")
    if fault is not None or pause is None:
        return fault
    return _asked_fault(pause.call, None if work is None else work.loop, "session")


def record_fault(record: TurnRecord) -> str | None:
    """What in a record is of another type than it should be; None when nothing is."""
    fault = misfit(record, TurnRecord, "record")
    for number, event in enumerate(() if fault else record.events):
        where = f"record.events[{number}]"
        fault = fault or misfit(event, type(event), where)
        if fault is None and isinstance(event, ev.Paused):
            fault = _asked_fault(event.call, event.loop, where)
        if fault is None and isinstance(event, ev.TurnUndone):
            fault = _undone_fault(event, where)
    return fault


def _asked_fault(call: Mapping[str, Any] | None, loop: Mapping[str, Any] | None, where: str) -> str | None:
    """What is wrong with the loop that waits for a person, or with the call that it asks about."""
    executes = loop is not None and loop.get("asked_for") == "execute"
    fault = None if loop is None else misfit(loop, _Executing if executes else _Loop, f"{where}.loop")
    if loop is not None and "about" in loop and fault is None and len(loop["about"]) != len(loop["answers"]) + 1:
        return f"{where}.loop does not say what each answer is about"
    if fault is not None or call is None or executes:
        return fault
    asked = {(item["id"], item["name"]) for item in ([] if loop is None else loop["calls"])}
    named = all(isinstance(call.get(name), str) for name in ("id", "name"))
    if not named or not isinstance(call.get("arguments"), Mapping) or (call["id"], call["name"]) not in asked:
        return f"{where} waits for an answer about a call that it did not make"
    return None


def _undone_fault(event: ev.TurnUndone, where: str) -> str | None:
    try:
        return session_fault(se.from_dict(event.session))
    except (UnreadableError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{where}.session is no session: {error}"


def unsound(session: Session, records: Sequence[TurnRecord]) -> Sequence[str]:
    """Why a session and its records cannot be what this package wrote, in sentences; none where they may be."""
    for number, record in enumerate(records, 1):
        fault = record_fault(record)
        if fault is not None:
            return (f"record {number} cannot be used: {fault}",)
    fault = session_fault(session)
    if fault is not None:
        return (f"its session cannot be used: {fault}",)
    try:
        again = replay(session.conversation_id, [record for _, record in standing(records)])
    except (TypeError, ValueError, LookupError, AttributeError, UnreadableError) as error:
        return (f"its records do not fit together: {error}",)
    wrong = _differing(again, session)
    return (f"its records do not lead to its session: {', '.join(wrong)} differ",) if wrong else ()


def _differing(one: Session, other: Session) -> Sequence[str]:
    """The names of fields that differ in the JSON forms of two sessions."""
    other = replace(other, conversation_id=one.conversation_id)
    left, right = (json.loads(dump_session(session)) for session in (one, other))
    return sorted(name for name in left | right if left.get(name) != right.get(name))


def _fields_fault(values: Mapping[str, Any], names: Sequence[str], where: str) -> str | None:
    """What is wrong with some fields of a session that are kept beside it."""
    known = _hints(Session)
    for name in names:
        if name not in values or name not in known:
            return f"{where}.{name} is missing" if name not in values else f"{where}.{name} is no field of a session"
        fault = misfit(values[name], known[name], f"{where}.{name}")
        if fault is not None:
            return fault
    return None


def misfit(value: object, kind: Any, where: str) -> str | None:
    """What in `value`, which stands at `where`, is not of the type `kind`; None when all is."""
    return _check(kind)(value, where)


Check = Callable[[Any, str], str | None]


@cache
def _check(kind: Any) -> Check:
    """What tells whether a value is of a type. Knows the types that occur in sessions, records and events."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda _value, _where: None
    if is_dataclass(kind) or is_typeddict(kind):
        return partial(_members, kind)
    if origin in (Union, UnionType):
        return partial(_any_of, inner)
    if origin is Literal:
        return lambda value, where: None if value in inner else f"{where} is none of {', '.join(map(str, inner))}"
    if origin is Mapping:
        return partial(_entries, inner[1])
    if origin in (tuple, list) and (origin is list or inner[1:] == (...,)):
        return partial(_items, origin, inner[0])
    if origin is tuple:
        return partial(_places, inner)
    return partial(_plain, kind)


def _plain(kind: type, value: Any, where: str) -> str | None:
    given = type(value)
    if kind is float and (given is int or (given is float and math.isfinite(value))):
        return None
    fits = isinstance(value, kind) if kind not in _WORDS else given is kind and kind is not float
    return None if fits else f"{where} is not {_WORDS.get(kind, kind.__name__)}"


def _any_of(kinds: Sequence[Any], value: Any, where: str) -> str | None:
    faults = [misfit(value, kind, where) for kind in kinds if kind is not NoneType or value is None]
    return None if None in faults else faults[0]


def _entries(kind: Any, value: Any, where: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{where} is not an object"
    found = (misfit(item, kind, f"{where}.{name}") for name, item in value.items())
    return next(filter(None, found), None)


def _items(origin: type[Any], kind: Any, value: Any, where: str) -> str | None:
    if not isinstance(value, origin):
        return f"{where} is not a list"
    items: Sequence[Any] = value
    found = (misfit(item, kind, f"{where}[{number}]") for number, item in enumerate(items))
    return next(filter(None, found), None)


def _places(kinds: Sequence[Any], value: Any, where: str) -> str | None:
    if not isinstance(value, tuple) or len(value) != len(kinds):
        return f"{where} is not a list of {len(kinds)}"
    found = (misfit(item, kind, where) for item, kind in zip(value, kinds, strict=True))
    return next(filter(None, found), None)


def _members(kind: type, value: Any, where: str) -> str | None:
    if is_typeddict(kind):
        required: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
        if not isinstance(value, Mapping) or not required <= value.keys() <= _hints(kind).keys():
            return f"{where} is not an object with {', '.join(_hints(kind))}"
        given = {name: inner for name, inner in _hints(kind).items() if name in value}
        found = (misfit(value[name], inner, f"{where}.{name}") for name, inner in given.items())
        return next(filter(None, found), None)
    if not isinstance(value, kind):
        return f"{where} is no {kind.__name__}"
    found = (misfit(getattr(value, name), inner, f"{where}.{name}") for name, inner in _hints(kind).items())
    return next(filter(None, found), None)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
