"""What a store lists of a conversation beside its state: its deadlines, and the answer that it
waits for.
"""

from __future__ import annotations

from llm_fsm.session.session import Session


def due_rows(session: Session) -> tuple[tuple[float, str], ...]:
    """Return the conversation's rows of the due table: its time-outs and reminders, and a run that
    has not made its first step.

    Returns:
        Pairs of a time in seconds since the epoch and a kind, "expire", "remind" or "run".
    """
    pause, silence = session.pause, session.silence
    if session.held is not None:
        return () if session.ended else ((session.held, "run"),)
    if pause is not None:
        closes, reminders = pause.expires, session.reminders
    elif silence is not None:
        closes, reminders = silence.closes, silence.reminders
    else:
        return ()
    rows = tuple((due, "remind") for due in reminders)
    return rows if closes is None else ((closes, "expire"), *rows)


def pause_kind(session: Session) -> str:
    """Return the kind of answer that the conversation waits for; "" if it waits for none."""
    if session.pause is None or session.ended:
        return ""
    return session.pause.kind


def is_due(session: Session, now: float) -> bool:
    """Return true if a row of `due_rows` is due."""
    return any(at <= now for at, _ in due_rows(session))
