"""The channels of `examples/` answer what Telegram, Slack and WhatsApp send: signatures,
repetitions, buttons.
"""

from __future__ import annotations

import asyncio
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

from llm_fsm import AsyncMachine, Choice
from llm_fsm.server import Limits, create_app
from llm_fsm.server.channels import answer, is_answered
from llm_fsm.server.tokens import Caller, Tokens
from llm_fsm.testing import ScriptedLLM, reply
from paths import ROOT, TESTS
from served import client_at, served

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
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def client_of(
    name: str, limits: Limits | None = None
) -> Iterator[tuple[httpx.Client, ScriptedLLM]]:
    model = ScriptedLLM([reply("place", "Inside or outside?")] * 4)
    machine = AsyncMachine.from_dict(TABLE, model=model)
    channels = {name: module_of(name).routes}
    app = create_app(
        machine, closes=True, due_seconds=None, tokens=Tokens(), channels=channels, limits=limits
    )
    with served(app) as url, client_at(url) as client:
        yield client, model


def asked(model: ScriptedLLM) -> int:
    return len(model.requests)


def test_telegram_gets_answers_once_and_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram") as (client, model):

        def send(update: Any, secret: str = "s3cret") -> httpx.Response:
            headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
            return client.post("/channels/telegram", json=update, headers=headers)

        assert send(recorded("telegram_message"), "wrong").status_code == 401
        assert (
            client.post("/channels/telegram", json=recorded("telegram_message")).status_code == 401
        )
        first = send(recorded("telegram_message")).json()
        assert (first["method"], first["chat_id"], first["text"]) == (
            "sendMessage",
            1111111,
            "Inside or outside?",
        )
        assert first["reply_markup"]["keyboard"] == [[{"text": "Inside"}], [{"text": "Outside"}]]
        assert send(recorded("telegram_message")).json()["text"] == first["text"], "delivered again"
        assert asked(model) == 1
        assert send(recorded("telegram_sticker")).content == b""
        click = recorded("telegram_message")
        click["update_id"], click["message"]["text"] = 10002, "Outside"
        assert send(click).json()["text"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"
        assert send(click).json()["text"] == "Outside it is.", "delivered again after the end"
        next_one = recorded("telegram_message")
        next_one["update_id"] = 10003
        assert send(next_one).json()["text"] == "Inside or outside?", "the next conversation begins"
        assert send(next_one).json()["text"] == "Inside or outside?"
        assert asked(model) == 2
        opened = recorded("telegram_message")
        opened["update_id"], opened["message"]["text"] = 10004, "/start"
        assert send(opened).json()["text"] == "Inside or outside?"
        assert "Hello" in model.requests[-1].messages[-1].content


SECRETS = (
    "TELEGRAM_SECRET",
    "SLACK_SIGNING_SECRET",
    "SLACK_BOT_TOKEN",
    "WHATSAPP_APP_SECRET",
    "WHATSAPP_VERIFY_TOKEN",
    "WHATSAPP_TOKEN",
)


@pytest.mark.parametrize("name", ["telegram", "slack", "whatsapp"])
def test_a_channel_with_an_empty_secret_does_not_start(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in SECRETS:
        monkeypatch.setenv(variable, "")
    with pytest.raises(ValueError, match="is empty"):
        module_of(name)


def test_the_rate_counts_for_each_chat_and_not_for_what_nobody_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram", Limits(messages_per_minute=1)) as (client, _):

        def send(chat: int, secret: str) -> int:
            update = recorded("telegram_message")
            update["message"]["chat"]["id"] = chat
            headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
            return client.post("/channels/telegram", json=update, headers=headers).status_code

        assert {send(1, "forged") for _ in range(10)} == {401}
        assert [send(1, "s3cret"), send(1, "s3cret"), send(2, "s3cret")] == [200, 429, 200]


class Messenger(BaseHTTPRequestHandler):
    """The API of a messenger, as far as the channels call it. It refuses the first `refuses`
    messages.
    """

    posted: list[Any]
    refuses: int

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        message = json.loads(self.rfile.read(size))
        if type(self).refuses:
            type(self).refuses -= 1
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        type(self).posted.append((self.path, self.headers["Authorization"], message))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def messenger() -> Iterator[str]:
    Messenger.posted = []
    Messenger.refuses = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Messenger)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def slack(messenger: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("SLACK_API", messenger)
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "8f742231b10e8888abcd99yyyzzz85a5")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    return Messenger.posted


@pytest.fixture
def whatsapp(messenger: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("WHATSAPP_API", messenger)
    monkeypatch.setenv("WHATSAPP_APP_SECRET", "app secret")
    monkeypatch.setenv("WHATSAPP_VERIFY_TOKEN", "chosen by us")
    monkeypatch.setenv("WHATSAPP_TOKEN", "EAAG")
    return Messenger.posted


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
    assert (
        signature("1531420618", body)
        == "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    )


def test_slack_gets_answers_once_and_buttons(slack: list[Any]) -> None:
    with client_of("slack") as (client, model):

        def send(body: bytes, stamp: str | None = None, **more: str) -> httpx.Response:
            stamp = stamp or str(int(time.time()))
            headers = {
                "X-Slack-Request-Timestamp": stamp,
                "X-Slack-Signature": signature(stamp, body),
                **more,
            }
            return client.post("/channels/slack", content=body, headers=headers)

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
        buttons = [json.loads(button["value"]) for button in posted["blocks"][1]["elements"]]
        assert [button["label"] for button in buttons] == ["Inside", "Outside"]
        for reason in ("http_timeout", "http_error"):
            again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": reason}
            assert send(message, **again).status_code == 200
        assert send(json.dumps(recorded("slack_own_message")).encode()).status_code == 200
        assert len(slack) == 1, "an answered event is posted once"
        assert asked(model) == 1
        pressed = recorded("slack_click")
        pressed["actions"][0]["value"] = json.dumps(buttons[1])
        click = urlencode({"payload": json.dumps(pressed)}).encode()
        assert (
            send(click, **{"Content-Type": "application/x-www-form-urlencoded"}).status_code == 200
        )
        assert slack[1][2]["text"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"


def test_a_button_of_an_earlier_question_answers_no_later_one(slack: list[Any]) -> None:
    with client_of("slack") as (client, _):

        def send(body: bytes) -> httpx.Response:
            stamp = str(int(time.time()))
            headers = {
                "X-Slack-Request-Timestamp": stamp,
                "X-Slack-Signature": signature(stamp, body),
            }
            return client.post("/channels/slack", content=body, headers=headers)

        send(json.dumps(recorded("slack_message")).encode())
        old = recorded("slack_click")
        old["actions"][0]["value"] = json.dumps(
            {"label": "Outside", "question": "main/weather/place"}
        )
        assert send(urlencode({"payload": json.dumps(old)}).encode()).status_code == 200
        assert "no longer open" in slack[-1][2]["text"]


def test_slack_repeats_an_event_that_is_still_being_answered_in_a_minute(slack: list[Any]) -> None:
    with client_of("slack") as (client, model):

        def repeat(number: int) -> int:
            body = json.dumps(recorded("slack_message")).encode()
            stamp = str(int(time.time()))
            headers = {
                "X-Slack-Request-Timestamp": stamp,
                "X-Slack-Signature": signature(stamp, body),
            }
            headers["X-Slack-Retry-Num"] = str(number)
            return client.post("/channels/slack", content=body, headers=headers).status_code

        assert repeat(1) == 503
        assert (asked(model), slack) == (0, [])
        assert repeat(2) == 200, "the first delivery was lost, so this one is played"
        assert repeat(3) == 200
        assert (asked(model), len(slack)) == (1, 1)


def test_a_message_that_slack_does_not_take_is_posted_again(slack: list[Any]) -> None:
    Messenger.refuses = 2
    with client_of("slack") as (client, _):
        body = json.dumps(recorded("slack_message")).encode()
        stamp = str(int(time.time()))
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature(stamp, body)}
        assert client.post("/channels/slack", content=body, headers=headers).status_code == 200
        assert [posted["text"] for _, _, posted in slack] == ["Inside or outside?"]


def test_whatsapp_gets_answers_once_and_buttons(whatsapp: list[Any]) -> None:
    with client_of("whatsapp") as (client, model):

        def send(document: Any, secret: bytes = b"app secret") -> int:
            body = json.dumps(document).encode()
            signed = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
            headers = {"X-Hub-Signature-256": signed, "Content-Type": "application/json"}
            return client.post("/channels/whatsapp", content=body, headers=headers).status_code

        message = recorded("whatsapp_message")
        assert send(message, b"another") == 401
        assert client.post("/channels/whatsapp", json=message).status_code == 401
        assert send(message) == 200
        path, token, posted = whatsapp[0]
        assert (path, token) == ("/api/106540352242922/messages", "Bearer EAAG")
        assert (posted["to"], posted["interactive"]["body"]["text"]) == (
            "16505551234",
            "Inside or outside?",
        )
        buttons = [one["reply"] for one in posted["interactive"]["action"]["buttons"]]
        assert [one["title"] for one in buttons] == ["Inside", "Outside"]
        assert send(message) == 200, "delivered again"
        assert asked(model) == 1
        assert send(recorded("whatsapp_receipt")) == 200
        assert send(recorded("whatsapp_picture")) == 200
        click = recorded("whatsapp_click")
        said = click["entry"][0]["changes"][0]["value"]["messages"][0]["interactive"]
        said["button_reply"]["id"] = buttons[1]["id"]
        assert send(click) == 200
        assert whatsapp[-1][2]["text"]["body"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"


def test_an_answer_that_whatsapp_does_not_take_is_sent_with_the_next_delivery(
    whatsapp: list[Any],
) -> None:
    Messenger.refuses = 1
    with client_of("whatsapp") as (client, model):
        body = json.dumps(recorded("whatsapp_message")).encode()
        signed = "sha256=" + hmac.new(b"app secret", body, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature-256": signed}
        assert client.post("/channels/whatsapp", content=body, headers=headers).status_code == 503
        assert client.post("/channels/whatsapp", content=body, headers=headers).status_code == 200
        assert (len(whatsapp), asked(model)) == (1, 1)


def test_the_address_of_whatsapp_is_verified_by_the_token(whatsapp: list[Any]) -> None:
    asked_by_meta = {
        "hub.mode": "subscribe",
        "hub.challenge": "1158201444",
        "hub.verify_token": "chosen by us",
    }
    with client_of("whatsapp") as (client, _):
        assert client.get("/channels/whatsapp", params=asked_by_meta).text == "1158201444"
        wrong = {**asked_by_meta, "hub.verify_token": "another"}
        assert client.get("/channels/whatsapp", params=wrong).status_code == 403


def test_whatsapp_shows_more_choices_as_a_list_and_many_as_words(whatsapp: list[Any]) -> None:
    module = module_of("whatsapp")
    choices = [Choice(f"Table {number}", number, "main/place/place") for number in range(11)]
    four = module.content("Which one?", tuple(choices[:4]))["interactive"]
    assert [row["title"] for row in four["action"]["sections"][0]["rows"]] == [
        f"Table {n}" for n in range(4)
    ]
    assert module.content("Which one?", tuple(choices)) == {
        "type": "text",
        "text": {"body": "Which one?"},
    }


@pytest.mark.parametrize("body", [b"{", b"[1]", b"payload=x", b'{"event": {"type": "message"}}'])
def test_what_a_channel_cannot_read_is_no_fault_of_the_server(
    slack: list[Any], body: bytes
) -> None:
    with client_of("slack") as (client, _):
        stamp = str(int(time.time()))
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature(stamp, body)}
        answer = client.post("/channels/slack", content=body, headers=headers)
        assert answer.status_code in (422, 503)
        assert (
            client.post("/channels/slack", headers={**headers, "X-Slack-Signature": ""}).status_code
            == 401
        )
        endless = {"X-Slack-Request-Timestamp": "9" * 5_000, "X-Slack-Signature": "v0=00"}
        assert client.post("/channels/slack", content=body, headers=endless).status_code == 401


def test_nothing_else_is_open_without_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    with client_of("telegram") as (client, _):
        assert client.get("/conversations").status_code == 401
        assert client.get("/channels/telegram/../../conversations").status_code == 401
        assert client.get("/channels/nothing").status_code == 404


def test_a_message_that_comes_again_after_an_end_is_answered_once() -> None:
    desk = Caller(name="desk", prefix="desk~")

    async def play() -> None:
        model = ScriptedLLM([reply("place", "Inside or outside?")])
        machine = AsyncMachine.from_dict(TABLE, model=model)
        service = create_app(machine).service
        first = await answer(service, desk, "chat", "Inside", "m1")
        assert first.ended
        assert not (await answer(service, desk, "chat", "Hello", "m2")).ended
        again = await answer(service, desk, "chat", "Inside", "m1")
        assert (again.number, again.text) == (first.number, first.text)
        assert await is_answered(service, desk, "chat", "m1")
        assert (await answer(service, desk, "chat", "Outside", "m3")).ended
        assert (await answer(service, desk, "chat", "Inside", "m4")).text == "Inside it is."
        [line] = await machine.conversations()
        assert line.conversation_id == "desk~chat"
        assert asked(model) == 1

    asyncio.run(play())
