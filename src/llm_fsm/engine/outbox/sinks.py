"""Sinks: who else is told of a machine's events, at least once and in order, even when a process dies in between.

A sink is a function of one `Delivery`, or an address (see `webhook`). The events of a turn are written with
the turn, and handed to the sink after it; one that raises, or takes too long, is given the same event again, later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from llm_fsm._text import nearest
from llm_fsm.errors import ConfigurationError
from llm_fsm.session.events import Event
from llm_fsm.session.serialization import NAMES
from llm_fsm.tools.executor import CallFault, called

MAX_NAME = 100
_USER = re.compile(r"(?<=//)[^/]*@")
CLOSING = "llm_fsm:end_conversation"
"""The name under which the outbox keeps what END_CONVERSATION handlers have still to be told; no sink has it."""


def exclusive(sink: str, conversation_id: str) -> str:
    """The name of the lock under which one process at a time delivers to a sink for a conversation."""
    return f"sink {hashlib.sha256(json.dumps([sink, conversation_id]).encode()).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event for a sink. `event`: {"type": …, …} as in turn records, values of secret keys as dots.

    `record` counts the turns of the conversation from 1, `index` the events of the turn from 0; `key` is made of all
    three, and the same each time the event is delivered. `definition`: the machine's name. `kind`: what kind of turn
    it was. `state`: where the conversation stood after the turn.
    """

    key: str
    conversation_id: str
    record: int
    index: int
    definition: str
    kind: str
    state: str
    event: Mapping[str, Any] = field(default_factory=dict)


class SinkFailed(Event, frozen=True, kw_only=True):
    """A sink did not take an event, which is delivered again. Never part of a turn record: observers are told.

    `sink`: its name; `error`: why, class and words; `again`: seconds until it is tried again; `failures`: how often it
    failed since it last took everything. Of a sink that keeps failing they are told at growing intervals.
    """

    sink: str
    error: str
    again: float
    failures: int


Deliver: TypeAlias = Callable[[Delivery], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where events go. `name`: under which the store keeps what is still to be delivered; keep it over restarts.

    `events`: the types that it wants; None: all. `timeout`: seconds for one delivery.
    """

    name: str
    deliver: Deliver
    events: frozenset[str] | None = None
    timeout: float = 30.0

    async def take(self, delivery: Delivery) -> None:
        """Deliver one event. Raises what the sink raises, TimeoutError when it takes too long."""
        try:
            await called(self.timeout, partial(self.deliver, delivery), f"llm_fsm sink {self.name}")
        except CallFault as late:
            raise TimeoutError(str(late)) from late


def sink(
    target: Deliver | str,
    *,
    name: str | None = None,
    events: Collection[str] | None = None,
    timeout: float = 30.0,
    headers: Mapping[str, str] | None = None,
) -> Sink:
    """A sink of a function, or of the address of a webhook; `headers` are for the latter.

    Without `name` it is the function's, or the address without its query, user and password. Raises ConfigurationError.
    """
    deliver: Deliver
    if isinstance(target, str):
        module: Any = import_module("llm_fsm.engine.outbox.webhook")
        deliver = module.Webhook(target, headers=headers or {})
        called = name or _USER.sub("", target.partition("?")[0])
    else:
        if headers:
            raise ConfigurationError("headers= are for a sink that is an address, not for a function")
        deliver, called = target, name or str(getattr(target, "__name__", ""))
    if not callable(deliver) or not called or called == "<lambda>":
        raise ConfigurationError("a sink is a function with a name, or an address; or give it one with name=")
    if len(called) > MAX_NAME or not called.isprintable() or called == CLOSING:
        raise ConfigurationError(
            f"a sink's name has at most {MAX_NAME} printable characters; give a shorter name="
        )
    if not timeout > 0:
        raise ConfigurationError(f"sink {called!r}: timeout is a number of seconds above 0, not {timeout!r}")
    for event in events or ():
        if event not in NAMES:
            guess = nearest(event, NAMES)
            hint = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigurationError(f"sink {called!r}: there is no event {event!r}{hint}")
    wanted = None if events is None else frozenset(events)
    return Sink(name=called, deliver=deliver, events=wanted, timeout=timeout)


def sinks_of(given: Sequence[Sink | Deliver | str]) -> tuple[Sink, ...]:
    """What a host gives as sinks. Raises ConfigurationError, also for two of one name."""
    found = tuple(item if isinstance(item, Sink) else sink(item) for item in given)
    names = [item.name for item in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two sinks are named {name!r}; give one of them another name=")
    return found
