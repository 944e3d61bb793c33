"""The front door for asyncio: a machine, its conversations, and the turns they take."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

from llm_fsm.course import Opening
from llm_fsm.definition import Definition
from llm_fsm.effects import Point
from llm_fsm.engine import Engine, Outcome
from llm_fsm.errors import ConversationConflict
from llm_fsm.events import Event, StateEntered
from llm_fsm.handlers import ErrorMode, Function, Handler, create_handler
from llm_fsm.llm.base import LLM
from llm_fsm.llm.fallbacks import Fallbacks
from llm_fsm.llm.resolve import resolve as resolve_model
from llm_fsm.loader import load, load_dict
from llm_fsm.messages import Message, Usage
from llm_fsm.observers import publish
from llm_fsm.program import compile_program
from llm_fsm.prompts import compile_prompts
from llm_fsm.records import parse, transcript
from llm_fsm.session import Session
from llm_fsm.shipped import prompt_sources
from llm_fsm.stores.base import Listed, Store
from llm_fsm.stores.resolve import resolve as resolve_store

TIMEOUT = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn as its caller sees it.

    `text`: what was said. `previous_state`: where the message was heard; `moved`: a transition was made.
    `number`: 0 for the greeting, then 1, 2, …. `paused` is None unless the run waits for an answer.
    """

    text: str
    state: str
    previous_state: str
    moved: bool
    context: Mapping[str, Any]
    ended: bool
    paused: None
    request_id: str | None
    number: int
    usage: Usage
    events: tuple[Event, ...]


def turn_of(outcome: Outcome) -> Turn:
    """The public view of a committed turn."""
    record, session = outcome.record, outcome.session
    entered = [event for event in record.events if isinstance(event, StateEntered)]
    heard = record.heard
    return Turn(
        text=record.text,
        state=session.state,
        previous_state=entered[0].previous if entered else session.state,
        moved=bool(entered),
        context=session.context,
        ended=session.ended,
        paused=None,
        request_id=None if heard is None else heard.request_id,
        number=record.turn,
        usage=record.usage,
        events=record.events,
    )


class TurnStream:
    """The events of one turn as they happen; after the last one the turn is saved and `turn` is set.

    Words come as `MessageDelta` and are provisional until then. Leaving the loop early cancels the turn.
    """

    def __init__(self, run: Callable[[Callable[[str, Event], None]], Any]) -> None:
        self._run = run
        self.turn: Turn | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()

        async def work() -> Turn:
            try:
                done: Turn = await self._run(lambda _, event: queue.put_nowait(event))
                return done
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (event := await queue.get()) is not None:
                yield event
            self.turn = await task
        finally:
            if not task.done():
                task.cancel()


class AsyncConversation:
    """One conversation. `state`, `context`, `ended` are as of the last turn made here, or of `refresh`."""

    def __init__(self, engine: Engine, session: Session, greeting: str) -> None:
        self._engine = engine
        self._session = session
        self.greeting = greeting

    @property
    def id(self) -> str:
        """The id under which the conversation can be resumed; it never changes."""
        return self._session.conversation_id

    @property
    def state(self) -> str:
        """The id of the current state."""
        return self._session.state

    @property
    def context(self) -> dict[str, Any]:
        """A copy of what was collected; secrets included, system names not."""
        return dict(self._session.context)

    @property
    def ended(self) -> bool:
        """True when no further message can be sent."""
        return self._session.ended

    @property
    def paused(self) -> None:
        """What the run waits for; None while it waits for nothing but the user."""
        return

    async def history(self) -> tuple[Message, ...]:
        """The whole conversation so far."""
        return transcript(await self._engine.records(self.id))

    async def turns(self) -> tuple[Turn, ...]:
        """Every turn on record, taken back or not, with its events; contexts are those of now."""
        return tuple(
            turn_of(Outcome(record=record, session=self._session))
            for record in await self._engine.records(self.id)
        )

    async def refresh(self) -> None:
        """Read what other processes may have done."""
        self._session, _ = await self._engine.load(self.id)

    async def send(self, text: str, *, request_id: str | None = None) -> Turn:
        """Take one message and answer it.

        Raises ValueError (empty or too long), ConversationEnded, ConversationConflict, ModelError, HandlerError,
        StoreError; after any of them nothing has changed and the same message may be sent again.
        """
        outcome = await self._engine.send(self.id, text, request_id, None)
        self._session = outcome.session
        return turn_of(outcome)

    def stream(self, text: str, *, request_id: str | None = None) -> TurnStream:
        """Like `send`, as a stream of events."""

        async def run(sink: Callable[[str, Event], None]) -> Turn:
            outcome = await self._engine.send(self.id, text, request_id, sink)
            self._session = outcome.session
            return turn_of(outcome)

        return TurnStream(run)

    async def answer(self, value: object) -> Turn:
        """Answer what the run waits for. Raises ConversationConflict when it waits for nothing."""
        raise ConversationConflict(
            f"conversation {self.id!r} waits for no answer, so {value!r} has no place to go"
        )

    async def end(self) -> None:
        """Close the conversation for good."""
        self._session = (await self._engine.end(self.id)).session

    async def undo(self) -> None:
        """Take the last turn back, as an event on record. Raises ConversationConflict when there is none."""
        self._session = (await self._engine.undo(self.id)).session


