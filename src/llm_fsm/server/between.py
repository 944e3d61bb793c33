"""The REST door for what happens between messages: the program's words and changes, events, and
stopping a turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from llm_fsm import Turn
from llm_fsm.definition.models import JsonObject
from llm_fsm.engine.validation import MAX_SPEAKER_CHARS
from llm_fsm.server import views
from llm_fsm.server.encoding import Json, sse
from llm_fsm.server.feed import Feed, Position
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import Problem, problem_of
from llm_fsm.server.rest import Found, Key, RequestBody, event_stream, key_of, last_event
from llm_fsm.server.service import Service
from llm_fsm.server.stream_events import stream_of

_STREAM = stream_of("ConversationEvent")


class SayRequest(RequestBody):
    """Words for the user, between messages. They are not changed. `by`: the name of the person who
    says them.
    """

    text: str = Field(max_length=100_000)
    by: str = Field(default="", max_length=MAX_SPEAKER_CHARS)


class UpdateRequest(RequestBody):
    """Changes between messages. `context`: values by key, null deletes one. `state`: the state to
    move to.
    """

    context: JsonObject = Field(default={})
    state: str | None = Field(default=None, max_length=200)


class CancelledView(BaseModel):
    """The answer to a stopped turn. `cancelled`: false if the turn was saved before it could be
    stopped.
    """

    cancelled: bool


def between(service: Service, feed: Feed) -> APIRouter:
    """Return the routes of this door over a service and its feed."""
    router = APIRouter()
    tag: list[Any] = ["between messages"]

    async def told(served: Served, turn: Turn) -> Response:
        return Json(await service.document(served, views.turn_of(served, turn)))

    @router.get(
        "/conversations/{conversation_id}/events", tags=tag, summary="Follow a conversation",
        response_class=Response, responses={200: {"content": _STREAM}},
        description="Everything that happens, by whomever: reminders, time-outs, words of the program, messages and "
        "their turns, the end. It begins with `conversation`, or after Last-Event-ID, or after record number `after`.",
    )  # fmt: skip
    async def follow_conversation(
        request: Request, served: Found, after: Annotated[int | None, Query(ge=0, le=2**53)] = None
    ) -> Response:
        position = _position(request)
        if position is None and after is not None:
            position = (after + 1, 0)
        return event_stream(
            service, served.caller, _events(feed, served, position), grace_seconds=0
        )

    @router.post(
        "/conversations/{conversation_id}/say", tags=tag, summary="Say something to the user between messages",
        response_model=views.TurnView,
    )  # fmt: skip
    async def say_between_messages(served: Found, wish: SayRequest, key: Key = None) -> Response:
        turn = await service.say(served, wish.text, key_of(key), by=wish.by)
        return await told(served, turn)

    @router.post(
        "/conversations/{conversation_id}/update", tags=tag, summary="Change keys or the state between messages",
        response_model=views.TurnView,
    )  # fmt: skip
    async def update_conversation(served: Found, wish: UpdateRequest, key: Key = None) -> Response:
        turn = await service.update(served, wish.context, wish.state, key_of(key))
        return await told(served, turn)

    @router.post(
        "/conversations/{conversation_id}/cancel", tags=tag, summary="Stop the turn that is under way",
        response_model=CancelledView,
    )  # fmt: skip
    async def cancel_turn(
        served: Found, _: Annotated[JsonObject | None, Body()] = None
    ) -> Response:
        return Json({"cancelled": await service.cancel_turn(served)})

    return router


def _position(request: Request) -> Position | None:
    """Return the position in `Last-Event-ID`. Raises Problem 400."""
    record, telling, number = last_event(request)
    if record is None:
        return None
    if telling or not record.isascii() or not record.isdecimal() or len(record) > 15:
        raise Problem("bad-request", "this Last-Event-ID was not given by this stream")
    return int(record), number


async def _events(feed: Feed, served: Served, position: Position | None) -> AsyncGenerator[bytes]:
    """Yield server-sent events. An error is an event, because the status was sent before."""
    last = "0:0" if position is None else f"{position[0]}:{position[1]}"
    try:
        async for happened in feed.follow(served, position):
            last = happened.id
            yield sse(happened.data, event=happened.name, event_id=last)
    except Exception as error:
        yield sse(problem_of(error).document(), event="error", event_id=last)
