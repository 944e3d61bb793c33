"""Tools of MCP servers, against a real server process (mcp_server.py) over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.errors import ConfigurationError
from llm_fsm.tools.executor import CallFault
from llm_fsm.tools.mcp.servers import McpServers, read_server
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.effects import PlannedCall
from paths import SUPPORT

pytestmark = pytest.mark.anyio

SERVER = str(SUPPORT.joinpath("mcp_server.py"))
STDIO = {"command": [sys.executable, SERVER, "stdio"]}
PLENTY = 30.0


@contextmanager
def http_server(port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = [sys.executable, SERVER, "http", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@asynccontextmanager
async def servers(config: dict[str, Any]) -> AsyncIterator[McpServers]:
    made = McpServers(config)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture(params=["stdio", "http"])
def config(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    if request.param == "stdio":
        yield {"things": STDIO}
        return
    with http_server() as (port, _):
        yield {"things": {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Team": "a"}}}


async def test_tools_are_listed_with_their_schemas_and_called(config):
    async with servers(config) as made:
        tools = await made.tools("things")
        assert {"add", "order", "slow"} <= tools.keys()
        assert tools["add"].description == "Add two numbers."
        assert tools["add"].parameters["properties"]["a"]["type"] == "integer"
        assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}
        assert (await made.call("things", "order", {"order_id": "x"}, PLENTY))["lines"] == [
            {"item": "tea", "count": 2}
        ]
        assert await made.call("things", "words", {"text": "plain"}, PLENTY) == "plain"
        assert await made.call("things", "words", {"text": '{"a": [1]}'}, PLENTY) == {"a": [1]}
        for no_json in ("{half", '{"price": NaN}', "[1e999]"):
            assert await made.call("things", "words", {"text": no_json}, PLENTY) == no_json


async def test_what_goes_wrong_in_a_call_is_a_fault_and_the_session_goes_on(config):
    async with servers(config) as made:
        for tool, arguments, says in [
            ("fail", {"reason": "no"}, "Error executing tool fail"),
            ("add", {"a": "x"}, "valid integer"),
            ("nothing", {}, "nothing"),
        ]:
            with pytest.raises(CallFault, match=says):
                await made.call("things", tool, arguments, PLENTY)
        with pytest.raises(
            CallFault, match=r"did not finish within 0\.2 seconds, and was given up"
        ):
            await made.call("things", "slow", {"seconds": 60}, 0.2)
        assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}


CODES = [1, 0, -1, -32000, -32001, -32002, -32042, -32099, -32600, -32601, -32602, -32603, -32700]
"""Codes of JSON-RPC, of the SDK for its own time-outs and connections, and of servers."""


async def test_an_error_that_a_server_answers_with_is_an_answer_whatever_its_code(config):
    async with servers(config) as made:
        before = await made.call("things", "process", {}, PLENTY)
        for code in CODES:
            with pytest.raises(CallFault, match="the MCP server 'things' refused: no") as caught:
                await made.call("things", "refuse", {"code": code}, PLENTY)
            assert not caught.value.lost, code
            assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}
        assert await made.call("things", "process", {}, PLENTY) == before


async def test_calls_share_one_session_even_when_they_begin_at_once(config):
    async with servers(config) as made:
        calls = [made.call("things", "process", {}, PLENTY) for _ in range(8)]
        assert len({answer["result"] for answer in await asyncio.gather(*calls)}) == 1


async def test_a_call_that_is_cancelled_leaves_the_session_usable(config):
    async with servers(config) as made:
        await made.tools("things")
        task = asyncio.create_task(made.call("things", "slow", {"seconds": 60}, PLENTY))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}


async def test_a_stdio_server_that_dies_is_started_again_with_the_next_call():
    async with servers({"things": STDIO}) as made:
        with pytest.raises(CallFault, match="went away during the call") as caught:
            await made.call("things", "die", {}, PLENTY)
        assert caught.value.lost
        first = (await made.call("things", "process", {}, PLENTY))["result"]
        os.kill(first, signal.SIGKILL)
        try:
            second = await made.call("things", "process", {}, PLENTY)
        except CallFault:  # the call was under way before the death was noticed
            second = await made.call("things", "process", {}, PLENTY)
        assert second["result"] != first


async def test_a_server_that_is_slow_to_start_is_waited_for_by_all_at_once():
    late = f"import os, sys, time; time.sleep(1); os.execv(sys.executable, [sys.executable, {SERVER!r}, 'stdio'])"
    async with servers({"things": {"command": [sys.executable, "-c", late]}}) as made:
        calls = [made.call("things", "add", {"a": 1}, limit) for limit in (0.2, PLENTY, 0.2)]
        first, second, third = await asyncio.gather(*calls, return_exceptions=True)
    assert second == {"result": 3}
    assert "did not answer within 0.2 seconds" in str(first)
    assert "did not answer within 0.2 seconds" in str(third)


async def test_callers_who_wait_for_less_than_a_server_takes_to_start_do_not_keep_it_from_starting():
    late = f"import os, sys, time; time.sleep(1); os.execv(sys.executable, [sys.executable, {SERVER!r}, 'stdio'])"
    async with servers({"things": {"command": [sys.executable, "-c", late]}}) as made:
        found = None
        for _ in range(100):
            with contextlib.suppress(CallFault):
                found = found or await made.call("things", "add", {"a": 1}, 0.2)
    assert found == {"result": 3}


async def test_a_server_that_never_answers_is_given_up_whoever_waits(monkeypatch):
    monkeypatch.setattr("llm_fsm.tools.mcp.client.CONNECT", 0.1)
    async with servers(
        {"things": {"command": [sys.executable, "-c", "import time; time.sleep(60)"]}}
    ) as made:
        with pytest.raises(CallFault, match=r"did not answer within 0\.1 seconds"):
            await made.call("things", "add", {"a": 1}, PLENTY)


async def test_a_server_that_reads_no_more_holds_nobody_up():
    async with servers({"things": STDIO}) as made:
        process = (await made.call("things", "process", {}, PLENTY))["result"]
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(CallFault, match="given up"):
                await made.call("things", "add", {"a": "x" * 1_000_000}, 0.1)
        finally:
            os.kill(process, signal.SIGKILL)


async def test_a_cancellation_that_comes_while_a_call_is_given_up_is_not_kept():
    given_up = asyncio.Event()

    async def ends_slowly() -> None:
        try:
            await asyncio.sleep(PLENTY)
        finally:
            given_up.set()
            await asyncio.sleep(PLENTY)

    async with servers({"things": STDIO}) as made:
        await made.call("things", "process", {}, PLENTY)
        link = made._links[asyncio.get_running_loop()]["things"].link
        task = asyncio.create_task(link._ask(ends_slowly(), 0.01))
        await given_up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_server_on_this_machine_is_asked_through_no_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with http_server() as (port, _):
        async with servers({"things": {"url": f"http://127.0.0.1:{port}/mcp"}}) as made:
            assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}


async def test_a_server_on_this_machine_is_trusted_as_ssl_cert_file_says(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    async with servers({"things": {"url": "https://localhost:9/mcp"}}) as made:
        with pytest.raises(CallFault, match=r"cannot be reached: .*No such file"):
            await made.call("things", "add", {"a": 1}, PLENTY)


async def test_an_http_server_that_comes_back_is_called_again():
    with http_server() as (port, process):
        async with servers({"things": {"url": f"http://127.0.0.1:{port}/mcp"}}) as made:
            with pytest.raises(CallFault, match="went away during the call"):
                await made.call("things", "die", {}, PLENTY)
            process.wait(PLENTY)
            with pytest.raises(CallFault, match="the MCP server 'things' cannot be reached"):
                await made.call("things", "add", {"a": 1}, PLENTY)
            with http_server(port):
                assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"command": ["/no/such/program"]}, "cannot be reached: .*No such file"),
        (
            {
                "command": [
                    sys.executable,
                    "-c",
                    "import sys; print('no key', file=sys.stderr); sys.exit(4)",
                ]
            },
            "cannot be reached: .*it said: no key",
        ),
        (
            {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]},
            "did not answer within 0.5",
        ),
        (
            {"url": "http://127.0.0.1:{port}/mcp"},
            "cannot be reached: All connection attempts failed",
        ),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(server, says):
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        port = nobody_listens.getsockname()[1]
        server = {
            name: str(value).format(port=port) if name == "url" else value
            for name, value in server.items()
        }
    async with servers({"things": server}) as made:
        with pytest.raises(CallFault, match=says):
            await made.call("things", "add", {"a": 1}, 0.5 if "sleep" in str(server) else PLENTY)


async def test_a_server_is_given_its_own_variables_and_none_of_ours(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    async with servers({"things": {**STDIO, "env": {"ROOT": "/srv"}}}) as made:
        assert await made.call("things", "setting", {"name": "ROOT"}, PLENTY) == {"result": "/srv"}
        assert await made.call("things", "setting", {"name": "OPENAI_API_KEY"}, PLENTY) == {
            "result": ""
        }


async def test_closing_ends_the_process():
    made = McpServers({"things": STDIO})
    process = (await made.call("things", "process", {}, PLENTY))["result"]
    await made.aclose()
    assert not Path(f"/proc/{process}").exists()
    await made.aclose()


def test_each_event_loop_has_a_session_of_its_own():
    made = McpServers({"things": STDIO})

    async def process() -> int:
        try:
            return int((await made.call("things", "process", {}, PLENTY))["result"])
        finally:
            await made.aclose()

    assert asyncio.run(process()) != asyncio.run(process())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("python x.py", r'give {"command": \["program", "argument"\]'),
        ({}, "give {"),
        ({"command": ["a"], "url": "http://x"}, "give {"),
        ({"command": []}, "command is a list of texts"),
        ({"command": [1]}, "command is a list of texts"),
        ({"command": ["a"], "env": {"A": 1}}, "env is an object of texts"),
        ({"url": "ftp://x"}, "url 'ftp://x' is no http:// or https:// address"),
        ({"url": "http://[::1"}, r"url 'http://\[::1' is no http:// or https:// address"),
        (
            {"url": "https://shop:99999/mcp"},
            "url 'https://shop:99999/mcp' is no http:// or https:// address",
        ),
        (
            {"url": "http://my shop/mcp"},
            "url 'http://my shop/mcp' is no http:// or https:// address",
        ),
        ({"url": "http://x", "headers": ["a"]}, "headers is an object of texts"),
        (
            {"type": "http", "command": ["a"]},
            "type 'http' does not fit 'command', which is 'stdio'",
        ),
        (
            {"type": "sse", "url": "http://x"},
            "type 'sse' does not fit 'url', which is 'http'; servers over SSE alone",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_at_once(given, says):
    with pytest.raises(ConfigurationError, match=f"mcp server 'shop': .*{says}"):
        McpServers({"shop": given})


STARTED = {"command": "uvx", "args": ["a"], "type": "stdio"}
ASKED = {"url": "http://x/mcp", "type": "streamable-http", "headers": {"A": "b"}}


@pytest.mark.parametrize("wrapper", ["", "mcpServers", "servers", "context_servers", "mcp"])
async def test_configurations_that_other_programs_write_are_read(wrapper):
    off = {"c": {**STARTED, "disabled": True}, "d": {**ASKED, "type": "http", "disabled": False}}
    plain = {"a": STARTED, "b": ASKED, **off}
    made = McpServers({wrapper: plain, "inputs": []} if wrapper else plain)
    assert [(alias, server.command, server.url) for alias, server in made._servers.items()] == [
        ("a", ("uvx", "a"), ""),
        ("b", (), "http://x/mcp"),
        ("d", (), "http://x/mcp"),
    ]
    with pytest.raises(
        ConfigurationError, match="the MCP server 'c' is disabled in its configuration"
    ):
        await made.tools("c")


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"httpUrl": "http://x/mcp"}, {"url": "http://x/mcp"}),
        (
            {"serverUrl": "http://x/mcp", "headers": {"A": "b"}},
            {"url": "http://x/mcp", "headers": {"A": "b"}},
        ),
        ({"type": "remote", "url": "http://x/mcp", "enabled": True}, {"url": "http://x/mcp"}),
        (
            {"type": "local", "command": ["a"], "environment": {"B": "c"}},
            {"command": ["a"], "env": {"B": "c"}},
        ),
        ({"command": "a", "args": ["b"], "url": None, "env": None}, {"command": ["a", "b"]}),
    ],
)
def test_settings_may_have_the_names_of_other_programs(given, same):
    assert read_server("shop", given) == read_server("shop", same)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"command": ["a"], "envs": {}},
            r"'envs' is unknown and has no effect; did you mean 'env'\?",
        ),
        ({"command": ["a"], "autoApprove": ["x"]}, "'autoApprove' is unknown and has no effect"),
        ({"url": "http://x", "timeout": 60}, "'timeout' is unknown and has no effect"),
        ({"url": "http://x", "command_line": 1}, "'command_line' is unknown and has no effect"),
    ],
)
def test_an_unknown_setting_is_a_warning(given, says):
    with pytest.warns(RuntimeWarning, match=f"mcp server 'shop': the setting {says}"):
        assert list(McpServers({"shop": given})._servers) == ["shop"]


def test_a_server_that_another_program_does_not_enable_is_off():
    assert not McpServers({"mcp": {"shop": {**STARTED, "enabled": False}}})._servers


def test_a_server_may_be_called_servers():
    assert McpServers({"servers": STARTED})._servers["servers"].command == ("uvx", "a")


def test_blanks_around_an_address_are_no_part_of_it() -> None:
    assert read_server("shop", {"url": " http://shop/mcp\n"}).url == "http://shop/mcp"


async def test_without_the_sdk_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(
        ConfigurationError, match=r"need the package `mcp`.*pip install 'mcp>=2\.2,<3'"
    ):
        await McpServers({"things": STDIO}).tools("things")


def test_the_sdk_is_imported_with_the_first_connection_only():
    code = (
        "import sys; from llm_fsm.tools.toolbox import Toolbox; from llm_fsm.tools.mcp.servers import McpServers; "
        "Toolbox(servers=McpServers({'a': {'url': 'http://x'}})); print('mcp' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


# -- all tools of a machine behind one door


def definition(**tools: Any) -> Definition:
    document = {
        "name": "m",
        "initial_state": "a",
        "states": {"a": {"purpose": "x"}},
        "tools": tools,
    }
    return Definition.model_validate(document)


def double(a: int) -> int:
    return 2 * a


async def test_a_toolbox_has_registered_functions_and_tools_of_servers():
    toolbox = Toolbox(ToolRegistry([double]), McpServers({"things": STDIO}))
    wanted = definition(
        twice={"registered": "double", "timeout": 3},
        double={},
        add={"mcp": "things", "output": {"sum": "result"}, "at_most_once": True},
        look={"mcp": "things", "tool": "order", "scope": ["a"]},
    )
    try:
        policies = await toolbox.policies(wanted)
        assert {name: made.name for name, made in policies.items()} == {
            name: name for name in wanted.tools
        }
        assert (policies["twice"].timeout, policies["double"].registered) == (3, "double")
        assert (policies["add"].output, policies["add"].at_most_once) == ({"sum": "result"}, True)
        calls = [
            policies["twice"].plan(id="1", arguments={"a": 4}, key="k"),
            policies["add"].plan(id="2", arguments={"a": 4}, key="k"),
            policies["look"].plan(id="3", arguments={"order_id": "x"}, key="k"),
            policies["look"].plan(id="4", arguments={}, key="k"),
            PlannedCall(id="5", name="x", arguments={}, key="k", mcp="other", tool="y"),
        ]
        results = (await toolbox.run(calls, "a")).results
        assert [result.value for result in results[:2]] == [8, {"result": 6}]
        assert results[2].value["order_id"] == "x"
        assert "order_id" in str(results[3].error)
        assert results[4].error.startswith("no MCP server 'other' is configured")
        outside = (await toolbox.run(calls[2:3], "b")).results[0]
        assert outside.error == "the tool 'look' cannot be called in state 'b', only in a"
        lost = policies["add"].plan(id="6", arguments={}, key="k")
        died = (await toolbox.run([PlannedCall(**{**_fields(lost), "tool": "die"})], "a")).results[
            0
        ]
        assert died.unknown
    finally:
        await toolbox.aclose()


async def test_a_tool_of_a_server_acts_by_its_hints_and_by_the_definition() -> None:
    wanted = {name: {"mcp": "own"} for name in ("order", "fail", "die", "words")}
    kit = definition(
        **wanted,
        add={"mcp": "own", "acts": True},
        slow={"mcp": "own", "tool": "die", "acts": False},
    )
    async with servers({"own": STDIO}) as found:
        policies = await Toolbox(servers=found).policies(kit)
    assert {name for name, policy in policies.items() if policy.acts} == {"fail", "die", "add"}


def _fields(call: PlannedCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in PlannedCall.__slots__}


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        (
            {"registered": "doble"},
            "tool 'x' of the definition: there is no tool 'doble'; did you mean 'double'?",
        ),
        ({"registered": "zzz"}, "there are double (functions are registered with @machine.tool"),
        ({"mcp": "thing"}, "no MCP server 'thing' is configured; did you mean 'things'?"),
        (
            {"mcp": "things", "tool": "ad"},
            "the MCP server 'things' has no tool 'ad'; did you mean 'add'?",
        ),
        ({"mcp": "gone"}, "tool 'x': the MCP server 'gone' cannot be reached"),
    ],
)
async def test_what_a_definition_wants_and_nobody_has_is_said_before_anything_runs(ref, says):
    config = {"things": STDIO, "gone": {"command": ["/no/such/program"]}}
    toolbox = Toolbox(ToolRegistry([double]), McpServers(config))
    try:
        with pytest.raises(ConfigurationError) as caught:
            await toolbox.policies(definition(x=ref))
        assert says in str(caught.value)
    finally:
        await toolbox.aclose()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (STDIO, None),
        ({"command": [sys.executable, "-c", "import sys; sys.exit('no key')"]}, "it said: no key"),
    ],
)
def test_servers_over_stdio_need_no_event_loop_that_watches_pipes(
    config: dict[str, Any], says: str | None
) -> None:
    """That of Windows watches none."""

    class Poor(asyncio.SelectorEventLoop):
        def add_reader(self, *_: Any) -> None:
            raise NotImplementedError

    async def use() -> None:
        async with servers({"things": config}) as made:
            if says is None:
                assert await made.call("things", "add", {"a": 1}, PLENTY) == {"result": 3}
                return
            with pytest.raises(CallFault, match=says):
                await made.call("things", "add", {"a": 1}, PLENTY)

    with asyncio.Runner(loop_factory=Poor) as runner:
        runner.run(use())
