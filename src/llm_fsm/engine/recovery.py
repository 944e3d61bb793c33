"""Recover a turn that was interrupted: which must be finished before anything else in its
conversation, and which a looker may take up without a caller.

An accepted answer counts even if the process died while it was carried out. A call that must not
run twice may have run. A message with a request id will arrive again, and must not repeat finished
work. A message that was accepted durably has no other copy. If the journal holds any of these, the
interrupted turn is played to its end first. A turn that failed and whose caller knows is not
resumed.

A looker also takes up turns that have not acted yet. It leaves alone a turn that somebody stopped,
one that is parked, and a message whose sender cannot ask again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, filled, in_unicode
from llm_fsm.engine.journal import ATTEMPT, BEGUN, ERROR, FAILED, MARKS, STOPPED, check_not_parked
from llm_fsm.errors import ConversationConflict
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.session.context import initial_context
from llm_fsm.session.messages import Paused
from llm_fsm.session.session import clock_names
from llm_fsm.session.turn_record import Kind
from llm_fsm.stores.base import CLOSING_KINDS, PARKED, Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.pipeline import (
    Answer,
    Due,
    Opening,
    Resume,
    Update,
    UserMessage,
    initial_memory,
    initial_shared,
)

Trigger = UserMessage | Update | Resume | Answer | Due
"""The inputs that begin a turn of an existing conversation. The journal of the turn can resume each
of them."""

KINDS: Mapping[type[Trigger], Kind] = {
    UserMessage: "message",
    Update: "update",
    Resume: "run",
    Answer: "answer",
    Due: "due",
}
"""The kind of the record of each trigger's turn. The journal's first entry has the same kind."""


class UnderWay(NamedTuple):
    """The turn in a journal: its first entry (None: there is none), and true if it must be
    finished.

    `blank`: the journal is empty.
    """

    first: JsonMap | None = None
    must: bool = False
    blank: bool = False


FIRST_WAIT = 5.0
LONGEST_WAIT = 300.0
"""Seconds after an error before a looker tries a turn again. They double with each error."""


class LeftTurn(NamedTuple):
    """An open journal whose turn a looker may take up.

    Attributes:
        first: The first entry of the journal.
        deaths: Attempts in a row that ended with their process.
        retry_at: No attempt before this time, in seconds since the epoch.
    """

    first: JsonMap
    deaths: int = 0
    retry_at: float = 0.0


def only_talked(first: JsonMap) -> bool:
    """Return true if a host that keeps no journals otherwise left this one: its turns only talk."""
    return first.get("durable") == "talks"


def left_turn(entries: Sequence[JsonMap]) -> LeftTurn | None:
    """Return the turn that a process left in a journal; None if nobody may take it up by itself."""
    # A first entry without a time does not name its turn.
    if not entries or "time" not in entries[0]:
        return None
    first, *later = entries
    kinds = [entry["kind"] for entry in later]
    if kinds and kinds[-1] in CLOSING_KINDS:
        return None
    # With a request id, the sender gets the recorded turn. A call that began must be cleared up.
    asks_again = first.get("request_id") is not None or BEGUN in kinds
    if first["kind"] in ("message", "update") and not asks_again:
        return None  # its sender types it again, and would then be answered twice
    return _counted(first, later)


async def reopen(store: Store, conversation_id: str, time: float) -> None:
    """Let a looker take a turn up at once, whatever happened to it. Call it under the lock.

    Raises:
        ConversationConflict: No turn of the conversation is parked or failing.
    """
    entries = await journal_entries(store, conversation_id)
    kind = entries[-1]["kind"] if entries else ""
    if kind not in (PARKED, ERROR, ATTEMPT):
        raise ConversationConflict(
            f"conversation {conversation_id!r} has no turn that is parked or failing, so there is "
            "nothing to retry"
        )
    # Behind all others: a step that exists would be refused.
    step = 1 + max(entry["step"] for entry in entries)
    entry = {"kind": ERROR, "time": time, "error": "retried by hand", "handed_back": True}
    await store.journal(conversation_id, step, in_unicode({**entry, "step": step}))


def _counted(first: JsonMap, later: Sequence[JsonMap]) -> LeftTurn:
    """Count the marks at the end of a journal. A new result before them is progress."""
    deaths, is_answered = 0, False
    errors: list[JsonMap] = []
    # From the end: only what came after the last progress counts.
    for entry in reversed(later):
        if entry["kind"] not in MARKS:
            break
        # An attempt with any mark behind it ended in a process that lived.
        is_answered = is_answered or entry["kind"] != ATTEMPT
        deaths += not is_answered
        if entry["kind"] == ERROR and entry.get("handed_back"):
            break
        if entry["kind"] == ERROR:
            errors.append(entry)
    if not errors:
        return LeftTurn(first, deaths)
    # The exponent is bounded, because a large one would overflow before the minimum is taken.
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(len(errors) - 1, 10))
    return LeftTurn(first, deaths, retry_at=errors[0]["time"] + wait)


async def under_way(store: Store, conversation_id: str) -> UnderWay:
    """Read the journal of a conversation. A message that was answered is no unfinished turn.

    Raises:
        TurnParked: Its turn has ended too many processes.
    """
    entries = await journal_entries(store, conversation_id)
    if not entries:
        return UnderWay(blank=True)
    check_not_parked(conversation_id, entries)
    first = entries[0]
    if "time" not in first:  # it does not name its turn
        return UnderWay()
    kinds = [entry["kind"] for entry in entries[1:]]
    # An answer was accepted, and a call that began may have acted: neither may be lost.
    must = first["kind"] == "answer" or BEGUN in kinds
    if first.get("request_id") is not None and not must:
        is_kept = "durable" in first and kinds[-1:] != [FAILED]
        must = is_kept or _may_have_acted(kinds)
    # The commit may have come through, and only the end of the journal was lost.
    if must and first.get("request_id") is not None:
        loaded = await store.load(conversation_id, first["request_id"])
        if loaded is not None and loaded.recorded is not None:
            return UnderWay()
    return UnderWay(first, must)


def _may_have_acted(kinds: Sequence[str]) -> bool:
    """Return true if a process may have acted in a turn with these entries, and nobody knows.

    An act leaves no entry before its result. So a process that died may have acted, whatever its
    journal holds. One that was stopped before its first result was still waiting for the model.
    """
    last = kinds[-1:]
    if last == [STOPPED]:
        return any(kind not in MARKS for kind in kinds)
    return last != [FAILED]


def identity(trigger: Trigger, pause: Paused | None = None) -> JsonDict:
    """Return the identity of a turn for the journal.

    Args:
        trigger: What begins the turn. Its time is no part of the identity.
        pause: The pause that it answers, or whose time is due.
    """
    asked = "" if pause is None else pause.id
    document: JsonDict
    match trigger:
        case UserMessage():
            document = {"kind": "message", "request_id": trigger.request_id, "text": trigger.text}
            # As JSON has it, because the identity is compared with one that was read.
            merged = [list(part) for part in trigger.merged]
            document |= _set(picked=trigger.picked, merged=merged, sent=trigger.sent)
        case Update():
            document = {
                "kind": "update",
                "request_id": trigger.request_id,
                "values": dict(trigger.context),
            }
            document |= {"state": trigger.state, "text": trigger.text}
            document |= _set(by=trigger.by, agreed=trigger.agreed)
        case Answer():
            document = {
                "kind": "answer",
                "id": asked,
                "value": trigger.value,
                "request_id": trigger.request_id,
            }
            document |= _set(step_only=trigger.step)
        case Resume():
            document = {"kind": "run", **_set(step_only=trigger.step)}
            document |= {} if trigger.input is None else {"input": trigger.input}
        case Due():
            document = {"kind": "due", "id": asked}
    return document


def start_identity(program: CompiledMachine, opening: Opening) -> JsonDict:
    """Return the identity of a conversation's start for the journal."""
    clock = clock_names(opening.time, opening.timezone or program.definition.timezone)
    return {
        "kind": "start",
        "context": initial_context(program.keys, opening.context, names=clock),
        "state": opening.state,
        "greet": opening.greet,
        "input": opening.input,
        "memory": initial_memory(opening.background, opening.memory),
        **_set(
            shared=initial_shared(opening.shared),
            history=[list(said) for said in opening.history],
            timezone=opening.timezone,
            metadata=dict(opening.metadata),
            agreed=opening.agreed,
            release=dict(opening.release),
        ),
    }


