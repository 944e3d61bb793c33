"""The front door for asyncio: a machine and its conversations."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack

from llm_fsm._json import JsonMap, TextMap, has_all, of_kind
from llm_fsm.definition.models import Definition
from llm_fsm.documents.files import name_of
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.documents.safety import unsafe
from llm_fsm.documents.subflows import gather
from llm_fsm.engine import edits
from llm_fsm.engine.advice import advise, with_language
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream, turn_of
from llm_fsm.engine.deployment import Services
from llm_fsm.engine.engine import Engine
from llm_fsm.engine.handlers.registry import Function, Handler, create_handler
from llm_fsm.engine.kept_turns import KeptTurns
from llm_fsm.engine.listing import Filter, query_of
from llm_fsm.engine.observers import Observer, observed
from llm_fsm.engine.outbox.dispatcher import OutboxDispatcher
from llm_fsm.engine.outbox.sinks import sinks_of
from llm_fsm.engine.pauses import OpenPause, open_pauses, paused_query
from llm_fsm.engine.releases import LiveRelease
from llm_fsm.engine.settings import MachineSettings, check_names, complete
from llm_fsm.engine.unattended import take_up
from llm_fsm.engine.validation import checked_history, checked_list, checked_timezone
from llm_fsm.engine.versions import read_policy
from llm_fsm.errors import ConversationConflict, ConversationNotFound, DefinitionError, LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve_all as resolve_models
from llm_fsm.records.transfer import export, import_conversation
from llm_fsm.releases.file import stable_file
from llm_fsm.session.context import initial_context
from llm_fsm.session.events import Migrated, Started, TaskPassed
from llm_fsm.session.session import clock_names
from llm_fsm.session.turn_record import events_of, first_of, parse
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.stores.base import (
    AcceptedQuery,
    Listed,
    ListQuery,
    Order,
    Store,
    checked_id,
    checked_metadata,
    every_line,
    every_unfinished,
    storable,
)
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.mcp.servers import McpServers
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.returns import check_runs
from llm_fsm.tools.task_functions import Functions
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Point
from llm_fsm.turn.pipeline import Opening

DELETED_AT_ONCE = 500
"""Lines of a listing that are read before their conversations are deleted."""
_ACCEPTED_AT_ONCE = 1000


class _Start(NamedTuple):
    """The values that a run begins with."""

    input: Any
    context: JsonMap | None
    background: JsonMap | None
    state: str | None = None
    shared: JsonMap | None = None
    memory: TextMap | None = None


class Closing(NamedTuple):
    """All that a machine must close.

    It does not refer to the machine, nor to tools, functions and handlers of the host. They often
    refer to the machine, which would then never be freed by itself.
    """

    store: Store
    servers: McpServers
    llm: Any
    dispatcher: OutboxDispatcher
    kept: KeptTurns

    async def close(self) -> None:
        """Close everything, whatever is raised meanwhile.

        Turns that are kept are finished first, then come the sinks, and at last the store.
        """
        async with AsyncExitStack() as last:
            last.push_async_callback(self.store.close)
            last.push_async_callback(self.servers.aclose)
            if self.llm is not None:
                last.push_async_callback(self.llm.aclose)
            last.push_async_callback(self.dispatcher.close)
            last.push_async_callback(self.kept.finish)


class AsyncMachine:
    """A definition with a model and a store, ready for conversations.

    Args:
        definition: The definition.
        file: The file that paths in subflows are relative to; see `from_file`.
        settings: See `llm_fsm.engine.settings.MachineSettings`.

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
        file: str | Path | None = None,
        **settings: Unpack[MachineSettings],
    ) -> None:
        check_names(settings, "AsyncMachine.__init__")
        if not isinstance(definition, Definition):
            raise TypeError(
                "a machine is made of a Definition; from_dict takes a dict, from_file a path"
            )
        chosen = complete(settings)
        if chosen["summarizer"] is not None:
            check_runs(chosen["summarizer"], "the summarizer")
        self._compile = partial(_compiled, settings=chosen)
        self.llm = _resolved_model(definition, chosen)
        self.store = resolve_store(chosen["store"])
        self.tools = _registered_tools(chosen["tools"])
        self.functions = Functions()
        for function in checked_list(chosen["functions"], "functions"):
            self.functions.register(function)
        # Servers are not started here: a machine is cheap to make, and the first turn starts them.
        self._toolbox = Toolbox(self.tools, McpServers(chosen["mcp"] or {}))
        self._now = chosen["clock"] or time.time
        sinks = sinks_of((*checked_list(chosen["sinks"], "sinks"),))
        services = Services(
            # Asked each time, because tests and hosts may replace the model of a machine.
            llm=lambda: self.llm,
            store=self.store,
            timeout=chosen["timeout"],
            merge_within=chosen["merge_within"],
            error_mode=chosen["error_mode"],
            toolbox=self._toolbox,
            functions=self.functions,
            summaries=chosen["summaries"],
            forced=chosen["reply"] == "schema",
            summarizer=chosen["summarizer"],
            now=self._now,
            dispatcher=OutboxDispatcher(self.store, sinks, storable(definition.name)),
        )
        policy = read_policy(chosen["on_change"])
        self._engine = Engine(
            program=self._compile(definition, file), services=services, policy=policy
        )
        self.closing = Closing(
            store=self.store,
            servers=self._toolbox.servers,
            llm=self.llm if hasattr(self.llm, "aclose") else None,
            dispatcher=services.dispatcher,
            kept=self._engine.kept,
        )
        for handler in checked_list(chosen["handlers"], "handlers"):
            self.add_handler(handler)

    @classmethod
    def from_file(cls, path: str | Path, **settings: Unpack[MachineSettings]) -> Self:
        """As `Machine.from_file`."""
        check_names(settings, "AsyncMachine.from_file")
        return cls(load(path), file=path, **settings)

    @classmethod
    def from_release(cls, path: str | Path, **settings: Unpack[MachineSettings]) -> Self:
        """As `Machine.from_release`."""
        check_names(settings, "AsyncMachine.from_release")
        machine = cls.from_file(stable_file(path), **settings)
        machine._follow(path)
        return machine

    def _follow(self, path: str | Path) -> None:
        """Begin conversations as the release of this file says; without it, that of the store."""
        release = LiveRelease(path, self.program, self._compile, self.store, self._now)
        self._engine.versions.follow(release)

    @property
    def program(self) -> CompiledMachine:
        """The definition, compiled with everything that it calls."""
        return self._engine.program

    @property
    def definition(self) -> Definition:
        """The definition that new conversations begin with; of a release, the stable one."""
        return self.program.definition

    @property
    def release(self) -> LiveRelease | None:
        """The release that chooses the definition of new conversations; None if there is none."""
        return self._engine.versions.release

    @classmethod
    def from_dict(
        cls,
        document: JsonMap,
        *,
        file: str | Path | None = None,
        **settings: Unpack[MachineSettings],
    ) -> Self:
        """As `Machine.from_dict`."""
        check_names(settings, "AsyncMachine.from_dict")
        return cls(load_dict(document).definition, file=file, **settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.definition!r}>"

    # -- conversations

    async def start(
        self,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
        state: str | None = None,
        background: JsonMap | None = None,
        *,
        on_event: Observer | None = None,
        history: Iterable[Any] | None = None,
        timezone: str = "",
        metadata: TextMap | None = None,
        anew: bool = False,
        agreed: bool = False,
        language: str = "",
    ) -> AsyncConversation:
        """As `Machine.start`, awaited. `on_event` is called in the event loop."""
        opening = Opening(
            conversation_id=uuid.uuid4().hex if conversation_id is None else conversation_id,
            time=self._now(),
            context=with_language(self.definition, context, language),
            state=state,
            greet=greet,
            background=background,
            history=checked_history(history),
            timezone=checked_timezone(timezone),
            metadata=checked_metadata(metadata),
            anew=anew,
            agreed=agreed,
        )
        await self._engine.resume_deliveries()
        result = await observed(on_event, partial(self._engine.start, opening))
        return AsyncConversation(
            self._engine, result.session, result.record.text, result.choices, is_new=True
        )

    async def open(
        self,
        conversation_id: str,
        context: JsonMap | None = None,
        greet: bool = True,
        *,
        on_event: Observer | None = None,
        history: Iterable[Any] | None = None,
        timezone: str = "",
        metadata: TextMap | None = None,
        anew: bool = False,
        language: str = "",
    ) -> AsyncConversation:
        """As `Machine.open`, awaited. `on_event` is called in the event loop."""
        try:
            chat = await self.resume(conversation_id)
            # Resume first: it is the common case, and needs no write.
            if not (anew and chat.ended):
                return chat
        except ConversationNotFound:
            pass
        try:
            return await self.start(
                context,
                conversation_id,
                greet,
                on_event=on_event,
                history=history,
                timezone=timezone,
                metadata=metadata,
                anew=anew,
                language=language,
            )
        except ConversationConflict:  # another caller was faster, and has greeted
            return await self.resume(conversation_id)

    async def resume(self, conversation_id: str) -> AsyncConversation:
        """As `Machine.resume`, awaited."""
        await self._engine.resume_deliveries()
        session = await self._engine.load(conversation_id)
        if (
            session.pause is not None
            and await self._engine.run_due(conversation_id, self._now()) is not None
        ):
            session = await self._engine.load(conversation_id)
        # The greeting is the first record, unless the conversation began again since.
        most = 1 if session.generation == 1 else None
        texts = await self._engine.store.records(conversation_id, limit=most)
        starts = [record for record in map(parse, texts) if record.kind == "start"]
        greeting = starts[-1].text if starts else ""
        return AsyncConversation(
            self._engine, session, greeting, await self._engine.choices(session)
        )

    # -- runs without a user

    async def run(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
        *,
        state: str | None = None,
        shared: JsonMap | None = None,
        memory: TextMap | None = None,
    ) -> Turn:
        """As `Machine.run`, awaited."""
        start = _Start(input, context, background, state, shared, memory)
        return await self._run(start, conversation_id, None)

    async def step(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
        *,
        state: str | None = None,
        shared: JsonMap | None = None,
        memory: TextMap | None = None,
    ) -> Turn:
        """As `Machine.step`, awaited."""
        start = _Start(input, context, background, state, shared, memory)
        return await self._run(start, conversation_id, None, step=True)

    async def outputs(self, conversation_id: str) -> tuple[tuple[str, Any], ...]:
        """As `Machine.outputs`, awaited."""
        events = events_of(await self._engine.records(conversation_id))
        return tuple((event.state, event.output) for event in of_kind(events, TaskPassed))

    def run_stream(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
    ) -> TurnStream:
        """As `Machine.run_stream`."""
        start = _Start(input, context, background)
        return TurnStream(lambda sink: self._run(start, conversation_id, sink))

    async def _run(
        self,
        start: _Start,
        conversation_id: str | None,
        sink: Observer | None,
        *,
        step: bool = False,
    ) -> Turn:
        await self._engine.resume_deliveries()
        if self.program.waits:
            with suppress(LLMFSMError):  # the turn stays due, and `run_due` reports the failure
                await self._engine.resume_deliveries(again=True)
                await self._run_due(self._now())
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
        # A run that begins now has its input from the opening.
        given = None
        if conversation_id is None or not await self._known(name):
            try:
                await self._engine.start(opening)
            except ConversationConflict:  # another caller began the same run at the same time
                await self._same_start(name, start, plain)
        elif step:
            given = plain
        else:
            await self._same_start(name, start, plain)
        return turn_of(await self._engine.run(name, sink, step=step, given=given))

    async def _known(self, conversation_id: str) -> bool:
        return await self.store.load(checked_id(conversation_id, "conversation id")) is not None

    async def _same_start(self, conversation_id: str, start: _Start, given: Any) -> None:
        """Check that a run which exists was begun with what this call gives it.

        Raises:
            ConversationConflict: It was not, so nothing would read what is given.
        """
        if given is None and not start.context and start.state is None:
            return
        first, *_ = await self._engine.records(conversation_id)
        begun = first_of(first.events, Started)
        other = ""
        if begun is None or (given is not None and begun.input != given):
            other = "input"
        elif start.state is not None and begun.state != start.state:
            other = "state"
        elif start.context and not self._holds(begun.context, start.context):
            other = "context"
        if other:
            raise ConversationConflict(
                f"run {conversation_id!r} was begun with another {other}; give none to resume it"
            )

    def _holds(self, begun: JsonMap, given: JsonMap) -> bool:
        """Return true if a run was begun with this context."""
        names = clock_names(self._now(), self.program.definition.timezone)
        try:
            wanted = initial_context(self.program.keys, given, names=names)
        except ValueError:
            return False
        return has_all(begun, wanted)

    async def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause: str | None = None,
        request_id: str | None = None,
        step: bool = False,
    ) -> Turn:
        """As `Machine.answer`, awaited."""
        return turn_of(
            await self._engine.answer(
                conversation_id, value, pause_id=pause, request_id=request_id, step=step
            )
        )

    async def export(self, conversation_id: str) -> str:
        """As `Machine.export`, awaited."""
        return await export(self.store, conversation_id)

    async def take_in(self, text: str, conversation_id: str | None = None) -> str:
        """As `Machine.take_in`, awaited."""
        return await import_conversation(self.store, text, conversation_id)

    async def take_up(self, conversation_id: str, now: float | None = None) -> Turn | None:
        """As `Machine.take_up`, awaited."""
        moment = self._now() if now is None else now
        result = await take_up(self._engine, conversation_id, moment)
        return None if result is None else turn_of(result)

    async def run_due(self, now: float | None = None) -> tuple[Turn, ...]:
        """As `Machine.run_due`, awaited."""
        await self._engine.resume_deliveries(again=True)
        await self._engine.watch_release()
        done: list[Turn] = []
        failed: LLMFSMError | None = None
        name = self._engine.versions.current.name
        # Turns of dead processes come first, because what is due may wait for them.
        async for conversation_id in every_unfinished(self.store, [name]):
            try:
                result = await take_up(self._engine, conversation_id)
            except LLMFSMError as error:
                failed = failed or error
                continue
            if result is not None:
                done.append(turn_of(result))
        moment = self._now() if now is None else now
        done += await self._run_due(moment)
        failed = await self._answer_accepted(moment, done) or failed
        if failed is not None:
            raise failed
        return tuple(done)

    async def _answer_accepted(self, moment: float, done: list[Turn]) -> LLMFSMError | None:
        """Answer accepted messages that are due, add their turns to `done`, and return an error."""
        failed = None
        name = storable(self._engine.versions.current.name)
        query = AcceptedQuery(now=moment, limit=_ACCEPTED_AT_ONCE, definition=name)
        waiting = [message.conversation_id for message in await self.store.accepted(query)]
        for conversation_id in dict.fromkeys(waiting):
            try:
                while (result := await take_up(self._engine, conversation_id, moment)) is not None:
                    done.append(turn_of(result))
            except LLMFSMError as error:
                failed = failed or error
        return failed

    async def _run_due(self, moment: float) -> list[Turn]:
        """Perform the time-outs, reminders and first steps of runs that are due.

        Raises:
            LLMFSMError: The first error, after everything else that is due.
        """
        done: list[Turn] = []
        # Conversations that stay due, each with one row or more.
        left: dict[str, LLMFSMError | None] = {}
        limit, more = 100, True
        while more:
            rows = await self.store.due(moment, limit, self._engine.versions.current.name)
            waiting = [
                name
                for name in dict.fromkeys(row.conversation_id for row in rows)
                if name not in left
            ]
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
                # Every row of the page stays due, so a larger page is needed to see beyond them.
                more, limit = len(rows) == limit, 2 * limit
        if (failed := next(filter(None, left.values()), None)) is not None:
            raise failed
        return done

    # -- the store

    async def conversations(
        self,
        after: str | Listed | None = None,
        limit: int = 100,
        order: Order = "id",
        **wanted: Unpack[Filter],
    ) -> Sequence[Listed]:
        """As `Machine.conversations`, awaited.

        Example:
            >>> import asyncio
            >>> async def of_ada():
            ...     async with AsyncMachine.from_file("pizza.json", model="offline") as machine:
            ...         await machine.start(conversation_id="visit-1", metadata={"user": "ada"})
            ...         return await machine.conversations(metadata={"user": "ada"})
            >>> [line.conversation_id for line in asyncio.run(of_ada())]
            ['visit-1']
        """
        return await self.store.list(query_of(wanted, after=after, limit=limit, order=order))

    async def paused(
        self,
        kind: str | None = None,
        limit: int = 100,
        after: OpenPause | None = None,
        **wanted: Unpack[Filter],
    ) -> Sequence[OpenPause]:
        """As `Machine.paused`, awaited."""
        query = paused_query(wanted, kind, after=after, limit=limit)
        return await open_pauses(self.store, query)

    async def count(self, **wanted: Unpack[Filter]) -> int:
        """As `Machine.count`, awaited."""
        return await self.store.count(query_of(wanted))

    async def delete_matching(self, **wanted: Unpack[Filter]) -> int:
        """As `Machine.delete_matching`, awaited."""
        query = query_of(wanted, limit=DELETED_AT_ONCE)
        # Without a filter, a slip would delete everything.
        if query == ListQuery(limit=DELETED_AT_ONCE):
            raise ValueError("say which conversations to delete: give a filter, such as metadata=")
        # A conversation that changes while the list is read may be left out of it.
        deleted, before = 0, -1
        while deleted != before:  # until a whole round finds none
            before = deleted
            async for line in every_line(self.store, query):
                deleted += await self.store.delete(line.conversation_id)
        return deleted

    async def definition_of(self, conversation_id: str) -> Definition:
        """As `Machine.definition_of`, awaited."""
        engine = self._engine
        found = await engine.versions.find((await engine.load(conversation_id)).definition)
        return self.definition if found is None else found.program.definition

    async def migrate(
        self, conversation_id: str, *, dry_run: bool = False
    ) -> Migrated | str | None:
        """As `Machine.migrate`, awaited."""
        return await edits.migrate(self._engine, conversation_id, dry=dry_run)

    async def delete(self, conversation_id: str) -> bool:
        """As `Machine.delete`, awaited."""
        return await self.store.delete(checked_id(conversation_id, "conversation id"))

    async def close(self) -> None:
        """As `Machine.close`, awaited. There is no thread to end."""
        await self.closing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    # -- the host's own code

    def add_handler(self, handler: Handler) -> None:
        """As `Machine.add_handler`."""
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
        """As `Machine.on`."""

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
        """As `Machine.tool`."""
        return (
            self.tools.register(**options)
            if function is None
            else self.tools.register(function, **options)
        )

    def function(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None
    ) -> Any:
        """As `Machine.function`."""
        if function is None:
            return partial(self.functions.register, name=name)
        return self.functions.register(function, name)


