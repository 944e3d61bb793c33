"""Who else hears what happens: functions that are told every event of every machine in this process.

The list of observers is process-wide, as little else of the package is (see docs/architecture.md), and empty unless
somebody subscribes, as `enable_logging` does.
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
    """A turn is on record. Never part of a turn record: observers are told.

    `definition`: the machine's name; `kind` as of turn records; `turn`: its number; `state`: where the conversation
    stands after it. `seconds`: how long it took.
    """

    definition: str
    kind: str
    turn: int
    state: str
    ended: bool
    usage: Usage
    seconds: float


class TurnAborted(Event, frozen=True, kw_only=True):
    """A turn was not finished: nothing of it is on record. Never part of a turn record: observers are told.

    `definition`: the machine's name. `error`: the class of the error; `seconds`: how long the turn had taken.
    """

    definition: str
    error: str
    seconds: float


def plain(observer: Observer) -> Observer:
    """The observer, if it is a plain function: events are told in between two steps. Raises TypeError."""
    if is_async(observer):
        name = _name(observer)
        raise TypeError(f"{name} is async, and nobody would await it: give a plain function (conversation id, event)")
    return observer


class _HearerFailed(BaseException):
    """A caller's own hearer raised. No Exception, as a model's error is made of those."""


async def heard(hearer: Observer | None, work: Callable[[Observer | None], Awaitable[T]]) -> T:
    """What a work brings that tells `hearer` of its events. What the hearer raises is raised. Raises TypeError."""
    if hearer is None:
        return await work(None)
    tell = plain(hearer)
    failed: list[Exception] = []

    def hear(conversation_id: str, event: Event) -> None:
        if not failed:
            try:
                tell(conversation_id, event)
            except Exception as error:
                failed.append(error)
        if failed and not isinstance(event, Progressed):  # told out of a host's function, which did not fail by it
            raise _HearerFailed

    try:
        return await work(hear)
    except _HearerFailed:
        raise failed[0] from None


def observe(observer: Observer) -> Callable[[], None]:
    """Call `observer(conversation_id, event)` for everything that happens; the returned function ends it.

    One that raises is passed over, and a RuntimeWarning says so: the turn is not its own. Raises TypeError for an
    async function.
    """
    _observers.append(plain(observer))

    def stop() -> None:
        if observer in _observers:
            _observers.remove(observer)

    return stop


def is_observed() -> bool:
    """True when somebody is told."""
    return bool(_observers)


def publish(conversation_id: str, event: Event) -> None:
    """Tell all observers."""
    if _observers:
        for observer in tuple(_observers):
            try:
                observer(conversation_id, event)
            except Exception as error:
                said = f"{_name(observer)}, which observes events, failed: {told(error)}"
                warnings.warn(said, RuntimeWarning, stacklevel=2)


def _name(observer: object) -> str:
    return str(getattr(observer, "__qualname__", type(observer).__qualname__))
