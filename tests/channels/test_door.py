"""Messengers send events, clicks and repetitions: each is played once, and each answer arrives
once, whatever the messenger refuses.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from llm_fsm import AsyncMachine, ConfigurationError
from llm_fsm.channels import slack, telegram, whatsapp
from llm_fsm.server import Limits, create_app
from llm_fsm.server.app import Channel
from llm_fsm.server.tokens import Tokens
from llm_fsm.testing import ScriptedLLM, reply
from messengers import TABLE
from paths import TESTS
from served import served

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "talk",
    "states": {
        "talk": {"purpose": "How can I help you?",
                 "transitions": [{"target_state": "human", "description": "The customer wants a person"}]},
        "human": {"kind": "wait", "wait_for": "colleague", "messages": "record",
                  "reply": "A colleague will be with you.", "transitions": [{"target_state": "bye"}]},
        "bye": {"kind": "final", "reply": "Goodbye."},
    },
}  # fmt: skip
TALK: dict[str, Any] = {
    "name": "talk",
    "initial_state": "talk",
    "states": {
        "talk": {"purpose": "Talk", "transitions": [{"target_state": "bye", "description": "The user leaves"}]},
        "bye": {"kind": "final", "reply": "Bye."},
    },
}  # fmt: skip
ROUTES: dict[str, Channel] = {
    "slack": slack.routes,
    "telegram": telegram.routes,
    "whatsapp": whatsapp.routes,
}
SECRETS = {
    "SLACK_SIGNING_SECRET": "8f742231b10e8888abcd99yyyzzz85a5",
    "SLACK_BOT_TOKEN": "xoxb-1",
    "TELEGRAM_SECRET": "s3cret",
    "WHATSAPP_APP_SECRET": "app secret",
    "WHATSAPP_VERIFY_TOKEN": "chosen by us",
    "WHATSAPP_TOKEN": "EAAG",
}


def recorded(name: str) -> Any:
    return json.loads((TESTS / "data" / "channels" / f"{name}.json").read_text("utf-8"))


class Api(BaseHTTPRequestHandler):
    """The API of a messenger, as far as channels call it. `refuses` has what it answers instead of
    success, the next first.
    """

    posted: list[Any]
    refuses: list[tuple[int, Any]]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, {"ok": True}
        if type(self).refuses:
            status, answer = type(self).refuses.pop(0)
        if (status, answer) == (200, {"ok": True}):
            type(self).posted.append((self.path, self.headers["Authorization"], message))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Api]]:
    Api.posted, Api.refuses = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/api"
    for name in ("SLACK_API", "TELEGRAM_API", "WHATSAPP_API"):
        monkeypatch.setenv(name, address)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TELEGRAM_TOKEN", raising=False)
    yield Api
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def client_of(
    name: str,
    document: Any = TABLE,
    words: list[Any] | None = None,
    limits: Limits | None = None,
    **settings: Any,
) -> Iterator[tuple[httpx.Client, ScriptedLLM]]:
    model = ScriptedLLM(words or [reply("place", "Inside or outside?")] * 4)
    machine = AsyncMachine.from_dict(document, model=model, **settings)
    app = create_app(
        machine,
        closes=True,
        due_seconds=0.1,
        tokens=Tokens(),
        channels={name: ROUTES[name]},
        limits=limits,
    )
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield client, model


def asked(model: ScriptedLLM) -> int:
    return len(model.requests)


def signature(stamp: str, body: bytes) -> str:
    key = SECRETS["SLACK_SIGNING_SECRET"].encode()
    return "v0=" + hmac.new(key, f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()


def by_slack(
    client: httpx.Client, payload: Any, stamp: str | None = None, **more: str
) -> httpx.Response:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    stamp = stamp or str(int(time.time()))
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature(stamp, body)}
    return client.post("/channels/slack", content=body, headers={**headers, **more})


def by_telegram(client: httpx.Client, update: Any, key: str = "s3cret") -> httpx.Response:
    headers = {"X-Telegram-Bot-Api-Secret-Token": key}
    return client.post("/channels/telegram", json=update, headers=headers)


def by_whatsapp(client: httpx.Client, payload: Any, key: bytes = b"app secret") -> httpx.Response:
    body = json.dumps(payload).encode()
    signed = "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
    return client.post("/channels/whatsapp", content=body, headers={"X-Hub-Signature-256": signed})


def said_by_slack(text: str, event_id: str) -> Any:
    payload = recorded("slack_message")
    payload["event_id"], payload["event"]["text"] = event_id, text
    return payload


def said_by_telegram(text: str, number: int) -> Any:
    update = recorded("telegram_message")
    update["update_id"], update["message"]["text"] = number, text
    return update


def said_by_whatsapp(*texts: str, first: str = "wamid.") -> Any:
    payload = recorded("whatsapp_message")
    value = payload["entry"][0]["changes"][0]["value"]
    [message] = value["messages"]
    value["messages"] = [
        {**message, "id": f"{first}{number}", "text": {"body": text}}
        for number, text in enumerate(texts)
    ]
    return payload


def texts_of(api: type[Api]) -> list[str]:
    """The words that the messenger took."""
    found = []
    for _, _, body in api.posted:
        if "interactive" in body:
            found.append(body["interactive"]["body"]["text"])
        else:
            found.append(body["text"] if isinstance(body["text"], str) else body["text"]["body"])
    return found


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- who sends


def test_the_signature_is_the_one_of_slacks_documentation() -> None:
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


def test_nobody_else_can_send(api: type[Api]) -> None:
    with client_of("slack") as (client, model):
        message = recorded("slack_message")
        old = str(int(time.time()) - 301)
        assert by_slack(client, message, stamp=old).status_code == 401
        assert by_slack(client, message, **{"X-Slack-Signature": "v0=00"}).status_code == 401
        assert by_slack(client, message, stamp="9" * 5_000).status_code == 401
        assert by_slack(client, message, stamp="x").status_code == 401
    with client_of("telegram") as (client, model):
        assert by_telegram(client, recorded("telegram_message"), "wrong").status_code == 401
        assert client.post("/channels/telegram", json={}).status_code == 401
    with client_of("whatsapp") as (client, model):
        message = recorded("whatsapp_message")
        assert by_whatsapp(client, message, b"another").status_code == 401
        assert client.post("/channels/whatsapp", json=message).status_code == 401
    assert (asked(model), api.posted) == (0, [])


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("telegram", "TELEGRAM_SECRET"),
        ("slack", "SLACK_SIGNING_SECRET"),
        ("slack", "SLACK_BOT_TOKEN"),
        ("whatsapp", "WHATSAPP_APP_SECRET"),
        ("whatsapp", "WHATSAPP_VERIFY_TOKEN"),
    ],
)
def test_a_channel_without_a_secret_does_not_start(
    api: type[Api], name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(missing, "")
    machine = AsyncMachine.from_dict(TABLE, model="offline")
    with pytest.raises(ConfigurationError, match=f"{missing} is empty"):
        create_app(machine, channels={name: ROUTES[name]})


def test_the_address_of_whatsapp_is_verified_by_the_token(api: type[Api]) -> None:
    asked_by_meta = {
        "hub.mode": "subscribe",
        "hub.challenge": "1158201444",
        "hub.verify_token": "chosen by us",
    }
    with client_of("whatsapp") as (client, _):
        assert client.get("/channels/whatsapp", params=asked_by_meta).text == "1158201444"
        wrong = {**asked_by_meta, "hub.verify_token": "another"}
        assert client.get("/channels/whatsapp", params=wrong).status_code == 403


def test_the_rate_counts_for_each_chat_and_not_for_what_nobody_signed(api: type[Api]) -> None:
    with client_of("telegram", limits=Limits(messages_per_minute=1)) as (client, _):

        def send(chat: int, key: str) -> int:
            update = recorded("telegram_message")
            update["message"]["chat"]["id"] = chat
            return by_telegram(client, update, key).status_code

        assert {send(1, "forged") for _ in range(10)} == {401}
        assert [send(1, "s3cret"), send(1, "s3cret"), send(2, "s3cret")] == [200, 429, 200]


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b"payload=x", b'{"event": {"type": "message"}}', b'{"entry": 1}', b"7"]
)
def test_what_a_channel_cannot_read_is_no_fault_of_the_server(api: type[Api], body: bytes) -> None:
    with client_of("slack") as (client, model):
        assert by_slack(client, body).status_code in (200, 422, 503)
        assert asked(model) == 0


# -- what they get


def test_slack_gets_answers_once_and_buttons(api: type[Api]) -> None:
    with client_of("slack") as (client, model):
        check = recorded("slack_verification")
        assert by_slack(client, check).text == check["challenge"]
        assert by_slack(client, recorded("slack_message")).status_code == 200
        path, token, posted = api.posted[0]
        assert (path, token) == ("/api/chat.postMessage", "Bearer xoxb-1")
        assert (posted["channel"], posted["text"]) == ("D123ABC456", "Inside or outside?")
        buttons = [json.loads(button["value"]) for button in posted["blocks"][1]["elements"]]
        assert [button["label"] for button in buttons] == ["Inside", "Outside"]
        for number in ("1", "2"):
            again = {"X-Slack-Retry-Num": number, "X-Slack-Retry-Reason": "http_timeout"}
            assert by_slack(client, recorded("slack_message"), **again).status_code == 200
        assert by_slack(client, recorded("slack_own_message")).status_code == 200
        assert (len(api.posted), asked(model)) == (1, 1)
        pressed = recorded("slack_click")
        pressed["actions"][0]["value"] = json.dumps(buttons[1])
        click = urlencode({"payload": json.dumps(pressed)}).encode()
        assert by_slack(client, click).status_code == 200
        assert texts_of(api)[1] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"


def test_a_button_of_an_earlier_question_answers_no_later_one(api: type[Api]) -> None:
    with client_of("slack") as (client, _):
        by_slack(client, recorded("slack_message"))
        old = recorded("slack_click")
        gone = {"label": "Outside", "question": "main/weather/place"}
        old["actions"][0]["value"] = json.dumps(gone)
        click = urlencode({"payload": json.dumps(old)}).encode()
        assert by_slack(client, click).status_code == 200
        assert "no longer open" in texts_of(api)[-1]


def test_telegram_gets_the_answer_as_the_response(api: type[Api]) -> None:
    with client_of("telegram") as (client, model):
        first = by_telegram(client, recorded("telegram_message")).json()
        assert (first["method"], first["chat_id"]) == ("sendMessage", 1111111)
        assert first["text"] == "Inside or outside?"
        assert first["reply_markup"]["keyboard"] == [[{"text": "Inside"}], [{"text": "Outside"}]]
        again = by_telegram(client, recorded("telegram_message")).json()
        assert (again["text"], asked(model)) == (first["text"], 1)
        assert by_telegram(client, recorded("telegram_sticker")).content == b""
        click = said_by_telegram("Outside", 10002)
        assert by_telegram(client, click).json()["text"] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"
        assert by_telegram(client, click).json()["text"] == "Outside it is.", "again, after the end"
        assert by_telegram(client, said_by_telegram("Hi", 10003)).json()["text"] == first["text"]
        assert by_telegram(client, click).json()["text"] == "Outside it is.", "again, much later"
        assert asked(model) == 2
        by_telegram(client, said_by_telegram("/start", 10004))
        assert "Hello" in model.requests[-1].messages[-1].content
    assert api.posted == []


def test_telegram_gets_each_part_of_a_long_answer_with_the_token_of_the_bot(
    api: type[Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "123:abc")
    long = "A sentence. " * 400 + "Inside or outside?"
    with client_of("telegram", words=[reply("place", long)]) as (client, _):
        api.refuses = [(200, {"ok": True}), (502, {"ok": False})]
        assert by_telegram(client, recorded("telegram_message")).status_code == 503
        eventually(lambda: len(api.posted) == 2)
    assert "".join(texts_of(api)).replace(" ", "") == long.replace(" ", "")
    path, _, body = api.posted[-1]
    assert (path, body["chat_id"]) == ("/api/bot123:abc/sendMessage", 1111111)
    assert body["text"].endswith("Inside or outside?")
    assert len(body["reply_markup"]["keyboard"]) == 2


def test_whatsapp_gets_answers_once_and_buttons(api: type[Api]) -> None:
    with client_of("whatsapp") as (client, model):
        message = recorded("whatsapp_message")
        assert by_whatsapp(client, message).status_code == 200
        path, token, posted = api.posted[0]
        assert (path, token) == ("/api/106540352242922/messages", "Bearer EAAG")
        assert (posted["to"], texts_of(api)) == ("16505551234", ["Inside or outside?"])
        buttons = [one["reply"] for one in posted["interactive"]["action"]["buttons"]]
        assert [one["title"] for one in buttons] == ["Inside", "Outside"]
        assert by_whatsapp(client, message).status_code == 200, "delivered again"
        assert by_whatsapp(client, recorded("whatsapp_receipt")).status_code == 200
        assert (asked(model), len(api.posted)) == (1, 1)
        click = recorded("whatsapp_click")
        said = click["entry"][0]["changes"][0]["value"]["messages"][0]["interactive"]
        said["button_reply"]["id"] = buttons[1]["id"]
        assert by_whatsapp(client, click).status_code == 200
        assert texts_of(api)[-1] == "Outside it is."
        assert asked(model) == 1, "a click needs no model"
        assert by_whatsapp(client, recorded("whatsapp_picture")).status_code == 200
        assert model.requests[-1].messages[-1].content.count("[picture]") == 1


# -- never lost, never twice

FAILURES = [(500, {"ok": False}), (503, {}), (429, {"ok": False}), (200, {"ok": False}), (401, {})]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_an_answer_that_was_refused_is_posted_when_the_message_comes_again(
    api: type[Api], failure: tuple[int, Any]
) -> None:
    message = recorded("slack_message")
    with client_of("slack") as (client, model):
        api.refuses = [failure] * 3
        answers = [by_slack(client, message).status_code for _ in range(6)]
        assert answers == [503, 503, 503, 200, 200, 200]
        assert (texts_of(api), asked(model)) == (["Inside or outside?"], 1)


def test_an_answer_that_was_refused_is_posted_though_the_message_comes_no_more(
    api: type[Api],
) -> None:
    with client_of("slack") as (client, model):
        api.refuses = [(500, {}), (500, {})]
        assert by_slack(client, recorded("slack_message")).status_code == 503
        eventually(lambda: len(api.posted) == 1)
        assert (texts_of(api), asked(model)) == (["Inside or outside?"], 1)


def test_of_two_answers_only_the_refused_one_is_posted_again(api: type[Api]) -> None:
    words = [reply("talk", text) for text in ("One", "Two", "Three")]
    both = said_by_whatsapp("hi", "there")
    with client_of("whatsapp", TALK, words) as (client, _):
        api.refuses = [(200, {"ok": True}), (500, {})]
        assert by_whatsapp(client, both).status_code == 503
        assert by_whatsapp(client, both).status_code == 200
        assert by_whatsapp(client, both).status_code == 200
        assert texts_of(api) == ["One", "Two"]


def test_a_message_that_comes_twice_at_once_is_answered_once(api: type[Api]) -> None:
    words = [reply("talk", text) for text in ("One", "Two", "Three")]
    with client_of("whatsapp", TALK, words) as (client, model), ThreadPoolExecutor(5) as pool:
        payload = said_by_whatsapp("hi")
        answers = list(pool.map(lambda _: by_whatsapp(client, payload).status_code, range(5)))
        assert (answers, texts_of(api), asked(model)) == ([200] * 5, ["One"], 1)


def test_an_answer_outlives_the_process(api: type[Api], tmp_path: Path) -> None:
    words = [reply("talk", "One"), reply("talk", "Two")]
    store = f"sqlite:///{tmp_path / 'chats.db'}"
    with client_of("slack", TALK, words, store=store) as (client, _):
        api.refuses = [(500, {})] * 1000
        assert by_slack(client, said_by_slack("hi", "E1")).status_code == 503
    assert api.posted == []
    api.refuses = []
    with client_of("slack", TALK, words, store=store) as (client, _):
        eventually(lambda: bool(api.posted))
        assert by_slack(client, said_by_slack("hi", "E1")).status_code == 200
        assert texts_of(api) == ["One"]


def test_a_late_repetition_of_an_earlier_conversation_is_not_played(api: type[Api]) -> None:
    with client_of("slack") as (client, model):
        for text, event in (("Hi", "E1"), ("Outside", "E2"), ("Hello again", "E3")):
            assert by_slack(client, said_by_slack(text, event)).status_code == 200
        for text, event in (("Outside", "E2"), ("Hi", "E1"), ("Outside", "E2")):
            assert by_slack(client, said_by_slack(text, event)).status_code == 200
        assert texts_of(api) == ["Inside or outside?", "Outside it is.", "Inside or outside?"]
        assert asked(model) == 2


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("slack", (200, {"ok": False, "error": "channel_not_found"})),
        ("slack", (200, {"ok": False, "error": "is_archived"})),
        ("whatsapp", (400, {"error": {"message": "(#131047) Re-engagement", "code": 131047}})),
        ("whatsapp", (400, {"error": {"message": "(#100) Invalid parameter", "code": 100}})),
        ("telegram", (403, {"ok": False, "description": "Forbidden: bot was blocked by the user"})),
    ],
    ids=str,
)
def test_what_a_messenger_will_never_take_does_not_stop_what_follows(
    api: type[Api], name: str, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "123:abc")
    words = [reply("talk", "One"), reply("talk", "Two")]
    send: dict[str, Callable[[httpx.Client, str, int], httpx.Response]] = {
        "slack": lambda client, text, at: by_slack(client, said_by_slack(text, f"E{at}")),
        "telegram": lambda client, text, at: by_telegram(client, said_by_telegram(text, at)),
        "whatsapp": lambda client, text, at: by_whatsapp(
            client, said_by_whatsapp(text, first=f"wamid.{at}")
        ),
    }
    with client_of(name, TALK, words) as (client, _):
        api.refuses = [refusal]
        assert send[name](client, "hi", 1).status_code == 200
        assert send[name](client, "there", 2).status_code == 200
        assert texts_of(api) == ["Two"]


def test_words_whose_buttons_are_refused_are_posted_without_them(api: type[Api]) -> None:
    with client_of("slack") as (client, _):
        api.refuses = [(200, {"ok": False, "error": "invalid_blocks"})]
        assert by_slack(client, recorded("slack_message")).status_code == 200
        [(_, _, posted)] = api.posted
        assert (posted["text"], len(posted["blocks"])) == ("Inside or outside?", 1)


# -- what is said between messages


def test_a_person_who_has_taken_over_is_not_disturbed_and_is_heard(api: type[Api]) -> None:
    words = [reply("human", "Of course.")]
    with client_of("slack", DESK, words) as (client, _):
        assert by_slack(client, said_by_slack("a person, please", "E1")).status_code == 200
        before = texts_of(api)
        assert before[0].startswith("Of course.")
        for number, text in enumerate(("My bill", "number 4711", "[picture]", "hello?", "?")):
            assert by_slack(client, said_by_slack(text, f"F{number}")).status_code == 200
        after = texts_of(api)[len(before) :]
        assert not any("…" in text for text in after)
        assert [text for text in after if not text.startswith("A colleague")] == []


def test_words_of_a_colleague_reach_the_messenger(api: type[Api]) -> None:
    words = [reply("human", "Of course.")]
    model = ScriptedLLM(words)
    machine = AsyncMachine.from_dict(DESK, model=model)
    app = create_app(machine, closes=True, tokens=Tokens(), channels={"slack": slack.routes})

    @app.post("/channels/say")
    async def say() -> None:
        chat = await machine.resume("slack~D123ABC456")
        await chat.say("I have paid it back.", by="Anna")

    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        by_slack(client, said_by_slack("a person, please", "E1"))
        client.post("/channels/say")
        eventually(lambda: texts_of(api)[-1] == "Anna: I have paid it back.")


def test_conversations_of_other_doors_reach_no_messenger(api: type[Api]) -> None:
    words = [reply("talk", "One"), reply("talk", "Two")]
    model = ScriptedLLM(words)
    machine = AsyncMachine.from_dict(TALK, model=model)
    app = create_app(machine, closes=True, channels={"slack": slack.routes})
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        started = client.post("/conversations", json={"definition": "talk", "greet": False}).json()
        client.post(f"/conversations/{started['id']}/messages", json={"text": "hi"})
        by_slack(client, said_by_slack("hi", "E1"))
    assert texts_of(api) == ["Two"]


def test_the_language_that_telegram_knows_begins_the_conversation(api: type[Api]) -> None:
    states = {
        "talk": {"reply": "Hello!", "transitions": [{"target_state": "bye"}]},
        "bye": {"kind": "final"},
    }
    texts = {"de": {"/states/talk/reply": "Hallo!"}}
    document = {**TALK, "states": states, "languages": ["de"], "texts": texts}
    update = said_by_telegram("Guten Tag", 1)
    update["message"]["from"]["language_code"] = "de-AT"
    with client_of("telegram", document, [reply("talk", "")]) as (client, _):
        assert by_telegram(client, update).json()["text"] == "Hallo!"
