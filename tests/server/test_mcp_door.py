"""The SDK of MCP is loaded by whoever needs it first, once, and only then."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.server import create_app, mcp_door
from machines import GREETER

pytestmark = pytest.mark.anyio

COLD = """
import asyncio, json, sys
import httpx
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app

FIRST, WORKBENCH, CALLERS = json.loads(sys.argv[1])

async def ask(client, number):
    said = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = await client.post("/mcp", json=said, headers=headers)
    told = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return answer.status_code, len(json.loads(told[0])["result"]["tools"])

async def main():
    machine = AsyncMachine.from_dict(json.loads(sys.argv[2]), model="offline")
    app = create_app(machine, workbench=WORKBENCH, closes=True, due_seconds=None)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 9))
    found = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        assert (await client.get(FIRST)).status_code == 200
        if WORKBENCH:
            while "mcp" not in sys.modules:
                await asyncio.sleep(0.01)
        found.append("mcp" in sys.modules)
        found.append(await asyncio.gather(*(ask(client, number) for number in range(CALLERS))))
    print(json.dumps(found))

asyncio.run(main())
"""


def cold(first: str, *, workbench: bool, callers: int) -> Any:
    """Whether a fresh server has loaded the SDK before it was asked over MCP, and what its first
    callers got: a status, and the number of tools.
    """
    wish = json.dumps([first, workbench, callers])
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", COLD, wish, json.dumps(GREETER)],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize(("first", "callers"), [("/readyz", 16), ("/definitions", 1)])
def test_the_first_requests_load_the_sdk_and_all_are_answered(first: str, callers: int) -> None:
    assert cold(first, workbench=False, callers=callers) == [False, [[200, 7]] * callers]


def test_a_server_with_tools_for_authors_loads_the_sdk_when_it_starts() -> None:
    assert cold("/readyz", workbench=True, callers=2) == [True, [[200, 12]] * 2]


def client_of(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 9), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60)


LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_a_server_starts_and_ends_again_and_each_time_anew() -> None:
    app = create_app(AsyncMachine.from_dict(GREETER, model="offline"), due_seconds=None)
    for _ in range(2):
        async with client_of(app) as client:
            assert (await client.post("/mcp", json=LISTING, headers=ACCEPT)).status_code == 503
            async with app.router.lifespan_context(app):
                answer = await client.post("/mcp", json=LISTING, headers=ACCEPT)
                assert answer.status_code == 200


async def test_an_sdk_that_cannot_be_loaded_is_a_fault_of_each_request_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise ImportError("half of the SDK is missing")

    monkeypatch.setattr(mcp_door, "_load", broken)
    app = create_app(AsyncMachine.from_dict(GREETER, model="offline"), due_seconds=None)
    async with client_of(app) as client, app.router.lifespan_context(app):
        for _ in range(2):
            answer = await client.post("/mcp", json=LISTING, headers=ACCEPT)
            assert answer.status_code == 500
            assert "half of the SDK" not in answer.text
        assert (await client.get("/definitions")).status_code == 200
    assert "half of the SDK is missing" in caplog.text


async def test_a_caller_that_leaves_while_the_sdk_is_loaded_takes_it_from_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = mcp_door._load
    loading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow() -> Any:
        loop.call_soon_threadsafe(loading.set)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.2), loop).result()
        return load()

    monkeypatch.setattr(mcp_door, "_load", slow)
    app = create_app(AsyncMachine.from_dict(GREETER, model="offline"), due_seconds=None)
    async with client_of(app) as client, app.router.lifespan_context(app):
        first, second = (
            asyncio.create_task(client.post("/mcp", json=LISTING, headers=ACCEPT)) for _ in range(2)
        )
        await loading.wait()
        first.cancel()
        assert (await second).status_code == 200
        with pytest.raises(asyncio.CancelledError):
            await first
