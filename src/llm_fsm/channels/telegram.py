"""Telegram: updates of a bot by webhook. Choices are the keys of a keyboard."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.channels.door import Door, IncomingMessage, Message, Messenger, posts, secret
from llm_fsm.channels.fit import BOLD, HEADING, LINK, Limits, MessagePart
from llm_fsm.server.service import Service

FILES = {
    "photo": "[picture]",
    "animation": "[video]",
    "video": "[video]",
    "video_note": "[video]",
    "voice": "[voice message]",
    "audio": "[audio]",
    "document": "[file]",
    "location": "[location]",
    "contact": "[contact]",
}
"""Kinds of messages to the words that stand for them. An animation is a document, too."""


def heard(payload: JsonMap) -> Iterator[IncomingMessage]:
    """Yield the message of an update, new or edited. A location that moves is no message."""
    match payload:
        case {
            "update_id": int(number),
            "message": {"chat": {"id": int(chat)}, "from": {"id": int(user)} as sender} as said,
        } | {
            "update_id": int(number),
            "edited_message": {
                "chat": {"id": int(chat)},
                "from": {"id": int(user)} as sender,
            } as said,
        } if "message" in payload or "location" not in said:
            language = str(sender.get("language_code", ""))
            yield IncomingMessage(str(chat), words(said), str(number), str(user), language=language)


def words(message: JsonMap) -> str:
    """Return the text or the caption of a message, after words for its file.

    Telegram sends /start when somebody opens the bot: that is a greeting.
    """
    typed: str = message.get("text") or message.get("caption", "")
    if typed.partition("@")[0].split()[:1] == ["/start"]:
        return "Hello"
    file = next((said for kind, said in FILES.items() if kind in message), "")
    return f"{file} {typed}".strip()


def message(thread: str, part: MessagePart) -> Message:
    """Return the call that sends a message."""
    markup: JsonDict = {"remove_keyboard": True}
    if part.choices:
        keys = [[{"text": choice.label}] for choice in part.choices]
        markup = {"keyboard": keys, "one_time_keyboard": True}
    return "sendMessage", {"chat_id": int(thread), "text": part.text, "reply_markup": markup}


TELEGRAM = Messenger(
    name="telegram",
    limits=Limits(text=4096, text_with_buttons=4096, buttons=((30, 50),), mark=1000),
    markup=((HEADING, r"\1"), (BOLD, r"\1"), (LINK, r"\1: \2")),
    heard=heard,
    message=message,
    refusals="Forbidden|Bad Request",
)


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel. TELEGRAM_SECRET is its secret.

    With TELEGRAM_TOKEN, the token of the bot, answers are sent until Telegram takes them, reminders
    and the words of colleagues too. Without it, an answer is the response to its update.

    Raises:
        ConfigurationError: The secret is empty.
    """
    key, token = secret("TELEGRAM_SECRET"), os.environ.get("TELEGRAM_TOKEN")
    base = os.environ.get("TELEGRAM_API", "https://api.telegram.org")
    post = posts(f"{base}/bot{token}", {})
    door = Door(service, TELEGRAM, post, delivers=bool(token))
    router = APIRouter()

    @router.post("", include_in_schema=False)
    async def update(request: Request) -> Response:
        given = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(given.encode(), key.encode()):
            return Response(status_code=401)
        payload = await request.json()
        if token:
            await door.take(payload)
            return Response()
        answers = await door.answers(payload)
        if not answers:
            return Response()
        method, body = answers[-1]  # a response can make one call
        return JSONResponse({"method": method, **body})

    return router
