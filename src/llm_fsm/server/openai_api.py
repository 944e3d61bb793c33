"""The OpenAI door: `/v1/models`, `/v1/chat/completions` and `/v1/responses`.

A model is a definition. A header, `previous_response_id`, `conversation` or the metadata names the
conversation. Otherwise the transcript identifies it; see `transcripts.py`. System messages are
ignored, because the definition has its own.

A client may hold another history than the server: answers that failed, were stopped or lost, and
messages that were edited or trimmed. Such a client is never turned away. Its conversation goes on,
is forked, or begins with its history.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NoReturn, get_args

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema
from starlette.responses import Response

from llm_fsm import AsyncMachine, ConversationConflict, ConversationNotFound, Turn
from llm_fsm._json import JsonDict, JsonMap, member
from llm_fsm.definition.models import JsonObject
from llm_fsm.errors import LLMFSMError
from llm_fsm.events import MessageDelta
from llm_fsm.server import views
from llm_fsm.server.encoding import Json, from_header, in_header, sse
from llm_fsm.server.front_end_tasks import is_task, task_answer
from llm_fsm.server.http_rules import MAX_NAME, PathText
from llm_fsm.server.machines import Served, new_id
from llm_fsm.server.problems import Problem, problem_of
from llm_fsm.server.rest import Key, caller_of, event_stream, key_of
from llm_fsm.server.rights import may
from llm_fsm.server.service import Service
from llm_fsm.server.stream_events import PLACE, Responses, stream_of
from llm_fsm.server.tokens import Caller
from llm_fsm.server.transcript_index import Entry, entry_of
from llm_fsm.server.transcripts import (
    Address,
    Said,
    Transcript,
    TranscriptPoint,
    Transcripts,
    address_of,
    answer_text,
    joined_text,
    marks,
    named_mark,
    names_in,
    new_request_id,
    pause_words,
    words_of,
)
from llm_fsm.server.turns import LiveTurn
from llm_fsm.session.messages import Paused
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS

_UNKNOWN = "…"
"""What a history has in place of an answer that its client may not bring."""
ANSWER = "answer"
"""The name of the tool whose call represents a pause."""
_NAMED_BY_BODY = ("user", "safety_identifier")
_NAMED_BY_METADATA = ("user", "user_id", "chat_id", "session_id", "thread_id")
_NAMED_BY_HEADERS = (
    "x-openwebui-chat-id",
    "x-openwebui-user-id",
    "x-litellm-end-user-id",
    "x-litellm-session-id",
    "x-chat-id",
    "x-session-id",
    "x-thread-id",
    "x-user-id",
)
"""Names of a user or a chat, which keep the users of one token apart."""


Role = Literal["system", "developer", "user", "assistant", "tool"]


class _OpenAIBody(BaseModel):
    model_config = ConfigDict(extra="allow")


class StreamOptions(_OpenAIBody):
    """Options of a stream."""

    include_usage: bool | None = False


_CONTENT: Any = {
    "description": "A text, or a list of parts with text.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}, {"type": "null"}],
}
_CHAT_MESSAGE: Any = {
    "title": "ChatMessage",
    "type": "object",
    "required": ["role"],
    "properties": {"role": {"type": "string", "enum": list(get_args(Role))}, "content": _CONTENT},
}
_INPUT_ITEM: Any = {
    "title": "InputItem",
    "description": "A message, which has a role, or an item of another type.",
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "enum": ["message", "function_call", "function_call_output", "reasoning"],
        },
        **_CHAT_MESSAGE["properties"],
        "output": _CONTENT,
    },
}
ChatMessages = Annotated[
    list[JsonObject], WithJsonSchema({"type": "array", "minItems": 1, "items": _CHAT_MESSAGE})
]
InputItems = Annotated[list[JsonObject], WithJsonSchema({"type": "array", "items": _INPUT_ITEM})]


def _answers(whole: str, event: str) -> Responses:
    """Return the answer of a route, whole and as a stream, by names of `stream_events.schemas`."""
    return {
        200: {
            "content": {"application/json": {"schema": {"$ref": PLACE + whole}}, **stream_of(event)}
        }
    }


class ChatRequest(_OpenAIBody):
    """A request for a chat completion. Unlisted settings of models are accepted and ignored."""

    model: str = Field(max_length=MAX_NAME)
    messages: ChatMessages = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: JsonObject | None = None
    n: int | None = Field(default=1, le=1, ge=1)

    @property
    def tells_usage(self) -> bool:
        """True if the stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ResponseRequest(_OpenAIBody):
    """A request for a response."""

    model: str = Field(max_length=MAX_NAME)
    input: str | InputItems
    stream: bool | None = False
    previous_response_id: str | None = Field(default=None, max_length=1000)
    conversation: str | JsonObject | None = None
    metadata: JsonObject | None = None


