"""Who else hears what happens: functions that are told every event of every machine in this process.

The list of observers is the one piece of process-wide state of the package, empty unless somebody
subscribes, as `enable_logging` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from llm_fsm.events import Event
from llm_fsm.threads import is_async

Observer = Callable[[str, Event], None]
_Told = TypeVar("_Told", bound=Observer | None)

_observers: list[Observer] = []


def plain(observer: _Told) -> _Told:
    """The observer, if it is a plain function: events are told in between two steps. Raises TypeError."""
    if observer is not None and is_async(observer):
        name = _name(observer)
        raise TypeError(f"{name} is async, and nobody would await it: give a plain function (conversation id, event)")
    return observer


def observe(observer: Observer) -> Callable[[], None]:
    """Call `observer(conversation_id, event)` for everything that happens; the returned function ends it.

    One that raises is passed over, and a RuntimeWarning says so: the turn is not its own.
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
                said = f"{_name(observer)}, which observes events, failed: {type(error).__name__}: {error}"
                warnings.warn(said, RuntimeWarning, stacklevel=2)


def _name(observer: object) -> str:
    return str(getattr(observer, "__qualname__", type(observer).__qualname__))
