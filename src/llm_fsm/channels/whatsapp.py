"""WhatsApp: a number of Meta's Cloud API. Choices are buttons or the rows of a list."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from llm_fsm import Choice
from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.channels.door import Door, IncomingMessage, Message, Messenger, is_hmac, posts, secret
from llm_fsm.channels.fit import BOLD, HEADING, LINK, Limits, MessagePart, fits_buttons
from llm_fsm.server.service import Service

BUTTONS, ROWS = (3, 20), (10, 24)
"""How many there may be, and the size of a label."""
LIMITS = Limits(text=4096, text_with_buttons=1024, buttons=(BUTTONS, ROWS), mark=200)
FILES = {
    "image": "[picture]",
    "video": "[video]",
    "audio": "[voice message]",
    "document": "[file]",
    "location": "[location]",
    "contacts": "[contact]",
}
"""Kinds of messages to the words that stand for them. A reaction and a sticker are no words."""


def heard(payload: JsonMap) -> Iterator[IncomingMessage]:
    """Yield the messages of a payload. Receipts are left out.

    A thread is the id of the business's number, a dot, and the number of the user.
    """
    for entry in payload.get("entry", ()):
        for change in entry.get("changes", ()):
            value = change.get("value", {})
            for message in value.get("messages", ()):
                said = said_in(message)
                if said is not None:
                    user = message["from"]
                    thread = f"{value['metadata']['phone_number_id']}.{user}"
                    yield IncomingMessage(thread, said[0], message["id"], user, said[1])


def said_in(message: JsonMap) -> tuple[str, str | None] | None:
    """Return the words of a message, and the question of a button; None if there are no words."""
    match message:
        case {"text": {"body": str(typed)}} | {"button": {"text": str(typed)}}:
            return typed, None
        case {"interactive": {"button_reply": picked} | {"list_reply": picked}}:
            question, mark, label = picked["id"].partition("|")
            return (label, question) if mark else (picked["title"], None)
        case {"edit": {"message": edited}}:
            return said_in(edited)
        case {"type": str(kind)} if kind in FILES:
            match message.get(kind):
                case {"caption": str(caption)}:
                    return f"{FILES[kind]} {caption}", None
            return FILES[kind], None
    return None


def content(text: str, choices: Sequence[Choice] = ()) -> JsonDict:
    """Return a text with up to three buttons, or a list of up to ten rows."""
    if not choices:
        return {"type": "text", "text": {"body": text}}
    options = [{"id": f"{one.question}|{one.label}", "title": one.label} for one in choices]
    kind, action = "list", {"button": "Choose", "sections": [{"rows": options}]}
    if fits_buttons(choices, LIMITS, BUTTONS):
        kind = "button"
        action = {"buttons": [{"type": "reply", "reply": option} for option in options]}
    body = {"text": text}
    return {"type": "interactive", "interactive": {"type": kind, "body": body, "action": action}}


def message(thread: str, part: MessagePart) -> Message:
    """Return the call that sends a message."""
    number, _, user = thread.partition(".")
    return f"{number}/messages", {"messaging_product": "whatsapp", "to": user, **content(*part)}


WHATSAPP = Messenger(
    name="whatsapp",
    limits=LIMITS,
    markup=((HEADING, r"*\1*"), (BOLD, r"*\1*"), (LINK, r"\1: \2")),
    heard=heard,
    message=message,
    refusals=r"code\W+(?:100|131008|131009|131021|131026|131047|131051)\b",
)


def is_signed(key: str, headers: TextMap, body: bytes) -> bool:
    """Check the signature of a request.

    Args:
        key: The secret of the app.
        headers: The headers of the request, in lower case.
        body: The body of the request.
    """
    given = headers.get("x-hub-signature-256", "")
    return is_hmac(key, body, given.removeprefix("sha256="))


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel.

    WHATSAPP_APP_SECRET, WHATSAPP_VERIFY_TOKEN and WHATSAPP_TOKEN are its secrets.

    Raises:
        ConfigurationError: A secret is empty.
    """
    key, chosen = secret("WHATSAPP_APP_SECRET"), secret("WHATSAPP_VERIFY_TOKEN")
    base = os.environ.get("WHATSAPP_API", "https://graph.facebook.com/v23.0")
    headers = {"Authorization": f"Bearer {secret('WHATSAPP_TOKEN')}"}
    door = Door(service, WHATSAPP, posts(base, headers))
    router = APIRouter()

    @router.get("", include_in_schema=False)
    async def verify(request: Request) -> Response:
        asked = request.query_params
        given = asked.get("hub.verify_token", "")
        if not hmac.compare_digest(given.encode(), chosen.encode()):
            return Response(status_code=403)
        return PlainTextResponse(asked.get("hub.challenge", ""))

    @router.post("", include_in_schema=False)
    async def receive(request: Request) -> Response:
        body = await request.body()
        if not is_signed(key, request.headers, body):
            return Response(status_code=401)
        await door.take(json.loads(body))
        return Response()

    return router
