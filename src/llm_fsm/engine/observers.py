"""Observers: functions that receive every event of every machine in this process.

The lists of observers and surroundings are global to the process (see docs/architecture.md). They
are empty until a function subscribes, as `enable_logging` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Literal, NamedTuple, TypeVar

from llm_fsm._async import is_async
from llm_fsm.errors import told
from llm_fsm.session.events import Event, Progressed
from llm_fsm.session.messages import Usage
from llm_fsm.tools.returns import check_runs

Observer = Callable[[str, Event], None]
T = TypeVar("T")


class Subscriptions(list[T]):
    """Functions that subscribed, in order. Of those with equal keys, only the last one counts."""

    def __init__(self) -> None:
        super().__init__()
        self._keyed: dict[object, T] = {}

    def add(self, function: T, key: object = None) -> Callable[[], None]:
        """Add a function, and return one that removes it."""
        self.append(function)
        if key is not None:
            former = self._keyed.get(key)
            if former is not None and former in self:
                self.remove(former)
            self._keyed[key] = function

        def stop() -> None:
            if function in self:
                self.remove(function)
            if key is not None and self._keyed.get(key) is function:
                del self._keyed[key]

        return stop


_observers: Subscriptions[Observer] = Subscriptions()


class HostWork(NamedTuple):
    """Work of the host's code that a turn waits for.

    `name` is that of the tool, the model, the point or the function; `key` the key of a tool's
    call.
    """

    kind: Literal["model", "tool", "handlers", "function"]
    conversation_id: str
    name: str = ""
    key: str = ""


Surrounding = Callable[[HostWork], AbstractContextManager[object]]

_surroundings: Subscriptions[Surrounding] = Subscriptions()


class TurnSaved(Event, frozen=True, kw_only=True):
    """A turn is on record. Observers receive this event; no turn record has it.

    `definition` is the machine's name, and `kind` is as in turn records. `turn` is the turn's
    number, `state` the state after it, and `seconds` the time that it took. `secrets` are the
    values of secret keys so far, so that an observer can leave them out of what it passes on.
    `release` and `arm` are as in `ReleaseChosen`. `missed`: nothing came of its message.
    """

    definition: str
    kind: str
    turn: int
    state: str
    ended: bool
    usage: Usage
    seconds: float
    secrets: tuple[str, ...] = ()
    release: str = ""
    arm: str = ""
    missed: bool = False


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
    try:
        check_runs(observer, "an observer")
    except ValueError as error:
        raise TypeError(str(error)) from error
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


async def observed(observer: Observer | None, work: Callable[[Observer | None], Awaitable[T]]) -> T:
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
        # A host's function reported progress; it did not fail.
        if failed and not isinstance(event, Progressed):
            raise _ObserverFailed

    try:
        return await work(receive)
    except _ObserverFailed:
        raise failed[0] from None


def observe(observer: Observer, *, key: object = None) -> Callable[[], None]:
    """Call a function for every event of every machine in this process.

    If the function raises, the turn continues, with a RuntimeWarning.

    Args:
        observer: A plain function of (conversation id, event).
        key: If given, the function takes the place of an earlier one with an equal key.

    Returns:
        A function that ends the subscription.

    Raises:
        TypeError: The observer is async, or no function.
    """
    return _observers.add(plain(observer), key)


def surround(surrounding: Surrounding, *, key: object = None) -> Callable[[], None]:
    """Put a context manager around all work of hosts in this process: models, tools, handlers.

    Args:
        surrounding: Makes the context manager for one piece of work. It runs in the task that waits
            for the work, so that context variables reach the host's code.
        key: As in `observe`.

    Returns:
        A function that ends it.
    """
    return _surroundings.add(surrounding, key)


@contextmanager
def around(work: HostWork) -> Generator[None]:
    """Surround one piece of work by everything that `surround` was given."""
    if not _surroundings:
        yield
        return
    with ExitStack() as stack:
        for surrounding in tuple(_surroundings):  # one that is called may end a subscription
            stack.enter_context(surrounding(work))
        yield


def is_surrounded() -> bool:
    """Return true if something surrounds the work of hosts."""
    return bool(_surroundings)


def is_observed() -> bool:
    """Return true if there are observers."""
    return bool(_observers)


def publish(conversation_id: str, event: Event) -> None:
    """Call all observers."""
    for observer in tuple(_observers):  # one that is called may end a subscription
        try:
            observer(conversation_id, event)
        except Exception as error:
            said = f"{_name(observer)}, which observes events, failed: {told(error)}"
            warnings.warn(said, RuntimeWarning, stacklevel=2)


def _name(observer: object) -> str:
    return str(getattr(observer, "__qualname__", type(observer).__qualname__))