ConversationHeader = Annotated[
    str | None,
    Header(alias="X-Conversation-Id", description="The conversation that the message belongs to."),
]
RetryHeader = Annotated[
    str | None, Header(alias="X-Stainless-Retry-Count", include_in_schema=False)
]


@dataclass
class Headers:
    """The headers of a request that are read."""

    conversation_id: ConversationHeader = None
    key: Key = None
    retries: RetryHeader = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request: the earlier messages, the last one, and its conversation.

    `name`: the conversation; None: the one of the transcript. `after`: the request id of the turn
    after which it continues. If that is not the last turn, the conversation is forked.
    """

    address: Address
    before: Transcript
    last: Said
    name: str | None = None
    after: str | None = None
    key: str | None = None
    retries: bool = False

    @property
    def caller(self) -> Caller:
        """The client of the request."""
        return self.address.caller

    @property
    def machine(self) -> AsyncMachine:
        """The machine that is asked."""
        return self.address.machine

    @property
    def messages(self) -> list[Said]:
        """All messages, with the last one."""
        return [*self.before, self.last]

    def text(self, joined: Sequence[int]) -> str:
        """Return the message to send: the last one after those that were never answered, unless
        that is too long.
        """
        text = joined_text([*(self.before[place].text for place in joined), self.last.text])
        return text if len(text) <= MAX_MESSAGE_CHARS else self.last.text


@dataclass(frozen=True, slots=True)
class Going:
    """A running turn, and its identification for later requests.

    `filing`: registers the transcript after the turn, also if the client has left; None if it has a
        name.
    """

    served: Served
    live: LiveTurn
    asked: Asked
    entry: Entry | None = None
    filing: asyncio.Task[None] | None = None


class OpenAI:
    """The routes of this door over a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.transcripts = Transcripts(service)
        service.forgets.append(self.transcripts.forget)
        self._filing: set[asyncio.Task[None]] = set()
        self.router = APIRouter(prefix="/v1", tags=["openai"])
        self._began = int(time.time())
        self._models()
        self._chat()
        self._responses()

    def _models(self) -> None:
        machines = self.service.machines

        @self.router.get("/models", summary="List the definitions as models")
        async def list_models(request: Request) -> JsonObject:
            found: list[JsonValue] = [
                self._model(machine) for machine in machines.all(caller_of(request))
            ]
            return {"object": "list", "data": found}

        @self.router.get("/models/{model}", summary="Read a definition as a model")
        async def read_model(request: Request, model: PathText) -> JsonObject:
            return self._model(machines.named(caller_of(request), model))

    def _model(self, machine: AsyncMachine) -> JsonObject:
        return {
            "id": machine.definition.name,
            "object": "model",
            "created": self._began,
            "owned_by": "llm-fsm",
        }

    def _check_size(self, messages: Sequence[JsonMap], pointer: str) -> None:
        """Raise Problem 422 for a transcript with too many messages."""
        most = self.service.limits.transcript_messages
        if len(messages) > most:
            raise _invalid(
                pointer,
                f"a transcript has at most {most:,} messages here, and this one has {len(messages):,}; "
                "send only the last ones",
            )

    # -- the conversation

    async def begin(self, asked: Asked) -> Going:
        """Find or begin the conversation, and take the message. Raises Problem,
        ConversationConflict.
        """
        name = asked.name
        if name is None:
            return await self._begin_by_transcript(asked)
        mark = named_mark(asked.address, asked.messages, name, asked.after)
        if asked.key is None and asked.retries:
            known = await self._retried(asked.caller, name, mark)
            asked = replace(asked, key=known)
        served = await self._by_name(asked, name)
        if served.machine is not asked.machine:
            raise Problem(
                "conflict",
                f"the conversation follows {served.definition!r}, not the model that was asked",
            )
        joined = await self.transcripts.unanswered(served, asked.before)
        request_id = asked.key or new_request_id(mark)
        return Going(served, await self._taken(served, asked, joined, request_id), asked)

    async def _retried(self, caller: Caller, name: str, mark: str) -> str | None:
        """Return the request id of the turn that a client asks for again; None if it never came
        here.
        """
        with suppress(ConversationNotFound):
            served = await self.service.find(caller, name, fresh=True)
            return await self.transcripts.asked_again(served, mark)
        return None

    async def _begin_by_transcript(self, asked: Asked) -> Going:
        if asked.key is not None or asked.retries:
            again = await self.transcripts.retried(asked.address, asked.messages, asked.key)
            if again is not None:
                served, entry = again
                return await self._going(served, asked, entry, is_new=False)
        point = await self.transcripts.find(asked.address, asked.before)
        served, is_new = await self._by_transcript(asked, point)
        joined = _unanswered(asked.before) if point is None else point.joined
        request_id = asked.key or new_request_id(marks(asked.address, asked.messages)[-1])
        entry = entry_of(served.id, request_id, joined)
        # Before the turn, so that a client that loses the answer, or this process, finds the turn
        # again.
        await self.transcripts.asked(asked.address, asked.messages, entry)
        return await self._going(served, asked, entry, is_new=is_new)

    async def _going(self, served: Served, asked: Asked, entry: Entry, *, is_new: bool) -> Going:
        try:
            live = await self._taken(served, asked, entry.joined, entry.request_id)
        except Exception:
            if is_new:
                await self.service.discard(served)
            raise
        filing = asyncio.create_task(self._filed(served, asked, entry, live, is_new=is_new))
        self._filing.add(filing)
        filing.add_done_callback(self._filing.discard)
        return Going(served, live, asked, entry, filing)

    async def _filed(
        self, served: Served, asked: Asked, entry: Entry, live: LiveTurn, *, is_new: bool
    ) -> None:
        """Register the transcript of a turn after its end. A conversation in which nothing happened
        is removed.
        """
        await live.settle()
        if live.turn is not None:
            answer = Said("assistant", await self._words(served, live.turn))
            await self.transcripts.answered(asked.address, [*asked.messages, answer], entry)
        elif is_new:
            with suppress(LLMFSMError):
                loaded = await served.store.load(served.stored, entry.request_id)
                if loaded is not None and loaded.recorded is None:
                    await self.service.discard(served)

    async def _words(self, served: Served, turn: Turn) -> str:
        """Return the text of a turn as the client gets it."""
        shown = await self.service.shown(served)
        return shown.text(words_of(served, turn))

    async def _taken(
        self, served: Served, asked: Asked, joined: Sequence[int], request_id: str
    ) -> LiveTurn:
        await served.chat.refresh()
        last = asked.last
        paused = served.chat.paused
        is_answer = last.role == "tool" or (paused is not None and paused.messages == "refuse")
        if asked.key is not None or asked.retries:  # what is asked again is what it was
            role = await self.transcripts.role_of(served, request_id)
            if role is not None:
                is_answer = role == "tool"
        if is_answer:
            value = _value(last.text, strict=last.role != "tool")
            return await self.service.stream_answer(served, value, None, request_id)
        return await self.service.stream(served, asked.text(joined), request_id)

    async def _by_name(self, asked: Asked, name: str) -> Served:
        caller = asked.caller
        try:
            served = await self.service.find(caller, name, fresh=True)
        except ConversationNotFound:
            if asked.after is not None:
                raise
            begun = await self.service.start(
                caller, asked.machine, conversation_id=views.checked_new_id(name), greet=False
            )
            return begun.served
        if asked.after is None:
            return served
        turns = await served.chat.turns()
        after = next((turn.number for turn in turns if turn.request_id == asked.after), None)
        if after is None:  # that turn failed or was undone, so the conversation goes on where it is
            return served
        if turns[-1].number == after or (asked.key and _answered(turns, after, asked.key)):
            return served
        return (await self.service.copy(served, after, None, asked.key, is_edit=True)).served

    async def _by_transcript(
        self, asked: Asked, point: TranscriptPoint | None
    ) -> tuple[Served, bool]:
        """Return the conversation for a message at a point, and whether it is new."""
        if point is None or (point.goes_on and point.served.chat.ended):
            return await self._new(asked), True
        if point.goes_on:
            return point.served, False
        caller = asked.caller
        name = asked.address.id_prefix + new_id(caller, f"fork {point.served.id}", asked.key)
        try:
            return (
                await self.service.copy(point.served, point.turn, name, None, is_edit=True)
            ).served, True
        except ConversationConflict:
            if asked.key is None:
                raise
            return await self.service.find(caller, name), False  # the same key forked it before

    async def _new(self, asked: Asked) -> Served:
        """Begin a conversation. What was said elsewhere is its history. Without the right `seed`
        an answer that only the client knows is not taken over.
        """
        caller = asked.caller
        name = asked.address.id_prefix + new_id(caller, "v1", asked.key)
        trusted = may(caller, "seed", caller.stored(name))
        history = []
        for said in _answered_before(asked.before):
            if said.role == "user" or (said.role == "assistant" and trusted):
                history.append((said.role, said.text))
            elif said.role == "assistant":
                history.append((said.role, _UNKNOWN))
        try:
            begun = await self.service.start(
                caller, asked.machine, conversation_id=name, greet=False, history=history
            )
        except ConversationConflict:
            if asked.key is None:
                raise
            return await self.service.find(caller, name)  # the same key began it before
        return begun.served

    async def finished(self, going: Going, shown: str | None = None) -> Turn:
        """Wait for the end of the turn and of its registration, and return it.

        `shown`: the text as it was sent.
        """
        turn = await going.live.result()
        if going.filing is None or going.entry is None:
            return turn
        await asyncio.shield(going.filing)
        if shown is not None and shown != await self._words(going.served, turn):
            asked = going.asked
            said = [*asked.messages, Said("assistant", shown)]
            await self.transcripts.answered(asked.address, said, going.entry)
        return turn

    async def _take(
        self,
        request: Request,
        headers: Headers,
        wish: ChatRequest | ResponseRequest,
        said: Transcript,
        *,
        name: str | None,
        after: str | None = None,
    ) -> Going:
        """Begin the turn of the last message. `name`, `after`: as of `Asked`."""
        caller = caller_of(request)
        machine = self.service.machines.named(caller, wish.model)
        asked = Asked(
            address_of(caller, machine, _names(request, wish)),
            [one for one in said[:-1] if one.text.strip()],
            said[-1],
            name=name,
            after=after,
            key=key_of(headers.key),
            retries=headers.retries not in (None, "0"),
        )
        return await self.begin(asked)

    async def _pieces(self, going: Going) -> AsyncGenerator[str]:
        """Yield the text of a turn as it arrives, and then that of its pause."""
        shown = ""
        redactor = await self.service.shown(going.served)
        async for _, event in redactor.follow(going.live):
            if isinstance(event, MessageDelta):
                piece = f"\n\n{event.text}" if event.restart and shown else event.text
                shown += piece
                yield piece
        turn = await going.live.result()
        words = redactor.text(pause_words(going.served, turn.text, turn.paused))
        if words:
            piece = f"\n\n{words}" if shown else words
            shown += piece
            yield piece
        await self.finished(going, shown)

    def _streamed(self, going: Going, events: AsyncGenerator[bytes]) -> Response:
        """Return a turn as a stream."""
        return event_stream(self.service, going.served.caller, events, _place(going))

    async def _whole(self, going: Going, document: JsonDict) -> Response:
        """Return a turn as one document."""
        document = await self.service.document(going.served, document)
        return Json(document, headers=_place(going))

    # -- chat completions

    def _chat(self) -> None:
        @self.router.post(
            "/chat/completions", summary="Take the last message of a chat", response_class=Response,
            responses=_answers("ChatCompletion", "ChatCompletionChunk"),
        )  # fmt: skip
        async def create_chat_completion(
            request: Request, wish: ChatRequest, headers: Annotated[Headers, Depends()]
        ) -> Response:
            self._check_size(wish.messages, "/messages")
            said = _transcript(
                wish.messages, "/messages", "the last message is the user's, or a tool's"
            )
            if is_task(said):
                return self._task(request, wish, said[0].text)
            name = from_header(headers.conversation_id) or _text_of(
                wish.metadata, "conversation_id"
            )
            going = await self._take(request, headers, wish, said, name=name)
            if wish.stream:
                return self._streamed(going, self._chunks(going, usage=wish.tells_usage))
            turn = await self.finished(going)
            return await self._whole(going, _completion(going.served, turn))

    def _task(self, request: Request, wish: ChatRequest, text: str) -> Response:
        """Answer a chore of a front end. No conversation knows of it."""
        caller = caller_of(request)
        definition = self.service.machines.named(caller, wish.model).definition.name
        answer = task_answer(text, definition)
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        if not wish.stream:
            message = {"role": "assistant", "content": answer, "refusal": None}
            choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            return Json(
                {**_head(definition, "chat.completion"), "choices": [choice], "usage": usage}
            )
        head = _head(definition, "chat.completion.chunk")

        async def chunks() -> AsyncGenerator[bytes]:
            yield _chunk(head, {"role": "assistant", "content": answer})
            yield _chunk(head, {}, "stop")
            if wish.tells_usage:
                yield sse({**head, "choices": [], "usage": usage})
            yield sse("[DONE]")

        return event_stream(self.service, caller, chunks())

    async def _chunks(self, going: Going, *, usage: bool) -> AsyncGenerator[bytes]:
        head = _head(going.served.definition, "chat.completion.chunk")
        yield _chunk(head, {"role": "assistant", "content": ""})
        try:
            async for piece in self._pieces(going):
                yield _chunk(head, {"content": piece})
            turn = await going.live.result()
            redactor = await self.service.shown(going.served)
            calls = redactor.document(_tool_calls(going.served, turn))
            if calls:
                numbered = [{"index": place, **call} for place, call in enumerate(calls)]
                yield _chunk(head, {"tool_calls": numbered})
            extra = redactor.document(_extra(going.served, turn))
            yield _chunk(head, {}, "tool_calls" if calls else "stop", **extra)
            if usage:
                yield sse({**head, "choices": [], "usage": _usage(turn)})
        except Exception as error:
            yield sse(problem_of(error).for_openai())
        yield sse("[DONE]")

    # -- responses

    def _responses(self) -> None:
        @self.router.post(
            "/conversations", summary="Make an id for a conversation of /v1/responses"
        )
        async def create_conversation_id() -> JsonObject:
            made = f"conv_{secrets.token_hex(16)}"
            return {
                "id": made,
                "object": "conversation",
                "created_at": int(time.time()),
                "metadata": {},
            }

        @self.router.post(
            "/responses", summary="Take the last item of an input", response_class=Response,
            responses=_answers("ModelResponse", "ModelResponseEvent"),
        )  # fmt: skip
        async def create_response(
            request: Request, wish: ResponseRequest, headers: Annotated[Headers, Depends()]
        ) -> Response:
            items = (
                [{"role": "user", "content": wish.input}]
                if isinstance(wish.input, str)
                else wish.input
            )
            self._check_size(items, "/input")
            said = _transcript(
                items, "/input", "the last item is a message of the user, or a function_call_output"
            )
            name, after = from_header(headers.conversation_id), None
            if name is None and wish.previous_response_id is not None:
                name, after = _read_response_id(wish.previous_response_id)
            if name is None and wish.conversation is not None:
                given = wish.conversation
                name = given if isinstance(given, str) else _text_of(given, "id")
            name = name or _text_of(wish.metadata, "conversation_id")
            said = said if name is None else said[-1:]
            going = await self._take(request, headers, wish, said, name=name, after=after)
            if wish.stream:
                return self._streamed(going, self._response_events(going))
            turn = await self.finished(going)
            return await self._whole(going, _response(going, turn, words_of(going.served, turn)))

    async def _response_events(self, going: Going) -> AsyncGenerator[bytes]:
        number = 0
        item = f"msg_{secrets.token_hex(12)}"
        place = {"item_id": item, "output_index": 0, "content_index": 0}

        def told(kind: str, **data: Any) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, "sequence_number": number, **data}, event=kind)

        begun = _response(going, None, "")
        yield told("response.created", response=begun)
        yield told("response.in_progress", response=begun)
        yield told("response.output_item.added", output_index=0, item=_message_item(item, None))
        part = {"type": "output_text", "text": "", "annotations": []}
        yield told("response.content_part.added", part=part, **place)
        shown = ""
        try:
            async for piece in self._pieces(going):
                shown += piece
                yield told("response.output_text.delta", delta=piece, logprobs=[], **place)
            yield told("response.output_text.done", text=shown, logprobs=[], **place)
            yield told("response.content_part.done", part={**part, "text": shown}, **place)
            yield told("response.output_item.done", output_index=0, item=_message_item(item, shown))
            turn = await going.live.result()
            redactor = await self.service.shown(going.served)
            done = redactor.document(
                {**_response(going, turn, shown, item), "created_at": begun["created_at"]}
            )
            for index, call in enumerate(done["output"][1:], 1):
                yield told("response.output_item.added", output_index=index, item=call)
                yield told("response.output_item.done", output_index=index, item=call)
            yield told("response.completed", response=done)
        except Exception as error:
            problem = problem_of(error)
            fault: JsonDict = {"code": problem.kind, "message": problem.detail}
            if problem.wait is not None:
                fault["retry_after"] = problem.wait
            yield told("response.failed", response={**begun, "status": "failed", "error": fault})


