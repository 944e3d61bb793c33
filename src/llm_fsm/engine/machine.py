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
from typing import Any, NamedTuple, Self, Unpack

from llm_fsm.definition.models import Definition
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.documents.subflows import Registered, gather
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream, turn_of
from llm_fsm.engine.deployment import Services
from llm_fsm.engine.engine import Engine
from llm_fsm.engine.handlers.registry import ErrorMode, Function, Handler, create_handler
from llm_fsm.engine.listing import Filter, query_of
from llm_fsm.engine.observers import Observer, observed
from llm_fsm.engine.outbox.dispatcher import OutboxDispatcher
from llm_fsm.engine.outbox.sinks import Deliver, Sink, sinks_of
from llm_fsm.engine.validation import checked_history, checked_list, checked_timezone
from llm_fsm.engine.versions import read_policy
from llm_fsm.errors import ConversationConflict, LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve_all as resolve_models
from llm_fsm.records.transfer import export, import_conversation
from llm_fsm.session.events import Migrated, Started, TaskPassed
from llm_fsm.session.turn_record import parse
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.stores.base import (
    Listed,
    ListQuery,
    Order,
    Store,
    checked_id,
    checked_metadata,
    every_line,
    storable,
)
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.mcp.servers import McpServers
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.task_functions import Functions
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.effects import Point
from llm_fsm.turn.pipeline import Opening

TIMEOUT = 120.0
DELETED_AT_ONCE = 500
"""Lines of a listing that are read before their conversations are deleted."""


class _Start(NamedTuple):
    """The values that a run begins with."""

    input: Any
    context: Mapping[str, Any] | None
    background: Mapping[str, Any] | None
    state: str | None = None
    shared: Mapping[str, Any] | None = None
    memory: Mapping[str, str] | None = None


