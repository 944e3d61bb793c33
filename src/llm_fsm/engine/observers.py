"""Observers: functions that receive every event of every machine in this process.

The list of observers is global to the process (see docs/architecture.md). It is empty until a
function subscribes, as `enable_logging` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import TypeVar

from llm_fsm._async import is_async
from llm_fsm.errors import told
from llm_fsm.session.events import Event, Progressed
from llm_fsm.session.messages import Usage

Observer = Callable[[str, Event], None]
T = TypeVar("T")

_observers: list[Observer] = []


class TurnSaved(Event, frozen=True, kw_only=True):
    """A turn is on record. Observers receive this event; no turn record has it.

    `definition` is the machine's name, and `kind` is as in turn records. `turn` is the turn's
    number, `state` the state after it, and `seconds` the time that it took. `secrets` are the values
    of secret keys so far, so that an observer can leave them out of what it passes on.
    """

    definition: str
    kind: str
    turn: int
    state: str
    ended: bool
    usage: Usage
    seconds: float
    secrets: tuple[str, ...] = ()


class TurnAborted(Event, frozen=True, kw_only=True):
    """A turn was not finished, and nothing of it is on record. Observers receive this event; no
    turn record has it.

    `definition` is the machine's name, `error` the class of the error, and `seconds` the time until
    then.
    """

    definition: str
    error: str
    seconds: float


def plain(observer: Observer) -> Observer:
    """Return the observer if it is a plain function, because it is called between two steps.

    Raises:
        TypeError: It is async, or no function.
    """
    if is_async(observer):
        name = _name(observer)
        raise TypeError(
            f"{name} is async, and nobody would await it: give a plain function (conversation "
            "id, event)"
        )
    return observer


class _ObserverFailed(BaseException):
    """A caller's own observer raised. It is no Exception, so that it cannot be taken for a model's
    error."""


async def observed(
    observer: Observer | None, work: Callable[[Observer | None], Awaitable[T]]
) -> T:
    """Await work that reports its events to `observer`. An error of the observer is raised.

    Raises:
        TypeError: The observer is async, or no function.
    """
    if observer is None:
        return await work(None)
    checked = plain(observer)
    failed: list[Exception] = []

    def receive(conversation_id: str, event: Event) -> None:
        if not failed:
            try:
                checked(conversation_id, event)
            except Exception as error:
                failed.append(error)
        if failed and not isinstance(
            event, Progressed
        ):  # a host's function reported progress; it did not fail
            raise _ObserverFailed

    try:
        return await work(receive)
    except _ObserverFailed:
        raise failed[0] from None


def observe(observer: Observer) -> Callable[[], None]:
    """Call a function for every event of every machine in this process.

    If the function raises, the turn continues, with a RuntimeWarning.

    Args:
        observer: A plain function of (conversation id, event).

    Returns:
        A function that ends the subscription.

    Raises:
        TypeError: The observer is async, or no function.
    """
    _observers.append(plain(observer))

    def stop() -> None:
        if observer in _observers:
            _observers.remove(observer)

    return stop


def is_observed() -> bool:
    """Return true if there are observers."""
    return bool(_observers)


def publish(conversation_id: str, event: Event) -> None:
    """Call all observers."""
    if _observers:
        for observer in tuple(_observers):
            try:
                observer(conversation_id, event)
            except Exception as error:
                said = (
                    f"{_name(observer)}, which observes events, failed: {told(error)}"
                )
                warnings.warn(said, RuntimeWarning, stacklevel=2)


def _name(observer: object) -> str:
    return str(getattr(observer, "__qualname__", type(observer).__qualname__))
