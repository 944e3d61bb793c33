"""Optional logging: loguru subscribed to the stream of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loguru import logger

from llm_fsm.engine.observers import TurnAborted, TurnSaved, observe
from llm_fsm.engine.outbox.sinks import SinkFailed
from llm_fsm.session import events as ev

_LEVELS: Mapping[type[ev.Event], str] = {
    ev.ReplyRejected: "WARNING",
    ev.MoveRefused: "WARNING",
    ev.HandlerFailed: "ERROR",
    ev.TurnFailed: "ERROR",
    ev.LimitReached: "WARNING",
    ev.ConditionFailed: "WARNING",
    ev.ReplyFailed: "WARNING",
    SinkFailed: "WARNING",
    ev.ContextRefused: "INFO",
    ev.StateEntered: "INFO",
    ev.Started: "INFO",
    ev.Ended: "INFO",
    TurnAborted: "WARNING",
    ev.ReleaseStopped: "ERROR",
}
_SHOWN: Mapping[type[ev.Event], tuple[str, ...]] = {
    ev.Started: ("state",),
    ev.ReleaseChosen: ("release", "arm"),
    ev.ReleaseStopped: ("release", "reason"),
    ev.UserSaid: (),
    ev.ModelReplied: (
        "asked_for",
        "model",
        "mode",
        "attempts",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "seconds",
    ),
    ev.ReplyRejected: ("fault",),
    ev.MovePicked: ("target",),
    ev.ContextRefused: ("key", "source", "kept_in"),
    ev.MoveRefused: ("target", "by"),
    ev.ConditionFailed: ("transition", "reason"),
    ev.ReplyFailed: ("state",),
    ev.StateEntered: ("previous", "state", "by"),
    ev.FunctionFailed: ("kind", "name", "error", "file", "line"),
    ev.HandlerFailed: ("handler", "point", "error"),
    ev.TurnFailed: ("error",),
    ev.LimitReached: ("limit", "value", "per", "spent"),
    SinkFailed: ("sink", "error", "again", "failures"),
    ev.HistoryTrimmed: ("dropped",),
    ev.Ended: ("outcome",),
    TurnSaved: ("kind", "turn", "state", "seconds"),
    TurnAborted: ("error", "seconds"),
}


def _line(event: ev.Event) -> str:
    """Write the log line of an event. It holds names and numbers, never texts of people, models or
    tools."""
    if isinstance(event, ev.ContextSet):
        return f"keys={sorted(event.values)} removed={list(event.removed)} source={event.source}"
    return " ".join(f"{name}={getattr(event, name)}" for name in _SHOWN.get(type(event), ()))


def enable_logging(level: str = "INFO") -> Callable[[], None]:
    """Log events of all machines through loguru.

    Sinks and formats belong to the program: configure loguru as usual. A second call changes the
    level, and logs nothing twice.

    Args:
        level: The lowest level to log, by its name in loguru.

    Returns:
        A function that stops logging.

    Raises:
        ValueError: loguru does not know the level.
    """
    least = logger.level(level.upper()).no

    def log(conversation_id: str, event: ev.Event) -> None:
        if isinstance(event, ev.MessageDelta | ev.PromptRead):  # the whole message follows
            return
        name = _LEVELS.get(type(event), "DEBUG")
        if logger.level(name).no >= least:
            kind = type(event).__name__
            bound = logger.bind(conversation_id=conversation_id, event=kind)
            bound.log(name, "{} {} {}", conversation_id, kind, _line(event))

    return observe(log, key="logging")
