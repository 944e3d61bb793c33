"""The OpenAI door: `/v1/models`, `/v1/chat/completions` and `/v1/responses`.

A model is a definition. A header, `previous_response_id`, `conversation` or the metadata names the conversation.
Otherwise the transcript identifies it; see `transcripts.py`. System messages are ignored, because the definition has
its own.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response

from llm_fsm import AsyncMachine, ConversationConflict, ConversationNotFound, Turn
from llm_fsm.events import MessageDelta
from llm_fsm.server import views
from llm_fsm.server.encoding import Json, sse
from llm_fsm.server.machines import Served, new_id
from llm_fsm.server.problems import Problem, problem_of
from llm_fsm.server.rest import Key, caller_of, event_stream, key_of
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller
from llm_fsm.server.transcripts import Said, Transcripts, answer_text, digest, first_id, pause_words, words_of
from llm_fsm.server.turns import LiveTurn

ANSWER = "answer"
"""The name of the tool whose call represents a pause."""


class _Wish(BaseModel):
    model_config = ConfigDict(extra="allow")


class StreamOptions(_Wish):
    """Options of a stream."""

    include_usage: bool | None = False


class ChatWish(_Wish):
    """A request for a chat completion. Unlisted settings of models are accepted and ignored."""

    model: str = Field(max_length=200)
    messages: list[dict[str, JsonValue]] = Field(min_length=1, max_length=10_000)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: dict[str, JsonValue] | None = None
    n: int | None = Field(default=1, le=1, ge=1)


class ResponseWish(_Wish):
    """A request for a response."""

    model: str = Field(max_length=200)
    input: str | list[dict[str, JsonValue]]
    stream: bool | None = False
    previous_response_id: str | None = Field(default=None, max_length=1000)
    conversation: str | dict[str, JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None


ConversationHeader = Annotated[
    str | None, Header(alias="X-Conversation-Id", description="The conversation that the message belongs to.")
]
RetryHeader = Annotated[str | None, Header(alias="X-Stainless-Retry-Count", include_in_schema=False)]


@dataclass
class Headers:
    """The headers of a request that are read."""

    conversation_id: ConversationHeader = None
    key: Key = None
    retries: RetryHeader = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request: the earlier messages, the last one, and its conversation.

    `name`: the conversation; None: the one of the transcript. `after`: the request id of the turn after which it
    continues. If that is not the last turn, the conversation is forked.
    """

    caller: Caller
    machine: AsyncMachine
    before: Sequence[Said]
    last: Said
    name: str | None = None
    after: str | None = None
    key: str | None = None
    retries: bool = False

    def request_id(self) -> str:
        """Return the request id of a message that is known by its transcript."""
        return self.key or f"t-{digest([*self.before, self.last])[:40]}"


@dataclass(frozen=True, slots=True)
class Going:
    """A running turn, and its identification for later requests."""

    served: Served
    live: LiveTurn
    asked: Asked


