"""A Telegram bot over the service of `llm-fsm serve`.

Run:  TELEGRAM_SECRET=… llm-fsm serve flow.json --mount examples/telegram/telegram.py --allow-host
    bot.example.org

Tell Telegram once: setWebhook with url=https://bot.example.org/channels/telegram and
secret_token=…. The answer to the webhook is the call of sendMessage. Choices are the keys of a
keyboard.
"""

import hmac
import os
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from llm_fsm import Choice, ConversationConflict
from llm_fsm.server.channels import answer
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

SECRET = os.environ["TELEGRAM_SECRET"]
if not SECRET:
    raise ValueError("TELEGRAM_SECRET is empty, so that anybody could send updates")
BOT = Caller(name="telegram", prefix="telegram~")
MESSAGE_CHARS = 4096


def said_in(message: dict[str, Any]) -> str:
    """Return the text of a message. Telegram sends /start when somebody opens the bot: that is a
    greeting.
    """
    text: str = message["text"]
    return "Hello" if text.split()[:1] == ["/start"] else text


def sent(chat: int, text: str, choices: tuple[Choice, ...] = ()) -> JSONResponse:
    """Return the call of sendMessage that answers an update."""
    markup: dict[str, Any] = {"remove_keyboard": True}
    if choices:
        markup = {
            "keyboard": [[{"text": choice.label}] for choice in choices],
            "one_time_keyboard": True,
        }
    shown = text[:MESSAGE_CHARS] or "…"
    return JSONResponse(
        {"method": "sendMessage", "chat_id": chat, "text": shown, "reply_markup": markup}
    )


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel, for `--mount`."""
    router = APIRouter()

    @router.post("", include_in_schema=False)
    async def update(request: Request) -> Response:
        given = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(given.encode(), SECRET.encode()):
            return Response(status_code=401)
        body = await request.json()
        message = body.get("message", {})
        if "text" not in message:
            return Response()  # a sticker, a photo, an edited message: nothing to answer
        chat = message["chat"]["id"]
        user = {"user": str(message["from"]["id"])}
        request_id = str(body["update_id"])
        try:
            turn = await answer(
                service, BOT, str(chat), said_in(message), request_id, metadata=user
            )
        except ConversationConflict as error:
            return sent(chat, str(error))
        return sent(chat, turn.text, turn.choices)

    return router