def _set(**named: Any) -> JsonDict:
    """Return what is set of these: no False, 0 or empty value."""
    return filled(named)


def interrupted_start(conversation_id: str, first: JsonMap) -> Opening:
    """Return the beginning of a conversation that a journal's first entry describes."""
    memory = dict(first.get("memory", {}))
    background = memory.pop("background", None)
    return Opening(
        conversation_id=conversation_id,
        background=background,
        memory=memory,
        history=tuple((role, text) for role, text in first.get("history", ())),
        **_given(
            first, "time context state greet input shared hold timezone metadata agreed release"
        ),
    )


def _given(first: JsonMap, names: str) -> JsonDict:
    """Return those of the named values that a journal's first entry has."""
    return {name: first[name] for name in names.split() if name in first}


def interrupted(first: JsonMap, pause: Paused | None) -> Trigger | None:
    """Return what began the turn of a journal's first entry; None if its pause is over."""
    step = first.get("step_only", False)
    is_over = pause is None or first.get("id") != pause.id
    match first["kind"]:
        case "message":
            merged = tuple((request_id, text) for request_id, text in first.get("merged", ()))
            return UserMessage(merged=merged, **_given(first, "text time request_id picked sent"))
        case "update":
            return Update(
                context=first["values"], **_given(first, "time request_id state text by agreed")
            )
        case "run":
            return Resume(step=step, **_given(first, "time input"))
        case "due" if not is_over:
            return Due(time=first["time"])
        case "answer" if not is_over:
            return Answer(step=step, **_given(first, "value time request_id"))
    return None
