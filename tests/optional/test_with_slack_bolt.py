"""An app of slack-bolt receives, and its client posts: events, repetitions and clicks."""

from __future__ import annotations

import hashlib
import hmac
import json
import runpy
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from messengers import Api, api, asked, recorded, service
from paths import ROOT

__all__ = ["api"]
listen = runpy.run_path(str(ROOT / "examples" / "slack" / "with_slack_bolt.py"))["listen"]
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def sent(app: AsyncApp, body: str, kind: str) -> int:
    stamp = str(int(time.time()))
    signed = hmac.new(b"s", f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={signed}",
        "content-type": kind,
    }
    status: int = (await app.async_dispatch(AsyncBoltRequest(body=body, headers=headers))).status
    return status


async def test_an_app_of_slack_bolt_answers_events_and_clicks_once(api: type[Api]) -> None:
    client = AsyncWebClient(token="xoxb-1", base_url=f"{api.address}/api/")
    app = AsyncApp(client=client, signing_secret="s", process_before_response=True)
    found, model = service()
    listen(app, found)
    event = json.dumps(recorded("slack_message"))
    for _ in range(3):
        assert await sent(app, event, "application/json") == 200
    [(path, posted)] = api.posted
    assert (path, posted["text"]) == ("/api/chat.postMessage", "Inside or outside?")
    click: Any = recorded("slack_click")
    click["actions"][0]["value"] = posted["blocks"][1]["elements"][1]["value"]
    form = urlencode({"payload": json.dumps(click)})
    assert await sent(app, form, "application/x-www-form-urlencoded") == 200
    assert [body["text"] for _, body in api.posted[1:]] == ["Outside it is."]
    assert asked(model) == 1
