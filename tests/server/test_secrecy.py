"""No door shows a value that was ever given for a secret key, wherever and however it is written."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from mcp.client import Client

from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.testing import ScriptedLLM, calls, reply
from served import client_at, served

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "pin": {"type": "string", "pattern": "^[0-9]{4}$", "x-secret": True},
            "card": {"type": "object", "x-secret": True, "properties": {"number": {"type": "string"}}},
            "note": {"description": "Note"},
        }
    },
    "tools": {"pay": {"registered": "pay", "approval": True}},
    "states": {
        "ask": {"purpose": "Your PIN?", "transitions": [{"target_state": "pay", "description": "Given"}]},
        "pay": {
            "purpose": "Pay",
            "tools": ["pay"],
            "transitions": [
                {"target_state": "pay", "description": "More"}, {"target_state": "bye", "description": "Paid"},
            ],
        },
        "bye": {"kind": "final", "reply": "Noted: {{ note }}"},
    },
}  # fmt: skip
REFUSED, OLD, PIN, CARD = "98765", "1290", "4711", "4111-2222"
FORMS = (REFUSED, OLD, PIN, "4 7 1 1", CARD, "41112222", "4111 2222")
SAID = ["my PIN is 98765", "sorry, 1290", "no, 4 7 1 1, card 4111 2222", "pay", "bye"]


def pay(pin: str, amount: int) -> dict[str, Any]:
    return {"paid": amount, "with": f"PIN {pin}", "account 4711": 4711}


def model() -> ScriptedLLM:
    note = {
        "text": "PIN 4711",
        "number": 4711,
        "card 4111-2222": ["41112222", {"deep": "4111.2222"}],
    }
    return ScriptedLLM(
        [
            *[reply("ask", "98765 is no PIN.", pin=REFUSED, note="98765")] * 2,
            reply("ask", "1290, really?", pin=OLD, note="1290"),
            reply("pay", "Thanks for 4 7 1 1.", pin=PIN, card={"number": CARD}, note=note),
            calls(("pay", {"pin": PIN, "amount": 5})),
            reply(
                "pay", 'Paid with "4711", 4 7 1 1 and 41112222.', _extra={"said": "4711, then 1290"}
            ),
            reply("bye", ""),
        ]
    )


@contextmanager
def desk() -> Iterator[str]:
    machine = AsyncMachine.from_dict(DESK, model=model(), tools=[pay])
    app = create_app(machine, closes=True, due_seconds=None)
    with served(app) as url:
        yield url


def rest(client: httpx.Client, *, streamed: bool) -> Iterator[str]:
    headers = {"Accept": "text/event-stream"} if streamed else {}
    yield client.post("/conversations", json={"definition": "desk", "id": "c", "greet": False}).text
    for text in SAID:
        answer = client.post("/conversations/c/messages", json={"text": text}, headers=headers)
        assert answer.status_code == 200, answer.text
        yield answer.text
        if text == "pay":
            yield client.get("/conversations/c").text
            body = {"value": {"approved": True}}
            yield client.post("/conversations/c/answer", json=body, headers=headers).text
    for place in ("", "/history", "/turns", *(f"/turns/{number}/why" for number in range(1, 7))):
        answer = client.get(f"/conversations/c{place}")
        assert answer.status_code == 200, answer.text
        yield answer.text
    yield client.get("/conversations").text
    if client.post("/conversations/c/fork", json={"id": "d"}).status_code == 201:
        yield client.get("/conversations/d/turns").text
    yield client.post("/conversations/c/undo").text
    yield client.get("/runs/c").text
    yield client.get("/runs/c/events").text


def chat(client: httpx.Client, *, streamed: bool) -> Iterator[str]:
    messages: list[dict[str, Any]] = []
    for text in SAID:
        given = [{"role": "user", "content": text}]
        while given:
            messages += given
            body = {"model": "desk", "messages": messages, "stream": streamed}
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            yield answer.text
            if streamed:
                chunks = [
                    json.loads(line[6:])
                    for line in answer.text.splitlines()
                    if line.startswith("data: {")
                ]
                deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
                words = "".join(delta.get("content") or "" for delta in deltas)
                asked = [call for delta in deltas for call in delta.get("tool_calls", ())]
                number = next(chunk["llm_fsm"]["number"] for chunk in chunks if "llm_fsm" in chunk)
            else:
                message = answer.json()["choices"][0]["message"]
                words, asked = message["content"], message.get("tool_calls", [])
                number = answer.json()["llm_fsm"]["number"]
            messages.append(
                {"role": "assistant", "content": words, **({"tool_calls": asked} if asked else {})}
            )
            assert number == sum(one["role"] != "assistant" for one in messages)
            given = [
                {"role": "tool", "tool_call_id": call["id"], "content": '{"approved": true}'}
                for call in asked
            ]


def responses(client: httpx.Client, *, streamed: bool) -> Iterator[str]:
    previous = None
    for given in [
        *SAID[:4],
        [{"type": "function_call_output", "call_id": "x", "output": '{"approved":true}'}],
        "bye",
    ]:
        body = {
            "model": "desk",
            "input": given,
            "stream": streamed,
            "previous_response_id": previous,
        }
        answer = client.post("/v1/responses", json=body)
        assert answer.status_code == 200, answer.text
        yield answer.text
        last = answer.text.strip().splitlines()[-1].removeprefix("data: ")
        previous = json.loads(last)["response"]["id"] if streamed else answer.json()["id"]


def ag_ui(client: httpx.Client, *, streamed: bool) -> Iterator[str]:
    del streamed
    resume: dict[str, Any] = {}
    for number, text in enumerate([*SAID[:4], "", "bye", ""]):
        said = [{"id": "m", "role": "user", "content": text}] if text else []
        body = {"threadId": "t", "runId": f"r{number}", "messages": said, **resume}
        body |= {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        answer = client.post("/ag-ui/desk", json=body)
        assert "RUN_ERROR" not in answer.text, answer.text
        yield answer.text
        finished = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
        waiting = finished["outcome"].get("interrupts", [])
        paid = [
            {"interruptId": one["id"], "status": "resolved", "payload": {"approved": True}}
            for one in waiting
        ]
        resume = {"resume": paid} if paid else {}


_BY_CHANCE = re.compile(
    r"\b[0-9]+\.[0-9]+\b|\b1[0-9]{9}\b"
    r"|[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def secrets_in(text: str) -> list[str]:
    """Return the forms of secrets in a text. Ids, times and durations may hold one by chance."""
    words = _BY_CHANCE.sub("", text)
    return [form for form in FORMS if form in words]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("door", [rest, chat, responses, ag_ui])
def test_no_answer_of_a_door_has_a_secret(door: Any, streamed: bool) -> None:
    with desk() as url, client_at(url) as client:
        answers = list(door(client, streamed=streamed))
    assert "•••" in "".join(answers)
    for number, text in enumerate(answers):
        found = secrets_in(text)
        assert not found, (number, found, text)


def test_no_result_of_mcp_has_a_secret() -> None:
    async def talk(url: str) -> list[Any]:
        async with Client(f"{url}/mcp") as client:
            begun = {"definition": "desk", "conversation_id": "c", "greet": False}
            found = [await client.call_tool("start_conversation", begun)]
            for text in SAID:
                found.append(
                    await client.call_tool("send_message", {"conversation_id": "c", "text": text})
                )
                if text == "pay":
                    yes = {"conversation_id": "c", "value": {"approved": True}}
                    found.append(await client.call_tool("answer", yes))
            return [*found, await client.call_tool("read_conversation", {"conversation_id": "c"})]

    with desk() as url:
        found = asyncio.run(talk(url))
    assert not any(result.is_error for result in found), found
    text = "".join(result.model_dump_json() for result in found)
    assert "•••" in text
    assert not secrets_in(text)


SIGN: dict[str, Any] = {
    "name": "sign",
    "initial_state": "ask",
    "context_schema": {
        "properties": {"code": {"type": "string", "x-secret": True, "x-source": "answer"}}
    },
    "states": {
        "ask": {
            "kind": "wait",
            "wait_for": "user",
            "answer_schema": {"type": "string", "maxLength": 6},
            "output": {"code": "$"},
            "transitions": [{"target_state": "bye"}],
        },
        "bye": {"kind": "final"},
    },
}


@pytest.mark.parametrize("value", ["4711-4711", {"4711-4711": 1}, ["4711-4711"], 47114711])
def test_no_refusal_of_an_answer_quotes_what_would_be_secret(value: Any) -> None:
    app = create_app(
        AsyncMachine.from_dict(SIGN, model=ScriptedLLM([])), closes=True, due_seconds=None
    )
    with served(app) as url, client_at(url) as client:
        assert client.post("/runs", json={"definition": "sign", "id": "c"}).status_code == 202
        for path in ("/conversations/c/answer", "/runs/c/answer"):
            answer = client.post(path, json={"value": value})
            assert answer.status_code == 422
            assert "its schema refuses the value" in answer.json()["detail"]
            assert "4711" not in answer.text
