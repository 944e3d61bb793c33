"""The MCP door, spoken by the official client: over HTTP, and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters

import ten_turns
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from machines import GREETER
from paths import ROOT
from served import served


def talk(machine: AsyncMachine, use: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    """What a client of a server over HTTP finds."""

    async def connect(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            return await use(client)

    with served(create_app(machine, closes=True, due_seconds=None, **options)) as url:
        return asyncio.run(connect(url))


async def call(client: Any, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


async def fault(client: Any, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    text: str = result.content[0].text
    return text


async def ten(client: Any) -> list[tuple[str, dict[str, Any]]]:
    begun = await call(client, "start_conversation", definition="ten", greet=False)
    found = []
    for message in ten_turns.MESSAGES:
        if isinstance(message, str):
            turn = await call(client, "send_message", conversation_id=begun["id"], text=message)
        else:
            turn = await call(client, "answer", conversation_id=begun["id"], value=message)
        found.append((turn["state"], turn["context"]))
    read = await call(client, "read_conversation", conversation_id=begun["id"])
    assert read["ended"]
    return found


def test_ten_turns_over_http() -> None:
    assert talk(ten_turns.machine(), ten) == ten_turns.reference()


def test_ten_turns_over_standard_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "ten.json").write_text(json.dumps(ten_turns.DEFINITION))
    (tmp_path / "replies.json").write_text(json.dumps(ten_turns.replies()))
    command = StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "llm_fsm",
            "mcp",
            "ten.json",
            "--model",
            "scripted:replies.json",
            "--db",
            "memory",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=str(tmp_path),
    )

    async def connect() -> Any:
        async with Client(command) as client:
            return await ten(client)

    assert asyncio.run(connect()) == ten_turns.reference()


def test_an_assistant_checks_explains_plays_and_draws_a_definition() -> None:
    async def use(client: Any) -> None:
        broken = json.dumps({**GREETER, "initial_state": "nowhere"}, indent=1)
        checked = await call(client, "validate_definition", definition=broken)
        assert not checked["ok"]
        (found,) = [one for one in checked["findings"] if one["level"] == "error"]
        assert found["line"] == 3
        assert found["hint"]
        assert found["code"] in await call(client, "explain_rule", rule=found["name"])
        assert "no rule" in await fault(client, "explain_rule", rule="nothing")
        drawn = await call(client, "draw", definition=json.dumps(GREETER))
        assert drawn.startswith("stateDiagram")
        assert "hello" in await call(client, "draw", definition="greeter", form="text")
        shown = await call(client, "render_prompt", definition="greeter", context={"name": "Ada"})
        assert "Ada" in shown["messages"][-1]["content"]
        assert "does not talk" in await fault(
            client, "render_prompt", definition="greeter", state="bye"
        )
        say = {"say": "I am Ada", "reply": {"to": "bye", "set": {"name": "Ada"}}, "expect": "bye"}
        test = {
            "cases": [
                {"name": "a name", "steps": [say]},
                {"name": "wrong", "steps": [{**say, "expect": "hello"}]},
            ]
        }
        played = await call(
            client, "play_test", definition=json.dumps(GREETER), test=json.dumps(test)
        )
        assert [one["passed"] for one in played["results"]] == [True, False]

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use, workbench=True)


WRONG_TESTS = [
    ("{", "test.json:1:2: error: the text ends inside the object"),
    ("[1]", "test.json:1:1: error: a file of tests is one JSON object, not a list"),
    (
        '{\n  "cases": [\n    {"name": "a", "stepz": []}\n  ]\n}',
        'test.json:3:19: error: unknown key "stepz"; did you',
    ),
    ('{\n  "steps": [{"say": "x",\n    "expect": "nowhere"}]\n}', "test.json:3:15: error: "),
    ('{"steps": [\n  {"say": "x",\n   "reply": {"to": "nowhere"}}]}', "test.json:3:20: error: "),
    ('{"cases": [\n  {"name": "a"},\n  {"name": 5, "steps": "x"}]}', "test.json:3:12: error: "),
    ('{\n  "definition": "/etc/passwd",\n  "cases": 5}', "test.json:3:12: error: "),
    ('{\n  "steps": [], "steps": []}', "test.json:2:16: error: "),
    ("[" * 5_000, "test.json:1:201: error: "),
]


def test_a_wrong_test_says_its_faults_with_line_and_column_in_the_text() -> None:
    async def use(client: Any) -> None:
        for test, told in WRONG_TESTS:
            found = await fault(client, "play_test", definition=json.dumps(GREETER), test=test)
            assert told in found, test
        both = '{"cases": [\n {"name": 5},\n {"stepz": []}]}'
        found = await fault(client, "play_test", definition=json.dumps(GREETER), test=both)
        assert "test.json:2:11: error" in found
        assert "test.json:3:3: error" in found
        good = {"definition": "another.json", "steps": [{"say": "x", "reply": {"to": "hello"}}]}
        played = await call(
            client, "play_test", definition=json.dumps(GREETER), test=json.dumps(good)
        )
        assert played["passed"]

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use, workbench=True)


NAMED_MODELS = [
    "scripted:{file}",
    "replay:{file}",
    "gpt-4o",
    "openai/gpt-4o",
    "ollama/x",
    "litellm:a/b",
    "offline",
]


def naming(model: str) -> list[dict[str, Any]]:
    """Tests that name a model in every way."""
    steps = [{"say": "hi"}]
    return [
        {"model": model, "steps": steps},
        {"model": model, "cases": [{"name": "a", "steps": steps}]},
        {"cases": [{"name": "a", "model": model, "steps": steps}]},
        {"cases": [{"name": "a", "model": "{{m}}", "table": [{"m": model}], "steps": steps}]},
        {"model": model, "cases": [{"name": "a", "steps": [{"say": "hi", "reply": "hello"}]}]},
    ]


def resolved_none(told: str) -> bool:
    return "names no model" in told and "SECRET" not in told


def test_a_test_from_an_assistant_names_no_model_and_none_is_resolved(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(["SECRET"]))
    tests = [test for model in NAMED_MODELS for test in naming(model.format(file=kept))]

    async def use(client: Any) -> None:
        for test in tests:
            told = await fault(
                client, "play_test", definition=json.dumps(GREETER), test=json.dumps(test)
            )
            assert resolved_none(told), test

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use, workbench=True)


def test_an_assistant_on_standard_input_resolves_no_model_either(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text(json.dumps(["SECRET"]))
    (tmp_path / "greeter.json").write_text(json.dumps(GREETER))
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "llm_fsm", "mcp", "greeter.json", "--model", "offline", "--db", "memory"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=str(tmp_path),
    )

    async def connect() -> None:
        async with Client(command) as client:
            for test in naming("scripted:kept.json"):
                told = await fault(
                    client, "play_test", definition=json.dumps(GREETER), test=json.dumps(test)
                )
                assert resolved_none(told)

    asyncio.run(connect())


def test_tools_for_authors_are_off_until_they_are_switched_on() -> None:
    names = {"validate_definition", "explain_rule", "render_prompt", "play_test", "draw"}

    async def use(client: Any) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    machine = AsyncMachine.from_dict(GREETER, model="offline")
    assert not names & talk(machine, use)
    assert names <= talk(AsyncMachine.from_dict(GREETER, model="offline"), use, workbench=True)


def test_definitions_the_format_and_the_guide_are_resources() -> None:
    async def use(client: Any) -> None:
        read = await client.read_resource("definition://greeter")
        assert json.loads(read.contents[0].text)["initial_state"] == "hello"
        schema = await client.read_resource("llm-fsm://format")
        assert "properties" in json.loads(schema.contents[0].text)
        guide = await client.read_resource("llm-fsm://guide")
        assert "states" in guide.contents[0].text

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use)


def test_what_is_wrong_is_said_in_words() -> None:
    async def use(client: Any) -> None:
        assert "no conversation" in await fault(
            client, "send_message", conversation_id="no", text="x"
        )
        assert "no definition" in await fault(client, "start_conversation", definition="no")

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use)


@pytest.mark.parametrize(
    "body", ["[]", '"x"', '{"jsonrpc": "2.0"}', '{"jsonrpc": "2.0", "id": 1, "method": 5}', "{"]
)
def test_a_body_that_is_no_message_is_refused_without_a_library_s_words(body: str) -> None:
    app = create_app(
        AsyncMachine.from_dict(GREETER, model="offline"), closes=True, due_seconds=None
    )
    with served(app) as url:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        answer = httpx.post(f"{url}/mcp", content=body, headers=headers, trust_env=False)
    assert answer.status_code == 400
    assert "pydantic" not in answer.text
    assert "JSONRPCRequest" not in answer.text
    assert answer.json()["error"]["code"] in (-32602, -32700)


def test_arguments_that_do_not_fit_are_named_and_not_quoted() -> None:
    async def use(client: Any) -> None:
        told = await fault(client, "send_message", conversation_id={"PIN": "4711"}, text=5)
        assert (
            told
            == "invalid: conversation_id: Input should be a valid string; text: Input should be a valid string"
        )
        assert "seconds" in await fault(
            client, "wait_for_turns", conversation_id="c", seconds="soon"
        )

    talk(AsyncMachine.from_dict(GREETER, model="offline"), use)
