"""The REST door: definitions, conversations, and runs without a user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from llm_fsm import AsyncMachine, ConversationNotFound
from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.definition.models import JsonObject
from llm_fsm.records.explain import explain_turn
from llm_fsm.server import accepted, views
from llm_fsm.server.encoding import Json, sse
from llm_fsm.server.http_rules import MAX_NAME, PathText
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import Problem, problem_of
from llm_fsm.server.service import RUN, Begun, Service
from llm_fsm.server.stream_events import Responses, stream_of
from llm_fsm.server.tokens import Caller
from llm_fsm.server.turns import LiveTurn
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import MAX_LABELS
from llm_fsm.turn.choices import Choice

PING_SECONDS = 15
Form = Literal["svg", "mermaid", "dot"]
_KEY_CHARS = frozenset(map(chr, range(0x21, 0x7F)))


class RequestBody(BaseModel):
    """A body of a request, in which no other names are allowed."""

    model_config = ConfigDict(extra="forbid")


NewId = Annotated[
    str | None,
    Field(
        default=None,
        min_length=1,
        max_length=150,
        description="An id of your own; one is made without.",
    ),
]


class StartRequest(RequestBody):
    """A conversation to begin. `greet` false: it sends no message before the first one of the user.

    `metadata`: labels such as `user`, by which `GET /conversations` finds it. `anew`: begin a
    conversation of this id again, after its end.
    """

    definition: str = Field(max_length=MAX_NAME)
    context: JsonObject = {}
    id: NewId = None
    greet: bool = True
    state: str | None = Field(default=None, max_length=200)
    metadata: dict[str, str] = Field(default={}, max_length=MAX_LABELS)
    anew: bool = False


class MessageRequest(RequestBody):
    """A message of the user.

    `picked`: the text is the label of one of the `choices`, which needs no model. `question`: that
    of the choice. If it is no longer open, the message is refused.
    """

    text: str = Field(max_length=100_000)
    picked: bool = False
    question: str = Field(default="", max_length=300)
    not_before: accepted.NotBefore


def _said(wish: MessageRequest) -> str | Choice:
    return Choice(wish.text, None, wish.question) if wish.picked else wish.text


class AnswerRequest(RequestBody):
    """The answer to the pause of a conversation. `pause`: the id of the pause."""

    value: JsonValue
    pause: str | None = Field(default=None, max_length=200)


class UndoRequest(RequestBody):
    """Undo the last turn. `turn`: only if the last turn has this number."""

    turn: int | None = Field(default=None, ge=0, le=2**53)


class ForkRequest(RequestBody):
    """Copy a conversation as it was after a turn; without `turn`, as it is now."""

    turn: int | None = Field(default=None, ge=0, le=2**53)
    id: NewId = None


class RunRequest(RequestBody):
    """A run to begin. `background`: vision_mission, goals, todo_list and custom_fields of the work."""

    definition: str = Field(max_length=MAX_NAME)
    input: JsonValue = None
    context: JsonObject = {}
    background: JsonObject | None = None
    id: NewId = None


def caller_of(request: Request) -> Caller:
    """Return the caller, which the guard has found."""
    caller: Caller = request.state.caller
    return caller


def key_of(header: str | None) -> str | None:
    """Return the idempotency key of a header. Raises Problem 400."""
    if header is None:
        return None
    key = header[1:-1] if len(header) > 1 and header[0] == header[-1] == '"' else header
    if not 0 < len(key) <= 200 or not _KEY_CHARS.issuperset(key):
        raise Problem(
            "bad-request",
            "an Idempotency-Key has 1 to 200 visible ASCII characters, without spaces",
        )
    return key


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", description="The same key and body again get the recorded answer."
    ),
]
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body again get the recorded answer.",
    "schema": {"type": "string"},
}
"""Like `Key`, for headers that are read directly, which halves the framework's work before a turn.
"""
_PREFER_PARAMETER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": f"`{accepted.ASYNC}`: the message is kept and answered later. "
    "It needs an Idempotency-Key.",
    "schema": {"type": "string"},
}
ConversationId = Annotated[PathText, Path(min_length=1, max_length=600)]
RequestId = Annotated[PathText, Path(min_length=1, max_length=600)]


async def _found(request: Request, conversation_id: ConversationId) -> Served:
    """Return the conversation of a path as it is now. Raises ConversationNotFound, and Problem 403."""
    service: Service = request.app.service
    return await service.find(caller_of(request), conversation_id, fresh=True)


async def _found_run(request: Request, run_id: ConversationId) -> Served:
    """As `_found`, for a run."""
    return await _found(request, run_id)


Found = Annotated[Served, Depends(_found)]
FoundRun = Annotated[Served, Depends(_found_run)]
_STREAM = stream_of("TurnEvent")
_TURN: Responses = {200: {"model": views.TurnView, "content": _STREAM}}


def _header(description: str) -> JsonDict:
    return {"description": description, "schema": {"type": "string"}}


_ACCEPTED: JsonDict = {
    "model": views.AcceptedView,
    "description": "The message is kept, and a worker answers it",
    "headers": {
        "Location": _header("The address of its turn"),
        "Preference-Applied": _header(accepted.ASYNC),
    },
}
_WAITING: JsonDict = {
    "model": views.AcceptedView,
    "description": "The message is not answered yet",
    "headers": {"Retry-After": _header("Seconds after which to look again")},
}


def wants_stream(request: Request) -> bool:
    """Return true if the client asks for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


