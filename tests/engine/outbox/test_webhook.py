"""A webhook signs what it posts, so that its receiver can tell it from anybody else's."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from llm_fsm import Machine, sink
from llm_fsm.engine.outbox.webhook import secret_of, signed
from llm_fsm.errors import ConfigurationError

DOCUMENT = {
    "name": "greeter",
    "initial_state": "hello",
    "states": {"hello": {"purpose": "Greet", "kind": "final", "reply": "Hello!"}},
}


@pytest.fixture
def received() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    found: list[tuple[dict[str, str], bytes]] = []
    failures = [503, 503]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = failures.pop() if failures else 200
            if status == 200:
                found.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", found
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_event_is_signed_and_comes_in_order_after_failures(received: Any) -> None:
    url, found = received
    secret = "whsec_" + base64.b64encode(b"key of thirty two bytes in total").decode()
    with Machine.from_dict(DOCUMENT, model="offline", sinks=[sink(url, secret=secret)]) as machine:
        chat = machine.start(conversation_id="a.b")
        chat.say("Goodbye.")
        for _ in range(200):
            machine.run_due()
            if any(b"Goodbye" in body for _, body in found):
                break
    keys = [json.loads(body)["key"] for _, body in found]
    assert keys == sorted(keys, key=lambda key: tuple(map(int, key.split("/")[1:])))
    for headers, body in found:
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(b"key of thirty two bytes in total", content, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert headers["webhook-id"].count(".") == 0
        assert headers["content-type"] == "application/json"
    assert len({headers["webhook-id"] for headers, _ in found}) == len(found)


def test_a_signature_is_that_of_standard_webhooks() -> None:
    headers = signed(
        secret_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        "c/1/0",
        1614265330,
        b'{"test": 2432232314}',
    )
    content = f"{headers['webhook-id']}.1614265330.".encode() + b'{"test": 2432232314}'
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_???"])
def test_a_secret_that_signs_nothing_is_refused(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="secret of a webhook"):
        sink("http://localhost/hook", secret=secret)
    with pytest.raises(ConfigurationError, match="not for a function"):
        sink(print, secret="x")
