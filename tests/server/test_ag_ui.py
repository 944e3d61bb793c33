"""The AG-UI door: spoken by the official npm client over a real loopback server, and event by
event.
"""

from __future__ import annotations

import json
from typing import Any

import ten_turns
from llm_fsm import AsyncMachine, ModelError
from llm_fsm.server import create_app
from llm_fsm.testing import ScriptedLLM, calls, reply
from machines import GREETER
from npm_client import run
from refunds import PAID, REFUNDS
from served import client_at, served

CLIENT = ("@ag-ui/client@1.0.0",)


def test_ten_turns_by_the_official_client() -> None:
    with served(create_app(ten_turns.machine(), closes=True, due_seconds=None)) as url:
        place = f"{url}/ag-ui/ten"
        found = json.loads(
            run("ag_ui_client.mjs", CLIENT, place, "thread", given=json.dumps(ten_turns.MESSAGES))
        )
    assert [(one["result"]["state"], one["state"]) for one in found] == ten_turns.reference()
    assert [one["step"] for one in found] == [state for state, _ in ten_turns.reference()]
    assert found[0]["text"] == "Noted 0."
    assert found[0]["events"][0] == "RUN_STARTED"
    assert found[0]["events"][-1] == "RUN_FINISHED"
    assert found[ten_turns.PAUSED_AT - 1]["outcome"]["type"] == "interrupt"


def ask(machine: AsyncMachine, *inputs: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The events of each run."""
    found = []
    with served(create_app(machine, closes=True, due_seconds=None)) as url, client_at() as client:
        for place, given in enumerate(inputs):
            body = {"threadId": "t", "runId": f"r{place}", "messages": [], **given}
            answer = client.post(f"{url}/ag-ui/{machine.definition.name}", json=body, timeout=30)
            assert answer.status_code == 200, answer.text
            lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
            found.append([json.loads(line.removeprefix("data: ")) for line in lines])
    return found


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"id": "m", "role": "user", "content": text}]}


def refund(amount: int, to: str = "card") -> str:
    return f"refunded {amount} to {to}"


def test_a_tool_call_and_an_approval() -> None:
    model = ScriptedLLM([calls(("refund", {"amount": 5})), PAID])
    machine = AsyncMachine.from_dict(REFUNDS, model=model, tools=[refund])
    with served(create_app(machine, closes=True, due_seconds=None)) as url, client_at() as client:

        def run(**given: Any) -> list[dict[str, Any]]:
            body = {"threadId": "t", "messages": [], **given}
            text = client.post(f"{url}/ag-ui/refunds", json=body, timeout=30).text
            return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]

        paused = run(runId="1", **user("5 back"))[-1]["outcome"]
        assert paused["type"] == "interrupt"
        (interrupt,) = paused["interrupts"]
        assert interrupt["reason"] == "approval"
        assert interrupt["metadata"]["call"]["name"] == "refund"
        entry = {
            "interruptId": interrupt["id"],
            "status": "resolved",
            "payload": {"approved": True},
        }
        events = run(runId="2", resume=[entry])
        assert [one["toolCallName"] for one in events if one["type"] == "TOOL_CALL_START"] == [
            "refund"
        ]
        assert [one["content"] for one in events if one["type"] == "TOOL_CALL_RESULT"] == [
            '"refunded 5 to card"'
        ]
        assert events[-1]["outcome"]["interrupts"][0]["message"] == "signature"
        again = run(runId="2", resume=[entry])
        assert again[-1]["result"] == events[-1]["result"]


def test_a_run_without_a_message_greets_and_shows_where_a_thread_stands() -> None:
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM([reply("hello", "Your name?")]))
    greeted, stood = ask(machine, {"state": {"tier": "gold"}}, {})
    assert [one["delta"] for one in greeted if one["type"] == "TEXT_MESSAGE_CONTENT"] == [
        "Your name?"
    ]
    assert {"type": "STATE_SNAPSHOT", "snapshot": {"tier": "gold"}} in greeted
    (snapshot,) = [one for one in stood if one["type"] == "MESSAGES_SNAPSHOT"]
    assert [message["content"] for message in snapshot["messages"]] == ["Your name?"]


def test_a_failure_ends_the_run_with_an_error() -> None:
    machine = AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([ModelError("down"), reply("hello", "Hi.")])
    )
    failed, worked = ask(machine, user("a"), user("a"))
    assert (failed[-1]["type"], failed[-1]["code"]) == ("RUN_ERROR", "model-unavailable")
    assert worked[-1]["type"] == "RUN_FINISHED"


def test_secrets_are_left_out() -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "pin": {"type": "string", "x-secret": True}}
    }
    machine = AsyncMachine.from_dict(
        {**GREETER, "context_schema": schema}, model=ScriptedLLM([reply("hello", "Hi.")])
    )
    (events,) = ask(machine, {**user("a"), "state": {"pin": "4711"}})
    assert "4711" not in json.dumps(events)
