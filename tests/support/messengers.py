"""A machine behind an app of somebody's library for messengers, and the API that it posts to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.service import Service
from llm_fsm.testing import ScriptedLLM, reply
from paths import TESTS

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


def service() -> tuple[Service, ScriptedLLM]:
    model = ScriptedLLM([reply("place", "Inside or outside?")] * 4)
    return create_app(AsyncMachine.from_dict(TABLE, model=model)).service, model


def asked(model: ScriptedLLM) -> int:
    return len(model.requests)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


class Api(BaseHTTPRequestHandler):
    """The API of a messenger, as far as the libraries call it."""

    posted: list[tuple[str, Any]]
    address: str

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "/auth.test" not in self.path:
            type(self).posted.append((self.path, json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        who = {"bot_id": "B1", "user_id": "U0", "team_id": "T123ABC456"}
        self.wfile.write(json.dumps({"ok": True, **who}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[type[Api]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    Api.posted, Api.address = [], f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield Api
    server.shutdown()
    thread.join()
    server.server_close()
