"""A Telegram bot over the service of `llm-fsm serve`.

Run:  TELEGRAM_SECRET=… llm-fsm serve flow.json --mount examples/telegram_channel.py --allow-host bot.example.org

Tell Telegram once: setWebhook with url=https://bot.example.org/channels/telegram_channel and secret_token=….
A chat is a conversation. The id of an update is the request id, so an update that Telegram delivers again gets the
recorded answer. The answer to the webhook is the call of sendMessage. Choices are the keys of a keyboard.
"""

import hmac
import os
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from llm_fsm import ConversationConflict, ConversationEnded, Turn
from llm_fsm.server.machines import Served
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

SECRET = os.environ["TELEGRAM_SECRET"]
if not SECRET:
    raise ValueError("TELEGRAM_SECRET is empty, so that anybody could send updates")
BOT = Caller(name="telegram", prefix="telegram~")


async def conversation(service: Service, chat: str, user: str) -> Served:
    """Find the conversation of a chat, or begin it with the first definition."""
    machine = service.machines.all(BOT)[0]
    return await service.open(BOT, machine, chat, greet=False, metadata={"user": user})


def message(chat: int, turn: Turn) -> dict[str, Any]:
    """Return the call of sendMessage that answers a turn."""
    markup: dict[str, Any] = {"remove_keyboard": True}
    if turn.choices:
        markup = {"keyboard": [[{"text": choice.label}] for choice in turn.choices], "one_time_keyboard": True}
    return {"method": "sendMessage", "chat_id": chat, "text": turn.text or "…", "reply_markup": markup}


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel, for `--mount`."""
    router = APIRouter()

    @router.post("", include_in_schema=False)
    async def update(request: Request) -> Response:
        given = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(given.encode(), SECRET.encode()):
            return Response(status_code=401)
        body = await request.json()
        said = body.get("message", {})
        if "text" not in said:
            return Response()  # a sticker, a photo, an edited message: nothing to answer
        chat = said["chat"]["id"]
        service.enter(Caller(name=f"telegram {chat}"))  # --rate counts for each chat
        served = await conversation(service, str(chat), str(said["from"]["id"]))
        picked = said["text"] in [choice.label for choice in served.chat.choices]
        try:
            turn = await service.send(served, said["text"], str(body["update_id"]), picked=picked)
        except (ConversationEnded, ConversationConflict) as error:
            return JSONResponse({"method": "sendMessage", "chat_id": chat, "text": str(error)})
        return JSONResponse(message(chat, turn))

    return router
