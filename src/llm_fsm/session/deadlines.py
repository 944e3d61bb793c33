"""Deadlines of a conversation: its time-outs and reminders, as rows of a store's due table."""

from __future__ import annotations

from llm_fsm.session.session import Session


def due_rows(session: Session) -> tuple[tuple[float, str], ...]:
    """Return the conversation's rows of the due table: its time-outs and reminders.

    Returns:
        Pairs of a time in seconds since the epoch and a kind, "expire" or "remind".
    """
    pause, silence = session.pause, session.silence
    if pause is not None:
        closes, reminders = pause.expires, session.reminders
    elif silence is not None:
        closes, reminders = silence.closes, silence.reminders
    else:
        return ()
    rows = tuple((due, "remind") for due in reminders)
    return rows if closes is None else ((closes, "expire"), *rows)


def is_due(session: Session, now: float) -> bool:
    """Return true if a row of `due_rows` is due."""
    return any(at <= now for at, _ in due_rows(session))