class LastEvent(NamedTuple):
    """The last event that a client saw: its request id, the telling that it belongs to, and its
    number there.
    """

    key: str | None = None
    telling: str = ""
    number: int = 0


def last_event(request: Request) -> LastEvent:
    """Return the event in `Last-Event-ID`. Raises Problem 400 for an unknown form."""
    given = request.headers.get("last-event-id")
    if not given:
        return LastEvent()
    key, mark, place = given.rpartition(":")
    telling, _, number = place.rpartition(".")
    if not mark or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise Problem("bad-request", "this Last-Event-ID was not given by this server")
    return LastEvent(key_of(key), telling, int(number))


def event_stream(
    service: Service,
    caller: Caller,
    events: AsyncGenerator[bytes],
    headers: TextMap | None = None,
    *,
    grace_seconds: float | None = None,
) -> Response:
    """Return server-sent events as an answer. The stream is counted, kept alive, and ended if the
    client reads nothing.

    `grace_seconds`: how long it may go on while the server ends; None: as long as a turn.

    Raises:
        Problem: Too many streams are open (429).
    """
    service.gauge.check_streams(caller)
    limits = service.limits
    return _EventStream(
        events,
        headers=headers,
        sep="\n",
        ping=PING_SECONDS,
        send_timeout=limits.send_seconds,
        shutdown_grace_period=limits.shutdown_seconds if grace_seconds is None else grace_seconds,
    ).counted(service, caller)


class _EventStream(EventSourceResponse):
    """A stream that counts as open from the begin of its answer to the end. Its count cannot
    outlive it.
    """

    def counted(self, service: Service, caller: Caller) -> _EventStream:
        """Count it as one of this caller."""
        self._service = service
        self._caller = caller
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises Problem 429, if other streams were faster."""
        with self._service.gauge.stream(self._caller):
            await super().__call__(scope, receive, send)

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        """Send one event. The event loop's own time limit is the cheapest one."""
        try:
            async with asyncio.timeout(self.send_timeout):
                await send(message)
        except TimeoutError as error:
            raise SendTimeoutError from error


