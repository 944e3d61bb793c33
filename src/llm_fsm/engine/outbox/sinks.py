"""Sinks: receivers of a machine's events.

Delivery survives crashes: events arrive in order and at least once.

A sink is a function of one `Delivery`, or a webhook URL (see `webhook`). The store keeps the events
of a turn together with the turn, and they are delivered after it. If the sink raises or times out,
it receives the same event again later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from llm_fsm._json import TextMap
from llm_fsm._text import nearest, sha256_of
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.events import EVENTS, Event, StateEntered
from llm_fsm.stores.base import END_HANDLERS
from llm_fsm.tools.executor import CallFault, called
from llm_fsm.tools.returns import check_runs

MAX_NAME = 100
_USER = re.compile(r"(?<=//)[^/]*@")


def exclusive(sink: str, conversation_id: str) -> str:
    """Return the name of the lock under which one process delivers to a sink for a conversation.

    Args:
        sink: The name of the sink.
        conversation_id: The conversation.

    Returns:
        The name of the lock.
    """
    return f"sink {sha256_of(json.dumps([sink, conversation_id]))}"


class SinkFailed(Event, frozen=True, kw_only=True):
    """A sink did not take an event, which will be delivered again.

    Observers receive this event; no turn record has it. If a sink keeps failing, observers receive
    it at growing intervals.

    Attributes:
        sink: The name of the sink.
        error: Class and message of the error.
        again: Seconds until the next attempt.
        failures: The number of failures since the sink last took all events.
    """

    sink: str
    error: str
    again: float
    failures: int


Deliver: TypeAlias = Callable[[Delivery], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A receiver of events; make it with `sink`.

    Attributes:
        name: The name under which the store keeps undelivered events. Keep the name over restarts.
        deliver: A function of one Delivery.
        events: The types of events that it wants; None: all.
        timeout: Seconds for one delivery.
        states: The states whose turns it wants, by the state after the turn. An event that enters a
            state counts for that state. None: all.
        begins: The beginning of the ids of the conversations that it wants.
    """

    name: str
    deliver: Deliver
    events: frozenset[str] | None = None
    timeout: float = 30.0
    states: frozenset[str] | None = None
    begins: str = ""

    def wants(self, event: Event, state: str) -> bool:
        """Return true if the sink receives an event of this type and state.

        Args:
            event: The event.
            state: The state after the turn.

        Returns:
            False only if the sink names other types or states.
        """
        if self.events is not None and type(event).__name__ not in self.events:
            return False
        return (
            self.states is None
            or (event.state if isinstance(event, StateEntered) else state) in self.states
        )

    async def take(self, delivery: Delivery) -> None:
        """Deliver one event.

        Args:
            delivery: The event.

        Raises:
            TimeoutError: The delivery took too long.
            Exception: The sink raised this error.
        """
        try:
            await called(self.timeout, partial(self.deliver, delivery), f"llm_fsm sink {self.name}")
        except CallFault as late:
            raise TimeoutError(str(late)) from late


def sink(
    target: Deliver | str,
    *,
    name: str | None = None,
    events: Collection[str] | None = None,
    states: Collection[str] | None = None,
    timeout: float = 30.0,
    headers: TextMap | None = None,
    secret: str | None = None,
) -> Sink:
    """Make a sink from a function or a webhook URL.

    Args:
        target: A function of one Delivery, or a URL.
        name: The name in the store. None takes the function's name, or the URL without query and
            credentials.
        events: Types of events that it wants, such as `StateEntered`; None: all.
        states: Ids of states. It wants the events that enter them, and the other events of turns
            that end in them; None: all.
        headers: Further headers of a webhook.
        secret: The secret with which a webhook signs (see `webhook`); None: it does not sign.
        timeout: Seconds for one delivery.

    Returns:
        The sink, for `Machine(…, sinks=[…])`.

    Raises:
        ConfigurationError: The target or a setting is wrong.

    Example:
        >>> received = []
        >>> sink(received.append, name="audit", events=["StateEntered"]).name
        'audit'
    """
    deliver: Deliver
    if isinstance(target, str):
        # aiohttp takes longer to import than the rest of a machine, and few machines have webhooks.
        from llm_fsm.engine.outbox.webhook import Webhook  # noqa: PLC0415

        deliver = Webhook(target, headers=headers or {}, secret=secret)
        called = name or _USER.sub("", target.partition("?")[0])
    else:
        # A function would ignore them in silence.
        if headers or secret is not None:
            raise ConfigurationError(
                "headers= and secret= are for a sink that is an address, not for a function"
            )
        deliver, called = target, name or str(getattr(target, "__name__", ""))
    try:
        check_runs(deliver, "a sink")
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    # Undelivered events are kept under the name, so it must mean the same after a restart.
    if not callable(deliver) or not called or called == "<lambda>":
        raise ConfigurationError(
            "a sink is a function with a name, or an address; or give it one with name="
        )
    if len(called) > MAX_NAME or not called.isprintable() or called == END_HANDLERS:
        raise ConfigurationError(
            f"a sink's name has at most {MAX_NAME} printable characters; give a shorter name="
        )
    if not timeout > 0:
        raise ConfigurationError(
            f"sink {called!r}: timeout is a number of seconds above 0, not {timeout!r}"
        )
    for event in events or ():
        if event not in EVENTS:
            guess = nearest(event, EVENTS)
            hint = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigurationError(f"sink {called!r}: there is no event {event!r}{hint}")
    if isinstance(states, str):
        raise ConfigurationError(f"sink {called!r}: states= is a list; write [{states!r}]")
    wanted = None if events is None else frozenset(events)
    where = None if states is None else frozenset(states)
    return Sink(name=called, deliver=deliver, events=wanted, timeout=timeout, states=where)


def sinks_of(given: Sequence[Sink | Deliver | str]) -> tuple[Sink, ...]:
    """Make sinks from functions and URLs.

    Args:
        given: Sinks, functions of one Delivery, or URLs.

    Returns:
        The sinks, in the same order.

    Raises:
        ConfigurationError: One is wrong, or two have the same name.
    """
    found = tuple(item if isinstance(item, Sink) else sink(item) for item in given)
    names = [item.name for item in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"two sinks are named {name!r}; give one of them another name="
            )
    return found
