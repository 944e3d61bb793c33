"""A Slack app over the service of `llm-fsm serve`.

Run:  SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… llm-fsm serve flow.json \
          --mount examples/slack/slack.py --allow-host bot.example.org

Give https://bot.example.org/channels/slack as the request URL of events (message.im) and of
interactivity.
"""

import asyncio
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

from llm_fsm import Choice, ConversationConflict
from llm_fsm.server.channels import answer, is_answered
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

SECRET = os.environ["SLACK_SIGNING_SECRET"]
if not SECRET:
    raise ValueError("SLACK_SIGNING_SECRET is empty, so that anybody could sign requests")
TOKEN = os.environ["SLACK_BOT_TOKEN"]
BOT = Caller(name="slack", prefix="slack~")
OLDEST_SECONDS = 300
SECTION_CHARS = 3000
BUTTON_CHARS = 75
POST_TRIES = 3


def is_signed(headers: Any, body: bytes) -> bool:
    """Check the signature of a request, and that it is not an old one."""
    stamp = headers.get("x-slack-request-timestamp", "")
    if not stamp.isdecimal() or len(stamp) > 15:
        return False
    if abs(time.time() - int(stamp)) > OLDEST_SECONDS:
        return False
    signed = f"v0:{stamp}:".encode() + body
    expected = "v0=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    given = headers.get("x-slack-signature", "")
    return hmac.compare_digest(expected.encode(), given.encode())


def meant(body: bytes) -> dict[str, Any] | None:
    """Return the thread, the text, the request id and the user of a request; None if it is no
    message and no click.
    """
    if body.startswith(b"payload="):
        click = json.loads(parse_qs(body.decode())["payload"][0])
        action = click["actions"][0]
        picked = json.loads(action["value"])
        return {
            "thread": click["channel"]["id"],
            "text": picked["label"],
            "request_id": action["action_ts"],
            "question": picked["question"],
            "metadata": {"user": click["user"]["id"]},
        }
    document = json.loads(body)
    event = document.get("event", {})
    if event.get("type") != "message" or "bot_id" in event or "subtype" in event:
        return None
    return {
        "thread": event["channel"],
        "text": event["text"],
        "request_id": document["event_id"],
        "metadata": {"user": event["user"]},
    }


def button(choice: Choice) -> dict[str, Any]:
    """Return the button of a choice. Its question goes with it, so that an old button answers no
    later question.
    """
    label = {"type": "plain_text", "text": choice.label[:BUTTON_CHARS]}
    value = json.dumps({"label": choice.label, "question": choice.question})
    return {"type": "button", "text": label, "value": value}


async def post(channel: str, text: str, choices: tuple[Choice, ...] = ()) -> None:
    """Send a message with a button for each choice; try again if Slack does not take it."""
    said = text or "…"
    parts = [said[start : start + SECTION_CHARS] for start in range(0, len(said), SECTION_CHARS)]
    blocks: list[dict[str, Any]] = []
    for part in parts:
        blocks.append({"type": "section", "text": {"type": "plain_text", "text": part}})
    if choices:
        blocks.append({"type": "actions", "elements": [button(choice) for choice in choices]})
    url = os.environ.get("SLACK_API", "https://slack.com/api") + "/chat.postMessage"
    message = {"channel": channel, "text": said, "blocks": blocks}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        for left in reversed(range(POST_TRIES)):
            async with session.post(url, json=message) as reply:
                if reply.ok and (await reply.json(content_type=None)).get("ok"):
                    return
                if not left:
                    raise RuntimeError(
                        f"Slack did not take the message: {reply.status} {await reply.text():.200}"
                    )
                await asyncio.sleep(float(reply.headers.get("Retry-After", "1")))


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
        message = meant(body)
        if message is None:
            return Response()
        thread = message["thread"]
        retry = request.headers.get("x-slack-retry-num")
        if retry is not None:
            if await is_answered(service, BOT, thread, message["request_id"]):
                return Response()  # the first delivery has posted it
            if retry == "1":
                # it is still being answered; Slack asks again in a minute
                return Response(status_code=503)
        try:
            turn = await answer(service, BOT, **message)
        except ConversationConflict as error:
            await post(thread, str(error))
            return Response()
        await post(thread, turn.text, turn.choices)
        return Response()

    return router
