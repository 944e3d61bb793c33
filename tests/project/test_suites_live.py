"""A retail task is played live over two servers, and its reward is that of τ-bench. The samples are
our own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import desk
from benchmarks.suites.__main__ import main
from benchmarks.suites.customer import OPENING, STOP
from benchmarks.suites.episode import LIMIT
from benchmarks.suites.retail_tools import WRITES
from llm_fsm.llm.scripted import calls
from llm_fsm.testing import reply, serve_scripted

TOOL = """
import json
from tau_bench.envs.tool import Tool


class {title}(Tool):
    @staticmethod
    def invoke(data, **given):
        {body}

    @staticmethod
    def get_info():
        told = {{"name": "{name}", "description": "Help.", "parameters": {{"type": "object", "properties": {{}}}}}}
        return {{"type": "function", "function": told}}
"""
CANCEL = """order = data["orders"][given["order_id"]]
        [paid] = order["payment_history"]
        order["payment_history"].append({**paid, "transaction_type": "refund"})
        order.update(status="cancelled", cancel_reason=given["reason"])
        return json.dumps(order)"""
BODIES = {
    **dict.fromkeys(WRITES, 'return "Error: not today"'),
    "cancel_pending_order": CANCEL,
    "find_user_id_by_email": 'return next(iter(data["users"]))',
    "transfer_to_human_agents": 'return "Transfer successful"',
}
GOLD = {"order_id": "#W0000001", "reason": "no longer needed"}
TASK = {
    "id": "7",
    "user_scenario": {
        "persona": None,
        "instructions": {
            "reason_for_call": "You want to cancel #W0000001, and know what you get back.",
            "known_info": "You are ada@example.org.",
            "unknown_info": None,
            "task_instructions": "You are brief.",
        },
    },
    "evaluation_criteria": {
        "actions": [{"name": "cancel_pending_order", "arguments": GOLD}],
        "communicate_info": ["30.00"],
    },
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    where = tmp_path / "retail"
    (where / "tools").mkdir(parents=True)
    (where / "db.json").write_text(desk.EXAMPLE.DATA.read_text(encoding="utf-8"))
    (where / "tasks.json").write_text(json.dumps([TASK]))
    (where / "policy.md").write_text("# The rules of the shop")
    (where / "tool.py").write_text("class Tool:\n    pass\n")
    for name, body in BODIES.items():
        title = name.title().replace("_", "")
        (where / "tools" / f"{name}.py").write_text(TOOL.format(title=title, name=name, body=body))
    return tmp_path


@pytest.fixture
def live(shop: Path) -> Any:
    """Return a function that plays the task, and returns the exit code, the result and all that the
    models were asked.
    """

    def play(agent: Any, customer: Any, *options: str, loop: bool = False) -> Any:
        out = shop / "out.json"
        with serve_scripted(agent, loop=loop) as bot, serve_scripted(customer, loop=loop) as human:
            urls = ["--base-url", bot.base_url, "--user-url", human.base_url]
            told = ["--reader", "--task", "7", *urls, "--out", str(out), *options]
            code = main(["tau", str(shop), *told])
        asked = [[one.body for one in server.requests] for server in (bot, human)]
        return code, json.loads(out.read_text(encoding="utf-8")), asked

    return play


ADA = "I'm ada@example.org, please cancel #W0000001, I don't need it"
ASKED = [ADA, "Cancel #W0000001, no longer needed", "Yes", STOP]
KNOWN = reply("find", email="ada@example.org", _quotes={"email": "ada@example.org"})
WISH = reply("cancel", **GOLD)
OTHER = reply("cancel", order_id="#W0000001", reason="ordered by mistake")
FIND = calls(("find_user_id_by_email", {"email": "ada@example.org"}))
LISTED = "I cancel #W0000001, no longer needed, and you get $30.00. Yes?"
RIGHT = [FIND, LISTED, calls(("cancel_pending_order", GOLD)), "Done."]
WRONG = calls(("cancel_pending_order", {"order_id": "#W0000001", "reason": "ordered by mistake"}))
MORE = calls(("cancel_pending_order", {"order_id": "#W0000003", "reason": "no longer needed"}))


@pytest.mark.parametrize(
    ("agent", "customer", "judged"),
    [
        ([KNOWN, WISH], ASKED, (1.0, "", [])),
        ([KNOWN, OTHER], ASKED, (0.0, "#W0000001", [])),
        ([KNOWN, WISH], [*ASKED[:2], STOP], (0.0, "#W0000001", [])),
        ([KNOWN], [ADA, f"Never mind. {STOP}"], (0.0, "#W0000001", ["30.00"])),
    ],
)
def test_the_reward_of_our_bot_is_that_of_its_database_and_words(
    live: Any, agent: Any, customer: Any, judged: tuple[float, str, list[str]]
) -> None:
    code, found, _ = live(agent, customer)
    assert code == 0
    assert (found["reward"], found["differs"], found["unsaid"]) == judged
    assert found["ended_by"] == "customer"
    assert (found["turns"], found["agent"]["calls"]) == (len(customer) - 1, len(agent))
    assert found["customer"]["calls"] == len(customer)
    assert found["agent"]["name"] == "examples/retail"


@pytest.mark.parametrize(
    ("agent", "customer", "judged"),
    [
        (RIGHT, [ADA, "Yes", STOP], (1.0, "", [])),
        ([FIND, LISTED, WRONG, "Done."], [ADA, "Yes", STOP], (0.0, "#W0000001", [])),
        ([*RIGHT[:3], MORE, "Done."], [ADA, "Yes", STOP], (0.0, "#W0000003", [])),
        ([RIGHT[2], "Done."], [ADA, STOP], (0.0, "", ["30.00"])),
        ([calls(("fly", {})), LISTED], [ADA, STOP], (0.0, "#W0000001", [])),
    ],
)
def test_the_reward_of_a_bare_loop_is_that_of_its_database_and_words(
    live: Any, agent: Any, customer: Any, judged: tuple[float, str, list[str]]
) -> None:
    code, found, (asked, _) = live(agent, customer, "--bare")
    assert code == 0
    assert (found["reward"], found["differs"], found["unsaid"]) == judged
    assert (found["turns"], found["agent"]["calls"]) == (len(customer) - 1, len(agent))
    assert asked[0]["messages"][0] == {"role": "system", "content": "# The rules of the shop"}
    assert {tool["function"]["name"] for tool in asked[0]["tools"]} == set(BODIES)


def test_the_results_of_tools_come_back_to_the_loop(live: Any) -> None:
    _, found, (asked, _) = live([FIND, "Hello Ada."], ["Hi", STOP], "--bare")
    assert asked[1]["messages"][-1]["content"] == "ada_byron_1"
    assert found["said"] == [{"customer": "Hi", "agent": "Hello Ada."}]
    assert min(found["agent"]["tokens_in"], found["agent"]["tokens_out"]) > 0


def test_the_customer_knows_the_task_and_reads_the_agent(live: Any) -> None:
    _, _, (_, asked) = live([LISTED], [ADA, STOP], "--bare")
    system, *first = asked[0]["messages"]
    assert [part in system["content"] for part in ("cancel #W0000001", "You are brief", STOP)] == [
        *[True] * 3
    ]
    assert first == [{"role": "user", "content": OPENING}]
    assert [one["content"] for one in asked[1]["messages"][2:]] == [ADA, LISTED]


def test_a_talk_without_an_end_is_cut_and_has_no_reward(live: Any) -> None:
    script = [*RIGHT, *["Hm."] * LIMIT]
    _, found, _ = live(script, ["Yes"], "--bare", loop=True)
    assert (found["ended_by"], found["turns"], found["differs"]) == ("limit", LIMIT, "")
    assert found["reward"] == 0.0


def test_an_agent_that_passes_the_customer_on_ends_the_talk(live: Any) -> None:
    passed = calls(("transfer_to_human_agents", {"summary": "?"}))
    _, found, _ = live([passed, "Please hold on."], ["A person, please"], "--bare")
    assert (found["ended_by"], found["turns"]) == ("agent", 1)
    _, found, _ = live([reply("transferred")], ["A person, please"])
    assert (found["ended_by"], found["turns"]) == ("agent", 1)


@pytest.mark.parametrize("bare", [(), ("--bare",)])
@pytest.mark.parametrize(("agent", "customer"), [(["Hello."], [" "]), ([], [ADA])])
def test_a_model_that_fails_gives_no_reward(
    live: Any, agent: Any, customer: Any, bare: tuple[str, ...]
) -> None:
    code, found, _ = live(agent, customer, *bare)
    assert (code, found["reward"], found["ended_by"]) == (3, None, "error")
    assert "ModelError" in found["error"]


def test_a_task_that_is_not_there_is_named(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = ["--base-url", "http://127.0.0.1:1/v1", "--user-url", "http://127.0.0.1:1/v1"]
    told = ["--reader", "--task", "8", *urls, "--out", str(shop / "out.json")]
    assert main(["tau", str(shop), *told]) == 2
    assert "there is no task 8" in capsys.readouterr().err


def test_a_missing_policy_names_the_set(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "retail" / "policy.md").unlink()
    urls = ["--base-url", "http://127.0.0.1:1/v1", "--user-url", "http://127.0.0.1:1/v1"]
    told = ["--reader", "--bare", "--task", "7", *urls, "--out", str(shop / "out.json")]
    assert main(["tau", str(shop), *told]) == 2
    assert "policy.md: not found" in capsys.readouterr().err
