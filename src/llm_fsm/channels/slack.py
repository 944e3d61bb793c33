"""Slack: direct messages by the Events API, and clicks on buttons.

Slack writes `&`, `<` and `>` of a message as entities, and addresses, links and people in angle
brackets. The user typed none of that, so it is undone where a message comes in.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from llm_fsm import Choice
from llm_fsm._json import JsonDict, JsonMap, TextMap, json_text
from llm_fsm.channels.door import Door, IncomingMessage, Message, Messenger, is_hmac, posts, secret
from llm_fsm.channels.fit import BOLD, HEADING, LINK, Limits, MessagePart, rewritten
from llm_fsm.server.service import Service

OLDEST_SECONDS = 300
"""The age of a request that is still taken, so that nobody sends a recorded one again."""
TYPED = (
    (r"<([@#])[^<>|]*\|[@#]?([^<>]+)>", r"\1\2"),  # <@U1|ada>
    (r"<([@#][^<>|]+)\|?>", r"\1"),  # <@U1>
    (r"<!(here|channel|everyone)(?:\|[^<>]*)?>", r"@\1"),
    (r"<[^<>|]*\|([^<>]+)>", r"\1"),  # <mailto:ada@example.org|ada@example.org>
    (r"<(?:mailto:|tel:)?([^<>|]*)\|?>", r"\1"),  # <https://example.org>
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&amp;", "&"),
)
"""What Slack puts around the words of a user, and the words."""
WRITTEN = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    (HEADING, r"*\1*"),
    (BOLD, r"*\1*"),
    (LINK, r"<\2|\1>"),
)
FILES = {"image": "[picture]", "video": "[video]", "audio": "[voice message]"}
"""Types of files to the words that stand for them; any other one is "[file]"."""
SUBTYPES = (None, "file_share", "me_message", "thread_broadcast")
"""The kinds of messages that people write."""


def heard(payload: JsonMap) -> Iterator[IncomingMessage]:
    """Yield the message of an event, or the choice of a click."""
    match payload:
        case {
            "actions": [{"value": str(value), "action_ts": str(moment)}, *_],
            "channel": {"id": str(thread)},
            "user": {"id": str(user)},
        } if value.startswith('{"label"'):
            picked = json.loads(value)
            yield IncomingMessage(thread, picked["label"], moment, user, picked["question"])
        case {
            "event_id": str(request_id),
            "event": {
                "type": "message",
                "subtype": "message_changed",
                "channel": str(thread),
                "message": {"user": str(user), "edited": _} as message,
                "previous_message": {"text": before},
            },
        } if message["text"] != before:
            yield IncomingMessage(thread, words(message), request_id, user)
        case {
            "event_id": str(request_id),
            "event": {"type": "message", "channel": str(thread), "user": str(user)} as message,
        } if message.get("subtype") in SUBTYPES and "bot_id" not in message:
            yield IncomingMessage(thread, words(message), request_id, user)


def words(message: JsonMap) -> str:
    """Return what the user typed, after words for the files beside it."""
    kinds = [file.get("mimetype", "").partition("/")[0] for file in message.get("files", ())]
    files = dict.fromkeys(FILES.get(kind, "[file]") for kind in kinds)
    return " ".join([*files, rewritten(message.get("text", ""), TYPED)]).strip()


def message(thread: str, part: MessagePart) -> Message:
    """Return the call that posts a message."""
    text = {"type": "mrkdwn", "text": part.text, "verbatim": True}
    blocks: list[JsonDict] = [{"type": "section", "text": text}]
    if part.choices:
        blocks.append({"type": "actions", "elements": [button(one) for one in part.choices]})
    return "chat.postMessage", {"channel": thread, "text": part.text, "blocks": blocks}


def button(choice: Choice) -> JsonDict:
    """Return the button of a choice. Its question goes with it, so that an old button answers no
    later question.
    """
    value = json_text({"label": choice.label, "question": choice.question})
    return {"type": "button", "text": {"type": "plain_text", "text": choice.label}, "value": value}


SLACK = Messenger(
    name="slack",
    limits=Limits(text=3000, text_with_buttons=3000, buttons=((25, 75),), mark=1000),
    markup=WRITTEN,
    heard=heard,
    message=message,
    refusals=r"\b(channel_not_found|is_archived|invalid_blocks\w*|msg_too_long|user_not_found)\b",
)


def is_signed(key: str, headers: TextMap, body: bytes) -> bool:
    """Check the signature of a request, and that it is not an old one.

    Args:
        key: The signing secret of the app.
        headers: The headers of the request, in lower case.
        body: The body of the request.
    """
    stamp = headers.get("x-slack-request-timestamp", "")
    if re.fullmatch(r"[0-9]{1,15}", stamp) is None:
        return False
    if abs(time.time() - int(stamp)) > OLDEST_SECONDS:
        return False
    signed = f"v0:{stamp}:".encode() + body
    return is_hmac(key, signed, headers.get("x-slack-signature", "").removeprefix("v0="))


def payload_of(body: bytes) -> Any:
    """Return the JSON document of a request: of an event, or in the form of a click."""
    if body.startswith(b"payload="):
        return json.loads(parse_qs(body.decode())["payload"][0])
    return json.loads(body)


def routes(service: Service) -> APIRouter:
    """Return the routes of this channel. SLACK_SIGNING_SECRET and SLACK_BOT_TOKEN are its secrets.

    Raises:
        ConfigurationError: A secret is empty.
    """
    key, token = secret("SLACK_SIGNING_SECRET"), secret("SLACK_BOT_TOKEN")
    base = os.environ.get("SLACK_API", "https://slack.com/api")
    door = Door(service, SLACK, posts(base, {"Authorization": f"Bearer {token}"}))
    router = APIRouter()

    @router.post("", include_in_schema=False)
    async def event(request: Request) -> Response:
        body = await request.body()
        if not is_signed(key, request.headers, body):
            return Response(status_code=401)
        payload = payload_of(body)
        match payload:
            case {"type": "url_verification", "challenge": str(challenge)}:
                return PlainTextResponse(challenge)
        await door.take(payload)
        return Response()

    return router
