"""Choices at every door: what can be chosen is handed on, and a click needs no model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
from mcp import Client

from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.testing import ScriptedLLM, reply
from npm_client import run
from served import client_at, served

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {
        "properties": {"size": {"enum": ["s", "l"], "x-labels": {"s": "Small", "l": "Large"}}}
    },
    "states": {
        "ask": {
            "purpose": "Which size?",
            "reply": "Which size?",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["size"]}]}
            ],
        },
        "done": {"purpose": "Thank", "reply": "Size {{ size }}."},
    },
}
QUESTION = "/ask/size"
FOUND = [
    {"label": "Small", "value": "s", "question": QUESTION},
    {"label": "Large", "value": "l", "question": QUESTION},
]


def app(*replies: Any) -> Any:
    machine = AsyncMachine.from_dict(SHOP, model=ScriptedLLM(list(replies)))
    return create_app(machine, closes=True, due_seconds=None)


def test_rest_and_its_events_hand_on_choices_and_take_a_click_without_a_model() -> None:
    with served(app()) as url, client_at(url) as client:
        begun = client.post("/conversations", json={"definition": "shop", "id": "c"}).json()
        assert begun["choices"] == FOUND
        assert client.get("/conversations/c").json()["choices"] == FOUND
        click = {"text": "Large", "picked": True}
        stream = client.post(
            "/conversations/c/messages", json=click, headers={"Accept": "text/event-stream"}
        ).text
        turn = json.loads(
            next(line for line in stream.splitlines()[::-1] if line.startswith("data: "))[6:]
        )
        assert (turn["state"], turn["choices"], turn["usage"]["calls"]) == ("done", [], 0)


def test_rest_refuses_a_choice_whose_question_is_gone() -> None:
    with served(app()) as url, client_at(url) as client:
        client.post("/conversations", json={"definition": "shop", "id": "c"})
        for stale in ({"text": "Large", "question": "/before/size"}, {"text": "Huge"}):
            refused = client.post("/conversations/c/messages", json={**stale, "picked": True})
            assert refused.status_code == 409
            assert (
                "is no longer open; the choices are now: Small, Large" in refused.json()["detail"]
            )
        click = {"text": "Large", "picked": True, "question": QUESTION}
        assert client.post("/conversations/c/messages", json=click).json()["state"] == "done"


def test_the_openai_form_hands_on_choices_as_a_field_of_its_own() -> None:
    with (
        served(app(reply("ask", "Which one?"))) as url,
        client_at() as http,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=http) as client,
    ):
        said: Any = [{"role": "user", "content": "hello"}]
        answer: Any = client.chat.completions.create(model="shop", messages=said)
    assert answer.llm_fsm["choices"] == FOUND


def test_ag_ui_hands_on_choices_with_the_end_of_a_run_and_takes_a_click() -> None:
    with served(app()) as url, client_at(url) as client:
        found = []
        click = {
            "messages": [{"id": "m", "role": "user", "content": "Small"}],
            "forwardedProps": {"picked": True},
        }
        for place, given in enumerate(({}, click)):
            body = {"threadId": "t", "runId": f"r{place}", "messages": [], **given}
            lines = client.post("/ag-ui/shop", json=body).text.splitlines()
            found.append(
                json.loads([line for line in lines if line.startswith("data: ")][-1][6:])["result"]
            )
    assert [(one["state"], one["choices"]) for one in found] == [("ask", FOUND), ("done", [])]


def test_mcp_hands_on_choices_and_takes_a_click() -> None:
    async def use(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            begun = await client.call_tool(
                "start_conversation", {"definition": "shop", "conversation_id": "c"}
            )
            click = {"conversation_id": "c", "text": "Small", "picked": True}
            turn = await client.call_tool("send_message", click)
            return begun.structured_content, turn.structured_content

    with served(app()) as url:
        begun, turn = asyncio.run(use(url))
    assert begun["choices"] == FOUND
    assert (turn["state"], turn["usage"]["calls"]) == ("done", 0)


def test_the_chat_page_shows_buttons_and_a_click_is_a_turn(chromium_path: str) -> None:
    with served(app()) as url:
        seen = json.loads(run("chat_choices.mjs", ("playwright-core@1.65.1",), url, chromium_path))
    assert seen == {"buttons": ["Small", "Large"], "messages": ["Bot: Which size?", "You: Large", "Bot: Size Large.",
                    "The conversation has ended."], "left": False, "errors": []}  # fmt: skip