class AsyncMachine:
    """A definition with a model and a store, ready for conversations.

    Args:
        definition: The definition.
        model: "provider/model", "offline", "scripted:FILE", "replay:FILE", or an object with `complete`. None takes
            LLM_FSM_MODEL, or the model that the definition names.
        base_url: The URL of an OpenAI-compatible server. The machine calls it directly.
        api_key: The key of that server, or of the model's provider. No other host receives it.
        store: A URL (see `llm_fsm.stores.registry`) or a store. None is "memory".
        tools: Functions, or a ToolRegistry.
        functions: Functions for `execute` and for checks of key results.
        mcp: MCP servers by alias.
        handlers: Handlers made by `create_handler`.
        sinks: Functions and webhook URLs that receive events, at least once and in order; see
            `llm_fsm.engine.outbox.sinks`.
        fallbacks: Models to call in this order if the one before fails for good.
        timeout: Seconds for a whole turn. In a run without a user, it applies to each model call. None: no limit.
        merge_within: Seconds. One turn answers all messages of a conversation that arrive within this time, and each
            sender gets that turn. Every message waits this long for its answer. None: each message gets its own turn.
        error_mode: "raise" stops the turn if a handler fails; "continue" goes on.
        summaries: False turns off summaries of states and of the history.
        summarizer: A function that writes summaries instead of the model. It takes {"of", "happened", "summary",
            "background"}, and returns text or {"summary", "todo_list"}.
        clock: A function that returns seconds since the epoch.
        on_change: The policy for conversations of another version of the definition. "pin" finishes them on their
            version, "reject" refuses them, and "migrate" moves them to this version. A map {"states": {old: new},
            "keys": {old: new, or None to drop}} also migrates them.
        flows: Definitions by the names that subflows call.
        file: The file that paths in subflows are relative to; see `from_file`.
        prompt: "whole" shows the model all states in every turn, in a system message that never changes. Use it if the
            provider caches prompts.

    Raises:
        DefinitionError: The definition cannot be used.
        ConfigurationError: The model, the store or the key cannot be used.
        ValueError: A setting has a wrong value.
        TypeError: A setting has a wrong type.

    Example:
        >>> import asyncio
        >>> async def order(message):
        ...     async with AsyncMachine.from_file("pizza.json", model="offline") as machine:
        ...         chat = await machine.start()
        ...         return await chat.send(message)
        >>> asyncio.run(order("large")).text
        'One pizza, large.'
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
        """Make a machine from a definition file.

        The other arguments are the settings of `AsyncMachine`, which its docstring describes.

        Args:
            path: The JSON file. Comments and trailing commas are allowed. Paths in its subflows are relative to it.

        Returns:
            The machine.

        Raises:
            DefinitionError: The file cannot be read, or the definition cannot be used. The error has all findings.
            ConfigurationError: The model, the store or the key cannot be used.
            ValueError: A setting has a wrong value.
            TypeError: A setting is unknown or has a wrong type.
        """
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
        """Make a machine from a definition as JSON data.

        The other arguments are the settings of `AsyncMachine`, which its docstring describes.

        Args:
            document: The definition as a mapping, as `json.load` returns it.

        Returns:
            The machine.

        Raises:
            DefinitionError: The definition cannot be used. The error has all findings.
            ConfigurationError: The model, the store or the key cannot be used.
            ValueError: A setting has a wrong value.
            TypeError: A setting is unknown or has a wrong type.
        """
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
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncConversation:
        """Begin a conversation, and greet the user unless `greet` is False.

        Args:
            context: The first values of the context, by key.
            conversation_id: An id of 1 to 200 characters; None makes a new one.
            greet: False begins without a message to the user.
            state: Id of the state to begin in; None is the initial state.
            background: The purpose of the work; see `llm_fsm.session.memory.Background`.
            on_event: A plain function of (conversation id, event). It receives the greeting's events as they happen,
                and its text as `MessageDelta`.
            history: Earlier messages from elsewhere, as (role, text) pairs or messages. Roles are user and assistant,
                and the last message is not the user's. Prompts show them, and `chat.history` begins with them.
            timezone: The user's time zone as an IANA name, for dates and times in prompts. "" takes the definition's.
            metadata: Labels for `conversations`, `count` and `delete_matching`, such as {"user": "ada"}. They never
                change, and neither prompts nor conditions see them. At most 16 keys of 1 to 64 letters, digits, `_`,
                `-` and `.`, with texts of 1 to 512 characters.

        Returns:
            The conversation. Its `greeting` is the first message to the user.

        Raises:
            ConversationConflict: The id exists.
            ValueError: The id, the context, the state, the history, the time zone or the metadata is wrong.
            ConfigurationError: A tool or function that the definition names is missing.
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
            metadata=checked_metadata(metadata),
        )
        await self._engine.resume_deliveries()
        result = await observed(on_event, partial(self._engine.start, opening))
        return AsyncConversation(self._engine, result.session, result.record.text, result.choices)

    async def resume(self, conversation_id: str) -> AsyncConversation:
        """Resume a conversation, in any process, at any time.

        Due time-outs happen first.

        Args:
            conversation_id: Its id.

        Returns:
            The conversation.

        Raises:
            ConversationNotFound: There is no conversation with this id.
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
        """Run a machine without a user as far as possible.

        Args:
            input: The input of the first task, any JSON value.
            context: The first values of the context, by key.
            conversation_id: The id of the run; None makes a new one. An id that exists resumes that run, after a crash
                too, and repeats no finished work. A run that waits or is over stays as it is.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.
            state: Id of the state to begin in; None is the initial state.
            shared: Values that states share.
            memory: First texts of the working memory, as {bucket number: text}, such as {"0": "…"}.

        Returns:
            The turn. Its `outcome` says how the run ended, or that it is paused.

        Raises:
            ConversationConflict: The run with this id began with another input.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed. Run the same id again to resume.
            ValueError: The input or another value is wrong.
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
        """Run one task, and stop before the next state.

        The run is saved there. Call `step` with the id of a run to take its next step.

        Args:
            input: The input of the task, any JSON value. None takes the output of the task before.
            context: The first values of the context, by key.
            conversation_id: The id of the run; None makes a new one.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.
            state: Id of the state to begin in; None is the initial state.
            shared: Values that states share.
            memory: First texts of the working memory, as {bucket number: text}, such as {"0": "…"}.

        Returns:
            The turn.

        Raises:
            ConversationConflict: Another caller began the same run with another input.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed. Take the same step again to resume.
            ValueError: The input or another value is wrong.
        """
        start = _Start(input, context, background, state, shared, memory)
        return await self._run(start, conversation_id, None, step=True)

    async def outputs(self, conversation_id: str) -> tuple[tuple[str, Any], ...]:
        """Return the outputs of all tasks that passed.

        Args:
            conversation_id: The id of the run.

        Returns:
            Pairs of state id and output, oldest first. They are empty for an unknown id.
        """
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
        """Run a machine without a user, as a stream of events.

        Args:
            input: The input of the first task, any JSON value.
            context: The first values of the context, by key.
            conversation_id: The id of the run, as for `run`.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.

        Returns:
            The stream. Iterating over it runs the machine, and raises the errors of `run`.
        """
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
                f"run {conversation_id!r} was begun with another input; give none to resume it"
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
        """Answer the pause of a run, and continue the run.

        Args:
            conversation_id: The id of the run.
            value: The answer, a JSON value that fits the schema of `paused`.
            pause: The id of the pause; None takes the current one.
            request_id: Your id of the answer. The same id gives the recorded turn.
            step: True runs only the task that waits, and stops before the next state.

        Returns:
            The turn.

        Raises:
            ValueError: The answer does not fit the schema of the pause.
            ConversationNotFound: There is no conversation with this id.
            ConversationConflict: The pause was answered or has expired, or the run waits for nothing.
            ModelError: The model failed. Nothing has changed, and you may answer again.
        """
        return turn_of(
            await self._engine.answer(conversation_id, value, pause_id=pause, request_id=request_id, step=step)
        )

    async def export(self, conversation_id: str) -> str:
        """Export a conversation as one JSON text.

        Args:
            conversation_id: Its id.

        Returns:
            The JSON, with secrets; `take_in` reads it.

        Raises:
            ConversationNotFound: There is no conversation with this id.
            UnreadableError: A part of it is damaged.
        """
        return await export(self.store, conversation_id)

    async def take_in(self, text: str, conversation_id: str | None = None) -> str:
        """Import a conversation that `export` wrote.

        Args:
            text: The exported JSON.
            conversation_id: A new id; None keeps its own.

        Returns:
            The id of the conversation in this store.

        Raises:
            ValueError: The text is no exported conversation. The message says why.
            ConversationConflict: The id exists.
            StoreError: A newer version exported it.
        """
        return await import_conversation(self.store, text, conversation_id)

    async def run_due(self, now: float | None = None) -> tuple[Turn, ...]:
        """Fire every time-out and reminder of this machine's conversations that is due.

        Time-outs and reminders do not fire by themselves. Call this about once a minute. It also sends undelivered
        events to sinks, in the background.

        Args:
            now: Seconds since the epoch; None is the current time.

        Returns:
            The turns. A turn that fails stays due and does not delay others.

        Raises:
            LLMFSMError: The first error of a turn that failed, after all others have run.
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

    async def conversations(
        self,
        after: str | Listed | None = None,
        limit: int = 100,
        order: Order = "id",
        **wanted: Unpack[Filter],
    ) -> Sequence[Listed]:
        """List conversations of the store.

        Args:
            after: Start after this id, or after this line; None starts at the first conversation. An order by time
                needs the line.
            limit: At most this many conversations. To read on, pass the last line as `after`.
            order: "id", or "updated" for the time of the last turn. "-updated" begins with the newest.
            wanted: Filters that all match: `metadata`, `updated_since`, `updated_before`, `definition`, `state`,
                `ended`; see `llm_fsm.engine.listing.Filter`.

        Returns:
            One `Listed` for each conversation, with its id, state and times in seconds since the epoch.

        Raises:
            ValueError: A filter or the order has a wrong value.

        Example:
            >>> import asyncio
            >>> async def of_ada():
            ...     async with AsyncMachine.from_file("pizza.json", model="offline") as machine:
            ...         await machine.start(conversation_id="visit-1", metadata={"user": "ada"})
            ...         return await machine.conversations(metadata={"user": "ada"}, order="-updated")
            >>> [line.conversation_id for line in asyncio.run(of_ada())]
            ['visit-1']
        """
        return await self.store.list(query_of(wanted, after=after, limit=limit, order=order))

    async def count(self, **wanted: Unpack[Filter]) -> int:
        """Count conversations of the store.

        Args:
            wanted: Filters, as of `conversations`. Without any, all are counted.

        Returns:
            Their number.

        Raises:
            ValueError: A filter has a wrong value.
        """
        return await self.store.count(query_of(wanted))

    async def delete_matching(self, **wanted: Unpack[Filter]) -> int:
        """Delete everything about all conversations that match, for example those of one person.

        Conversations that begin meanwhile are deleted, too.

        Args:
            wanted: Filters, as of `conversations`; at least one.

        Returns:
            The number of deleted conversations.

        Raises:
            ValueError: There is no filter, or a filter has a wrong value.
        """
        query = query_of(wanted, limit=DELETED_AT_ONCE)
        if query == ListQuery(limit=DELETED_AT_ONCE):
            raise ValueError("say which conversations to delete: give a filter, such as metadata=")
        deleted, before = 0, -1
        while deleted != before:  # until a whole round finds none
            before = deleted
            async for line in every_line(self.store, query):
                deleted += await self.store.delete(line.conversation_id)
        return deleted

    async def definition_of(self, conversation_id: str) -> Definition:
        """Return the definition that a conversation runs on.

        Args:
            conversation_id: Its id.

        Returns:
            The definition; the machine's own if the store does not have the conversation's.

        Raises:
            ConversationNotFound: There is no conversation with this id.
        """
        engine = self._engine
        found = await engine.versions.find(await engine.load(conversation_id))
        return self.definition if found is None else found.program.definition

    async def migrate(self, conversation_id: str, *, dry_run: bool = False) -> Migrated | str | None:
        """Move a conversation to this machine's definition, by the map of `on_change`.

        Args:
            conversation_id: Its id.
            dry_run: True only plans the migration, and changes nothing.

        Returns:
            The event. A sentence if the conversation stays on its own definition: it says why. None if the conversation
            is over or runs on this definition already.

        Raises:
            ConversationNotFound: There is no conversation with this id.
        """
        return await self._engine.migrate(conversation_id, dry=dry_run)

    async def delete(self, conversation_id: str) -> bool:
        """Delete everything about a conversation.

        Args:
            conversation_id: Its id.

        Returns:
            True if there was such a conversation.

        Raises:
            ValueError: The id is not a possible one.
        """
        return await self.store.delete(checked_id(conversation_id, "conversation id"))

    async def close(self) -> None:
        """Close all connections and files.

        Events that sinks have not received yet are sent first, if the sinks take them at once. Others stay in the
        store. Closing twice does nothing.
        """
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

        Args:
            handler: The handler. It runs from the next turn on.

        Raises:
            ConfigurationError: It names an unknown state.
            ValueError: It is no handler.
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
        """Decorate a function that runs as a handler at these points.

        Args:
            points: Names of points; see `llm_fsm.turn.effects.Point`.
            state: Ids of states in which it runs; None: all.
            target: Ids of target states of moves for which it runs; None: all.
            priority: Handlers with a lower number run first.
            critical: True stops the turn if the function fails.
            timeout: Seconds that the function may take; None: the time of the turn.

        Returns:
            A decorator that registers the function and returns it.

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
        """Register a function as a tool, for definitions that name it.

        Args:
            function: The function; None returns a decorator.
            options: The options of `llm_fsm.tools.registry.make_tool`, such as `name` and `timeout`.

        Returns:
            The function, or a decorator that registers one.

        Raises:
            ValueError: Another tool has the name, or the function cannot be a tool.
        """
        return (
            self.tools.register(**options) if function is None else self.tools.register(function, **options)
        )

    def function(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Register a function for `execute` or for a check of a key result; see `llm_fsm.tools.task_functions`.

        Args:
            function: The function; None returns a decorator.
            name: The name in definitions; None takes the function's own.

        Returns:
            The function, or a decorator that registers one.

        Raises:
            ValueError: Another function has the name.
        """
        if function is None:
            return partial(self.functions.register, name=name)
        return self.functions.register(function, name)