# -- reading requests


def _invalid(pointer: str, detail: str) -> Problem:
    return Problem(
        "invalid", detail, extra={"errors": [{"pointer": pointer, "in": "body", "detail": detail}]}
    )


def _names(request: Request, wish: ChatRequest | ResponseRequest) -> list[tuple[str, str]]:
    """Return what a request says of its user and chat."""
    return [
        *names_in(wish.model_extra or {}, _NAMED_BY_BODY),
        *names_in(wish.metadata or {}, _NAMED_BY_METADATA),
        *names_in(request.headers, _NAMED_BY_HEADERS),
    ]


def _unanswered(before: Transcript) -> tuple[int, ...]:
    """Return the places of the user's messages at the end to which nobody has answered."""
    start = len(_answered_before(before))
    return tuple(place for place in range(start, len(before)) if before[place].role == "user")


def _answered_before(before: Transcript) -> Transcript:
    """Return the messages up to the last answer."""
    end = len(before)
    while end and before[end - 1].role != "assistant":
        end -= 1
    return before[:end]


def _transcript(messages: Sequence[JsonMap], pointer: str, wanted: str) -> list[Said]:
    """Return the messages that are read. Raises Problem 422 if the last one is none to answer.

    Earlier messages are read as far as possible. One of them may have been refused, and the client
    keeps it.
    """
    *before, last = messages or [{}]
    said = [one for message in before if (one := _said(message, strict=False)) is not None]
    if (one := _said(last, strict=True)) is not None:
        said.append(one)
    if not said or said[-1].role == "assistant":
        raise _invalid(pointer, wanted)
    return said