class RestRoutes:
    """The routes of this door over a service, in a router. The application's own router is the
    fastest.
    """

    def __init__(self, service: Service, router: APIRouter) -> None:
        self.service = service
        self.router = router
        self._turns()  # the most frequent routes first, because they are tried in order
        self._conversations()
        self._runs()
        self._definitions()

    # -- definitions

    def _definitions(self) -> None:
        router, machines = self.router, self.service.machines
        tag: list[Any] = ["definitions"]

        @router.get("/definitions", tags=tag, summary="List the definitions")
        async def list_definitions(request: Request) -> dict[str, list[JsonObject]]:
            return {
                "definitions": [
                    views.head_of(machine) for machine in machines.all(caller_of(request))
                ]
            }

        @router.get("/definitions/{name}", tags=tag, summary="Read a definition")
        async def read_definition(request: Request, name: PathText) -> JsonObject:
            machine = machines.inspected(caller_of(request), name)
            return {**views.head_of(machine), "document": dict(machine.definition.document)}

        @router.get(
            "/definitions/{name}/schema", tags=tag, summary="Read the JSON Schema of its context"
        )
        async def read_context_schema(request: Request, name: PathText) -> JsonObject:
            schema = machines.named(caller_of(request), name).definition.context_schema or {}
            return {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                **schema,
            }

        @router.get(
            "/definitions/{name}/diagram",
            tags=tag,
            summary="Draw a definition",
            response_class=Response,
            responses={200: {"content": {"image/svg+xml": {}, "text/plain": {}}}},
        )
        async def draw_definition(
            request: Request, name: PathText, form: Annotated[Form, Query(alias="format")] = "svg"
        ) -> Response:
            caller = caller_of(request)
            document = dict(machines.inspected(caller, name).definition.document)
            drawing = await self.service.pool.run(caller, "picture", document, form)
            if form != "svg":
                return Response(drawing, media_type="text/plain")
            policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
            return Response(
                drawing, media_type="image/svg+xml", headers={"Content-Security-Policy": policy}
            )

    # -- conversations

    def _conversations(self) -> None:
        router, service = self.router, self.service
        tag: list[Any] = ["conversations"]

        @router.post(
            "/conversations", status_code=201, tags=tag, summary="Begin a conversation",
            response_model=views.StartedView, responses={200: {"model": views.StartedView}},
        )  # fmt: skip
        async def start_conversation(
            request: Request, wish: StartRequest, key: Key = None
        ) -> Response:
            caller = caller_of(request)
            machine = service.machines.named(caller, wish.definition)
            begun = await service.start(
                caller,
                machine,
                context=wish.context,
                conversation_id=views.checked_new_id(wish.id),
                greet=wish.greet,
                state=wish.state,
                key=key_of(key),
                metadata=wish.metadata,
                anew=wish.anew,
                language=request.headers.get("accept-language", ""),
            )
            return await self._started(request, begun)

        @router.get(
            "/conversations/{conversation_id}", tags=tag, summary="Read a conversation",
            response_model=views.ConversationView,
        )  # fmt: skip
        async def read_conversation(served: Found) -> Response:
            return await self._json(served, views.conversation_of(served))

        @router.delete(
            "/conversations/{conversation_id}",
            status_code=204,
            tags=tag,
            summary="Delete a conversation for good",
        )
        async def delete_conversation(
            request: Request, conversation_id: ConversationId
        ) -> Response:
            await service.delete(await service.find(caller_of(request), conversation_id))
            return Response(status_code=204)

        @router.get(
            "/conversations/{conversation_id}/history", tags=tag, summary="Read the messages",
            response_model=views.HistoryView,
        )  # fmt: skip
        async def read_history(
            served: Found, wish: Annotated[views.PageRequest, Query()]
        ) -> Response:
            found = await served.chat.history()
            return await self._json(served, wish.of("messages", found, views.message_of))

        @router.post(
            "/conversations/{conversation_id}/end", tags=tag, summary="Close a conversation",
            response_model=views.ConversationView,
        )  # fmt: skip
        async def end_conversation(served: Found) -> Response:
            await service.end(served)
            return await self._json(served, views.conversation_of(served))

        @router.post(
            "/conversations/{conversation_id}/undo", tags=tag, summary="Take the last turn back",
            response_model=views.ConversationView,
        )  # fmt: skip
        async def undo_turn(
            served: Found, wish: Annotated[UndoRequest | None, Body()] = None
        ) -> Response:
            await service.undo(served, None if wish is None else wish.turn)
            return await self._json(served, views.conversation_of(served))

        @router.post(
            "/conversations/{conversation_id}/fork", status_code=201, tags=tag,
            summary="Copy a conversation as it was after a turn", response_model=views.StartedView,
        )  # fmt: skip
        async def fork_conversation(
            request: Request,
            served: Found,
            wish: Annotated[ForkRequest | None, Body()] = None,
            key: Key = None,
        ) -> Response:
            wish = wish or ForkRequest()
            begun = await service.copy(
                served, wish.turn, views.checked_new_id(wish.id), key_of(key)
            )
            return await self._started(request, begun)

    # -- turns

    def _turns(self) -> None:
        router, service = self.router, self.service
        tag: list[Any] = ["turns"]

        @router.post(
            "/conversations/{conversation_id}/messages", tags=tag, summary="Send a message",
            response_model=views.TurnView, responses={**_TURN, 202: _ACCEPTED},
            description="With Accept: text/event-stream the turn comes as events: delta, state, context, tool, paused "
            "…, and last turn, or error. A client that lost the stream sends the same again with "
            f"Last-Event-ID. With Prefer: {accepted.ASYNC}, and without a stream, the message is "
            "accepted and answered later.",
            openapi_extra={"parameters": [_KEY_PARAMETER, _PREFER_PARAMETER]},
        )  # fmt: skip
        async def send_message(
            request: Request, conversation_id: ConversationId, wish: MessageRequest
        ) -> Response:
            if accepted.is_async(request.headers.getlist("prefer")) and not wants_stream(request):
                return await self._accept(request, conversation_id, wish)
            accepted.refuse_time(wish.not_before)
            served = await service.find(caller_of(request), conversation_id)
            key = request.headers.get("idempotency-key")
            if wants_stream(request):
                seen = last_event(request)
                live = await service.stream(served, _said(wish), key_of(key) or seen.key)
                return self._events(served, live, seen)
            turn = await service.send(served, _said(wish), key_of(key))
            return await self._json(served, views.turn_of(served, turn))

        @router.post(
            "/conversations/{conversation_id}/answer", tags=tag, summary="Answer what the conversation waits for",
            response_model=views.TurnView, responses=_TURN,
        )  # fmt: skip
        async def answer_pause(
            request: Request, served: Found, wish: AnswerRequest, key: Key = None
        ) -> Response:
            if wants_stream(request):
                seen = last_event(request)
                live = await service.stream_answer(
                    served, wish.value, wish.pause, key_of(key) or seen.key
                )
                return self._events(served, live, seen)
            turn = await service.answer(served, wish.value, wish.pause, key_of(key))
            return await self._json(served, views.turn_of(served, turn))

        @router.get(
            "/conversations/{conversation_id}/turns", tags=tag, summary="Read the turns with their events",
            response_model=views.TurnsView,
        )  # fmt: skip
        async def list_turns(
            served: Found, wish: Annotated[views.PageRequest, Query()]
        ) -> Response:
            found = await served.chat.turns()
            page = wish.of("turns", found, partial(views.recorded_of, served))
            return await self._json(served, page)

        @router.get(
            "/conversations/{conversation_id}/turns/{number}/why",
            tags=tag,
            summary="Explain a turn",
        )
        async def read_why(served: Found, number: Annotated[int, Path(ge=0, le=2**53)]) -> Response:
            served.check("inspect", "see why a turn went as it did")
            records = [parse(text) for text in await served.store.records(served.stored)]
            account = explain_turn(served.machine.program, served.stored, records, number)
            if account is None:
                raise Problem("not-found", f"the conversation has no turn {number}")
            return await self._json(served, views.explained(account))

        @router.get(
            "/conversations/{conversation_id}/messages/{request_id}", tags=tag,
            summary="Read the turn of a message", response_model=views.TurnView,
            responses={202: _WAITING},
        )  # fmt: skip
        async def read_message(served: Found, request_id: RequestId) -> Response:
            turn = await accepted.turn_of(served, request_id)
            if turn is None:
                headers = {"Retry-After": str(accepted.RETRY_SECONDS)}
                document = views.accepted_of(served, request_id, answered=False)
                return Json(document, 202, headers=headers)
            return await self._json(served, views.turn_of(served, turn))

        @router.delete(
            "/conversations/{conversation_id}/messages/{request_id}", status_code=204, tags=tag,
            summary="Cancel an accepted message before its turn begins",
        )  # fmt: skip
        async def cancel_message(served: Found, request_id: RequestId) -> Response:
            await accepted.withdraw(served, request_id)
            return Response(status_code=204)

    async def _accept(
        self, request: Request, conversation_id: str, wish: MessageRequest
    ) -> Response:
        """Keep a message, let the work without a caller begin, and say where its turn will be."""
        key = accepted.checked_id(key_of(request.headers.get("idempotency-key")))
        served = await self.service.find(caller_of(request), conversation_id, fresh=True)
        answered = await accepted.accept(served, _said(wish), key, wish.not_before)
        self.service.wake()
        place = _place(request, "conversations", served.id, "messages", key)
        headers = {**place, "Preference-Applied": accepted.ASYNC}
        return Json(views.accepted_of(served, key, answered=answered), 202, headers=headers)

    # -- runs

    def _runs(self) -> None:
        router, service = self.router, self.service
        tag: list[Any] = ["runs"]

        @router.post(
            "/runs", status_code=202, tags=tag, summary="Run a machine without a user, in the background",
            response_model=views.RunView,
            description="The same id or Idempotency-Key resumes a run that was paused or interrupted.",
        )  # fmt: skip
        async def start_run(request: Request, wish: RunRequest, key: Key = None) -> Response:
            caller = caller_of(request)
            machine = service.machines.named(caller, wish.definition)
            if machine.definition.kind_of(machine.definition.initial_state) == "converse":
                raise Problem(
                    "conflict",
                    f"{wish.definition!r:.100} begins by talking: POST /conversations begins it",
                )
            name, live = await service.run(
                caller,
                machine,
                given=wish.input,
                context=wish.context or None,
                background=wish.background,
                run_id=views.checked_new_id(wish.id),
                key=key_of(key),
            )
            view = await self._begun(caller, machine, name, live)
            return Json(view, 202, headers=_place(request, "runs", name))

        @router.get("/runs/{run_id}", tags=tag, summary="Read a run", response_model=views.RunView)
        async def read_run(served: FoundRun) -> Response:
            live = service.turns.find(served.stored, RUN)
            return Json(await self._run_view(served.caller, served.machine, served.id, live))

        @router.get(
            "/runs/{run_id}/events", tags=tag, summary="Follow a run", response_class=Response,
            responses={200: {"content": _STREAM}},
        )  # fmt: skip
        async def follow_run(request: Request, served: FoundRun) -> Response:
            live = await service.live_run(served)
            seen = last_event(request)
            if live is None:
                return event_stream(service, served.caller, self._recorded(served))
            return self._events(served, live, seen)

        @router.post(
            "/runs/{run_id}/answer", status_code=202, tags=tag, summary="Answer what a run waits for",
            response_model=views.RunView,
        )  # fmt: skip
        async def answer_run(served: FoundRun, wish: AnswerRequest, key: Key = None) -> Response:
            live = await service.stream_answer(served, wish.value, wish.pause, key_of(key))
            return Json(await self._begun(served.caller, served.machine, served.id, live), 202)

        @router.post(
            "/runs/{run_id}/cancel",
            tags=tag,
            summary="Stop a run for good",
            response_model=views.RunView,
        )
        async def cancel_run(served: FoundRun) -> Response:
            await service.cancel(served)
            return Json(await self._run_view(served.caller, served.machine, served.id, None))

    async def _begun(
        self, caller: Caller, machine: AsyncMachine, run_id: str, live: LiveTurn
    ) -> JsonMap:
        """Read a run that has just started. If it fails at once, raise its error."""
        await live.settle(0.05)
        if live.error is not None:
            raise live.error
        return await self._run_view(caller, machine, run_id, live)

    async def _run_view(
        self, caller: Caller, machine: AsyncMachine, run_id: str, live: LiveTurn | None
    ) -> JsonMap:
        running = live is not None and not live.is_over
        view: JsonDict = {
            "id": run_id,
            "definition": machine.definition.name,
            "status": "running",
            "state": machine.definition.initial_state,
            "output": None,
            "context": {},
            "paused": None,
        }
        try:
            served = await self.service.find(caller, run_id, fresh=True)
            chat = served.chat
        except ConversationNotFound:
            if not running:
                raise
            return view
        view |= {
            "state": chat.state,
            "context": views.context_of(machine, chat.context),
            "paused": views.paused_of(served, chat.paused),
        }
        if not running:
            turns = await chat.turns()
            outcome = turns[-1].outcome if turns else ""
            view["status"] = "paused" if chat.paused is not None else outcome or "parked"
            view["output"] = turns[-1].output if turns else None
        return await self.service.document(served, view)

    # -- answers

    async def _json(self, served: Served, document: Any) -> Response:
        """Return a document of a conversation, without its secrets."""
        return Json(await self.service.document(served, document))

    async def _started(self, request: Request, begun: Begun) -> Response:
        place = _place(request, "conversations", begun.served.id)
        document = await self.service.document(begun.served, views.started_of(begun))
        return Json(document, 201 if begun.is_new else 200, headers=place)

    # -- streams

    def _events(self, served: Served, live: LiveTurn, seen: LastEvent) -> Response:
        # Numbers of another telling say nothing here: the turn was begun again, or comes from the
        # store.
        anew = seen.number > 0 and seen.telling != live.telling
        after = min(seen.number, len(live.events))
        return event_stream(self.service, served.caller, self._told(served, live, after, anew=anew))

    async def _told(
        self, served: Served, live: LiveTurn, after: int, *, anew: bool
    ) -> AsyncGenerator[bytes]:
        """Yield a turn as server-sent events. An error is an event, because the status was sent
        before.

        A turn that is told `anew` begins with event 1, and its first text says that it restarts.
        """
        key, start = f"{live.request_id}:{live.telling}", 0 if anew else after
        number = start
        shown = await self.service.shown(served)
        try:
            async for number, event in shown.follow(live, start):
                told = views.told(served, event)
                if told is None:
                    continue
                name, data = told[0], shown.document(told[1])
                if anew and name == "delta":
                    data, anew = {**data, "restart": True}, False
                yield sse(data, event=name, event_id=f"{key}.{number}")
            turn = await live.result()
            shown = await self.service.shown(served)
            data = shown.document(views.turn_of(served, turn))
            yield sse(data, event="turn", event_id=f"{key}.{number + 1}")
        except Exception as error:
            document = shown.document(problem_of(error).document())
            yield sse(document, event="error", event_id=f"{key}.{number}")

    async def _recorded(self, served: Served) -> AsyncGenerator[bytes]:
        shown = await self.service.shown(served)
        for number, turn in enumerate(await served.chat.turns(), 1):
            data = shown.document(views.turn_of(served, turn))
            yield sse(data, event="turn", event_id=f"{RUN}:{number}")


def _place(request: Request, *segments: str) -> dict[str, str]:
    """Return the URL of a new resource, also in a mounted application."""
    path = "/".join(quote(segment, safe="") for segment in segments)
    return {"Location": f"{request.scope.get('root_path', '')}/{path}"}
