"""A client of pywa receives and sends: messages, repetitions and receipts."""

from __future__ import annotations

import hashlib
import hmac
import json
import runpy

import httpx
import pytest
from fastapi import FastAPI
from pywa_async import WhatsApp

from messengers import Api, api, asked, eventually, recorded, service
from paths import ROOT

__all__ = ["api"]
listen = runpy.run_path(str(ROOT / "examples" / "whatsapp" / "with_pywa.py"))["listen"]
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_client_of_pywa_answers_messages_once(api: type[Api]) -> None:
    app = FastAPI()
    session = httpx.AsyncClient()
    settings = {"token": "t", "verify_token": "v", "app_secret": "a"}
    client = WhatsApp(phone_id="1", server=app, session=session, **settings)
    client.api._session.base_url = api.address
    found, model = service()
    listen(client, found)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as meta:
        for name in ("message", "message", "receipt"):
            body = json.dumps(recorded(f"whatsapp_{name}")).encode()
            signed = "sha256=" + hmac.new(b"a", body, hashlib.sha256).hexdigest()
            answer = await meta.post("/", content=body, headers={"X-Hub-Signature-256": signed})
            assert answer.status_code == 200
    await eventually(lambda: bool(api.posted))
    [(path, posted)] = api.posted
    assert path == "/106540352242922/messages"
    assert posted["interactive"]["body"]["text"] == "Inside or outside?"
    assert asked(model) == 1