def _said(message: JsonMap, *, strict: bool) -> Said | None:
    """Read a message of a chat, or an item of an input; None: it is ignored. Raises Problem 422 if
    strict.
    """
    kind = message.get("type")
    role = message.get("role")
    is_output = kind == "function_call_output"
    if is_output or role == "tool":
        given = _content(message.get("output" if is_output else "content"), strict=strict)
        return Said("tool", answer_text(_value(given, strict=False)))
    if kind in ("function_call", "reasoning") or role in ("system", "developer"):
        return None
    if role in ("user", "assistant"):
        return Said(str(role), _content(message.get("content"), strict=strict))
    if not strict:
        return None
    raise _invalid(
        "/messages",
        f"{role!r:.50} is no role of a message: user, assistant, tool, system or developer",
    )


def _content(content: object, *, strict: bool) -> str:
    """Return the text of a message, which may come in parts. If strict, raise Problem 422 for
    anything else.
    """
    if content is None:
        return ""
    match content:
        case str():
            return content
        case list():
            texts = []
            for part in content:
                text = member(part, "text")
                if isinstance(text, str):
                    texts.append(text)
                elif strict:
                    raise _invalid(
                        "/messages", "only parts with text are read, no pictures, sounds or files"
                    )
            return "".join(texts)
    if strict:
        raise _invalid("/messages", "the content of a message is a text or a list of parts")
    return ""


