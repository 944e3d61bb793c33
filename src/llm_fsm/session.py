"""What one conversation is between turns: a frozen value that changes only by `apply`.

It holds what the next turn needs and no more; the whole history is in the turn records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import Any

from llm_fsm import events as ev
from llm_fsm.errors import StoreError
from llm_fsm.messages import Paused

FORMAT = 1
TRUNCATED = "... [truncated]"
_OF_WORK: Mapping[str, Any] = {
    "input": None,
    "memory": {},
    "shared": {},
    "summary": "",
    "work": None,
    "pause": None,
    "reminders": (),
    "settled": None,
    "spent": {},
}
"""Fields that stand in the JSON form only where they differ from these."""


def cut(text: str, chars: int) -> str:
    """The first `chars` characters of a text, marked when something is missing."""
    return text if len(text) <= chars else text[:chars] + TRUNCATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A task, or a conversation's call of tools, under way in `state`.

    `attempt` counts from 1, 0 where no task is tried. `checkpoint`: the session's fields that a failed attempt
    goes back to. `feedback`: what failed in the attempt before. `loop`: messages and calls of a loop that waits.
    """

    state: str
    attempt: int = 0
    checkpoint: Mapping[str, Any] = field(default_factory=dict)
    feedback: tuple[Mapping[str, str], ...] = ()
    loop: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation. `window` holds (user or None, system) exchanges; `origins` key to (turn, source).

    The fields from `input` on belong to work: what the previous state put out, the working memory and the values
    that states share (as JSON), the summary of what happened so far, the task under way, what is waited for and
    when to remind of it, how the pause before ended (id, answered or expired), and what the run has used of its
    limits.
    """

    conversation_id: str
    definition: str = ""
    state: str = ""
    previous_state: str | None = None
    turn: int = 0
    turns_in_state: int = 0
    context: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    window: tuple[tuple[str | None, str], ...] = ()
    user_input: str | None = None
    time: float = 0.0
    notes: tuple[tuple[str, str], ...] = ()
    """(key, reason) of refused values that the next prompt tells the model."""
    ended: bool = False
    outcome: str | None = None
    input: Any = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    work: Work | None = None
    pause: Paused | None = None
    reminders: tuple[float, ...] = ()
    settled: tuple[str, str] | None = None
    spent: Mapping[str, float] = field(default_factory=dict)

    def system_names(self) -> dict[str, Any]:
        """The read-only names that conditions, prompts, handlers and fixed replies may use."""
        return {
            "_conversation_id": self.conversation_id,
            "_current_state": self.state,
            "_previous_state": self.previous_state,
            "_user_input": self.user_input,
            "_turn": self.turn,
            "_turns_in_state": self.turns_in_state,
            "_timestamp": self.time,
        }

    def data(self) -> dict[str, Any]:
        """What conditions read: the context and the system names."""
        return {**self.context, **self.system_names()}


def _started(_: Session, event: ev.Started) -> Session:
    return Session(
        conversation_id=event.conversation_id,
        definition=event.definition,
        state=event.state,
        context=event.context,
        origins=dict.fromkeys(event.context, (0, "host")),
        time=event.time,
        input=event.input,
        memory=event.memory,
    )


def _run_resumed(session: Session, event: ev.RunResumed) -> Session:
    return replace(session, time=event.time)


def _user_said(session: Session, event: ev.UserSaid) -> Session:
    return replace(
        session,
        user_input=event.text,
        time=event.time,
        turn=session.turn + 1,
        turns_in_state=session.turns_in_state + 1,
        spent=session.spent and {},
    )


def _model_replied(session: Session, event: ev.ModelReplied) -> Session:
    return replace(session, notes=()) if session.notes and event.asked_for == "turn" else session


def _context_set(session: Session, event: ev.ContextSet) -> Session:
    context = {**session.context, **event.values}
    origin = (session.turn, event.source)
    origins = {**session.origins, **dict.fromkeys(event.values, origin)}
    for key in event.removed:
        context.pop(key, None)
        origins.pop(key, None)
    return replace(session, context=context, origins=origins)


def _context_refused(session: Session, event: ev.ContextRefused) -> Session:
    if not event.told:
        return session
    return replace(session, notes=(*session.notes, (event.key, event.reason)))


def _state_entered(session: Session, event: ev.StateEntered) -> Session:
    return replace(session, state=event.state, previous_state=event.previous, turns_in_state=0)


def _bot_said(session: Session, event: ev.BotSaid) -> Session:
    user = session.user_input if event.kept_user is None else event.kept_user
    said = event.text if event.kept_text is None else event.kept_text
    exchange = (None if user is None else cut(user, event.kept_chars), cut(said, event.kept_chars))
    return replace(session, window=(*session.window, exchange), user_input=None)


def _history_trimmed(session: Session, event: ev.HistoryTrimmed) -> Session:
    return replace(session, window=session.window[event.dropped :])


def _ended(session: Session, event: ev.Ended) -> Session:
    return replace(
        session,
        ended=True,
        outcome=event.outcome,
        work=None,
        pause=None,
        reminders=(),
        spent=session.spent and {},
    )


def _overlaid(old: Mapping[str, Any], values: Mapping[str, Any], removed: Iterable[str]) -> dict[str, Any]:
    new = {**old, **values}
    for key in removed:
        new.pop(key, None)
    return new


def _memory_set(session: Session, event: ev.MemorySet) -> Session:
    return replace(session, memory=_overlaid(session.memory, event.values, event.removed))


def _shared_set(session: Session, event: ev.SharedSet) -> Session:
    return replace(session, shared=_overlaid(session.shared, event.values, event.removed))


_CHECKED = ("context", "origins", "memory", "shared")


def _attempt_begun(session: Session, event: ev.AttemptBegun) -> Session:
    feedback = session.work.feedback if session.work is not None and event.attempt > 1 else ()
    checkpoint = {name: getattr(session, name) for name in _CHECKED}
    work = Work(state=event.state, attempt=event.attempt, checkpoint=checkpoint, feedback=feedback)
    return replace(session, work=work)


def _attempt_failed(session: Session, event: ev.AttemptFailed) -> Session:
    if session.work is None:
        return session
    work = None if event.last else replace(session.work, feedback=event.failures, loop=None)
    return replace(session, work=work, **session.work.checkpoint)


def _output(session: Session, event: ev.TaskPassed | ev.TaskExhausted) -> Session:
    return replace(session, input=event.output, work=None)


def _summarised(session: Session, event: ev.Summarised) -> Session:
    return replace(session, summary=event.summary)


def _paused(session: Session, event: ev.Paused) -> Session:
    pause = Paused(
        id=event.id,
        kind=event.kind,  # type: ignore[arg-type]
        what=event.what,
        state=event.state,
        call=event.call,
        schema=event.schema,
        expires=event.expires,
    )
    work = session.work
    if event.loop is not None:
        work = replace(work or Work(state=event.state), loop=event.loop)
    return replace(session, pause=pause, reminders=event.reminders, work=work, spent=event.spent)


def _over(session: Session, id: str, how: str, time: float) -> Session:
    turn = session.turn + 1
    return replace(session, pause=None, reminders=(), settled=(id, how), time=time, turn=turn)


def _answered(session: Session, event: ev.Answered) -> Session:
    waited = session.pause is not None and session.pause.kind == "wait"
    after = _over(session, event.id, "answered", event.time)
    if waited:
        return replace(after, input=event.value)
    work = session.work
    if work is None:
        return after
    return replace(after, work=replace(work, loop=None) if work.attempt else None)


def _timed_out(session: Session, event: ev.TimedOut) -> Session:
    return _over(session, event.id, "expired", event.time)


def _reminded(session: Session, event: ev.Reminded) -> Session:
    return replace(session, reminders=tuple(due for due in session.reminders if due != event.due))


def _turn_undone(_: Session, event: ev.TurnUndone) -> Session:
    return from_dict(event.session)


_APPLY: Mapping[type[ev.Event], Callable[[Session, Any], Session]] = {
    ev.Started: _started,
    ev.UserSaid: _user_said,
    ev.ModelReplied: _model_replied,
    ev.ContextSet: _context_set,
    ev.ContextRefused: _context_refused,
    ev.StateEntered: _state_entered,
    ev.BotSaid: _bot_said,
    ev.HistoryTrimmed: _history_trimmed,
    ev.Ended: _ended,
    ev.TurnUndone: _turn_undone,
    ev.RunResumed: _run_resumed,
    ev.MemorySet: _memory_set,
    ev.SharedSet: _shared_set,
    ev.AttemptBegun: _attempt_begun,
    ev.AttemptFailed: _attempt_failed,
    ev.TaskPassed: _output,
    ev.TaskExhausted: _output,
    ev.Summarised: _summarised,
    ev.Paused: _paused,
    ev.Answered: _answered,
    ev.TimedOut: _timed_out,
    ev.Reminded: _reminded,
}


def apply(session: Session, event: ev.Event) -> Session:
    """The session after an event. Events that only record something leave it as it is."""
    change = _APPLY.get(type(event))
    return session if change is None else change(session, event)


def fold(session: Session, events: Iterable[ev.Event]) -> Session:
    """The session after all events, in order."""
    return reduce(apply, events, session)


def to_dict(session: Session) -> dict[str, Any]:
    """The JSON form of a session, with the number of its format. What belongs to work only where it is set."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "conversation_id": session.conversation_id,
        "definition": session.definition,
        "state": session.state,
        "previous_state": session.previous_state,
        "turn": session.turn,
        "turns_in_state": session.turns_in_state,
        "context": session.context,
        "origins": session.origins,
        "window": session.window,
        "user_input": session.user_input,
        "time": session.time,
        "notes": session.notes,
        "ended": session.ended,
        "outcome": session.outcome,
    }
    for name, default in _OF_WORK.items():
        value = getattr(session, name)
        if value is not default and value != default:
            document[name] = asdict(value) if name in ("work", "pause") else value
    return document