def _compiled(
    definition: Definition, file: str | Path | None, settings: MachineSettings
) -> CompiledMachine:
    """Compile a definition with everything that its subflows call."""
    called = gather(definition, file=file, registered=settings["flows"])
    found = unsafe(called, None if file is None else name_of(file))
    if found and not settings["allow_unsafe"]:
        raise DefinitionError(found)
    for fault in found:
        advise(definition.name, str(fault))
    return compile_flows(called, shipped_prompts(), pattern_piece)


def _resolved_model(definition: Definition, settings: MachineSettings) -> LLM:
    """Resolve the model and its fallbacks. An explicit model comes before the environment and the
    definition."""
    model = settings["model"]
    if model is None and not os.environ.get("LLM_FSM_MODEL"):
        model = definition.model.name
    fallbacks = checked_list(settings["fallbacks"], "fallbacks")
    return resolve_models(
        (model, *fallbacks),
        base_url=settings["base_url"],
        api_key=settings["api_key"],
        environ=os.environ,
    )


def _registered_tools(tools: ToolRegistry | Iterable[Callable[..., Any]]) -> ToolRegistry:
    """Return the caller's registry, or make one of functions."""
    if isinstance(tools, ToolRegistry):
        return tools
    return ToolRegistry(checked_list(tools, "tools"))
