"""The user's yes: what it is a yes to, when it counts, and which acts it allows.

A state with `confirms` reads values back. A transition with `agrees` is the yes to them. It counts
if the user was shown these values, and this message changes none of them. Later, an act is held to
what was agreed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm.conditions.coercion import look_up
from llm_fsm.session import events as ev
from llm_fsm.session.context import EXTRA
from llm_fsm.session.session import Agreement, Session, values_of
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.guards import Move
from llm_fsm.turn.turn_state import TurnState

_ONE_OR_MORE = ("has", "have")
_NOT_GIVEN = object()


def withheld(state: CompiledState, session: Session, move: Move) -> str | None:
    """Return why a yes does not count in a session; None if it does, or if the move is no yes.

    Args:
        state: The current state.
        session: The session, with the values of the message.
        move: The move that the message asks for.
    """
    confirms = state.definition.confirms
    if not move.agrees or not confirms:
        return None
    if session.read_back is None or session.read_back.state != state.id:
        return f"{', '.join(confirms)} must be read back first, and the user must agree to that"
    changed = [key for key in confirms if _is_changed(session, key)]
    if not changed:
        return None
    have = _ONE_OR_MORE[len(changed) > 1]
    return f"{', '.join(changed)} {have} changed, so it must be read back first, and the user must agree to that"


def _is_changed(session: Session, key: str) -> bool:
    """Return true if a value is not what was read back, or if this turn changed it or tried to."""
    shown = session.read_back.values if session.read_back is not None else {}
    now = values_of(session.context, (key,))
    if shown.get(key) != now.get(key):
        return True
    name = key.partition(".")[0]
    touched = (session.origins.get(name, (0, ""))[0], session.refusals.get(name, (0, 0))[1])
    return session.turn in touched or _wants_another(session, name)


def _wants_another(session: Session, key: str) -> bool:
    """Return true if this message has another value for a key that no reply may write."""
    if session.origins.get(EXTRA, (0, ""))[0] != session.turn:
        return False
    wanted = session.context.get(EXTRA, {}).get(key)
    return wanted is not None and wanted != session.context.get(key)


def is_stale(turn: TurnState) -> bool:
    """Return true if the current state confirms values that it has not read back as they are now."""
    confirms = turn.state.definition.confirms
    if not confirms:
        return False
    shown = turn.session.read_back
    if shown is None or shown.state != turn.state.id:
        return True
    return values_of(turn.session.context, confirms) != shown.values


def note_read_back(turn: TurnState) -> None:
    """Record what the current state reads back, if the words of the turn do that.

    Its fixed reply does; without one, the model's message does. An apology or an old question does
    not.
    """
    confirms = turn.state.definition.confirms
    if not confirms or turn.fallback or turn.paused:
        return
    kind = "model" if turn.state.fixed is None else "fixed"
    if any(part.kind == kind and part.text for part in turn.said):
        turn.emit(ev.ValuesReadBack(state=turn.state.id, keys=tuple(confirms)))


def note_yes(turn: TurnState, move: Move) -> None:
    """Record what the user agrees to by a move that is a yes. The turn is still in the state that
    confirms.
    """
    confirms = tuple(turn.state.definition.confirms)
    if move.agrees and confirms and move.caller is None:
        session = turn.session
        values = values_of(session.context, confirms)
        turn.emit(ev.Agreed(keys=confirms, values=values, turn=session.turn))


def refused_call(session: Session, arguments: Mapping[str, Any]) -> str | None:
    """Return why a call that acts may not be made with these arguments; None if it may.

    An argument that has the name of an agreed key must have the agreed value. The key must have it
    still.

    Args:
        session: The session.
        arguments: The arguments of the call, by name.
    """
    wrong: list[str] = []
    for agreement in session.agreed:
        for key in agreement.keys:
            given = look_up(arguments, key, _NOT_GIVEN)
            if given is _NOT_GIVEN or agreement is not _latest(session, key):
                continue
            if not _is_equal(given, agreement.values.get(key)) or _changed_since(
                session, agreement, key
            ):
                wrong.append(key)
    return _not_agreed(wrong)


def refused_work(session: Session) -> str | None:
    """Return why a task that acts may not run; None if it may. It is given the whole context."""
    agreement = session.agreement
    if agreement is None:
        return None
    return _not_agreed(key for key in agreement.keys if _changed_since(session, agreement, key))


def _changed_since(session: Session, agreement: Agreement, key: str) -> bool:
    """Return true if a key has another value than the agreed one. Another definition may lack the
    key.
    """
    known = values_of(session.context, (key,)).get(key)
    if known is None and agreement.flow != session.flow:
        return False
    return not _is_equal(known, agreement.values.get(key))


def _latest(session: Session, key: str) -> Agreement | None:
    """Return the last yes to a key."""
    return next((one for one in reversed(session.agreed) if key in one.keys), None)


def _is_equal(one: Any, other: Any) -> bool:
    """Return true for the same JSON value. A yes or no is no number; a number may be written as a
    text.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) != isinstance(other, str):
        return str(one).strip() == str(other).strip()
    return bool(one == other)


def _not_agreed(keys: Iterable[str]) -> str | None:
    names = ", ".join(keys)
    if not names:
        return None
    return f"the user agreed to something else for {names}; read the values back, and ask for a yes to them first"
