"""A deployment: one definition on this host, with its compiled machine, tools and handlers."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from llm_fsm._json import of_kind
from llm_fsm.definition.models import Quotas
from llm_fsm.engine.handlers.registry import ErrorMode, Handler, check_states
from llm_fsm.engine.handlers.runner import run_point
from llm_fsm.engine.journal import Journal
from llm_fsm.engine.model_call import ask, is_counted, summarised, unmeasured
from llm_fsm.engine.observers import HostWork, around, is_surrounded
from llm_fsm.engine.outbox.dispatcher import OutboxDispatcher, outgoing
from llm_fsm.engine.spending import Spending
from llm_fsm.engine.task_functions import execute
from llm_fsm.engine.turn_runner import TurnRunner
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM, Listener, form_of
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord
from llm_fsm.stores.base import END_HANDLERS, Outgoing, Store, storable
from llm_fsm.tools.task_functions import Functions
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel, Execute, Executed, HandlerResults, Point, RunHandlers
from llm_fsm.turn.turn_state import HostCapabilities


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of a host that do not depend on the definition. `timeout` is in seconds, for a turn
    or an effect of a run.
    """

    llm: Callable[[], LLM]
    store: Store
    timeout: float | None
    error_mode: ErrorMode
    toolbox: Toolbox
    functions: Functions
    now: Callable[[], float]
    """Returns seconds since the epoch."""
    dispatcher: OutboxDispatcher
    merge_within: float | None = None
    """Seconds within which messages of one conversation become one turn."""
    summaries: bool = True
    forced: bool = True
    """False: the form of a reply is asked for in words alone."""
    summarizer: Callable[[Any], Any] | None = None
    handlers: tuple[Handler, ...] = ()
    points: frozenset[Point] = frozenset()
    warned: bool = False
    rooms: dict[str, int] = field(default_factory=dict)
    """The tokens that fit into the context of a model, by its name, as far as they are known."""

    def __post_init__(self) -> None:
        _check_seconds("timeout", self.timeout, "None for no limit")
        _check_seconds("merge_within", self.merge_within, "None")
        if self.summarizer is not None and not callable(self.summarizer):
            raise ValueError(f"summarizer= is a function, not {type(self.summarizer).__name__}")

    def add_handler(self, handler: Handler, states: Collection[str], definition: str) -> None:
        """Register a handler. `states` are the states that it may name.

        Raises:
            ValueError: It is no handler.
            ConfigurationError: It misspells a state.
        """
        if not isinstance(handler, Handler):
            made = "create_handler(name).at(point).do(function), or with @machine.on(point)"
            raise ValueError(f"a handler is made with {made}; this is a {type(handler).__name__}")
        check_states(handler, states, definition)
        self.handlers = tuple(sorted((*self.handlers, handler), key=lambda item: item.priority))
        self.points = self.points.union(handler.points)

    def say_unmeasured(self, program: CompiledMachine, reply: ModelReply) -> None:
        """Warn, once, about limits that stop nothing with this model."""
        said = None if self.warned else unmeasured(program.limits, reply)
        if said is not None:
            self.warned = True
            warnings.warn(said, RuntimeWarning, stacklevel=2)


def _check_seconds(name: str, given: object, none: str) -> None:
    """Check a setting that is a time, or None, whose meaning is `none`. Raises ValueError."""
    if given is not None and not (isinstance(given, int | float) and given > 0):
        raise ValueError(f"{name}= is a number of seconds above 0, or {none}, not {given!r:.40}")


