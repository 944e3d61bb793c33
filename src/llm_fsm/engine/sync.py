"""The front door without asyncio: the same words, waiting instead of awaiting.

A facade and nothing more. Each machine keeps one event loop in a thread of its own. So turns of several
threads run side by side, and connections are reused; see `llm_fsm.engine.portal`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from llm_fsm.definition.models import Definition
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.documents.subflows import Registered
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream
from llm_fsm.engine.handlers.registry import ErrorMode, Function, Handler
from llm_fsm.engine.machine import TIMEOUT, AsyncMachine
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.outbox.sinks import Deliver, Sink
from llm_fsm.engine.portal import Portal
from llm_fsm.llm.base import LLM
from llm_fsm.session.events import Event, Migrated
from llm_fsm.session.messages import Message, Paused
from llm_fsm.stores.base import Listed, Store
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.effects import Point


class SyncStream:
    """The events of one turn as they happen; `turn` is set after the last one."""

    def __init__(self, machine: Machine, stream: TurnStream) -> None:
        self._machine = machine  # as of `Conversation`
        self._portal = machine._portal
        self._stream = stream

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._stream!r}>"

    @property
    def turn(self) -> Turn | None:
        """The turn, once it is saved."""
        return self._stream.turn

    def __iter__(self) -> Iterator[Event]:
        events, forks = aiter(self._stream), self._portal.forks

        async def following() -> list[Event]:
            """Return the next event and those since then, because a way to the loop takes longer than they do."""
            try:
                found = [await anext(events)]  # with a default, Python 3.11 dies where it is cancelled at its beginning
                while self._stream._waiting:
                    found.append(await anext(events))
            except StopAsyncIteration:
                return []
            return found

        try:
            while found := self._portal.run(following()):
                for event in found:
                    yield event
                    if self._portal.forks != forks:
                        raise RuntimeError(
                            "this stream began before its process was forked, and goes on in the other one"
                        )
            if self._stream.turn is None:  # closing the machine ended the stream in between two events
                raise CancelledError
        finally:
            close: Callable[[], Coroutine[Any, Any, None]] | None = getattr(events, "aclose", None)
            if close is not None and self._portal.forks == forks:
                self._portal.let_go(close)


class Conversation:
    """One conversation; its properties (`state`, `context` and so on) are read from the store each time.

    Where it was deleted meanwhile, reading it raises ConversationNotFound; `history` and `turns` are empty.
    """

    def __init__(self, machine: Machine, conversation: AsyncConversation) -> None:
        self._machine = machine  # a machine that nobody holds closes itself
        self._portal = machine._portal
        self._conversation = conversation

    def _fresh(self) -> AsyncConversation:
        self._portal.run(self._conversation.refresh())
        return self._conversation

    @property
    def id(self) -> str:
        """The id under which the conversation can be resumed; it never changes."""
        return self._conversation.id

    def __repr__(self) -> str:
        return self._conversation._described(type(self).__name__)

    @property
    def greeting(self) -> str:
        """The opening message; empty if there was none."""
        return self._conversation.greeting

    @property
    def state(self) -> str:
        """The id of the current state."""
        return self._fresh().state

    @property
    def context(self) -> dict[str, Any]:
        """A copy of what was collected; secrets included, system names not."""
        return self._fresh().context

    def data(self) -> dict[str, Any]:
        """Return the data that conditions read: the context and the system names."""
        return self._fresh().data()

    @property
    def ended(self) -> bool:
        """True when no further message can be sent."""
        return self._fresh().ended

    @property
    def paused(self) -> Paused | None:
        """The pause of the run; None while it waits for nothing but the user."""
        return self._fresh().paused

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that the user has now; see `Turn.choices`."""
        return self._fresh().choices

    @property
    def memory(self) -> dict[str, Any]:
        """The working memory as JSON; see AsyncConversation.memory."""
        return self._fresh().memory

    @property
    def history(self) -> tuple[Message, ...]:
        """The whole conversation so far."""
        return self._portal.run(self._conversation.history())

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn on record, taken back or not, with its events; contexts are those of now."""
        return self._portal.run(self._conversation.turns())

    def send(self, text: str | Choice, *, request_id: str | None = None) -> Turn:
        """Take one message and answer it; errors as of AsyncConversation.send."""
        return self._portal.run(self._conversation.send(text, request_id=request_id))

    def stream(self, text: str | Choice, *, request_id: str | None = None) -> SyncStream:
        """Like `send`, as a stream of events."""
        return SyncStream(self._machine, self._conversation.stream(text, request_id=request_id))

    def answer(self, value: object, *, request_id: str | None = None) -> Turn:
        """Answer what the run waits for; errors as of AsyncConversation.answer."""
        return self._portal.run(self._conversation.answer(value, request_id=request_id))

    def stream_answer(self, value: object, *, request_id: str | None = None) -> SyncStream:
        """Like `answer`, as a stream of events."""
        return SyncStream(self._machine, self._conversation.stream_answer(value, request_id=request_id))

    def update(
        self, context: Mapping[str, Any] | None = None, state: str | None = None, *, request_id: str | None = None
    ) -> Turn:
        """Change the conversation between messages; arguments and errors as of AsyncConversation.update."""
        return self._portal.run(self._conversation.update(context, state, request_id=request_id))

    def say(self, text: str, *, request_id: str | None = None) -> Turn:
        """Say something to the user between messages; errors as of AsyncConversation.say."""
        return self._portal.run(self._conversation.say(text, request_id=request_id))

    def end(self) -> None:
        """Close the conversation for good; errors as of AsyncConversation.end."""
        self._portal.run(self._conversation.end())

    def undo(self) -> None:
        """Take the last turn back, the end of the conversation too; errors as of AsyncConversation.undo."""
        self._portal.run(self._conversation.undo())


def _close(machine: AsyncMachine, portal: Portal) -> None:
    portal.stop(machine.close())


class Machine:
    """A definition, a model and a store, ready for conversations; arguments and errors as of AsyncMachine.

    One that is not closed closes itself when nothing refers to it any more, at the latest at exit.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        model: str | LLM | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        store: str | Store | None = None,
        tools: ToolRegistry | Iterable[Callable[..., Any]] = (),
        functions: Iterable[Callable[..., Any]] = (),
        mcp: Mapping[str, Mapping[str, Any]] | None = None,
        handlers: Sequence[Handler] = (),
        sinks: Sequence[Sink | Deliver | str] = (),
        fallbacks: Sequence[str | LLM] = (),
        timeout: float | None = TIMEOUT,
        merge_within: float | None = None,
        error_mode: ErrorMode = "continue",
        summaries: bool = True,
        summarizer: Callable[[Any], Any] | None = None,
        clock: Callable[[], float] | None = None,
        on_change: str | Mapping[str, Any] = "pin",
        flows: Mapping[str, Registered] | None = None,
        file: str | Path | None = None,
        prompt: str = "state",
    ) -> None:
        settings = dict(locals())
        del settings["self"]
        self._machine = AsyncMachine(**settings)
        self._portal = Portal()
        self._closing = weakref.finalize(self, _close, self._machine, self._portal)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        model: str | LLM | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        store: str | Store | None = None,
        tools: ToolRegistry | Iterable[Callable[..., Any]] = (),
        functions: Iterable[Callable[..., Any]] = (),
        mcp: Mapping[str, Mapping[str, Any]] | None = None,
        handlers: Sequence[Handler] = (),
        sinks: Sequence[Sink | Deliver | str] = (),
        fallbacks: Sequence[str | LLM] = (),
        timeout: float | None = TIMEOUT,
        merge_within: float | None = None,
        error_mode: ErrorMode = "continue",
        summaries: bool = True,
        summarizer: Callable[[Any], Any] | None = None,
        clock: Callable[[], float] | None = None,
        on_change: str | Mapping[str, Any] = "pin",
        flows: Mapping[str, Registered] | None = None,
        prompt: str = "state",
    ) -> Self:
        """Make a machine from a definition file. The settings are those of AsyncMachine."""
        settings = dict(locals())
        del settings["cls"], settings["path"]
        return cls(load(path), file=path, **settings)

    @classmethod
    def from_dict(
        cls,
        document: Mapping[str, Any],
        *,
        model: str | LLM | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        store: str | Store | None = None,
        tools: ToolRegistry | Iterable[Callable[..., Any]] = (),
        functions: Iterable[Callable[..., Any]] = (),
        mcp: Mapping[str, Mapping[str, Any]] | None = None,
        handlers: Sequence[Handler] = (),
        sinks: Sequence[Sink | Deliver | str] = (),
        fallbacks: Sequence[str | LLM] = (),
        timeout: float | None = TIMEOUT,
        merge_within: float | None = None,
        error_mode: ErrorMode = "continue",
        summaries: bool = True,
        summarizer: Callable[[Any], Any] | None = None,
        clock: Callable[[], float] | None = None,
        on_change: str | Mapping[str, Any] = "pin",
        flows: Mapping[str, Registered] | None = None,
        file: str | Path | None = None,
        prompt: str = "state",
    ) -> Self:
        """Make a machine from a definition as JSON data. The settings are those of AsyncMachine."""
        settings = dict(locals())
        del settings["cls"], settings["document"]
        return cls(load_dict(document).definition, **settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.definition!r}>"

    @property
    def definition(self) -> Definition:
        """The definition that this machine runs."""
        return self._machine.definition

    def start(
        self,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
        state: str | None = None,
        background: Mapping[str, Any] | None = None,
        *,
        on_event: Observer | None = None,
        history: Iterable[Any] | None = None,
        timezone: str = "",
    ) -> Conversation:
        """Begin a conversation and greet (unless `greet` is False); as AsyncMachine.start, `on_event` on any thread."""
        started = self._machine.start(
            context, conversation_id, greet, state, background, on_event=on_event, history=history, timezone=timezone
        )
        return Conversation(self, self._portal.run(started))

    def resume(self, conversation_id: str) -> Conversation:
        """Go on with a conversation of any process, any day. Raises ConversationNotFound."""
        return Conversation(self, self._portal.run(self._machine.resume(conversation_id)))

    def run(
        self,
        input: Any = None,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        background: Mapping[str, Any] | None = None,
        *,
        state: str | None = None,
        shared: Mapping[str, Any] | None = None,
        memory: Mapping[str, str] | None = None,
    ) -> Turn:
        """Run a machine without a user as far as it goes; arguments and errors as of AsyncMachine.run."""
        running = self._machine.run(
            input, context, conversation_id, background, state=state, shared=shared, memory=memory
        )
        return self._portal.run(running)

    def step(
        self,
        input: Any = None,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        background: Mapping[str, Any] | None = None,
        *,
        state: str | None = None,
        shared: Mapping[str, Any] | None = None,
        memory: Mapping[str, str] | None = None,
    ) -> Turn:
        """Run past one task, to the border of the next state; arguments and errors as of AsyncMachine.step."""
        running = self._machine.step(
            input, context, conversation_id, background, state=state, shared=shared, memory=memory
        )
        return self._portal.run(running)

    def outputs(self, conversation_id: str) -> tuple[tuple[str, Any], ...]:
        """(state, output) of every task that passed, oldest first; none for an id that is not known."""
        return self._portal.run(self._machine.outputs(conversation_id))

    def run_stream(
        self,
        input: Any = None,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        background: Mapping[str, Any] | None = None,
    ) -> SyncStream:
        """Like `run`, as a stream of events."""
        return SyncStream(self, self._machine.run_stream(input, context, conversation_id, background))

    def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause: str | None = None,
        request_id: str | None = None,
        step: bool = False,
    ) -> Turn:
        """Answer what a run waits for; errors as of AsyncMachine.answer."""
        return self._portal.run(
            self._machine.answer(conversation_id, value, pause=pause, request_id=request_id, step=step)
        )

    def export(self, conversation_id: str) -> str:
        """Return a conversation as one JSON text; see AsyncMachine.export."""
        return self._portal.run(self._machine.export(conversation_id))

    def take_in(self, text: str, conversation_id: str | None = None) -> str:
        """Keep a conversation that `export` gave; see AsyncMachine.take_in."""
        return self._portal.run(self._machine.take_in(text, conversation_id))

    def run_due(self, now: float | None = None) -> tuple[Turn, ...]:
        """Fire every time-out and reminder that is due; errors as of AsyncMachine.run_due."""
        return self._portal.run(self._machine.run_due(now))

    def conversations(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """List stored conversations in order of ids, in pages of `limit` after the id `after`."""
        return self._portal.run(self._machine.conversations(after, limit))

    def definition_of(self, conversation_id: str) -> Definition:
        """Return the definition that a conversation goes on by; see AsyncMachine.definition_of."""
        return self._portal.run(self._machine.definition_of(conversation_id))

    def migrate(self, conversation_id: str, *, dry_run: bool = False) -> Migrated | str | None:
        """Carry a conversation over to this machine's definition; see AsyncMachine.migrate."""
        return self._portal.run(self._machine.migrate(conversation_id, dry_run=dry_run))

    def delete(self, conversation_id: str) -> bool:
        """Remove everything about a conversation; False if there was none."""
        return self._portal.run(self._machine.delete(conversation_id))

    def close(self) -> None:
        """Free connections, files and the loop's thread; a second time does nothing."""
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_handler(self, handler: Handler) -> None:
        """Register a handler made with `create_handler`. Raises ConfigurationError where it names an unknown state."""
        self._machine.add_handler(handler)

    def on(
        self,
        *points: str | Point,
        state: str | Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        priority: int = 100,
        critical: bool = False,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]:
        """Decorate a function that runs at these points; arguments and errors as of AsyncMachine.on."""
        return self._machine.on(
            *points, state=state, target=target, priority=priority, critical=critical, timeout=timeout
        )

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool, for definitions that name it; options as of `ToolRegistry.register`."""
        return self._machine.tool(**options) if function is None else self._machine.tool(function, **options)

    def function(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Register a function for `execute` or for a key result's check; see `llm_fsm.tools.task_functions`."""
        return self._machine.function(function, name=name)
