"""Summaries of a conversation, written by the model."""

from __future__ import annotations

import re
from typing import Any

from llm_fsm._json import JsonDict, is_list_of
from llm_fsm.session import events as ev
from llm_fsm.session.memory import Background, MemoryFault
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import surplus
from llm_fsm.turn import model
from llm_fsm.turn.prompt.tasks import SUMMARY_SCHEMA, summary_messages
from llm_fsm.turn.reply.parser import document
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import Run, RunTo, TurnState

_SUMMARY = re.compile(r"SUMMARY:(?P<summary>.*?)(?:\nTODO:(?P<todo>.*))?\Z", re.DOTALL)
"""A summary as labelled text, which small models find easier than JSON."""
_LAST_EXCHANGES = 3
"""Exchanges that a summary of a state reads if nothing of the turn says where the state began."""
_TEXT_CHARS = 1000
_ARGUMENTS_CHARS = 500


def summarise_left(turn: TurnState) -> Run:
    """Summarise the state that is about to be left, and in the same call the exchanges that the
    history drops.
    """
    settings = turn.machine.definition.history
    dropped = 0
    if settings.strategy == "summary":
        dropped = surplus(turn.session.window, settings, afresh=True)
    has_summary = yield from summarise(turn, turn.state.id, _left_behind(turn, dropped))
    if has_summary and dropped:
        turn.emit(ev.HistoryTrimmed(dropped=dropped))


def _left_behind(turn: TurnState, dropped: int) -> Any:
    """Return the events in the state that is about to be left, and the first exchanges, which are
    dropped.
    """
    state, window = turn.state.definition, turn.session.window
    events = _events_since(turn)
    # An earlier summary of this turn has the last exchanges already.
    is_summarised = len(events) < len(turn.events)
    since = len(window) if is_summarised else max(dropped, len(window) - _LAST_EXCHANGES)
    shown = [entry for entry in map(_entry, events) if entry is not None]
    exchanges = (*window[:dropped], *window[since:])
    happened = {
        "state": turn.state.id,
        "purpose": state.purpose or state.description,
        "output": shortened(turn.session.input),
        "context": turn.keys.visible(turn.session.context),
        "events": shown,
        "conversation": [list(exchange) for exchange in exchanges],
    }
    return redacted(turn.secrets(), happened)


def _events_since(turn: TurnState) -> list[ev.Event]:
    """Return the events of this turn that are not in the summary yet. Each definition has its own
    summary.
    """
    begin, known = 0, turn.initial_session.summary
    for place, event in enumerate(turn.events, start=1):
        match event:
            case ev.FlowPushed() | ev.FlowReturned():
                begin, known = 0, ""
            case ev.Summarised(summary=summary) if summary != known:
                begin, known = place, summary
    return turn.events[begin:]


def summarise(turn: TurnState, of: str, happened: Any) -> RunTo[bool]:
    """Ask for a summary and a to-do list, and once more if the reply is unreadable.

    A reply without one of them leaves it as it was. Return false if there is no summary.
    """
    messages = summary_messages(turn.machine, turn.session, happened)
    about = {
        "of": of,
        "happened": happened,
        "summary": turn.session.summary,
        "background": turn.session.memory.get("background", {}),
    }
    request = model.request(turn, messages, SUMMARY_SCHEMA)
    moves = model.no_moves(turn)
    reply = yield from model.ask(turn, "summary", request, moves, summary_of, about=about)
    if not isinstance(reply, tuple):
        return False
    summary, todo = reply
    turn.emit(ev.Summarised(of=of, summary=summary or turn.session.summary, todo_list=todo))
    if todo is not None:
        _keep_todo(turn, todo)
    return bool(summary)


def _keep_todo(turn: TurnState, todo: tuple[str, ...]) -> None:
    before = turn.session.memory.get("background", {})
    try:
        after = Background.from_dict(before).with_todo_list(todo).to_dict()
    except MemoryFault as fault:
        turn.emit(ev.ReplyRejected(fault="todo-list", reason=str(fault)))
        return
    if after != before:
        turn.emit(ev.MemorySet(values={"background": after}))


def _entry(event: ev.Event) -> JsonDict | None:
    """Return an event as the summariser reads it; None for an event that it need not know."""
    match event:
        case ev.ToolReturned():
            result = event.error
            if result is None:
                result = shortened(event.result, _TEXT_CHARS)
            return {
                "called": event.name,
                "arguments": shortened(dict(event.arguments), _ARGUMENTS_CHARS),
                "result": result,
            }
        case ev.AttemptFailed():
            return {"attempt_failed": [dict(failure) for failure in event.failures]}
        case ev.UserSaid():
            return {"user": shortened(event.text, _TEXT_CHARS)}
        case _:
            return None


def summary_of(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Return (summary, to-do list) of a summariser's reply: "" and None for missing ones. Raises
    ReplyError.
    """
    labelled = _SUMMARY.match(text.strip())
    if labelled is not None:
        lines = map(str.strip, (labelled["todo"] or "").split("\n"))
        items = tuple(line for line in lines if line)
        return labelled["summary"].strip(), items or None
    reply = document(text)
    summary, todo = reply.get("summary"), reply.get("todo_list")
    if not isinstance(summary, str):
        summary = ""
    if not is_list_of(todo, str):
        return summary.strip(), None
    return summary.strip(), tuple(todo)
