"""Answers tell nothing of the inside: that goes to the log, under the id of the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from llm_fsm import (
    AsyncMachine,
    ConfigurationError,
    DefinitionError,
    HandlerError,
    ModelError,
    StoreError,
)
from llm_fsm import events as ev
from llm_fsm.errors import Finding, ReplyError, UnreadableError
from llm_fsm.server import create_app, views
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served

INSIDE = "http://10.0.0.7:8000/v1 said sk-12345 in /srv/secret/bots.db"
FINDING = Finding(code="F1", name="x", level="error", message=INSIDE, file="/srv/secret/flow.json")
ERRORS: list[Exception] = [
    ModelError(INSIDE, status=401),
    ModelError(INSIDE, retryable=True),
    ReplyError("not-json", INSIDE),
    ConfigurationError(INSIDE),
    HandlerError(INSIDE, handler="secret_hook", point="PRE_PROCESSING"),
    StoreError(INSIDE, retryable=True),
    UnreadableError(INSIDE),
    DefinitionError([FINDING]),
    KeyError(INSIDE),
    OSError(24, "Too many open files", "/srv/secret/bots.db"),
    UnicodeDecodeError("utf-8", b"sk-12345", 0, 1, "/srv/secret"),
]
MARKS = ("10.0.0.7", "sk-12345", "/srv", "secret", "Too many open files")


class Broken(MemoryStore):
    """A store that raises an error while it is told to."""

    error: Exception | None = None

    async def load(self, *arguments: Any, **named: Any) -> Any:
        self._look()
        return await super().load(*arguments, **named)

    async def list(self, *arguments: Any, **named: Any) -> Any:
        self._look()
        return await super().list(*arguments, **named)

    def _look(self) -> None:
        if self.error is not None:
            raise self.error


@contextmanager
def broken() -> Iterator[tuple[Broken, str, httpx.Client]]:
    store = Broken()
    machine = AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "Hi.")]), store=store
    )
    with (
        served(create_app(machine, closes=True, due_seconds=None)) as url,
        client_at(url) as client,
    ):
        wish = {"definition": "greeter", "greet": False, "id": "c"}
        assert client.post("/conversations", json=wish).status_code == 201
        yield store, url, client
        store.error = None


def whole(answer: httpx.Response) -> str:
    """All that a client receives."""
    return "\n".join([answer.text, *(f"{name}: {value}" for name, value in answer.headers.items())])


SAID = {"messages": [{"role": "user", "content": "a"}], "model": "greeter"}
AG_UI = {
    "threadId": "c", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
    "messages": [{"id": "m", "role": "user", "content": "a"}],
}  # fmt: skip
DOORS: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "rest": lambda client: client.post("/conversations/c/messages", json={"text": "a"}),
    "stream": lambda client: client.post(
        "/conversations/c/messages", json={"text": "a"}, headers={"Accept": "text/event-stream"}
    ),
    "read": lambda client: client.get("/conversations/c"),
    "list": lambda client: client.get("/conversations"),
    "chat": lambda client: client.post(
        "/v1/chat/completions", json=SAID, headers={"X-Conversation-Id": "c"}
    ),
    "chat stream": lambda client: client.post(
        "/v1/chat/completions", json={**SAID, "stream": True}, headers={"X-Conversation-Id": "c"}
    ),
    "responses": lambda client: client.post(
        "/v1/responses",
        json={"model": "greeter", "input": "a", "conversation": "c", "stream": True},
    ),
    "ag-ui": lambda client: client.post("/ag-ui/greeter", json=AG_UI),
    "ready": lambda client: client.get("/readyz"),
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_no_door_tells_the_words_of_an_error_inside(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with broken() as (store, url, client):
        store.error = error
        for name, ask in DOORS.items():
            caplog.clear()
            answer = ask(client)
            said = whole(answer)
            assert [mark for mark in MARKS if mark in said] == [], name
            request_id = answer.headers["x-request-id"]
            logged = [
                record.getMessage() for record in caplog.records if record.name == "llm_fsm.server"
            ]
            assert any(request_id in line and type(error).__name__ in line for line in logged), (
                name,
                logged,
            )

        async def tell() -> str:
            async with Client(f"{url}/mcp") as assistant:
                result = await assistant.call_tool(
                    "send_message", {"conversation_id": "c", "text": "a"}
                )
                assert result.is_error
                return str(result)

        said = asyncio.run(tell())
        assert [mark for mark in MARKS if mark in said] == []


def test_ids_of_the_store_are_not_told(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = add_token(file, "ada")
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM([reply("hello", "Hi.")] * 9))
    app = create_app(
        machine, tokens=Tokens.from_file(file), hosts=None, closes=True, due_seconds=None
    )
    headers = {"Authorization": f"Bearer {token}"}
    with served(app) as url, client_at(url, headers=headers) as client:
        wish = {"definition": "greeter", "greet": False, "id": "c"}
        assert client.post("/conversations", json=wish).status_code == 201
        answers = [
            client.post("/conversations", json=wish),
            *(ask(client) for ask in DOORS.values()),
        ]
        answers += [client.post("/conversations/c/answer", json={"value": 1})]
        answers += [client.get("/conversations/no"), client.delete("/conversations/no")]
        answers += [
            client.get(f"/conversations/c/{part}") for part in ("turns", "history", "turns/1/why")
        ]
        for answer in answers:
            assert "ada~" not in whole(answer), answer.request.url


def test_events_of_failures_tell_no_words_of_exceptions() -> None:
    failed = (
        ev.HandlerFailed(handler="h", point="p", error=f"OSError: {INSIDE}"),
        ev.TurnFailed(error="ModelError", message=INSIDE),
        ev.ToolReturned(name="t", arguments={}, error=f"ConnectionError: {INSIDE}"),
        ev.RoutePicked(state="s", function="f", error=f"f failed: ValueError: {INSIDE}"),
        ev.KeyResultChecked(
            name="k", passed=False, by="registered", reason=f"the check failed: OSError: {INSIDE}"
        ),
        ev.AttemptFailed(
            state="s", attempt=1, failures=({"name": "k", "reason": f"OSError: {INSIDE}"},)
        ),
    )
    machine = AsyncMachine.from_dict(GREETER, model="offline")
    served_by: Any = type("S", (), {"machine": machine, "id": "c"})()
    for event in failed:
        shown = [str(views.event_of(served_by, event)), str(views.told(served_by, event))]
        assert not any(mark in text for mark in MARKS for text in shown), event
    plain = ev.KeyResultChecked(
        name="k", passed=False, by="registered", reason="3 tests fail: a, b, c"
    )
    assert views.event_of(served_by, plain)["reason"] == "3 tests fail: a, b, c"


def test_a_log_line_of_a_fault_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with broken() as (store, _, client):
        store.error = KeyError("a\nfake line\x1b[2J")
        client.get("/conversations/c")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "llm_fsm.server"]
    assert "\n" not in line
    assert "\x1b" not in line
