"""Recover a turn that was interrupted and must be finished before anything else in its conversation.

An accepted answer counts even if the process died while it was carried out. A call that must not run twice may have
run. A message with a request id will arrive again, and must not repeat finished work. If the journal holds any of
these, the interrupted turn is played to its end first. A turn that failed and whose caller knows is not resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_fsm.engine.journal import BEGUN, FAILED, acts
from llm_fsm.session.context import initial_context
from llm_fsm.session.session import Session
from llm_fsm.stores.base import Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.pipeline import Answer, Opening, Update, UserMessage, initial_memory, initial_shared
from llm_fsm.turn.steps import Step, begin, begin_answer, begin_due, begin_run, begin_update
from llm_fsm.turn.turn_state import HostCapabilities

_NOT_IDENTITY = ("time", "step")


class UnderWay(NamedTuple):
    """The turn in a journal: its first entry (None: there is none), and true if it must be finished.

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


def message_identity(message: UserMessage) -> dict[str, Any]:
    """Return the identity of a message's turn for the journal."""
    document: dict[str, Any] = {"kind": "message", "request_id": message.request_id, "text": message.text}
    document |= {"picked": True} if message.picked else {}
    return document | ({"merged": [list(part) for part in message.merged]} if message.merged else {})


def update_identity(given: Update) -> dict[str, Any]:
    """Return the identity of an update's turn for the journal."""
    document = {"kind": "update", "request_id": given.request_id, "values": dict(given.context)}
    return {**document, "state": given.state, "text": given.text}


def start_identity(program: CompiledMachine, opening: Opening) -> dict[str, Any]:
    """Return the identity of a conversation's start for the journal."""
    return {
        "kind": "start",
        "context": initial_context(program.keys, opening.context),
        "state": opening.state,
        "greet": opening.greet,
        "input": opening.input,
        "memory": initial_memory(opening.background, opening.memory),
        **({"shared": initial_shared(opening.shared)} if opening.shared else {}),
        **({"history": [list(said) for said in opening.history]} if opening.history else {}),
        **({"timezone": opening.timezone} if opening.timezone else {}),
    }


def is_same(first: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    """Return true if a journal's first entry belongs to this turn."""
    return all(first.get(name) == value for name, value in turn.items())


def identity(first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity in a journal's first entry."""
    return {name: value for name, value in first.items() if name not in _NOT_IDENTITY}


def begin_again(
    program: CompiledMachine, session: Session, first: Mapping[str, Any], time: float, capabilities: HostCapabilities
) -> Step | None:
    """Return the first step of an interrupted turn; None if the session has moved on without it."""
    pause = session.pause
    if first["kind"] == "message":
        message = UserMessage(
            text=first["text"],
            time=time,
            request_id=first["request_id"],
            picked=first.get("picked", False),
            merged=tuple((request_id, text) for request_id, text in first.get("merged", ())),
        )
        return begin(program, session, message, capabilities)
    if first["kind"] == "update":
        changes = {"context": first["values"], "state": first["state"], "text": first["text"]}
        update = Update(time=time, request_id=first["request_id"], **changes)
        return begin_update(program, session, update, capabilities)
    if first["kind"] == "run":
        step_only, given = first.get("step_only", False), first.get("input")
        return begin_run(program, session, time, capabilities, step=step_only, given=given)
    if pause is None or first.get("id") != pause.id:
        return None
    if first["kind"] == "due":
        return begin_due(program, session, time, capabilities)
    step = first.get("step_only", False)
    given = Answer(value=first["value"], time=time, request_id=first["request_id"], step=step)
    return begin_answer(program, session, given, capabilities)
