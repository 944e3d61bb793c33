"""The front door for asyncio: a machine and its conversations."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from llm_fsm.definition.models import Definition
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.documents.subflows import Registered, gather
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream, turn_of
from llm_fsm.engine.deployment import Services
from llm_fsm.engine.engine import Engine
from llm_fsm.engine.handlers.registry import ErrorMode, Function, Handler, create_handler
from llm_fsm.engine.observers import Observer, heard
from llm_fsm.engine.outbox.dispatcher import OutboxDispatcher
from llm_fsm.engine.outbox.sinks import Deliver, Sink, sinks_of
from llm_fsm.engine.transfer import export, import_conversation
from llm_fsm.engine.validation import checked_history, checked_id, checked_list, checked_timezone
from llm_fsm.engine.versions import read_policy
from llm_fsm.errors import ConversationConflict, LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve_all as resolve_models
from llm_fsm.session.events import Migrated, Started, TaskPassed
from llm_fsm.session.json_values import ValueFault, to_json_value
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Listed, ListQuery, Store, storable
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.mcp.servers import McpServers
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.task_functions import Functions
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.effects import Point
from llm_fsm.turn.pipeline import Opening

TIMEOUT = 120.0


class _Start(NamedTuple):
    """The values that a run begins with."""

    input: Any
    context: Mapping[str, Any] | None
    background: Mapping[str, Any] | None
    state: str | None = None
    shared: Mapping[str, Any] | None = None
    memory: Mapping[str, str] | None = None


class AsyncMachine:
    """A definition, a model and a store, ready for conversations.

    Args:
        definition: The definition.
        model: "provider/model", "offline", "scripted:FILE", "replay:FILE", or an object with `complete`. None takes
            LLM_FSM_MODEL, or the definition's own.
        base_url: An OpenAI-compatible server, which is asked directly.
        api_key: The key of that server, or of the model's provider. No other host receives it.
        store: A URL (see `llm_fsm.stores.registry`) or a store. None is "memory".
        tools: Functions, or a ToolRegistry.
        functions: Functions for `execute` and for checks of key results.
        mcp: MCP servers by alias.
        handlers: Handlers made by `create_handler`.
        sinks: Functions and addresses that receive events, at least once and in order; see
            `llm_fsm.engine.outbox.sinks`.
        fallbacks: Models that are asked in order if one fails for good.
        timeout: Seconds for a whole turn; for each model call of a run without a user. None: no limit.
        merge_within: Seconds. Messages of one conversation that come within them are answered by one turn; each sender
            gets that turn. A message waits so long before it is answered. None: each has a turn of its own.
        error_mode: "continue" or "raise": whether a failing handler stops the turn.
        summaries: False: neither states nor the history are summarised.
        summarizer: A function that writes summaries instead of the model. It takes {"of", "happened", "summary",
            "background"}, and returns text or {"summary", "todo_list"}.
        clock: Returns seconds since the epoch.
        on_change: What happens to conversations of another definition version: "pin" (they finish on it), "reject",
            "migrate", or its map {"states": {old: new}, "keys": {old: new, or None to drop}}.
        flows: Definitions by the names that subflows call.
        file: The file that paths in subflows are relative to; see `from_file`.
        prompt: "whole" shows the model all states in every turn, in a system message that never changes. Use it if
            the provider caches prompts.

    Raises:
        DefinitionError: The definition cannot be used.
        ConfigurationError: The model, the store or the key cannot be used.
        ValueError: A setting has a wrong value.
        TypeError: A setting has a wrong type.
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
        if not isinstance(definition, Definition):
            raise TypeError("a machine is made of a Definition; from_dict takes a dict, from_file a path")
        if error_mode not in ("continue", "raise"):
            raise ValueError(f"error_mode is 'continue' or 'raise', not {error_mode!r}")
        if prompt not in ("state", "whole"):
            raise ValueError(f"prompt is 'state' or 'whole', not {prompt!r}")
        if model is None and not os.environ.get("LLM_FSM_MODEL"):
            model = definition.model.name
        self.definition = definition
        called = gather(definition, file=file, registered=flows)
        self.program = compile_flows(called, shipped_prompts(whole=prompt == "whole"), pattern_piece)
        models = (model, *checked_list(fallbacks, "fallbacks"))
        self.llm = resolve_models(models, base_url=base_url, api_key=api_key, environ=os.environ)
        self.store = resolve_store(store)
        self.tools = tools if isinstance(tools, ToolRegistry) else ToolRegistry(checked_list(tools, "tools"))
        self.functions = Functions()
        self._now = time.time if clock is None else clock
        for function in checked_list(functions, "functions"):
            self.functions.register(function)
        self._toolbox = Toolbox(self.tools, McpServers(mcp or {}))
        services = Services(
            llm=lambda: self.llm,
            store=self.store,
            timeout=timeout,
            merge_within=merge_within,
            error_mode=error_mode,
            toolbox=self._toolbox,
            functions=self.functions,
            summaries=summaries,
            summarizer=summarizer,
            now=self._now,
            dispatcher=OutboxDispatcher(
                self.store, sinks_of((*checked_list(sinks, "sinks"),)), storable(definition.name)
            ),
        )
        self._engine = Engine(program=self.program, services=services, policy=read_policy(on_change))
        for handler in checked_list(handlers, "handlers"):
            self.add_handler(handler)

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
        """Make a machine from a definition file. The settings are those of the constructor."""
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
        """Make a machine from a definition as JSON data. The settings are those of the constructor."""
        settings = dict(locals())
        del settings["cls"], settings["document"]
        return cls(load_dict(document).definition, **settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.definition!r}>"

    # -- conversations

    async def start(
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
    ) -> AsyncConversation:
        """Begin a conversation and greet (unless `greet` is False).

        Args:
            context: First values of the context.
            conversation_id: The id; None makes a new one.
            greet: False begins without words.
            state: Id of the state to begin in; None is the initial state.
            background: The purpose of the work; see `llm_fsm.session.memory.Background`.
            on_event: A plain function of (conversation id, event). It receives the greeting's events as they happen,
                and its words as `MessageDelta`.
            history: What was said elsewhere before, as (role, text) pairs or messages; roles are user and assistant.
                The last one is not the user's. Prompts show it, and `chat.history` begins with it.
            timezone: The user's time zone as an IANA name, for dates and times in prompts; "" is the definition's.

        Raises:
            ConversationConflict: The id exists.
            ValueError: The context, the state, the history or the time zone is wrong.
            DefinitionError: This version cannot run the machine.
            ModelError: The model failed. As after any error, nothing is stored.
            TypeError: `on_event` is async. An error that it raises is raised.
        """
        opening = Opening(
            conversation_id=uuid.uuid4().hex if conversation_id is None else conversation_id,
            time=self._now(),
            context=context,
            state=state,
            greet=greet,
            background=background,
            history=checked_history(history),
            timezone=checked_timezone(timezone),
        )
        await self._engine.resume_deliveries()
        result = await heard(on_event, partial(self._engine.start, opening))
        return AsyncConversation(self._engine, result.session, result.record.text, result.choices)

    async def resume(self, conversation_id: str) -> AsyncConversation:
        """Resume a conversation, in any process, at any time. Due time-outs happen first.

        Raises:
            ConversationNotFound: There is none with this id.
            UnreadableError: A part of it is damaged.
        """
        await self._engine.resume_deliveries()
        session = await self._engine.load(conversation_id)
        if session.pause is not None and await self._engine.run_due(conversation_id, self._now()) is not None:
            session = await self._engine.load(conversation_id)
        records = await self._engine.store.records(conversation_id, limit=1)
        greeting = parse(records[0]).text if records else ""
        return AsyncConversation(self._engine, session, greeting, await self._engine.choices(session))

    # -- runs without a user

    async def run(
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
        """Run a machine without a user as far as possible; see `Turn.outcome`.

        Args:
            input: The input of the first task, any JSON value.
            context: First values of the context.
            conversation_id: The id; None makes a new one. An id that exists resumes that run: after a crash without
                repeating finished work. A run that waits or is over stays as it is.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.
            state: The state to begin in; None: the initial one.
            shared: Values that states share.
            memory: Buckets that hold something, {"0": text}.

        Raises:
            ConversationConflict: The run with this id began with another input.
            ModelError: The model failed. Run the same id again to resume.
        """
        start = _Start(input, context, background, state, shared, memory)
        return await self._run(start, conversation_id, None)

    async def step(
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
        """Like `run`, but only past one task: to the border of the next state, where the run is saved.

        With the id of a run that exists, the next step is taken. Its task is given `input`; None: what the task before
        put out. Raises as `run` does.
        """
        start = _Start(input, context, background, state, shared, memory)
        return await self._run(start, conversation_id, None, step=True)

    async def outputs(self, conversation_id: str) -> tuple[tuple[str, Any], ...]:
        """(state, output) of every task that passed, oldest first; none for an id that is not known."""
        records = await self._engine.records(conversation_id)
        passed = (event for record in records for event in record.events if isinstance(event, TaskPassed))
        return tuple((event.state, event.output) for event in passed)

    def run_stream(
        self,
        input: Any = None,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        background: Mapping[str, Any] | None = None,
    ) -> TurnStream:
        """Like `run`, as a stream of events."""
        start = _Start(input, context, background)
        return TurnStream(lambda sink: self._run(start, conversation_id, sink))

    async def _run(
        self, start: _Start, conversation_id: str | None, sink: Observer | None, *, step: bool = False
    ) -> Turn:
        await self._engine.resume_deliveries()
        if self.program.waits:
            with suppress(LLMFSMError):  # the turn stays due, and `run_due` reports the failure
                await self.run_due()
        name = uuid.uuid4().hex if conversation_id is None else conversation_id
        try:
            plain = to_json_value(start.input)
        except ValueFault as fault:
            raise ValueError(f"the input is not JSON: {fault}") from fault
        opening = Opening(
            conversation_id=name,
            time=self._now(),
            context=start.context,
            state=start.state,
            greet=False,
            input=plain,
            background=start.background,
            shared=start.shared,
            memory=start.memory,
            hold=True,
        )
        given = None
        if conversation_id is None or not await self._known(name):
            try:
                await self._engine.start(opening)
            except ConversationConflict:  # another caller began the same run at the same time
                await self._same_input(name, plain)
        elif step:
            given = plain
        elif plain is not None:
            await self._same_input(name, plain)
        return turn_of(await self._engine.run(name, sink, step=step, given=given))

    async def _known(self, conversation_id: str) -> bool:
        return await self.store.load(checked_id(conversation_id, "conversation id")) is not None

    async def _same_input(self, conversation_id: str, given: Any) -> None:
        first, *_ = await self._engine.records(conversation_id)
        if not any(isinstance(event, Started) and event.input == given for event in first.events):
            raise ConversationConflict(
                f"run {conversation_id!r} was begun with another input; give none to go on with it"
            )

    async def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause: str | None = None,
        request_id: str | None = None,
        step: bool = False,
    ) -> Turn:
        """Answer the pause of a run. `pause` is its id; None: the current one.

        `step`: go on no further than past this task. Raises as `AsyncConversation.answer` does.
        """
        return turn_of(
            await self._engine.answer(conversation_id, value, pause_id=pause, request_id=request_id, step=step)
        )

    async def export(self, conversation_id: str) -> str:
        """Return a conversation as one JSON text. Raises ConversationNotFound, UnreadableError."""
        return await export(self.store, conversation_id)

    async def take_in(self, text: str, conversation_id: str | None = None) -> str:
        """Keep a conversation that `export` gave, under its own id or another one; gives the id.

        Raises ValueError for a text that is none, ConversationConflict for an id that exists.
        """
        return await import_conversation(self.store, text, conversation_id)

    async def run_due(self, now: float | None = None) -> tuple[Turn, ...]:
        """Perform every time-out and reminder of this machine's conversations that is due.

        Undelivered events are also sent to sinks, in the background.

        Args:
            now: Seconds since the epoch; None is the current time.

        Returns:
            The turns. A turn that fails stays due and does not delay others; the first error is raised at the end.
        """
        await self._engine.resume_deliveries(again=True)
        moment = self._now() if now is None else now
        done: list[Turn] = []
        left: dict[str, LLMFSMError | None] = {}  # conversations that stay due, each with one row or more
        limit, more = 100, True
        while more:
            rows = await self.store.due(moment, limit, self._engine.versions.current.name)
            waiting = [name for name in dict.fromkeys(row.conversation_id for row in rows) if name not in left]
            for name in waiting:
                try:
                    result = await self._engine.run_due(name, moment)
                except LLMFSMError as error:
                    left[name] = error
                    continue
                if result is None:
                    left[name] = None
                else:
                    done.append(turn_of(result))
            if not waiting:
                more, limit = len(rows) == limit, 2 * limit
        if (failed := next(filter(None, left.values()), None)) is not None:
            raise failed
        return tuple(done)

    # -- the store

    async def conversations(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """List the conversations of the store in order of ids, in pages of `limit` after the id `after`."""
        return await self.store.list(ListQuery(after=None if after is None else storable(after), limit=limit))

    async def definition_of(self, conversation_id: str) -> Definition:
        """Return the definition that a conversation runs on; the machine's own if that is unknown.

        Raises:
            ConversationNotFound: There is none with this id.
        """
        engine = self._engine
        found = await engine.versions.find(await engine.load(conversation_id))
        return self.definition if found is None else found.program.definition

    async def migrate(self, conversation_id: str, *, dry_run: bool = False) -> Migrated | str | None:
        """Carry a conversation over to this machine's definition, by the map of `on_change`. `dry_run`: only plan it.

        Returns:
            The event; a sentence if the conversation stays with its own definition; None if it has this definition or
            is over.

        Raises:
            ConversationNotFound: There is none with this id.
        """
        return await self._engine.migrate(conversation_id, dry=dry_run)

    async def delete(self, conversation_id: str) -> bool:
        """Delete everything about a conversation.

        Returns:
            False if there was none.

        Raises:
            ValueError: The id can be none.
        """
        return await self.store.delete(checked_id(conversation_id, "conversation id"))

    async def close(self) -> None:
        """Deliver events to sinks, as far as they take them at once. Then close all connections and files."""
        async with AsyncExitStack() as last:  # closes all, the last first, whatever is raised
            last.push_async_callback(self.store.close)
            last.push_async_callback(self._toolbox.aclose)
            if hasattr(self.llm, "aclose"):
                last.push_async_callback(self.llm.aclose)
            last.push_async_callback(self._engine.services.dispatcher.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- the host's own code

    def add_handler(self, handler: Handler) -> None:
        """Register a handler made by `create_handler`.

        Raises:
            ConfigurationError: It names an unknown state.
        """
        self._engine.add_handler(handler)

    def on(
        self,
        *points: str | Point,
        state: str | Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        priority: int = 100,
        critical: bool = False,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]:
        """Decorate a function that runs at these points, in these states, for moves to these targets.

        Args:
            points: Names of points; see `llm_fsm.turn.effects.Point`.
            state: States in which it runs; None: all.
            target: Targets of moves for which it runs; None: all.
            priority: Lower runs first.
            critical: A failure stops the turn.
            timeout: Seconds that it may take.

        Raises:
            ValueError: A point is unknown, or the time-out is not above 0.
            ConfigurationError: A state is unknown.
        """

        def register(function: Function) -> Function:
            builder = create_handler(getattr(function, "__name__", repr(function))).at(*points)
            builder.with_priority(priority)
            if state is not None:
                builder.on_state(*([state] if isinstance(state, str) else state))
            if target is not None:
                builder.on_target_state(*([target] if isinstance(target, str) else target))
            if critical:
                builder.as_critical()
            if timeout is not None:
                builder.with_timeout(timeout)
            self.add_handler(builder.do(function))
            return function

        return register

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function as a tool, for definitions that name it. Options are those of `ToolRegistry.register`."""
        return (
            self.tools.register(**options) if function is None else self.tools.register(function, **options)
        )

    def function(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Register a function for `execute` or for a check of a key result; see `llm_fsm.tools.task_functions`.

        Raises:
            ValueError: The name is taken.
        """
        if function is None:
            return partial(self.functions.register, name=name)
        return self.functions.register(function, name)
