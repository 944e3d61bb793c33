"""Figures, logs and health of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from llm_fsm import AsyncMachine, StoreError
from llm_fsm.server import create_app
from llm_fsm.server.logs import log_answer, log_json
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served


def machine(**options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("bye", "Bye.", name="Ada")]), **options
    )


def talk(client: httpx.Client, **headers: str) -> None:
    wish = {"definition": "greeter", "greet": False, "id": "c"}
    assert client.post("/conversations", json=wish, headers=headers).status_code == 201
    assert (
        client.post("/conversations/c/messages", json={"text": "Ada"}, headers=headers).status_code
        == 200
    )


def test_figures_for_prometheus() -> None:
    with served(create_app(machine(), due_seconds=None)) as url, client_at(url) as client:
        talk(client)
        lines = client.get("/metrics").text.splitlines()
    assert (
        'llm_fsm_turns_total{arm="",definition="greeter",kind="message",release="",state="bye"} 1.0'
        in lines
    )
    moved = 'llm_fsm_transitions_total{by="model",definition="greeter",from="hello",to="bye"} 1.0'
    assert moved in lines
    of_turns = [line for line in lines if line.startswith("llm_fsm_") and "_http_" not in line]
    assert [line for line in of_turns if 'definition="greeter"' not in line] == [
        line for line in of_turns if line.startswith("llm_fsm_open_streams")
    ]
    route = "/conversations/{conversation_id}/messages"
    assert f'llm_fsm_http_requests_total{{method="POST",route="{route}",status="200"}} 1.0' in lines
    assert "llm_fsm_open_streams 0.0" in lines


@pytest.mark.parametrize(
    ("said", "misses"), [(("Hm?",), 1), (("Hm?", "What?"), 2), (("Hm?", "Ada"), 1), (("Ada",), 0)]
)
def test_a_message_that_nothing_comes_of_is_a_miss(said: tuple[str, ...], misses: int) -> None:
    known, unknown = reply("bye", "Bye.", name="Ada"), reply("hello", "I did not find that.")
    model = ScriptedLLM([known if text == "Ada" else unknown for text in said])
    app = create_app(AsyncMachine.from_dict(GREETER, model=model), due_seconds=None)
    with served(app) as url, client_at(url) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        for text in said:
            client.post("/conversations/c/messages", json={"text": text})
        lines = client.get("/metrics").text.splitlines()
    assert f'llm_fsm_misses_total{{definition="greeter"}} {float(misses)}' in lines


def test_a_turn_at_a_limit_is_told_and_counted() -> None:
    limits = {"per": {"day": {"turns": 1, "on_limit": "Please come back tomorrow."}}}
    model = ScriptedLLM([reply("hello", "Hm?")])
    app = create_app(
        AsyncMachine.from_dict({**GREETER, "limits": limits}, model=model), due_seconds=None
    )
    with served(app) as url, client_at(url) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        turns = [
            client.post("/conversations/c/messages", json={"text": "Hm?"}).json() for _ in range(2)
        ]
        recorded = client.get("/conversations/c/turns").json()["turns"][-1]
        lines = client.get("/metrics").text.splitlines()
    assert [turn["outcome"] for turn in turns] == ["", "limited"]
    assert turns[1]["text"] == "Please come back tomorrow."
    reached = {"type": "LimitReached", "limit": "turns", "value": 1.0, "per": "day", "spent": 1.0}
    assert reached in recorded["events"]
    counted = 'llm_fsm_limits_reached_total{definition="greeter",limit="turns",per="day"} 1.0'
    assert counted in lines


def test_figures_need_a_token_without_limits(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    ada, root = add_token(file, "ada"), add_token(file, "root", own=False)
    app = create_app(machine(), tokens=Tokens.from_file(file), hosts=None, due_seconds=None)
    with served(app) as url, client_at(url) as client:
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers={"Authorization": f"Bearer {ada}"}).status_code == 403
        assert (
            client.get("/metrics", headers={"Authorization": f"Bearer {root}"}).status_code == 200
        )


class Away(MemoryStore):
    """A store that can be gone."""

    is_away = False

    async def load(self, *arguments: Any, **named: Any) -> Any:
        self._look()
        return await super().load(*arguments, **named)

    async def list(self, *arguments: Any, **named: Any) -> Any:
        self._look()
        return await super().list(*arguments, **named)

    def _look(self) -> None:
        if self.is_away:
            raise StoreError("the database is away", retryable=True)


def test_a_store_that_is_away_is_503_and_recovers_by_itself() -> None:
    store = Away()
    with (
        served(create_app(machine(store=store), due_seconds=None)) as url,
        client_at(url) as client,
    ):
        assert client.get("/readyz").json() == {"status": "ready", "definitions": 1}
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        store.is_away = True
        ready = client.get("/readyz")
        assert (ready.status_code, client.get("/healthz").status_code) == (503, 200)
        said = client.post("/conversations/c/messages", json={"text": "Ada"})
        assert (said.status_code, said.json()["type"]) == (
            503,
            "urn:llm-fsm:problem:store-unavailable",
        )
        assert int(said.headers["retry-after"]) > 0
        store.is_away = False
        assert client.post("/conversations/c/messages", json={"text": "Ada"}).status_code == 200


def test_logs_are_json_lines_with_conversation_and_request_and_nothing_that_was_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from loguru import logger

    stop = log_json("DEBUG")
    try:
        app = create_app(machine(), due_seconds=None, answered=[log_answer])
        with served(app) as url, client_at(url) as client:
            wish = {"definition": "greeter", "greet": False, "id": "c"}
            client.post("/conversations", json=wish)
            answer = client.post(
                "/conversations/c/messages", json={"text": "SECRETNAME\nfake line"}
            )
            client.get("/conversations/%0Afake")
            request_id = answer.headers["x-request-id"]
    finally:
        stop()
        logger.remove()
        logger.configure(patcher=lambda _: None)
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert "SECRETNAME" not in text
    of_turn = [line for line in lines if line.get("request_id") == request_id]
    assert {"UserSaid", "StateEntered", "TurnSaved", "request"} <= {
        line["event"] for line in of_turn
    }
    assert {line["conversation_id"] for line in of_turn if line["event"] != "request"} == {"c"}
    (asked,) = [line for line in of_turn if line["event"] == "request"]
    assert (asked["method"], asked["status"]) == ("POST", 200)


def test_a_fault_is_a_json_line_with_the_id_of_its_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from loguru import logger

    store = Away()
    stop = log_json("INFO")
    try:
        app = create_app(machine(store=store), due_seconds=None)
        with served(app) as url, client_at(url) as client:
            store.is_away = True
            answer = client.get("/conversations/c")
            store.is_away = False
    finally:
        stop()
        logger.remove()
        logger.configure(patcher=lambda _: None)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (fault,) = [line for line in lines if line.get("event") == "fault"]
    assert fault["request_id"] == answer.headers["x-request-id"]
    assert "the database is away" in fault["message"]
    assert "database" not in answer.text
