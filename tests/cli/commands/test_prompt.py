"""`llm-fsm prompt`: what the model reads in a state, its sizes, and the budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_command import GREETER, Desk
from llm_fsm._text import estimate


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    made = Desk(tmp_path, capsys, monkeypatch)
    made.write("greeter.json", GREETER)
    return made


def test_a_state_is_shown_with_the_size_of_each_section(desk: Desk) -> None:
    done = desk.run("prompt", "greeter.json", "--state", "hello", "--message", "I'm Ada")
    assert (done.code, done.err) == (0, "")
    assert "user     transitions              about" in done.out
    assert '<user_input>\n"I\'m Ada"\n</user_input>' in done.out


def test_context_and_history_stand_in_the_prompt(desk: Desk) -> None:
    history = json.dumps([{"system": "Name?"}, {"user": "Ada"}, {"system": "Age?"}])
    known = ["--context", '{"name": "Ada", "pin": "4711"}', "--history", history]
    [shown] = json.loads(
        desk.run("prompt", "greeter.json", "--state", "hello", "--format", "json", *known).out
    )
    user = shown["messages"][1]["content"]
    assert user.startswith(
        '<conversation_history>\n[{"system":"Name?"},{"user":"Ada"},{"system":"Age?"}]\n</conversation_history>'
    )
    assert '<current_context>\n{"name":"Ada","pin":"•••"}\n</current_context>' in user
    assert "4711" not in user
    assert shown["sections"]["user"]["conversation_history"] > 0
    assert shown["schema"]["type"] == "object"


def test_without_a_state_all_that_talk_are_listed_the_largest_first(desk: Desk) -> None:
    done = desk.run("prompt", "greeter.json")
    assert [line.split()[0] for line in done.out.splitlines()] == ["state", "hello", "bar"]


def test_a_budget_decides_the_exit_code(desk: Desk) -> None:
    [shown] = json.loads(
        desk.run("prompt", "greeter.json", "--state", "bar", "--format", "json").out
    )
    tokens = shown["tokens"]
    assert desk.run("prompt", "greeter.json", "--state", "bar", "--budget", str(tokens)).code == 0
    over = desk.run("prompt", "greeter.json", "--state", "bar", "--budget", str(tokens - 1))
    assert over.code == 1
    assert f"state 'bar' takes about {tokens:,} tokens; the budget is {tokens - 1:,}" in over.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--state", "zzz"], "state 'zzz' is not there; these talk: hello, bar"),
        (["--state", "bye"], "state 'bye' talks with no user"),
        (["--context", "[]"], "--context is one JSON object"),
        (["--context", '{"age": "old"}'], "--context: context key 'age'"),
        (["--history", "{}"], "--history is a list such as"),
        (["--history", "[1]"], "--history is a list such as"),
        (["--history", "["], "--history is not JSON"),
        (["--budget", "0"], "--budget"),
    ],
)
def test_what_cannot_be_shown_is_said(desk: Desk, arguments: list[str], said: str) -> None:
    done = desk.run("prompt", "greeter.json", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("budget", [[], ["--budget", "5"]], ids=["look", "budget"])
def test_a_machine_in_which_nobody_talks_has_no_prompts_and_no_fault(
    desk: Desk, budget: list[str]
) -> None:
    states = {
        "sort": {"kind": "decide", "transitions": [{"target_state": "end"}]},
        "end": {"kind": "final"},
    }
    desk.write("sorter.json", {"name": "sorter", "initial_state": "sort", "states": states})
    done = desk.run("prompt", "sorter.json", *budget)
    assert (done.code, done.out) == (0, "")
    assert "sorter.json: no state talks with a user, so there are no prompts" in done.err
    assert json.loads(desk.run("prompt", "sorter.json", "--format", "json", *budget).out) == []
    assert desk.run("prompt", "sorter.json", "--state", "sort").code == 2


def test_a_definition_at_fault_is_exit_1(desk: Desk) -> None:
    desk.write("broken.json", {**GREETER, "initial_state": "nowhere"})
    done = desk.run("prompt", "broken.json")
    assert (done.code, done.out) == (1, "")
    assert "nowhere" in done.err


def test_a_state_that_calls_another_definition_says_which_one_to_look_at(desk: Desk) -> None:
    states = {
        "pay": {"kind": "subflow", "flow": "greeter.json"},
        "ask": {"transitions": [{"target_state": "pay"}]},
    }
    desk.write("caller.json", {"name": "caller", "initial_state": "ask", "states": states})
    done = desk.run("prompt", "caller.json", "--state", "pay")
    assert (done.code, done.out) == (2, "")
    assert (
        "state 'pay' calls 'greeter.json', which is looked at by itself; these talk: ask"
        in done.err
    )


TOOLED = {
    "name": "shop",
    "initial_state": "ask",
    "tools": {"price": {"registered": "price"}, "stock": {"mcp": "shop", "tool": "stock"}},
    "states": {
        "ask": {
            "purpose": "Ask",
            "tools": ["price", "stock"],
            "transitions": [{"target_state": "bye"}],
        },
        "bye": {"purpose": "Bye"},
    },
}
PRICES = '''
def price(thing: str, amount: int = 1) -> float:
    """What so many of a thing cost."""
    return 1.0

TOOLS = [price]
'''


def test_tools_that_the_command_line_brings_are_shown_and_counted(desk: Desk) -> None:
    desk.write(
        "shop.json",
        {**TOOLED, "tools": {"price": {"registered": "price"}, "stock": {"registered": "price"}}},
    )
    (desk.folder / "prices.py").write_text(PRICES)
    told = desk.run(
        "prompt", "shop.json", "--tools", "prices.py", "--state", "ask", "--format", "json"
    )
    assert (told.code, told.err) == (0, "")
    [shown] = json.loads(told.out)
    assert [tool["function"]["name"] for tool in shown["tools"]] == ["price", "stock"]
    tokens = shown["sections"]["tools"]["tools"]
    assert tokens == sum(
        estimate(json.dumps(tool, separators=(",", ":"))) for tool in shown["tools"]
    )
    [without] = json.loads(
        desk.run("prompt", "shop.json", "--state", "ask", "--format", "json").out
    )
    assert (without["tools"], shown["tokens"]) == ([], without["tokens"] + tokens)
    assert (
        f"tools    tools                    about {tokens:6,} tokens"
        in desk.run("prompt", "shop.json", "--tools", "prices.py", "--state", "ask").out
    )
    table = desk.run("prompt", "shop.json", "--tools", "prices.py").out.splitlines()
    assert [int(figure) for figure in table[1].split()[-2:]] == [tokens, shown["tokens"]]
    assert (
        desk.run(
            "prompt", "shop.json", "--tools", "prices.py", "--budget", str(shown["tokens"] - 1)
        ).code
        == 1
    )


def test_tools_that_nobody_brings_are_said_not_to_be_counted(desk: Desk) -> None:
    desk.write("shop.json", TOOLED)
    (desk.folder / "prices.py").write_text(PRICES)
    none, one = (
        desk.run("prompt", "shop.json"),
        desk.run("prompt", "shop.json", "--tools", "prices.py"),
    )
    assert (none.code, one.code) == (0, 0)
    assert (
        "not counted: the tools price, stock; --tools FILE.py or --mcp FILE brings what is read"
        in none.err
    )
    assert "not counted: the tools stock;" in one.err


def test_a_server_whose_tools_cannot_be_had_is_said(desk: Desk) -> None:
    desk.write("shop.json", TOOLED)
    desk.write("servers.json", {"shop": {"command": ["/nonexistent"]}})
    done = desk.run("prompt", "shop.json", "--mcp", "servers.json")
    assert (done.code, done.out) == (3, "")
    assert "tool 'stock': the MCP server 'shop' cannot be reached" in done.err