class OpenAI:
    """The routes of this door over a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.transcripts = Transcripts(service)
        self.router = APIRouter(prefix="/v1", tags=["openai"])
        self._began = int(time.time())
        self._models()
        self._chat()
        self._responses()

    def _models(self) -> None:
        machines = self.service.machines

        @self.router.get("/models", summary="List the definitions as models")
        async def list_models(request: Request) -> dict[str, JsonValue]:
            found: list[JsonValue] = [self._model(machine) for machine in machines.all(caller_of(request))]
            return {"object": "list", "data": found}

        @self.router.get("/models/{model}", summary="Read a definition as a model")
        async def read_model(request: Request, model: str) -> dict[str, JsonValue]:
            return self._model(machines.named(caller_of(request), model))

    def _model(self, machine: AsyncMachine) -> dict[str, JsonValue]:
        return {"id": machine.definition.name, "object": "model", "created": self._began, "owned_by": "llm-fsm"}

    # -- the conversation

    async def begin(self, asked: Asked) -> Going:
        """Find or begin the conversation, and take the message. Raises Problem, ConversationConflict."""
        served = await (self._by_transcript(asked) if asked.name is None else self._by_name(asked, asked.name))
        if served.machine is not asked.machine:
            raise Problem("conflict", f"the conversation follows {served.definition!r}, not the model that was asked")
        request_id = asked.request_id() if asked.name is None else asked.key or secrets.token_hex(16)
        return Going(served, await self._taken(served, asked.last, request_id), asked)

    async def _taken(self, served: Served, last: Said, request_id: str) -> LiveTurn:
        await served.chat.refresh()
        if last.role == "tool" or served.chat.paused is not None:
            value = _value(last.text, strict=last.role != "tool")
            return await self.service.stream_answer(served, value, None, request_id)
        return await self.service.stream(served, last.text, request_id)

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
        if after is None:
            raise Problem("not-found", "there is no response of this id")
        if turns[-1].number == after or (asked.key and _answered(turns, after, asked.key)):
            return served
        return (await self.service.fork(served, after, None, asked.key)).served

    async def _by_transcript(self, asked: Asked) -> Served:
        caller, machine = asked.caller, asked.machine
        if not asked.before:
            name = first_id(asked.last, new_id(caller, "v1", asked.key))
            try:
                return (await self.service.start(caller, machine, conversation_id=name, greet=False)).served
            except ConversationConflict:  # the same key began it before
                return await self.service.find(caller, name)
        point = await self.transcripts.find(caller, machine.definition.name, asked.before)
        if point is None:
            raise Problem(
                "conflict",
                "no conversation of this token has these messages before the last one: send the header "
                "X-Conversation-Id, or the messages as this server gave them, or begin with one message",
            )
        if point.is_head:
            return point.served
        if asked.key or asked.retries:
            turns = await point.served.chat.turns()
            if _answered(turns, point.turn, asked.request_id()):
                return point.served
        return (await self.service.fork(point.served, point.turn, None, None)).served

    async def finished(self, going: Going, shown: str | None = None) -> Turn:
        """Wait for the end of the turn, register its transcript, and return it.

        `shown`: the text as it was sent.
        """
        turn = await going.live.result()
        asked = going.asked
        if asked.name is None:
            for words in {words_of(turn), words_of(turn) if shown is None else shown}:
                said = [*asked.before, asked.last, Said("assistant", words)]
                self.transcripts.remember(going.served, said, turn.number)
        return turn

    async def _take(
        self,
        request: Request,
        headers: Headers,
        wish: ChatWish | ResponseWish,
        said: Sequence[Said],
        *,
        name: str | None,
        after: str | None = None,
    ) -> Going:
        """Begin the turn of the last message. `name`, `after`: as of `Asked`."""
        caller = caller_of(request)
        asked = Asked(
            caller,
            self.service.machines.named(caller, wish.model),
            said[:-1],
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
        async for _, event in going.live.follow():
            if isinstance(event, MessageDelta):
                piece = f"\n\n{event.text}" if event.restart and shown else event.text
                shown += piece
                yield piece
        words = pause_words((await going.live.result()).paused)
        if words:
            piece = f"\n\n{words}" if shown else words
            shown += piece
            yield piece
        await self.finished(going, shown)

    # -- chat completions

    def _chat(self) -> None:
        @self.router.post("/chat/completions", summary="Take the last message of a chat", response_class=Response)
        async def complete(request: Request, wish: ChatWish, headers: Annotated[Headers, Depends()]) -> Response:
            said = _transcript(wish.messages, "/messages", "the last message is the user's, or a tool's")
            name = headers.conversation_id or _text_of(wish.metadata, "conversation_id")
            going = await self._take(request, headers, wish, said, name=name)
            place = {"X-Conversation-Id": going.served.id}
            if wish.stream:
                usage = wish.stream_options is not None and bool(wish.stream_options.include_usage)
                return event_stream(self.service, self._chunks(going, usage=usage), place)
            return Json(_completion(going.served, await self.finished(going)), headers=place)

    async def _chunks(self, going: Going, *, usage: bool) -> AsyncGenerator[bytes]:
        head = _head(going.served, "chat.completion.chunk")

        def chunk(delta: Mapping[str, Any], finish: str | None = None, **extra: Any) -> bytes:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **extra})

        yield chunk({"role": "assistant", "content": ""})
        try:
            async for piece in self._pieces(going):
                yield chunk({"content": piece})
            turn = await going.live.result()
            calls = _tool_calls(turn)
            if calls:
                yield chunk({"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]})
            yield chunk({}, "tool_calls" if calls else "stop", **_extra(going.served, turn))
            if usage:
                yield sse({**head, "choices": [], "usage": _usage(turn)})
        except Exception as error:
            yield sse(with_error(problem_of(error)))
        yield sse("[DONE]")

    # -- responses

    def _responses(self) -> None:
        @self.router.post("/conversations", summary="Make an id for a conversation of /v1/responses")
        async def make_conversation() -> dict[str, JsonValue]:
            made = f"conv_{secrets.token_hex(16)}"
            return {"id": made, "object": "conversation", "created_at": int(time.time()), "metadata": {}}

        @self.router.post("/responses", summary="Take the last item of an input", response_class=Response)
        async def respond(request: Request, wish: ResponseWish, headers: Annotated[Headers, Depends()]) -> Response:
            items = [{"role": "user", "content": wish.input}] if isinstance(wish.input, str) else wish.input
            said = _transcript(items, "/input", "the last item is a message of the user, or a function_call_output")
            name, after = headers.conversation_id, None
            if name is None and wish.previous_response_id is not None:
                name, after = _read_response_id(wish.previous_response_id)
            if name is None and wish.conversation is not None:
                given = wish.conversation
                name = given if isinstance(given, str) else _text_of(given, "id")
            name = name or _text_of(wish.metadata, "conversation_id")
            said = said if name is None else said[-1:]
            going = await self._take(request, headers, wish, said, name=name, after=after)
            place = {"X-Conversation-Id": going.served.id}
            if wish.stream:
                return event_stream(self.service, self._response_events(going), place)
            turn = await self.finished(going)
            return Json(_response(going, turn, words_of(turn)), headers=place)

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
            done = {**_response(going, turn, shown, item), "created_at": begun["created_at"]}
            for index, call in enumerate(done["output"][1:], 1):
                yield told("response.output_item.added", output_index=index, item=call)
                yield told("response.output_item.done", output_index=index, item=call)
            yield told("response.completed", response=done)
        except Exception as error:
            problem = problem_of(error)
            failed = {**begun, "status": "failed", "error": {"code": problem.kind, "message": problem.detail}}
            yield told("response.failed", response=failed)


def with_error(problem: Problem) -> dict[str, Any]:
    """Return the problem document, with the member `error` for clients of the OpenAI API."""
    error = {"message": problem.detail, "type": problem.kind, "code": problem.kind, "param": None}
    return {**problem.document(), "error": error}


# -- reading requests


def _invalid(pointer: str, detail: str) -> Problem:
    return Problem("invalid", detail, extra={"errors": [{"pointer": pointer, "in": "body", "detail": detail}]})


def _transcript(messages: Sequence[Mapping[str, Any]], pointer: str, wanted: str) -> list[Said]:
    """Return the messages that are read. Raises Problem 422 if the last one is none to answer."""
    said = [one for one in map(_said, messages) if one is not None]
    if not said or said[-1].role == "assistant":
        raise _invalid(pointer, wanted)
    return said


def _said(message: Mapping[str, Any]) -> Said | None:
    """Read a message of a chat, or an item of an input; None for one that is ignored. Raises Problem 422."""
    kind = message.get("type")
    if kind == "function_call_output":
        return Said("tool", _canonical(_content(message.get("output"))))
    role = message.get("role")
    if kind in ("function_call", "reasoning") or role in ("system", "developer"):
        return None
    if role in ("user", "assistant"):
        return Said(str(role), _content(message.get("content")))
    if role == "tool":
        return Said("tool", _canonical(_content(message.get("content"))))
    raise _invalid("/messages", f"{role!r:.50} is no role of a message: user, assistant, tool, system or developer")


def _content(content: object) -> str:
    """Return the text of a message, which may come in parts. Raises Problem 422 for anything but text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = []
        for part in content:
            text = part.get("text") if isinstance(part, dict) else None
            if not isinstance(text, str):
                raise _invalid("/messages", "only parts with text are read, no pictures, sounds or files")
            texts.append(text)
        return "".join(texts)
    raise _invalid("/messages", "the content of a message is a text or a list of parts")