def from_dict(document: Mapping[str, Any]) -> Session:
    """The session of a JSON form. Raises StoreError for a format that this version cannot read."""
    found = document.get("format")
    if found != FORMAT:
        raise StoreError(
            f"this conversation is stored in format {found!r}; this version of llm_fsm reads format {FORMAT}: "
            "use the version that wrote it, or a newer one"
        )
    values = {key: value for key, value in document.items() if key != "format"}
    values["window"] = tuple((user, system) for user, system in values["window"])
    values["notes"] = tuple((key, reason) for key, reason in values["notes"])
    values["origins"] = {key: (turn, source) for key, (turn, source) in values["origins"].items()}
    if (work := values.get("work")) is not None:
        values["work"] = _work(work)
    if (pause := values.get("pause")) is not None:
        values["pause"] = Paused(**pause)
    for name in ("reminders", "settled"):
        if name in values:
            values[name] = tuple(values[name])
    return Session(**values)


def _work(document: Mapping[str, Any]) -> Work:
    checkpoint = dict(document["checkpoint"])
    if "origins" in checkpoint:
        checkpoint["origins"] = {key: tuple(origin) for key, origin in checkpoint["origins"].items()}
    return Work(**{**document, "checkpoint": checkpoint, "feedback": tuple(document["feedback"])})
