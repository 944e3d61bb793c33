"""A REST service around a machine, with FastAPI.

Run:  pip install fastapi uvicorn
      LLM_FSM_MODEL=offline uvicorn --app-dir examples/web --factory fastapi_app:create_app

      curl -X POST localhost:8000/conversations
      curl -X POST localhost:8000/conversations/ID/messages -H 'Content-Type: application/json' \\
           -d '{"text": "I am Ada", "request_id": "msg-1"}'
      curl -N -X POST localhost:8000/conversations/ID/stream -H 'Content-Type: application/json' \\
           -d '{"text": "ada@example.org", "request_id": "msg-2"}'

`stream` tells the same turn by server-sent events: `words` as the model writes them, `anew` where
those so far are withdrawn, and last `turn` with the whole answer, or `error`. A client that leaves
before that cancels the turn.

A client that got no answer sends the same message with the same `request_id` again: it gets the
recorded answer, and the machine does not move twice. LLM_FSM_STORE names another place for the
conversations than `sqlite:///conversations.db`, and LLM_FSM_DEFINITION another definition.
"""

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from llm_fsm import (
    AsyncConversation,
    AsyncMachine,
    ConversationConflict,
    ConversationEnded,
    ConversationNotFound,
    ModelError,
    StoreError,
    Turn,
)
from llm_fsm.events import MessageDelta

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "registration.json"


class Start(BaseModel):
    """What a new conversation may be told: values that the program knows already."""

    context: dict[str, Any] = {}


class Said(BaseModel):
    """A message of the user. `request_id`: the client's own id for it, the same when it is sent
    again.
    """

    text: str = Field(min_length=1, max_length=20_000)
    request_id: str | None = Field(default=None, min_length=1, max_length=200)


class Answer(BaseModel):
    """What the machine answered, and where the conversation stands."""

    conversation_id: str
    text: str
    state: str
    ended: bool


STATUS: dict[type[Exception], int] = {
    ConversationNotFound: 404,
    ConversationConflict: 409,
    ConversationEnded: 410,
    ValueError: 422,
    ModelError: 503,
    StoreError: 503,
}


def answer(chat: AsyncConversation, turn: Turn) -> Answer:
    return Answer(conversation_id=chat.id, text=turn.text, state=turn.state, ended=turn.ended)


def told(name: str, data: object) -> str:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def words_of(chat: AsyncConversation, said: Said) -> AsyncIterator[str]:
    """A turn as server-sent events. What goes wrong is one of them, as the status of the answer was
    sent before.
    """
    stream = chat.stream(said.text, request_id=said.request_id)
    try:
        async for event in stream:
            if isinstance(event, MessageDelta):
                yield told("anew" if event.restart else "words", event.text)
    except tuple(STATUS) as error:
        yield told("error", str(error))
    if stream.turn is not None:
        yield told("turn", answer(chat, stream.turn).model_dump())


def create_app(machine: AsyncMachine | None = None) -> FastAPI:
    """The application; without a machine it makes its own from the environment."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        made = machine or AsyncMachine.from_file(
            os.environ.get("LLM_FSM_DEFINITION", DEFINITION),
            store=os.environ.get("LLM_FSM_STORE", "sqlite:///conversations.db"),
        )
        async with made:
            app.state.machine = made
            yield

    app = FastAPI(title="A machine you can talk to", lifespan=lifespan)

    @app.post("/conversations", status_code=201)
    async def start(request: Request, body: Start | None = None) -> Answer:
        chat = await request.app.state.machine.start(context=body.context if body else None)
        return Answer(
            conversation_id=chat.id, text=chat.greeting, state=chat.state, ended=chat.ended
        )

    @app.post("/conversations/{conversation_id}/messages")
    async def send(request: Request, conversation_id: str, body: Said) -> Answer:
        chat = await request.app.state.machine.resume(conversation_id)
        turn = await chat.send(body.text, request_id=body.request_id)
        return answer(chat, turn)

    @app.post("/conversations/{conversation_id}/stream")
    async def stream(request: Request, conversation_id: str, body: Said) -> StreamingResponse:
        chat = await request.app.state.machine.resume(conversation_id)
        return StreamingResponse(words_of(chat, body), media_type="text/event-stream")

    async def explain(_: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        detail = str(error)
        # it may name an address of yours, which is for your log and not for a browser
        if status == 503:
            logging.getLogger(__name__).error("%s", detail)
            detail = "not available at the moment; send the same message again"
        return JSONResponse({"detail": detail}, status_code=status)

    for kind in STATUS:
        app.add_exception_handler(kind, explain)
    return app