class AsyncMachine:
    """A definition, a model and a store, ready for conversations.

    `model`: provider/model, `offline`, `scripted:FILE`, `replay:FILE`, or an object with `complete`; None takes
    LLM_FSM_MODEL or the definition's own. `base_url`: an OpenAI-compatible server, spoken to directly. `store`:
    memory, sqlite:///FILE or a store. `fallbacks`: models asked in turn when one fails for good. `timeout`:
    seconds for a whole turn, None for no limit. `error_mode`: whether a failing handler stops the turn.
    Raises DefinitionError, ConfigurationError.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        model: str | LLM | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        store: str | Store | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        handlers: Sequence[Handler] = (),
        fallbacks: Sequence[str | LLM] = (),
        timeout: float | None = TIMEOUT,
        error_mode: ErrorMode = "continue",
    ) -> None:
        if error_mode not in ("continue", "raise"):
            raise ValueError(f"error_mode is 'continue' or 'raise', not {error_mode!r}")
        if model is None and not os.environ.get("LLM_FSM_MODEL"):
            model = definition.model.name
        self.definition = definition
        self.llm = self._models(model, fallbacks, base_url, api_key)
        self.store = resolve_store(store)
        self.tools: dict[str, Callable[..., Any]] = {}
        self._engine = Engine(
            program=compile_program(definition, compile_prompts(prompt_sources())),
            llm=lambda: self.llm,
            store=self.store,
            timeout=timeout,
            error_mode=error_mode,
            publish=publish,
        )
        for handler in handlers:
            self.add_handler(handler)
        for function in tools:
            self.tool(function)

    @staticmethod
    def _models(
        model: str | LLM | None, fallbacks: Sequence[str | LLM], base_url: str | None, api_key: str | None
    ) -> LLM:
        found = [
            resolve_model(item, base_url=base_url, api_key=api_key, environ=os.environ)
            for item in (model, *fallbacks)
        ]
        return found[0] if len(found) == 1 else Fallbacks(found)

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """A machine from a definition file; options as of the constructor."""
        return cls(load(path), **options)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], **options: Any) -> Self:
        """A machine from a definition as JSON data; options as of the constructor."""
        return cls(load_dict(document).definition, **options)

    # -- conversations

    async def start(
        self,
        context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
        state: str | None = None,
    ) -> AsyncConversation:
        """Begin a conversation and greet (unless `greet` is False).

        Raises ConversationConflict for an id that exists, ValueError for a context or state that does not fit,
        DefinitionError for a machine that this version cannot run, ModelError; nothing is kept after any of them.
        """
        opening = Opening(
            conversation_id=uuid.uuid4().hex if conversation_id is None else conversation_id,
            time=time.time(),
            context=context,
            state=state,
            greet=greet,
        )
        outcome = await self._engine.start(opening)
        return AsyncConversation(self._engine, outcome.session, outcome.record.text)

    async def resume(self, conversation_id: str) -> AsyncConversation:
        """Go on with a conversation of any process, any day. Raises ConversationNotFound."""
        session, _ = await self._engine.load(conversation_id)
        records = await self._engine.store.records(conversation_id, limit=1)
        greeting = parse(records[0]).text if records else ""
        return AsyncConversation(self._engine, session, greeting)

    async def conversations(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """What the store holds, in order of ids, in pages of `limit` after the id `after`."""
        return await self.store.list(after, limit)

    async def delete(self, conversation_id: str) -> bool:
        """Remove everything about a conversation; False if there was none."""
        return await self.store.delete(conversation_id)

    async def close(self) -> None:
        """Free connections and files."""
        close = getattr(self.llm, "aclose", None)
        if close is not None:
            await close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- the host's own code

    def add_handler(self, handler: Handler) -> None:
        """Register a handler made with `create_handler`."""
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
        """Decorate a function that runs at these points, in these states, for moves to these targets."""

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

    @overload
    def tool(self, function: Callable[..., Any], /) -> Callable[..., Any]: ...
    @overload
    def tool(self, /, *, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Register a function under its name, for definitions that name it."""

        def register(found: Callable[..., Any]) -> Callable[..., Any]:
            key = name or found.__name__
            if self.tools.get(key, found) is not found:
                raise ValueError(f"a tool named {key!r} is registered already")
            self.tools[key] = found
            return found

        return register if function is None else register(function)
