"""Summaries of what happened, made by the model."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from llm_fsm.session import events as ev
from llm_fsm.session.memory import Background, MemoryFault
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import surplus
from llm_fsm.turn import model
from llm_fsm.turn.effects import Effect, Result
from llm_fsm.turn.prompt.tasks import SUMMARY_SCHEMA, summary_messages
from llm_fsm.turn.reply.parser import document
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import Run, TurnState

_SUMMARY = re.compile(r"SUMMARY:(?P<summary>.*?)(?:\nTODO:(?P<todo>.*))?\Z", re.DOTALL)
"""A summary as labelled text, which small models find easier than JSON."""


def summarise_left(turn: TurnState) -> Run:
    """Summarise the state that is about to be left, and in the same call what the history soon loses."""
    settings = turn.machine.definition.history
    gone = surplus(turn.session.window, settings, afresh=True) if settings.strategy == "summary" else 0
    if (yield from summarise(turn, turn.state.id, _left_behind(turn, gone))) and gone:
        turn.emit(ev.HistoryTrimmed(dropped=gone))


def _left_behind(turn: TurnState, gone: int) -> Any:
    """Return what happened in the state that is about to be left. `gone`: the exchanges that go with it."""
    state, window, news = turn.state.definition, turn.session.window, _events_since(turn)
    since = len(window) if len(news) < len(turn.events) else max(gone, len(window) - 3)
    happened = {
        "state": turn.state.id,
        "purpose": state.purpose or state.description,
        "output": shortened(turn.session.input),
        "context": turn.machine.keys.visible(turn.session.context),
        "events": [found for event in news if (found := _told(event)) is not None],
        "conversation": [list(exchange) for exchange in (*window[:gone], *window[since:])],
    }
    return redacted(turn.secrets(), happened)


def _events_since(turn: TurnState) -> list[ev.Event]:
    """Return the events of this turn that are not in the summary yet; each definition has one of its own."""
    begin, known = 0, turn.initial_session.summary
    for place, event in enumerate(turn.events, start=1):
        if isinstance(event, ev.FlowPushed | ev.FlowReturned):
            begin, known = 0, ""
        elif isinstance(event, ev.Summarised) and event.summary != known:
            begin, known = place, event.summary
    return turn.events[begin:]


def summarise(turn: TurnState, of: str, happened: Any) -> Generator[Effect, Result, bool]:
    """Make one call for a summary and a to-do list, and another one where its reply is none.

    A reply that lacks one of them leaves that as it was. Return false where there is no summary.
    """
    messages = summary_messages(turn.machine, turn.session, happened)
    about = {
        "of": of,
        "happened": happened,
        "summary": turn.session.summary,
        "background": turn.session.memory.get("background", {}),
    }
    request = model.request(turn, messages, SUMMARY_SCHEMA)
    found = yield from model.ask(turn, "summary", request, model.no_moves(turn), summary_of, about=about)
    if not isinstance(found, tuple):
        return False
    summary, todo = found
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


def _told(event: ev.Event) -> dict[str, Any] | None:
    """Return what a summary is told of an event; None for what it need not know."""
    match event:
        case ev.ToolReturned():
            result = event.error if event.error is not None else shortened(event.result, 1000)
            return {
                "called": event.name,
                "arguments": shortened(dict(event.arguments), 500),
                "result": result,
            }
        case ev.AttemptFailed():
            return {"attempt_failed": [dict(failure) for failure in event.failures]}
        case ev.UserSaid():
            return {"user": shortened(event.text, 1000)}
        case _:
            return None


def summary_of(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Return (summary, to-do list) of a summariser's reply: "" and None for what it lacks. Raises ReplyError."""
    plain = _SUMMARY.match(text.strip())
    if plain is not None:
        listed = tuple(filter(None, map(str.strip, (plain["todo"] or "").split("\n"))))
        return plain["summary"].strip(), listed or None
    found = document(text)
    summary, todo = found.get("summary"), found.get("todo_list")
    whole = isinstance(todo, list) and all(isinstance(item, str) for item in todo)
    return (
        summary.strip() if isinstance(summary, str) else "",
        tuple(todo) if whole and isinstance(todo, list) else None,
    )
