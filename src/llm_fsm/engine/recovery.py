"""Recover a turn that was interrupted and must be finished before anything else in its
conversation.

An accepted answer counts even if the process died while it was carried out. A call that must not
run twice may have run. A message with a request id will arrive again, and must not repeat finished
work. If the journal holds any of these, the interrupted turn is played to its end first. A turn
that failed and whose caller knows is not resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_fsm.engine.journal import BEGUN, FAILED, acts
from llm_fsm.session.context import initial_context
from llm_fsm.session.messages import Paused
from llm_fsm.session.session import clock_names
from llm_fsm.session.turn_record import Kind
from llm_fsm.stores.base import Store
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

    first: Mapping[str, Any] | None = None
    must: bool = False
    blank: bool = False


async def under_way(store: Store, conversation_id: str) -> UnderWay:
    """Read the journal of a conversation. A message that was answered is no unfinished turn."""
    entries = [json.loads(text) for text in await store.journalled(conversation_id)]
    if not entries:
        return UnderWay(blank=True)
    first = entries[0]
    if "time" not in first:  # it does not name its turn
        return UnderWay()
    kinds = [entry["kind"] for entry in entries[1:]]
    must = first["kind"] == "answer" or BEGUN in kinds
    if first.get("request_id") is not None and not must:
        must = kinds[-1:] != [FAILED] and any(acts(kind) for kind in kinds)
    if must and first.get("request_id") is not None:
        loaded = await store.load(conversation_id, first["request_id"])
        if loaded is not None and loaded.recorded is not None:
            return UnderWay()
    return UnderWay(first, must)


def identity(trigger: Trigger, pause: Paused | None = None) -> dict[str, Any]:
    """Return the identity of a turn for the journal.

    Args:
        trigger: What begins the turn. Its time is no part of the identity.
        pause: The pause that it answers, or whose time is due.
    """
    asked = "" if pause is None else pause.id
    document: dict[str, Any]
    match trigger:
        case UserMessage():
            document = {
                "kind": "message",
                "request_id": trigger.request_id,
                "text": trigger.text,
            }
            document |= {"picked": True} if trigger.picked else {}
            document |= (
                {"merged": [list(part) for part in trigger.merged]}
                if trigger.merged
                else {}
            )
        case Update():
            document = {
                "kind": "update",
                "request_id": trigger.request_id,
                "values": dict(trigger.context),
            }
            document |= {"state": trigger.state, "text": trigger.text}
            document |= {"by": trigger.by} if trigger.by else {}
        case Answer():
            document = {
                "kind": "answer",
                "id": asked,
                "value": trigger.value,
                "request_id": trigger.request_id,
            }
            document |= {"step_only": True} if trigger.step else {}
        case Resume():
            document = {"kind": "run", **({"step_only": True} if trigger.step else {})}
            document |= {} if trigger.input is None else {"input": trigger.input}
        case Due():
            document = {"kind": "due", "id": asked}
    return document


def start_identity(program: CompiledMachine, opening: Opening) -> dict[str, Any]:
    """Return the identity of a conversation's start for the journal."""
    clock = clock_names(opening.time, opening.timezone or program.definition.timezone)
    return {
        "kind": "start",
        "context": initial_context(program.keys, opening.context, names=clock),
        "state": opening.state,
        "greet": opening.greet,
        "input": opening.input,
        "memory": initial_memory(opening.background, opening.memory),
        **({"shared": initial_shared(opening.shared)} if opening.shared else {}),
        **(
            {"history": [list(said) for said in opening.history]}
            if opening.history
            else {}
        ),
        **({"timezone": opening.timezone} if opening.timezone else {}),
        **({"metadata": dict(opening.metadata)} if opening.metadata else {}),
    }


def is_same(first: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    """Return true if a journal's first entry belongs to this turn."""
    return all(first.get(name) == value for name, value in turn.items())


def interrupted(first: Mapping[str, Any], pause: Paused | None) -> Trigger | None:
    """Return what began the turn of a journal's first entry; None if its pause is over."""
    kind, time, request_id = first["kind"], first["time"], first.get("request_id")
    step = first.get("step_only", False)
    if kind == "message":
        merged = tuple(
            (request_id, text) for request_id, text in first.get("merged", ())
        )
        picked = first.get("picked", False)
        return UserMessage(
            text=first["text"],
            time=time,
            request_id=request_id,
            picked=picked,
            merged=merged,
        )
    if kind == "update":
        text, state = first["text"], first["state"]
        return Update(
            time=time,
            request_id=request_id,
            context=first["values"],
            state=state,
            text=text,
            by=first.get("by", ""),
        )
    if kind == "run":
        return Resume(time=time, step=step, input=first.get("input"))
    if pause is None or first.get("id") != pause.id:
        return None
    if kind == "due":
        return Due(time=time)
    return Answer(value=first["value"], time=time, request_id=request_id, step=step)
