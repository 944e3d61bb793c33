"""What is wrong in one tool, list or answer of an MCP server takes away nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.definition.models import Definition, ToolRef
from llm_fsm.errors import ConfigurationError
from llm_fsm.testing import ScriptedLLM, calls, reply
from llm_fsm.tools.executor import CallFault
from llm_fsm.tools.mcp import client
from llm_fsm.tools.mcp.messages import tidy_result, unread
from llm_fsm.tools.mcp.servers import McpServers, read_server
from llm_fsm.tools.toolbox import Toolbox
from paths import SUPPORT

pytestmark = pytest.mark.anyio

GOOD = {
    "name": "good",
    "description": "d",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}


def server(**script: Any) -> dict[str, Any]:
    command = [
        sys.executable,
        str(SUPPORT / "raw_mcp_server.py"),
        json.dumps({"tools": [GOOD], **script}),
    ]
    return {"s": {"command": command}}


@asynccontextmanager
async def toolbox(**script: Any) -> AsyncIterator[Toolbox]:
    made = Toolbox(servers=McpServers(server(**script)))
    try:
        yield made
    finally:
        await made.aclose()


async def called(**script: Any) -> Any:
    async with toolbox(**script) as made:
        return await made.servers.call("s", "good", {}, 20.0)


def definition(tool: str) -> Definition:
    return Definition(
        name="d", initial_state="a", states={"a": {}}, tools={"x": ToolRef(mcp="s", tool=tool)}
    )


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"inputSchema": {"anyOf": [{"type": "object"}]}}, 'it lacks "type": "object"'),
        ({"inputSchema": {}}, 'it lacks "type": "object"'),
        ({"inputSchema": {"type": "string"}}, 'it lacks "type": "object"'),
        ({"inputSchema": None}, "it has no inputSchema that is an object"),
        ({}, "it has no inputSchema that is an object"),
        ({"inputSchema": [1]}, "it has no inputSchema that is an object"),
        ({"inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}}, "a"),
    ],
)
async def test_one_malformed_tool_takes_no_other_away_and_is_told_of_by_name(bad, says):
    async with toolbox(tools=[{"name": "bad", **bad}, GOOD, 7, {"name": 3}, {"name": ""}]) as made:
        assert "good" in await made.servers.tools("s")
        await made.policies(definition("good"))
        if says != "a":
            told = f"tool 'x': the MCP server 's' describes its tool 'bad' wrongly: .*{says}"
            with pytest.raises(ConfigurationError, match=told):
                await made.policies(definition("bad"))


@pytest.mark.parametrize(
    "odd",
    [
        {"annotations": 7},
        {"title": []},
        {"outputSchema": {"type": "string"}},
        {"description": ["a"]},
        {"icons": "x"},
    ],
)
async def test_what_is_not_read_of_a_tool_may_be_anything(odd):
    async with toolbox(tools=[{**GOOD, **odd}]) as made:
        assert list(await made.servers.tools("s")) == ["good"]
        assert await made.servers.call("s", "good", {"a": "x"}, 20.0) == "fine"


TEXT = {"type": "text", "text": "here"}
LINKED = "[resource_link file:///b: B, b, The bill, a/b]"


def link(**words: Any) -> dict[str, Any]:
    return {"type": "resource_link", "uri": "file:///b", **words}


def blob(kind: str | None, data: bytes) -> dict[str, Any]:
    inner = {"uri": "file:///a.cs", "blob": base64.b64encode(data).decode()}
    return {
        "type": "resource",
        "resource": {**inner, **({} if kind is None else {"mimeType": kind})},
    }


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ([TEXT, blob("text/plain", b"public class A {}")], "here\npublic class A {}"),
        ([blob("application/json", b'{"a": 1}')], {"a": 1}),
        ([blob("application/vnd.x+xml; charset=utf-8", "<ä/>".encode())], "<ä/>"),
        ([blob("text/plain", b"\xff\xfe")], "[resource file:///a.cs: text/plain, 2 bytes]"),
        ([blob("image/png", b"x" * 2048)], "[resource file:///a.cs: image/png, 2,048 bytes]"),
        ([blob(None, b"abc")], "[resource file:///a.cs: 3 bytes]"),
        (
            [{"type": "image", "data": "QUJD", "mimeType": "image/png"}],
            "[image: image/png, 3 bytes]",
        ),
        ([link(name="b")], "[resource_link file:///b: b]"),
        ([link(name="b", title="B", description="The bill", mimeType="a/b")], LINKED),
        ([link(name="b", title="b", description=7)], "[resource_link file:///b: b]"),
        ([TEXT, link(description="The bill")], "here\n[resource_link file:///b: The bill]"),
        ([link()], "[resource_link file:///b]"),
        ([TEXT, {"type": "new", "words": 1}], "here\n[new]"),
        ([TEXT, 7, "word", None], "here\n7\nword\nnull"),
        (TEXT, "here"),
        (None, ""),
    ],
)
async def test_each_part_of_an_answer_is_read_by_itself(content, value):
    assert await called(result={"content": content}) == value


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"structuredContent": {"n": "seven"}}, {"n": "seven"}),
        ({"structuredContent": [1, 2]}, [1, 2]),
        ({"content": [TEXT]}, "here"),
    ],
)
async def test_a_result_that_does_not_fit_what_the_server_declares_is_a_result(result, value):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert await called(tools=[{**GOOD, "outputSchema": schema}], result=result) == value


@pytest.mark.parametrize("content", [[], None, [{"type": "text", "text": " "}]])
async def test_a_tool_that_fails_without_a_word_has_an_error_with_words(content):
    with pytest.raises(CallFault, match="it failed, and says nothing of why"):
        await called(result={"content": content, "isError": True})


HALF = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "cut in half: \\ud83d"}]}}'


async def test_half_a_character_in_an_answer_is_mended():
    assert await called(lines=[HALF]) == "cut in half: \ufffd"


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": ID, "result": {"content": [',
        '{"jsonrpc": "2.0", "id": ID, "result": [1]}',
        '{"jsonrpc": "2.0", "id": ID}',
        '[{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}]',
        '[{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": ID, "result": {}}]',
        '[{"jsonrpc": "2.0", "id": ID, "result": {"content": [',
        '{"jsonrpc": "2.0", "id": ID, "result": {"method": "cut',
        '{"jsonrpc": "2.0", "result": {"id": 0, "content": [{"type": "text", "text": "caf\udce9"}]}, "id": ID}',
        '[{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "caf\udce9"}]}}]',
        '{"jsonrpc": "2.0", "id": ID, "result": {"content": "caf\udce9',
    ],
)
async def test_an_answer_that_cannot_be_read_is_told_at_once_and_its_outcome_is_unknown(line):
    async with toolbox(lines=[line]) as made:
        await made.servers.tools("s")
        began = time.monotonic()
        with pytest.raises(
            CallFault, match="the MCP server 's': it gave an answer that nobody can read"
        ) as caught:
            await made.servers.call("s", "good", {}, 20.0)
    assert caught.value.lost
    assert time.monotonic() - began < 10


async def test_what_a_server_prints_beside_its_messages_is_passed_over_in_silence(capfd):
    lines = [
        "{half",
        '"words"',
        "[1]",
        "[half",
        "caf\udce9",
        "[caf\udce9]",
        '[{"method": "x", "id": 1}]',
        HALF,
    ]
    assert await called(banner="Starting server v1 ...", lines=lines) == "cut in half: \ufffd"
    assert capfd.readouterr().err == ""


def test_noise_is_no_message():
    assert unread(ValueError("x")) == []


def test_a_result_of_another_kind_stays_as_it_is():
    assert tidy_result({"protocolVersion": "1"}, {}) == {"protocolVersion": "1"}


@pytest.mark.parametrize(
    ("cursors", "pages"),
    [(["same"], 2), (["a", "b", "a"], 3), ([""], 2), (["a", "b", None], 3), ([None], 1), ([7], 1)],
)
async def test_a_list_ends_where_a_cursor_comes_a_second_time(cursors, pages):
    lists = [[{**GOOD, "name": f"tool_{number}"}] for number in range(pages + 2)]
    async with toolbox(tools=lists, cursors=cursors) as made:
        found = await made.servers.tools("s")
    assert list(found) == [f"tool_{number}" for number in range(pages)]


async def test_one_limit_of_time_and_of_pages_holds_for_a_whole_list(monkeypatch):
    pages = [[{**GOOD, "name": f"tool_{number}"}] for number in range(12)]
    async with toolbox(tools=pages, cursors="new", pause=0.1) as made:
        link = await made.servers._link(
            read_server("s", server(tools=pages, cursors="new", pause=0.1)["s"]), 20.0
        )
        assert 1 <= len(await link.tools(0.35)) <= 4
    monkeypatch.setattr(client, "MAX_PAGES", 5)
    async with toolbox(tools=pages, cursors="new") as made:
        assert len(await made.servers.tools("s")) == 5


async def test_one_limit_of_time_holds_for_connecting_and_the_list():
    async with toolbox(pause=20) as made:
        with pytest.raises(CallFault, match=r"it did not finish within|it did not answer within"):
            await made.servers.tools("s", 2.0)


async def test_one_limit_of_time_holds_for_the_lists_of_all_servers():
    slow = server(pause=2)["s"]
    made = Toolbox(servers=McpServers({"s": slow, "t": slow}))
    refs = {"x": ToolRef(mcp="s", tool="good"), "y": ToolRef(mcp="t", tool="good")}
    wanted = Definition(name="d", initial_state="a", states={"a": {}}, tools=refs)
    try:
        with pytest.raises(
            ConfigurationError, match=r"it did not finish within|it did not answer within"
        ):
            await made.policies(wanted, 3.5)
        assert list(await made.policies(wanted)) == ["x", "y"]
    finally:
        await made.aclose()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("no cover", " (no cover)"),
        ({"why": "no cover"}, " (no cover)"),
        ({"why": "no cover", "at": 3}, ' ({"why": "no cover", "at": 3})'),
        (["a", 1], ' (["a", 1])'),
        (0, " (0)"),
        ({}, ""),
        ("", ""),
        (None, ""),
    ],
)
async def test_the_data_of_a_server_s_error_are_told(data, words):
    error = {"code": -32000, "message": "the account is blocked", "data": data}
    with pytest.raises(CallFault) as caught:
        await called(error=error)
    assert str(caught.value) == f"the MCP server 's' refused: the account is blocked{words}"
    assert not caught.value.lost


def versions(count: int) -> list[list[dict[str, Any]]]:
    return [[{**GOOD, "description": str(number)}] for number in range(count)]


async def described(made: Toolbox) -> str:
    return (await made.servers.tools("s"))["good"].description


async def test_tools_are_asked_for_again_when_the_server_says_that_they_have_changed():
    async with toolbox(tools=versions(3), changes=True) as made:
        assert [await described(made), await described(made)] == ["0", "0"]
        version = made.version
        await made.servers.call("s", "good", {}, 20.0)
        await made.servers.call("s", "good", {}, 20.0)
        assert made.version != version
        assert [await described(made), await described(made)] == ["1", "1"]
        assert made.version not in (version, -1)


async def test_tools_are_asked_for_again_with_each_new_session():
    async with toolbox(tools=[{**GOOD, "description": "PID"}], dies=True) as made:
        first, version = await described(made), made.version
        await made.servers.call("s", "good", {}, 20.0)
        while made.version == version:  # until the end of the process is noticed
            await asyncio.sleep(0.01)
        second = await described(made)
        assert second != first
        assert await described(made) == second


async def test_tools_of_a_server_that_does_not_come_back_stay_known(monkeypatch):
    async with toolbox(dies=True) as made:
        await described(made)
        version = made.version
        await made.servers.call("s", "good", {}, 20.0)
        while made.version == version:
            await asyncio.sleep(0.01)
        gone = {"s": read_server("s", {"command": ["/no/such/program"]})}
        monkeypatch.setattr(made.servers, "_servers", gone)
        assert await described(made) == "d"
        assert made.version == version
        with pytest.raises(CallFault, match="cannot be reached"):
            await made.servers.call("s", "good", {}, 20.0)


async def test_a_machine_shows_a_model_the_tools_as_they_are_now():
    tools = {"count": {"mcp": "s", "tool": "good"}}
    states = {
        "talk": {"purpose": "Count.", "tools": ["count"], "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    document = {"name": "d", "initial_state": "talk", "tools": tools, "states": states}
    model = ScriptedLLM([calls(("count", {})), reply("talk", "One."), reply("talk", "Two.")])
    mcp = server(tools=versions(2), changes=True)
    async with AsyncMachine.from_dict(document, model=model, mcp=mcp) as machine:
        chat = await machine.start(greet=False)
        await chat.send("first")
        await chat.send("second")
    assert [request.tools[0].description for request in model.requests] == ["0", "0", "1"]


async def test_the_time_of_a_turn_holds_while_servers_list_their_tools():
    states = {"a": {"purpose": "Hello?", "tools": ["x"]}}
    document = {
        "name": "d",
        "initial_state": "a",
        "states": states,
        "tools": {"x": {"mcp": "s", "tool": "good"}},
    }
    async with AsyncMachine.from_dict(
        document, model="offline", mcp=server(pause=20), timeout=1.0
    ) as machine:
        began = time.monotonic()
        with pytest.raises(
            ConfigurationError, match=r"it did not finish within|it did not answer within"
        ):
            await machine.start(greet=False)
        assert time.monotonic() - began < 15  # the server pauses for 20