class Deployment:
    """One definition on this host. Call `prepare` before the first turn."""

    def __init__(self, services: Services, program: CompiledMachine) -> None:
        self.program = program
        self.store = services.store
        self.toolbox = services.toolbox
        self.functions = services.functions
        self.now = services.now
        self.timeout = services.timeout
        self._services = services
        self._capabilities = HostCapabilities(
            summaries=services.summaries,
            forced=services.forced,
            form_of=lambda model: form_of(services.llm(), model),
        )
        machines = (program, *program.flows.values())
        self.name = storable(program.definition.name)
        """The name of the definition, as stores keep it."""
        self.identity = program.identity
        """The SHA-256 that conversations are pinned to: of the definition with everything that it
        calls."""
        self.reached = Spending(self).reached if program.limits.per != Quotas() else None
        self._is_counted = is_counted(program.limits)
        self._is_found = not (program.works or any(item.definition.tools for item in machines))
        self._tools_version: int | None = None
        """The version of the tools that were found; None before, or if there are none."""

    @property
    def document(self) -> str:
        """The definition with everything that it calls, as canonical JSON. `identity` is its
        hash."""
        return self.program.document

    @property
    def capabilities(self) -> HostCapabilities:
        """The settings of every turn."""
        # By identity: the set is made anew only when a handler is added.
        if self._capabilities.points is not self._services.points:
            self._capabilities = replace(self._capabilities, points=self._services.points)
        return self._capabilities

    @property
    def journals(self) -> bool:
        """True if turns may do more than talk."""
        return self.program.works or bool(self._services.points)

    def is_next(self, session: Session) -> bool:
        """Return true if a conversation runs on this deployment and can take a message without
        further checks."""
        return session.definition == self.identity and session.pause is None and not self.journals

    @property
    def is_ready(self) -> bool:
        """True if every tool and function is found, and no tool may have changed since."""
        return self._is_found and (
            self._tools_version is None or self._tools_version == self.toolbox.version
        )

    async def prepare(self) -> None:
        """Find every tool and function that the definition names, and tools again that may have
        changed.

        Raises:
            ConfigurationError: One is missing.
        """
        if self.is_ready:
            return
        self.functions.check(self.program)
        limit = math.inf if self.timeout is None else self.timeout
        try:
            tools = await self.toolbox.available_tools(self.program, limit)
        except ConfigurationError:
            if not self._is_found:
                raise  # from the second time on, a call reports a missing tool
        else:
            self._capabilities = replace(self._capabilities, tools=tools)
        self._is_found, self._tools_version = True, self.toolbox.version

    # -- effects

    def ask(
        self, effect: AskModel, left: float | None, listener: Listener | None = None
    ) -> Awaitable[ModelReply]:
        """Call the model within the turn's time; for a summary, the summariser if there is one.
        Await the result at once.
        """
        summarizer = self._services.summarizer
        if effect.asked_for == "summary" and summarizer is not None:
            return summarised(summarizer, effect, left)
        llm = self._services.llm()
        asked = ask(llm, effect, left, self.timeout, listener, rooms=self._services.rooms)
        # Replies are looked at only where a limit depends on their numbers.
        if self._is_counted:
            asked = self._measured(asked)
        # Without anybody around the work, nothing is wrapped.
        if not is_surrounded():
            return asked
        request = effect.request
        name = request.model or getattr(llm, "name", "")
        return _within(HostWork("model", request.conversation_id, str(name)), asked)

    async def _measured(self, asked: Awaitable[ModelReply]) -> ModelReply:
        reply = await asked
        self._services.say_unmeasured(self.program, reply)
        return reply

    async def run_handlers(
        self,
        effect: RunHandlers,
        left: Callable[[], float | None] | None,
        journal: Journal | None = None,
        *,
        ahead: bool = False,
    ) -> HandlerResults:
        """Run the handlers of one point in order; `ahead` of their turn in the journal."""
        services = self._services
        with around(HostWork("handlers", effect.session.conversation_id, effect.point.value)):
            return await run_point(
                services.handlers, effect, services.error_mode, left, journal, ahead=ahead
            )

    async def execute(self, effect: Execute, running: TurnRunner) -> Executed:
        """Run the function of a task."""
        return await execute(self, self.program, effect, running)

    # -- sinks

    def outgoing(self, record: TurnRecord, session: Session, number: int) -> tuple[Outgoing, ...]:
        """Return the outbox rows of a turn."""
        found = outgoing(self._services.dispatcher.sinks, self.program, record, session, number)
        if Point.END_CONVERSATION not in self._services.points:
            return found
        # In the outbox, so that handlers of the end run even if this process dies now.
        if not of_kind(record.events, ev.Ended):
            return found
        end = Outgoing(
            sink=END_HANDLERS,
            key=f"{session.conversation_id}/{number}/end",
            text=json.dumps({"text": record.text}),
        )
        return (*found, end)

    def committed(self, conversation_id: str) -> None:
        """Deliver the outbox rows of a committed turn."""
        self._services.dispatcher.deliver(conversation_id)


async def _within(work: HostWork, waiting: Awaitable[ModelReply]) -> ModelReply:
    with around(work):
        return await waiting