def _value(text: str, *, strict: bool) -> Any:
    """Return the answer in a text: JSON, or the text itself if that is allowed. Raises Problem 409."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if strict:
            raise Problem(
                "conflict", "the conversation waits for an answer in JSON, as its last message says"
            ) from error
        return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _text_of(given: JsonMap | None, name: str) -> str | None:
    found = None if given is None else given.get(name)
    return found if isinstance(found, str) and found else None


def _answered(turns: Sequence[Turn], after: int, request_id: str) -> bool:
    """Return true if the turn after a turn answered this request."""
    return (after + 1, request_id) in [(turn.number, turn.request_id) for turn in turns]


def _response_id(name: str, request_id: str) -> str:
    return "resp_" + base64.urlsafe_b64encode(
        json.dumps([name, request_id]).encode()
    ).decode().rstrip("=")


def _read_response_id(given: str) -> tuple[str, str]:
    """Return the conversation and the request id of a response's id. Raises Problem 404."""
    try:
        text = given.removeprefix("resp_")
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        found = None
    if (
        not isinstance(found, list)
        or len(found) != 2
        or not all(isinstance(one, str) and one for one in found)
    ):
        raise Problem("not-found", "there is no response of this id")
    return found[0], found[1]


# -- writing answers


def _head(definition: str, kind: str) -> JsonDict:
    made = f"chatcmpl-{secrets.token_hex(12)}"
    return {"id": made, "object": kind, "created": int(time.time()), "model": definition}


