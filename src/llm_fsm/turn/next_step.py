"""The rule for what follows in a state when nobody is asked.

`next_steps` says it once. Three walks repeat it. `transitions.settle` performs each step, `rest`
foresees the end of a move with the values that are known, and `available` looks for all that could
follow after a reply. They differ only in two arguments: which transitions count as open, and when a
state counts as answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llm_fsm.conditions.coercion import look_up
from llm_fsm.session.context import missing
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.guards import Move


@dataclass(frozen=True, slots=True)
class Enter:
    """Make a move. `known`: because all that the state asks for is known."""

    move: Move
    known: bool = False


@dataclass(frozen=True, slots=True)
class Return:
    """Come back from a digression or a subflow."""


@dataclass(frozen=True, slots=True)
class Call:
    """Begin the subflow of the state."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work on the task of the state. `onward` is the move behind it, if it only computes."""

    onward: Move | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait for the user or for an answer, or be over."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """End the run, because a state that decides has no open transition."""


NextStep = Enter | Return | Call | Work | Rest | Stuck


def next_steps(
    state: CompiledState,
    *,
    called: bool,
    opens: Callable[[Move], bool],
    known: Callable[[], Move | None],
) -> Iterator[NextStep]:
    """Yield what follows in a state, best first. A caller takes the first step that nothing
    forbids.

    Args:
        state: The current state.
        called: True if there is a place to return to from an end.
        opens: Judges whether a transition is open. It is asked once for each, in order of priority.
        known: Returns the way on from a state whose answers are known; None if the state is asked.

    Returns:
        The steps. The last one is never `Enter`: it is always possible.
    """
    if state.kind == "final":
        # An end inside a flow is no end of the conversation.
        yield Return() if called else Rest()
        return
    if state.kind == "task":
        yield Work(way_behind(state))
        return
    # A subflow is left by what it gives back, and not before it has run.
    if state.kind != "subflow":
        for move in state.onward:
            if opens(move):
                yield Enter(move)
    # Asked after the transitions: one that is open comes before a way that is only known.
    way = known()
    if way is not None:
        yield Enter(way, known=True)
    if state.kind == "subflow":
        yield Call()
    elif state.kind == "decide":
        yield Stuck()
    else:
        yield Rest()


def way_behind(state: CompiledState) -> Move | None:
    """Return the one move behind a task that only computes.

    That is a function without tools or acts, and with one way on. Known answers may be passed into
    such a task, because nobody is asked there and its output picks no way.
    """
    task = state.definition
    computes = task.execute is not None and not task.tools and not task.acts and task.route is None
    if not computes or len(state.moves) != 1 or state.moves[0].on not in (None, "default"):
        return None
    return state.moves[0]


def lacking(session: Session, state: CompiledState) -> tuple[str, ...]:
    """Return the keys to collect in a state that are not set, without those that the user will not
    give.
    """
    absent = missing(session.context, state.collects)
    # The usual case, without a second look at each key.
    if not session.skipped and not session.begun:
        return absent
    return tuple(
        key for key in absent if key not in session.skipped and not _is_begun(session, key)
    )


def _is_begun(session: Session, name: str) -> bool:
    """Return true for a part of an object that is known, while the object waits for its other
    parts.
    """
    return "." in name and look_up(session.begun, name) is not None
