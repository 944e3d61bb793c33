"""A Slack app over the service of `llm-fsm serve`.

Run:  SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… llm-fsm serve flow.json --mount examples/slack_channel.py \
          --allow-host bot.example.org

Give https://bot.example.org/channels/slack_channel as the request URL of events (message.im) and of interactivity.
A channel is a conversation. The id of an event is the request id. Slack repeats an event that takes over three
seconds while it is still being answered, so a repetition for that reason is only acknowledged.
"""

import hashlib
import hmac
import json
import os
import time
from typing import Any
from urllib.parse import parse_qs

import aiohttp
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from llm_fsm import ConversationConflict, ConversationEnded
from llm_fsm.server.machines import Served
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

SECRET = os.environ["SLACK_SIGNING_SECRET"]
if not SECRET:
    raise ValueError("SLACK_SIGNING_SECRET is empty, so that anybody could sign requests")
TOKEN = os.environ["SLACK_BOT_TOKEN"]
BOT = Caller(name="slack", prefix="slack~")
OLDEST_SECONDS = 300


def is_signed(headers: Any, body: bytes) -> bool:
    """Check the signature of a request, and that it is not an old one."""
    stamp = headers.get("x-slack-request-timestamp", "")
    if not stamp.isdecimal() or len(stamp) > 15 or abs(time.time() - int(stamp)) > OLDEST_SECONDS:
        return False
    expected = "v0=" + hmac.new(SECRET.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get("x-slack-signature", "").encode())


def meant(body: bytes) -> tuple[str, str, str, str] | None:
    """Return channel, user, text and request id of an event or a click; None for anything else."""
    if body.startswith(b"payload="):
        click = json.loads(parse_qs(body.decode())["payload"][0])
        action = click["actions"][0]
        return click["channel"]["id"], click["user"]["id"], action["value"], action["action_ts"]
    document = json.loads(body)
    event = document.get("event", {})
    if event.get("type") != "message" or "bot_id" in event or "subtype" in event:
        return None
    return event["channel"], event["user"], event["text"], document["event_id"]


async def conversation(service: Service, channel: str, user: str) -> Served:
    """Find the conversation of a channel, or begin it with the first definition."""
    machine = service.machines.all(BOT)[0]
    return await service.open(BOT, machine, channel, greet=False, metadata={"user": user})


async def post(channel: str, text: str, labels: list[str]) -> None:
    """Send a message with a button for each label."""
    blocks: list[dict[str, Any]] = [{"type": "section", "text": {"type": "plain_text", "text": text or "…"}}]
    buttons = [{"type": "button", "text": {"type": "plain_text", "text": one[:75]}, "value": one} for one in labels]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    url = os.environ.get("SLACK_API", "https://slack.com/api") + "/chat.postMessage"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as session:
        await session.post(url, json={"channel": channel, "text": text, "blocks": blocks})


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel, for `--mount`."""
    router = APIRouter()

    @router.post("", include_in_schema=False)
    async def event(request: Request) -> Response:
        body = await request.body()
        if not is_signed(request.headers, body):
            return Response(status_code=401)
        if b'"url_verification"' in body[:500]:
            return PlainTextResponse(json.loads(body)["challenge"])
        said = meant(body)
        if said is None or request.headers.get("x-slack-retry-reason") == "http_timeout":
            return Response()
        channel, user, text, request_id = said
        service.enter(Caller(name=f"slack {channel}"))  # --rate counts for each channel
        served = await conversation(service, channel, user)
        picked = text in [choice.label for choice in served.chat.choices]
        try:
            turn = await service.send(served, text, request_id, picked=picked)
        except (ConversationEnded, ConversationConflict) as error:
            await post(channel, str(error), [])
            return Response()
        await post(channel, turn.text, [choice.label for choice in turn.choices])
        return Response()

    return router