def _canonical(text: str) -> str:
    return answer_text(_value(text, strict=False))


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


def _text_of(given: Mapping[str, Any] | None, name: str) -> str | None:
    found = None if given is None else given.get(name)
    return found if isinstance(found, str) and found else None


def _answered(turns: Sequence[Turn], after: int, request_id: str) -> bool:
    """Return true if the turn after a turn answered this request."""
    return any(turn.number == after + 1 and turn.request_id == request_id for turn in turns)


def _response_id(name: str, request_id: str) -> str:
    return "resp_" + base64.urlsafe_b64encode(json.dumps([name, request_id]).encode()).decode().rstrip("=")


def _read_response_id(given: str) -> tuple[str, str]:
    """Return the conversation and the request id of a response's id. Raises Problem 404."""
    try:
        text = given.removeprefix("resp_")
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(one, str) and one for one in found):
        raise Problem("not-found", "there is no response of this id")
    return found[0], found[1]


# -- writing answers


def _head(served: Served, kind: str) -> dict[str, Any]:
    made = f"chatcmpl-{secrets.token_hex(12)}"
    return {"id": made, "object": kind, "created": int(time.time()), "model": served.definition}


def _usage(turn: Turn) -> dict[str, Any]:
    given, written = turn.usage.input_tokens, turn.usage.output_tokens
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}


