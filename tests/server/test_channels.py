"""The channels of `examples/` answer what Telegram and Slack send: signatures, repetitions, buttons."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from llm_fsm.server.tokens import Tokens
from llm_fsm.testing import ScriptedLLM, reply
from paths import ROOT, TESTS
from served import served

TABLE: dict[str, Any] = {
    "name": "table",
    "initial_state": "place",
    "context_schema": {"properties": {"place": {"enum": ["Inside", "Outside"]}}},
    "states": {
        "place": {
            "purpose": "Ask where the guest wants to sit",
            "required_context_keys": ["place"],
            "transitions": [{"target_state": "done", "description": "The place is known", "auto": True,
                             "conditions": [{"requires_context_keys": ["place"]}]}],
        },
        "done": {"purpose": "End", "kind": "final", "reply": "{{ place }} it is."},
    },
}  # fmt: skip


def recorded(name: str) -> Any:
    return json.loads((TESTS / "data" / "channels" / f"{name}.json").read_text("utf-8"))


def module_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def client_of(name: str, limits: Limits | None = None) -> Iterator[tuple[httpx.Client, ScriptedLLM]]:
    model = ScriptedLLM([reply("place", "Inside or outside?")] * 3)
    machine = AsyncMachine.from_dict(TABLE, model=model)
    channels = {name: module_of(name).routes}
    app = create_app(
        machine, closes=True, due_seconds=None, tokens=Tokens(), channels=channels, limits=limits
    )
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield client, model


def asked(model: ScriptedLLM) -> int:
    return len(model.requests)


def test_telegram_gets_answers_once_and_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram_channel") as (client, model):

        def send(update: Any, secret: str = "s3cret") -> httpx.Response:
            headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
            return client.post("/channels/telegram_channel", json=update, headers=headers)

        assert send(recorded("telegram_message"), "wrong").status_code == 401
        assert client.post("/channels/telegram_channel", json=recorded("telegram_message")).status_code == 401
        first = send(recorded("telegram_message")).json()
        assert (first["method"], first["chat_id"], first["text"]) == ("sendMessage", 1111111, "Inside or outside?")
        assert first["reply_markup"]["keyboard"] == [[{"text": "Inside"}], [{"text": "Outside"}]]
        assert send(recorded("telegram_message")).json()["text"] == first["text"], "delivered again"
        assert asked(model) == 1
        assert send(recorded("telegram_sticker")).content == b""
        click = recorded("telegram_message")
        click["update_id"], click["message"]["text"] = 10002, "Outside"
        assert send(click).json()["text"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"
        late = {**click, "update_id": 10003}
        assert "ended" in send(late).json()["text"]


@pytest.mark.parametrize("name", ["telegram_channel", "slack_channel"])
def test_a_channel_with_an_empty_secret_does_not_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TELEGRAM_SECRET", "SLACK_SIGNING_SECRET", "SLACK_BOT_TOKEN"):
        monkeypatch.setenv(variable, "")
    with pytest.raises(ValueError, match="is empty"):
        module_of(name)


def test_the_rate_counts_for_each_chat_and_not_for_what_nobody_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram_channel", Limits(messages_per_minute=1)) as (client, _):

        def send(chat: int, secret: str) -> int:
            update = recorded("telegram_message")
            update["message"]["chat"]["id"] = chat
            headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
            return client.post("/channels/telegram_channel", json=update, headers=headers).status_code

        assert {send(1, "forged") for _ in range(10)} == {401}
        assert [send(1, "s3cret"), send(1, "s3cret"), send(2, "s3cret")] == [200, 429, 200]


class Slack(BaseHTTPRequestHandler):
    """The Web API of Slack, as far as the channel calls it."""

    posted: list[Any]

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        type(self).posted.append((self.path, self.headers["Authorization"], json.loads(self.rfile.read(size))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    Slack.posted = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slack)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SLACK_API", f"http://127.0.0.1:{server.server_port}/api")
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "8f742231b10e8888abcd99yyyzzz85a5")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    yield Slack.posted
    server.shutdown()
    thread.join()
    server.server_close()


def signature(stamp: str, body: bytes) -> str:
    secret = b"8f742231b10e8888abcd99yyyzzz85a5"
    return "v0=" + hmac.new(secret, f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()


def test_the_signature_is_the_one_of_slacks_documentation(slack: list[Any]) -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    assert signature("1531420618", body) == "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


def test_slack_gets_answers_once_and_buttons(slack: list[Any]) -> None:
    with client_of("slack_channel") as (client, model):

        def send(body: bytes, stamp: str | None = None, **more: str) -> httpx.Response:
            stamp = stamp or str(int(time.time()))
            headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature(stamp, body), **more}
            return client.post("/channels/slack_channel", content=body, headers=headers)

        message = json.dumps(recorded("slack_message")).encode()
        check = recorded("slack_verification")
        assert send(json.dumps(check).encode()).text == check["challenge"]
        assert send(message, stamp=str(int(time.time()) - 301)).status_code == 401, "an old request"
        assert send(message, **{"X-Slack-Signature": "v0=00"}).status_code == 401
        assert slack == []
        assert send(message).status_code == 200
        path, token, posted = slack[0]
        assert (path, token) == ("/api/chat.postMessage", "Bearer xoxb-1")
        assert (posted["channel"], posted["text"]) == ("D123ABC456", "Inside or outside?")
        assert [button["value"] for button in posted["blocks"][1]["elements"]] == ["Inside", "Outside"]
        again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
        assert send(message, **again).status_code == 200
        assert send(json.dumps(recorded("slack_own_message")).encode()).status_code == 200
        assert len(slack) == 1
        assert send(message, **{**again, "X-Slack-Retry-Reason": "connection_failed"}).status_code == 200
        assert slack[1] == slack[0]
        assert asked(model) == 1
        click = urlencode({"payload": json.dumps(recorded("slack_click"))}).encode()
        assert send(click, **{"Content-Type": "application/x-www-form-urlencoded"}).status_code == 200
        assert slack[2][2]["text"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"


@pytest.mark.parametrize("body", [b"{", b"[1]", b"payload=x", b'{"event": {"type": "message"}}'])
def test_what_a_channel_cannot_read_is_no_fault_of_the_server(slack: list[Any], body: bytes) -> None:
    with client_of("slack_channel") as (client, _):
        stamp = str(int(time.time()))
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature(stamp, body)}
        answer = client.post("/channels/slack_channel", content=body, headers=headers)
        assert answer.status_code in (422, 503)
        assert client.post("/channels/slack_channel", headers={**headers, "X-Slack-Signature": ""}).status_code == 401
        endless = {"X-Slack-Request-Timestamp": "9" * 5_000, "X-Slack-Signature": "v0=00"}
        assert client.post("/channels/slack_channel", content=body, headers=endless).status_code == 401


def test_nothing_else_is_open_without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram_channel") as (client, _):
        assert client.get("/conversations").status_code == 401
        assert client.get("/channels/telegram_channel/../../conversations").status_code == 401
        assert client.get("/channels/nothing").status_code == 404
