"""The application within another one, and the work that it does by itself."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp import Client

from llm_fsm import AsyncMachine, Delivery
from llm_fsm.server import create_app
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served

WAITS: dict[str, Any] = {
    "name": "waits",
    "initial_state": "wait",
    "states": {
        "wait": {
            "kind": "wait",
            "wait_for": "a yes",
            "timeout": 0.3,
            "on_timeout": "late",
            "transitions": [{"target_state": "end"}],
        },
        "late": {"kind": "final", "reply": "Too late."},
        "end": {"kind": "final"},
    },
}


def test_an_application_is_mounted_in_another_one() -> None:
    model = ScriptedLLM([reply("bye", "Bye.", name="Ada")])
    app = create_app(AsyncMachine.from_dict(GREETER, model=model), closes=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with app.router.lifespan_context(app):
            yield

    host = FastAPI(lifespan=lifespan)
    host.mount("/bots", app)

    async def tools(url: str) -> list[str]:
        async with Client(f"{url}/bots/mcp") as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    with served(host) as url, client_at(url) as client:
        begun = client.post(
            "/bots/conversations", json={"definition": "greeter", "greet": False, "id": "c"}
        )
        assert begun.headers["location"] == "/bots/conversations/c"
        said = client.post(f"{begun.headers['location']}/messages", json={"text": "Ada"})
        assert said.json()["text"] == "Bye."
        assert client.get("/bots/v1/models").json()["data"][0]["id"] == "greeter"
        assert client.get("/bots/v1/models/no").json()["error"]["type"] == "not-found"
        assert client.get("/bots/").status_code == 200
        assert "send_message" in asyncio.run(tools(url))


def test_the_server_sees_to_time_outs_and_to_sinks() -> None:
    told: list[Delivery] = []

    def ended(delivery: Delivery) -> None:
        told.append(delivery)

    machine = AsyncMachine.from_dict(WAITS, model="offline", sinks=[ended])
    app = create_app(machine, closes=True, due_seconds=0.1)
    with served(app) as url, client_at(url) as client:
        client.post("/runs", json={"definition": "waits", "id": "r"})
        deadline = time.monotonic() + 30
        while client.get("/runs/r").json()["state"] != "late" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.get("/runs/r").json()["status"] == "passed"
    assert "TimedOut" in [delivery.event["type"] for delivery in told]


class Short(MemoryStore):
    """A store that finds no descriptor at first."""

    failures = 2

    async def due(self, *arguments: Any, **named: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await super().due(*arguments, **named)


def test_the_server_sees_to_time_outs_again_after_an_error_of_any_kind() -> None:
    store = Short()
    app = create_app(
        AsyncMachine.from_dict(WAITS, model="offline", store=store), closes=True, due_seconds=0.1
    )
    with served(app) as url, client_at(url) as client:
        deadline = time.monotonic() + 30
        while store.failures and time.monotonic() < deadline:  # a run looks for what is due, too
            time.sleep(0.05)
        assert client.post("/runs", json={"definition": "waits", "id": "r"}).status_code < 300
        while client.get("/runs/r").json().get("state") != "late" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.get("/runs/r").json()["status"] == "passed"
    assert store.failures == 0
