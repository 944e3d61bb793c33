"""Check that a session and its turn records fit together.

Reading checks types (see `llm_fsm._json.read`). This module checks the rest for conversations that
are imported or examined. It checks the state of a paused tool loop, and that the records lead to
the session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from msgspec import structs

from llm_fsm._json import JsonMap, TextMap, of_kind, read
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import OF_FLOW, OF_PLACE, Session, dump_session, session_from_dict
from llm_fsm.session.turn_record import Records, TurnRecord, without_undone

_OF_ALL_VERSIONS = frozenset(
    (
        *("conversation_id", "definition", "state", "previous_state", "turn", "turns_in_state"),
        *("context", "origins", "window", "user_input", "time", "outcome", "input"),
        *("memory", "shared", "summary", "work", "pause", "reminders", "settled", "spent"),
        *("flow", "stack", "skipped", "path", "taken", "misses", "silence", "begun"),
        *("secrets", "metadata", "agreed"),
    )
)
"""Fields of a session that may not be missing. A field that a later version adds needs no entry."""


class _Call(TypedDict):
    id: str
    name: str
    arguments: str


class _Said(TypedDict):
    role: str
    content: str
    tool_calls: list[_Call]
    tool_call_id: str
    native: NotRequired[JsonMap]


class _Loop(TypedDict):
    """The state of a paused loop of model and tools."""

    asked_for: str
    messages: list[_Said]
    refused: list[str]
    tries: int
    calls: list[_Call]
    keys: TextMap
    answers: JsonMap
    done: Mapping[str, JsonMap]
    heard: NotRequired[tuple[str | None, list[tuple[str | None, str]]]]


class _Answered(TypedDict):
    asked_for: Literal["execute"]
    answers: list[Any]
    log: JsonMap


class _Executing(_Answered, total=False):
    """The state of a paused task function: the answers so far, and its calls of models and
    tools."""

    key: str
    about: list[list[Any] | None]


def integrity_faults(session: Session, records: Records) -> Sequence[str]:
    """Return sentences that say why this package cannot have written these; none if it can."""
    for number, record in enumerate(records, 1):
        fault = record_fault(record)
        if fault is not None:
            return (f"record {number} cannot be used: {fault}",)
    fault = session_fault(session)
    if fault is not None:
        return (f"its session cannot be used: {fault}",)
    # The records are the truth: folding them must lead to the stored session.
    again, misnumbered = Session(conversation_id=session.conversation_id), []
    try:
        for number, record in without_undone(records):
            again = fold(again, record.events)
            if record.turn != again.turn:
                misnumbered.append(
                    f"record {number} says that it is of turn {record.turn}, "
                    f"and its events are of turn {again.turn}"
                )
    except (TypeError, ValueError, LookupError, AttributeError, UnreadableError) as error:
        return (f"its records do not fit together: {error}",)
    # Undoing a turn takes no act back.
    for record in records:
        again = fold(again, of_kind(record.events, ev.Acted))
    wrong = _differing(again, session)
    return (
        (f"its records do not lead to its session: {', '.join(wrong)} differ",)
        if wrong
        else misnumbered
    )


def session_fault(session: Session) -> str | None:
    """Return a sentence that says what is wrong with a session; None if nothing is."""
    for number, frame in enumerate(session.stack):
        for name in OF_FLOW if frame.kind == "subflow" else OF_PLACE:
            # Fields that came later are missing in old sessions, and have a default.
            if name in _OF_ALL_VERSIONS and name not in frame.saved:
                return f"session.stack[{number}].kept.{name} is missing"
    work, pause = session.work, session.pause
    if pause is None:
        return None
    return _asked_fault(pause.call, None if work is None else work.loop, "session")


def record_fault(record: TurnRecord) -> str | None:
    """Return a sentence that says what is wrong with a record; None if nothing is."""
    for number, event in enumerate(record.events):
        where, fault = f"record.events[{number}]", None
        match event:
            case ev.Paused():
                fault = _asked_fault(event.call, event.loop, where)
            case ev.TurnUndone():
                fault = _undone_fault(event, where)
        if fault is not None:
            return fault
    return None


def _asked_fault(call: JsonMap | None, loop: JsonMap | None, where: str) -> str | None:
    """Check a paused loop, and the call that the pause asks about."""
    executes = loop is not None and loop.get("asked_for") == "execute"
    if loop is not None:
        try:
            read(loop, _Executing if executes else _Loop, f"{where}.loop")
        except UnreadableError as error:
            return str(error)
        if "about" in loop and len(loop["about"]) != len(loop["answers"]) + 1:
            return f"{where}.loop does not say what each answer is about"
    if call is None or executes:
        return None
    asked = {(item["id"], item["name"]) for item in ([] if loop is None else loop["calls"])}
    named = all(isinstance(call.get(name), str) for name in ("id", "name"))
    if (
        not named
        or not isinstance(call.get("arguments"), Mapping)
        or (call["id"], call["name"]) not in asked
    ):
        return f"{where} waits for an answer about a call that it did not make"
    return None


def _undone_fault(event: ev.TurnUndone, where: str) -> str | None:
    try:
        fault = session_fault(session_from_dict(event.session))
    except UnreadableError as error:
        fault = str(error)
    return None if fault is None else f"{where}.session: {fault}"


def _differing(one: Session, other: Session) -> Sequence[str]:
    """Return the names of fields that differ in the JSON forms of two sessions."""
    # A fork has the records of its original, and an id of its own.
    other = structs.replace(other, conversation_id=one.conversation_id)
    left, right = (json.loads(dump_session(session)) for session in (one, other))
    frames = zip(left.get("stack", ()), right.get("stack", ()), strict=False)
    for made, kept in ((left, right), *((mine["kept"], theirs["kept"]) for mine, theirs in frames)):
        for name in made.keys() - kept.keys() - _OF_ALL_VERSIONS:
            del made[name]
    return sorted(name for name in left | right if left.get(name) != right.get(name))
