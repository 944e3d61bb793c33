"""A WhatsApp number of Meta's Cloud API over the service of `llm-fsm serve`.

Run:  WHATSAPP_APP_SECRET=… WHATSAPP_VERIFY_TOKEN=… WHATSAPP_TOKEN=… llm-fsm serve flow.json \
          --mount examples/whatsapp/whatsapp.py --allow-host bot.example.org

Give Meta https://bot.example.org/channels/whatsapp as the callback URL, with the verify token.
Subscribe to `messages`.
"""

import hashlib
import hmac
import os
from typing import Any

import aiohttp
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from llm_fsm import Choice, ConversationConflict
from llm_fsm.server.channels import answer
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

SECRET = os.environ["WHATSAPP_APP_SECRET"]
VERIFY = os.environ["WHATSAPP_VERIFY_TOKEN"]
if not SECRET or not VERIFY:
    raise ValueError(
        "WHATSAPP_APP_SECRET or WHATSAPP_VERIFY_TOKEN is empty, so that anybody could send messages"
    )
TOKEN = os.environ["WHATSAPP_TOKEN"]
BOT = Caller(name="whatsapp", prefix="whatsapp~")
MOST_BUTTONS = 3
MOST_ROWS = 10
TEXT_CHARS = 4096
BODY_CHARS = 1024
BUTTON_CHARS = 20
ROW_CHARS = 24
ID_CHARS = 256


def is_signed(headers: Any, body: bytes) -> bool:
    """Check the signature of a request."""
    expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get("x-hub-signature-256", "").encode())


def messages_in(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages of a request, each with the id of the number that it was sent to.
    Receipts are left out.
    """
    found = []
    for entry in document.get("entry", []):
        for change in entry.get("changes", []):
            value = change.get("value", {})
            for message in value.get("messages", []):
                found.append((value["metadata"]["phone_number_id"], message))
    return found


def said_in(message: dict[str, Any]) -> tuple[str, str | None] | None:
    """Return the text of a message, and the question of a button; None for a picture, a sticker or
    a reaction.
    """
    if message["type"] == "text":
        return message["text"]["body"], None
    if message["type"] != "interactive":
        return None
    interactive = message["interactive"]
    picked = interactive.get("button_reply") or interactive.get("list_reply")
    if picked is None:
        return None
    question, _, label = picked["id"].partition("|")
    return label, question


def option(choice: Choice, most: int) -> dict[str, str]:
    """Return a choice as a button or row. Its question goes with it, so that an old one answers no
    later question.
    """
    return {"id": f"{choice.question}|{choice.label}"[:ID_CHARS], "title": choice.label[:most]}


def content(text: str, choices: tuple[Choice, ...]) -> dict[str, Any]:
    """Return a text, with up to three buttons, or a list of up to ten rows."""
    said = text or "…"
    if not choices or len(choices) > MOST_ROWS:
        return {"type": "text", "text": {"body": said[:TEXT_CHARS]}}
    if len(choices) <= MOST_BUTTONS:
        buttons = [{"type": "reply", "reply": option(choice, BUTTON_CHARS)} for choice in choices]
        kind, action = "button", {"buttons": buttons}
    else:
        rows = [option(choice, ROW_CHARS) for choice in choices]
        kind, action = (
            "list",
            {"button": "Choose", "sections": [{"title": "Choices", "rows": rows}]},
        )
    body = {"text": said[:BODY_CHARS]}
    return {"type": "interactive", "interactive": {"type": kind, "body": body, "action": action}}


async def post(number: str, to: str, text: str, choices: tuple[Choice, ...] = ()) -> None:
    """Send a message to a person. If Meta does not take it, the request fails, and Meta delivers
    its message again.
    """
    api = os.environ.get("WHATSAPP_API", "https://graph.facebook.com/v23.0")
    message = {"messaging_product": "whatsapp", "to": to, **content(text, choices)}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as session:
        await session.post(f"{api}/{number}/messages", json=message)


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel, for `--mount`."""
    router = APIRouter()

    @router.get("", include_in_schema=False)
    async def verify(request: Request) -> Response:
        asked = request.query_params
        given = asked.get("hub.verify_token", "")
        if asked.get("hub.mode") != "subscribe" or not hmac.compare_digest(
            given.encode(), VERIFY.encode()
        ):
            return Response(status_code=403)
        return PlainTextResponse(asked.get("hub.challenge", ""))

    @router.post("", include_in_schema=False)
    async def receive(request: Request) -> Response:
        body = await request.body()
        if not is_signed(request.headers, body):
            return Response(status_code=401)
        for number, message in messages_in(await request.json()):
            said = said_in(message)
            if said is None:
                continue
            text, question = said
            person = message["from"]
            user = {"user": person}
            try:
                turn = await answer(
                    service, BOT, person, text, message["id"], question=question, metadata=user
                )
            except ConversationConflict as error:
                await post(number, person, str(error))
                continue
            await post(number, person, turn.text, turn.choices)
        return Response()

    return router