def _place(going: Going) -> dict[str, str]:
    """Return the header that names the conversation."""
    return {"X-Conversation-Id": in_header(going.served.id)}


def _chunk(head: JsonMap, delta: JsonMap, finish: str | None = None, **extra: Any) -> bytes:
    """Return a part of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({**head, "choices": [choice], **extra})


def _usage(turn: Turn) -> JsonDict:
    given, written = turn.usage.input_tokens, turn.usage.output_tokens
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}


def _extra(served: Served, turn: Turn) -> JsonDict:
    """Return the fields that this server adds to the API."""
    return {"conversation_id": served.id, "llm_fsm": views.turn_of(served, turn)}


def _tool_calls(served: Served, turn: Turn) -> list[JsonDict]:
    """Return a pause as a tool call, which a tool message answers; none if the caller may not
    answer it.
    """
    paused = _to_answer(served, turn)
    if paused is None:
        return []
    return [
        {
            "id": paused.id,
            "type": "function",
            "function": {"name": ANSWER, "arguments": _arguments(paused)},
        }
    ]


def _to_answer(served: Served, turn: Turn) -> Paused | None:
    """Return the pause of a turn, if its caller may answer it. While a person has taken over, the
    user goes on writing.
    """
    paused = turn.paused
    if paused is None or paused.messages == "record" or not served.may_answer(paused):
        return None
    return paused


def _arguments(paused: Any) -> str:
    told = {"kind": paused.kind, "what": paused.what, "call": paused.call, "schema": paused.schema}
    return json.dumps(told, ensure_ascii=False, default=dict)


def _completion(served: Served, turn: Turn) -> JsonDict:
    calls = _tool_calls(served, turn)
    message: JsonDict = {"role": "assistant", "content": words_of(served, turn), "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
    }
    head = _head(served.definition, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(turn), **_extra(served, turn)}


def _message_item(name: str, text: str | None) -> JsonDict:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    status = "in_progress" if text is None else "completed"
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _response(going: Going, turn: Turn | None, text: str, item: str | None = None) -> JsonDict:
    """Return a response; without a turn, one that is in progress."""
    served = going.served
    document: JsonDict = {
        "id": _response_id(served.id, going.live.request_id),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress" if turn is None else "completed",
        "model": served.definition,
        "conversation": {"id": served.id},
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
    }
    if turn is None:
        return document
    document["output"].append(_message_item(item or f"msg_{secrets.token_hex(12)}", text))
    paused = _to_answer(served, turn)
    if paused is not None:
        call = {
            "id": f"fc_{paused.id}",
            "call_id": paused.id,
            "name": ANSWER,
            "type": "function_call",
        }
        document["output"].append({**call, "arguments": _arguments(paused), "status": "completed"})
    given, written = turn.usage.input_tokens, turn.usage.output_tokens
    document["usage"] = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + written,
    }
    return {**document, **_extra(served, turn)}