def _extra(served: Served, turn: Turn) -> dict[str, Any]:
    """Return the fields that this server adds to the API."""
    return {"conversation_id": served.id, "llm_fsm": views.turn_of(served, turn)}


def _tool_calls(turn: Turn) -> list[dict[str, Any]]:
    """Return a pause as a tool call, which a tool message answers."""
    paused = turn.paused
    if paused is None:
        return []
    return [{"id": paused.id, "type": "function", "function": {"name": ANSWER, "arguments": _arguments(paused)}}]


def _arguments(paused: Any) -> str:
    told = {"kind": paused.kind, "what": paused.what, "call": paused.call, "schema": paused.schema}
    return json.dumps(told, ensure_ascii=False, default=dict)


def _completion(served: Served, turn: Turn) -> dict[str, Any]:
    calls = _tool_calls(turn)
    message: dict[str, Any] = {"role": "assistant", "content": words_of(turn), "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    return {**_head(served, "chat.completion"), "choices": [choice], "usage": _usage(turn), **_extra(served, turn)}


def _message_item(name: str, text: str | None) -> dict[str, Any]:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    status = "in_progress" if text is None else "completed"
    return {"id": name, "type": "message", "role": "assistant", "status": status, "content": content}


def _response(going: Going, turn: Turn | None, text: str, item: str | None = None) -> dict[str, Any]:
    """Return a response; without a turn, one that is in progress."""
    served = going.served
    document: dict[str, Any] = {
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
    if turn.paused is not None:
        call = {"id": f"fc_{turn.paused.id}", "call_id": turn.paused.id, "name": ANSWER, "type": "function_call"}
        document["output"].append({**call, "arguments": _arguments(turn.paused), "status": "completed"})
    given, written = turn.usage.input_tokens, turn.usage.output_tokens
    document["usage"] = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + written,
    }
    return {**document, **_extra(served, turn)}
