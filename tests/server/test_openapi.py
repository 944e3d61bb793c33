"""The OpenAPI document says what the server does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import APIRouter

from llm_fsm import AsyncMachine, ModelError
from llm_fsm.server import create_app
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served

SAID = {"text": "x"}
DOORS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "/conversations/{conversation_id}/messages": ("/conversations/c/messages", SAID),
    "/v1/chat/completions": (
        "/v1/chat/completions",
        {"model": "greeter", "messages": [{"role": "user", "content": "x"}], "stream": True},
    ),
    "/v1/responses": ("/v1/responses", {"model": "greeter", "input": "x", "stream": True}),
    "/ag-ui/{definition}": (
        "/ag-ui/greeter",
        {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "messages": [{"id": "1", "role": "user", "content": "x"}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    ),
}
"""Addresses whose answers may be streams, each with a request that gets one."""


@contextmanager
def client_of(*replies: Any, **options: Any) -> Iterator[httpx.Client]:
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)))
    app = create_app(machine, closes=True, due_seconds=None, **options)
    with served(app) as url, client_at(url) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        yield client


def operations(document: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (method, path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def events_in(body: str) -> list[dict[str, Any]]:
    found = []
    for block in body.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if fields.get("data", "[DONE]") != "[DONE]":
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def check(document: Mapping[str, Any], schema: Mapping[str, Any], value: object) -> None:
    jsonschema_rs.validate({**schema, "components": document["components"]}, value)


def test_every_operation_has_a_readable_name_of_its_own() -> None:
    def routes(_: Service) -> APIRouter:
        router = APIRouter()

        @router.post("/send")
        async def send_message() -> None:
            return

        return router

    with client_of(channels={"telegram": routes}) as client:
        found = operations(client.get("/openapi.json").json())
    names = [operation["operationId"] for operation in found.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
    assert (
        found["post", "/conversations/{conversation_id}/messages"]["operationId"] == "send_message"
    )
    assert found["post", "/channels/telegram/send"]["operationId"] == "telegram_send_message"
    assert found["post", "/channels/telegram/send"]["security"] == []


def test_security_says_if_a_token_is_needed(tmp_path: Path) -> None:
    add_token(tmp_path / "tokens.json", "web")
    app = create_app(
        AsyncMachine.from_dict(GREETER, model="offline"),
        tokens=Tokens.from_file(tmp_path / "tokens.json"),
    )
    (name,) = app.openapi()["components"]["securitySchemes"]
    scheme = app.openapi()["components"]["securitySchemes"][name]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert app.openapi()["security"] == [{name: []}]
    with client_of() as client:
        free = client.get("/openapi.json").json()
    assert free["components"]["securitySchemes"][name] == scheme
    assert free["security"] == []


def test_every_reference_leads_somewhere() -> None:
    with client_of() as client:
        document = client.get("/openapi.json").json()
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named <= set(document["components"]["schemas"])


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("fault", [False, True])
def test_every_event_of_a_stream_fits_its_schema(path: str, fault: bool) -> None:
    place, wish = DOORS[path]
    replies = [ModelError("down")] * 4 if fault else [reply("bye", "Bye.", name="Ada")]
    with client_of(*replies) as client:
        document = client.get("/openapi.json").json()
        answer = client.post(place, json=wish, headers={"Accept": "text/event-stream"})
    content = operations(document)["post", path]["responses"]["200"]["content"]
    schema = content["text/event-stream"]["schema"]
    events = events_in(answer.text)
    assert events
    is_rest = path.startswith("/conversations")
    for event in events:
        # an error of a chat completion has a form of its own
        if "error" not in event["data"] or is_rest:
            check(document, schema, event if is_rest else event["data"])


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/conversations/{conversation_id}/messages"]
)
def test_an_answer_that_is_no_stream_fits_its_schema(path: str) -> None:
    place, wish = DOORS[path]
    with client_of(reply("bye", "Bye.", name="Ada")) as client:
        document = client.get("/openapi.json").json()
        whole = {key: value for key, value in wish.items() if key != "stream"}
        answer = client.post(place, json=whole)
    schema = operations(document)["post", path]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    check(document, schema, answer.json())


def test_events_between_messages_and_records_fit_their_schemas() -> None:
    with client_of(reply("bye", "Bye.", name="Ada")) as client:
        document = client.get("/openapi.json").json()
        assert client.post("/conversations/c/messages", json=SAID).status_code == 200
        found = operations(document)
        follow = found["get", "/conversations/{conversation_id}/events"]["responses"]["200"][
            "content"
        ]
        names = []
        with client.stream("GET", "/conversations/c/events?after=0") as stream:
            body = ""
            for line in stream.iter_lines():
                body += f"{line}\n"
                if line == "" and body.count("event: turn") == 2:
                    break
        for event in events_in(body):
            names.append(event["event"])
            check(document, follow["text/event-stream"]["schema"], event)
        assert {"message", "state", "context", "ended", "turn"} <= set(names)
        for part in ("history", "turns"):
            schema = found["get", f"/conversations/{{conversation_id}}/{part}"]["responses"]["200"][
                "content"
            ]
            answer = client.get(f"/conversations/c/{part}")
            check(document, schema["application/json"]["schema"], answer.json())


def test_messages_have_roles() -> None:
    with client_of() as client:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    chat = schemas["ChatRequest"]["properties"]["messages"]["items"]["properties"]["role"]
    assert set(chat["enum"]) == {"system", "developer", "user", "assistant", "tool"}
    assert schemas["MessageView"]["properties"]["role"]["enum"] == ["user", "assistant"]


@pytest.mark.parametrize("path", DOORS)
def test_every_stream_says_when_to_try_again(path: str) -> None:
    place, wish = DOORS[path]
    with client_of(*[ModelError("down", retry_after=7.0)] * 4) as client:
        answer = client.post(place, json=wish, headers={"Accept": "text/event-stream"})
    *_, last = events_in(answer.text)
    told = last["data"].get("response", last["data"])
    fault = told["error"] if path == "/v1/responses" else told
    assert fault["retry_after"] == 7
