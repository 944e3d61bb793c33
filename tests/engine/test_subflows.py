"""Flows and repair patterns through the front door: stores, tools, pauses, undo, time, HTTP."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, ConversationEnded, DefinitionError, Machine, create_handler
from llm_fsm.cli.terminal.explain import lines
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.explain import explain_turn
from llm_fsm.session.events import FlowPushed, FlowReturned, ToolReturned
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import serve_scripted
from llm_fsm.testing.conversations import reply

pytestmark = pytest.mark.anyio

PAY: dict[str, Any] = {
    "name": "pay",
    "initial_state": "card",
    "context_schema": {
        "properties": {
            "sum": {"type": "number"},
            "card": {"type": "string", "x-secret": True},
            "receipt": {"type": "string", "x-source": "tool"},
            "ok": {"type": "boolean", "x-source": "answer"},
        }
    },
    "tools": {"charge": {"registered": "charge", "output": {"receipt": "number"}}},
    "states": {
        "card": {
            "reply": "Which card?",
            "required_context_keys": ["card"],
            "tools": ["charge"],
            "transitions": [
                {"target_state": "approve", "conditions": [{"requires_context_keys": ["receipt"]}]}
            ],
        },
        "approve": {
            "kind": "wait",
            "wait_for": "the bank",
            "answer_schema": {
                "type": "object",
                "properties": {"ok": {"type": "boolean"}},
                "required": ["ok"],
            },
            "output": {"ok": "ok"},
            "timeout": 100,
            "on_timeout": "late",
            "transitions": [{"target_state": "paid"}],
        },
        "paid": {"reply": "Paid {{ sum }}."},
        "late": {"reply": "The bank did not answer."},
    },
}
SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "cart",
    "patterns": ["cancel", "silence"],
    "states": {
        "cart": {"reply": "What would you like?", "required_context_keys": ["total"],
                 "transitions": [{"target_state": "pay", "conditions": [{"requires_context_keys": ["total"]}]}]},
        "pay": {"kind": "subflow", "flow": "pay", "input": {"sum": "total"}, "output": {"receipt": "receipt"},
                "transitions": [{"target_state": "thanks", "on": "paid"}, {"target_state": "cart", "on": "default"}]},
        "thanks": {"reply": "Receipt {{ receipt }}."},
    },
}  # fmt: skip


def charge(card: str) -> dict[str, Any]:
    """Take the money."""
    return {"number": f"R-{len(card)}"}


def shop(*replies: Any, **options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(
        options.pop("definition", SHOP),
        model=ScriptedLLM(replies),
        **{"store": "memory", "flows": {"pay": PAY}, "tools": [charge], **options},
    )


BUY = reply("pay", "Right.", total=5)
CHARGE = {"tool_calls": [{"name": "charge", "arguments": {"card": "4111"}}]}
CHARGED = reply("approve", "One moment.", card="4111")


async def test_tools_waits_and_answers_work_within_a_flow() -> None:
    async with shop(BUY, CHARGE, CHARGED) as machine:
        chat = await machine.start()
        turn = await chat.send("apples")
        assert (turn.state, turn.text, turn.context) == (
            "card",
            "Right.\n\nWhich card?",
            {"total": 5},
        )
        turn = await chat.send("4111")
        assert [event.name for event in turn.events if isinstance(event, ToolReturned)] == [
            "charge"
        ]
        assert turn.paused is not None
        assert turn.paused.what == "the bank"
        turn = await chat.answer({"ok": True})
        assert (turn.state, turn.ended, turn.context) == (
            "thanks",
            True,
            {"total": 5, "receipt": "R-4"},
        )
        assert turn.text == "Paid 5.\n\nReceipt R-4."


async def test_a_timeout_within_a_flow_leads_back() -> None:
    now = [1000.0]
    async with shop(BUY, CHARGE, CHARGED, clock=lambda: now[0]) as machine:
        chat = await machine.start()
        await chat.send("apples")
        await chat.send("4111")
        [turn] = await machine.run_due(now[0] + 200)
        assert (turn.state, turn.text) == ("card", "The bank did not answer.\n\nWhich card?")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_another_process_goes_on_within_a_flow(tmp_path: Path, store: str) -> None:
    kept: Any = MemoryStore() if store == "memory" else f"sqlite:///{tmp_path / 'x.db'}"
    first = shop(BUY, store=kept)
    chat = await first.start(conversation_id="c")
    await chat.send("apples")
    again = await shop(reply("cancel", "Stopped."), store=kept).resume("c")
    assert (again.state, again.context) == ("card", {"total": 5})
    turn = await again.send("stop")
    assert (turn.state, turn.text) == (
        "card",
        "Stopped.\n\nShall I stop? Nothing of this will be kept.",
    )
    turn = await again.send("yes")
    assert (turn.state, turn.text, turn.ended) == (
        "cart",
        "All right, I have stopped here.\n\nWhat would you like?",
        False,
    )


async def test_undo_goes_back_into_a_flow_and_out_of_it() -> None:
    async with shop(BUY, reply("cancel", "Stopped."), CHARGE, CHARGED) as machine:
        chat = await machine.start()
        await chat.send("apples")
        await chat.send("stop")
        await chat.send("yes")
        assert chat.state == "cart"
        await chat.undo()
        assert chat.state == "card"
        await chat.undo()
        turn = await chat.send("4111")
        assert turn.paused is not None
        await chat.undo()
        await chat.undo()
        assert (chat.state, chat.context) == ("cart", {})


async def test_an_account_of_a_turn_follows_it_into_a_flow_and_keeps_its_secrets() -> None:
    async with shop(BUY, CHARGE, CHARGED) as machine:
        chat = await machine.start(conversation_id="c")
        await chat.send("apples")
        records = await machine._engine.records("c")
        told = explain_turn(machine.program, "c", records)
        assert told is not None
        [went] = [note for note in told.notes if isinstance(note, FlowPushed)]
        assert (went.kind, went.state, went.entered, went.flow) == ("subflow", "pay", "card", "pay")
        await chat.send("4111")
        told = explain_turn(machine.program, "c", await machine._engine.records("c"))
        assert told is not None
        assert "4111" not in repr(told.notes)


async def test_an_account_of_a_turn_tells_of_repairs() -> None:
    async with shop(BUY, reply("cancel", "Stopped.")) as machine:
        chat = await machine.start(conversation_id="c")
        await chat.send("apples")
        await chat.send("stop")
        told = explain_turn(machine.program, "c", await machine._engine.records("c"))
        assert told is not None
        assert "Repair pattern cancel: asked" in list(lines(told))
        await chat.send("yes")
        told = explain_turn(machine.program, "c", await machine._engine.records("c"))
    assert told is not None
    said = list(lines(told))
    assert "Repair pattern cancel: subflow" in said
    assert "Back from the flow pay, cancelled: card → pay" in said
    assert any(line.startswith("Led on by a flow that came back in pay: to cart") for line in said)
    assert not any("stays" in line for line in said)


async def test_handlers_see_the_context_of_the_flow_at_work() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    handler = (
        create_handler("spy")
        .at("post_transition")
        .do(lambda on: seen.append((on.state, dict(on.context))))
    )
    async with shop(BUY, handlers=[handler]) as machine:
        chat = await machine.start()
        await chat.send("apples")
    assert seen == [("pay", {"total": 5}), ("card", {"sum": 5})]


def test_handlers_may_name_states_of_what_is_called_and_old_ones_of_a_map() -> None:
    handler = create_handler("card").on_state_entry("card", "basket").do(lambda event: None)
    with pytest.warns(RuntimeWarning, match="'basket'"):
        shop(handlers=[handler])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop(handlers=[handler], on_change={"states": {"basket": "cart"}})


async def test_a_conversation_is_pinned_to_all_of_its_definitions() -> None:
    store = MemoryStore()
    chat = await shop(BUY, store=store).start(conversation_id="c")
    await chat.send("apples")
    changed = json.loads(json.dumps(PAY))
    changed["states"]["paid"]["reply"] = "Changed."
    newer = shop(CHARGE, CHARGED, store=store, flows={"pay": changed})
    assert newer.program.identity != shop(BUY).program.identity
    old = await newer.resume("c")
    await old.send("4111")
    assert (await old.answer({"ok": True})).text == "Paid 5.\n\nReceipt R-4."


async def test_what_a_flow_needs_of_the_host_is_missed_at_the_start() -> None:
    with pytest.raises(Exception, match="charge"):
        await shop(BUY, tools=[]).start()


def test_a_machine_whose_flow_is_missing_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "shop.json"
    file.write_text(
        json.dumps(SHOP).replace('"flow": "pay"', '"flow": "pay.json"'), encoding="utf-8"
    )
    with pytest.raises(DefinitionError, match="missing-flow"):
        Machine.from_file(file, model=ScriptedLLM([]))


def test_files_beside_each_other_make_one_machine_over_http(tmp_path: Path) -> None:
    main = json.loads(json.dumps(SHOP))
    main["states"]["pay"]["flow"] = "flows/pay.json"
    (tmp_path / "flows").mkdir()
    (tmp_path / "shop.json").write_text(json.dumps(main), encoding="utf-8")
    (tmp_path / "flows" / "pay.json").write_text(json.dumps(PAY), encoding="utf-8")
    script = [BUY, reply("cancel", "As you like."), reply("cancel", "Goodbye.")]
    with (
        serve_scripted(script) as server,
        Machine.from_file(
            tmp_path / "shop.json",
            model="any",
            base_url=server.base_url,
            store="memory",
            tools=[charge],
        ) as machine,
    ):
        chat = machine.start()
        turn = chat.send("apples")
        assert [event.flow for event in turn.events if isinstance(event, FlowPushed)] == [
            "flows/pay.json"
        ]
        turn = chat.send("no, leave it")
        assert (turn.state, [choice.label for choice in turn.choices]) == ("card", ["yes", "no"])
        turn = chat.send("yes")
        assert [event.how for event in turn.events if isinstance(event, FlowReturned)] == [
            "cancelled"
        ]
        assert (turn.state, turn.outcome) == ("cart", "")
        assert not chat.send("stop").ended
        turn = chat.send("yes")
        assert (turn.outcome, turn.ended, turn.text) == (
            "cancelled",
            True,
            "All right, I have stopped here.",
        )
        with pytest.raises(ConversationEnded, match="as you wished"):
            chat.send("hello?")


async def test_silence_is_kept_in_the_due_table_and_ended_by_a_message() -> None:
    now = [1000.0]
    async with shop(reply("cart", "Hm?"), clock=lambda: now[0]) as machine:
        chat = await machine.start()
        assert await machine.run_due(now[0] + 299) == ()
        [turn] = await machine.run_due(now[0] + 301)
        assert (turn.text, turn.ended) == ("Are you still there?\n\nWhat would you like?", False)
        now[0] += 5000  # nobody has looked; the message comes first
        turn = await chat.send("here")
        assert (turn.ended, turn.text) == (False, "Hm?\n\nWhat would you like?")
        [turn] = await machine.run_due(now[0] + 1801)
        assert (turn.ended, turn.outcome) == (True, "closed")
        with pytest.raises(ConversationEnded, match="nobody answered"):
            await chat.send("sorry")


async def test_the_offline_model_walks_through_flows() -> None:
    quiet = json.loads(json.dumps(PAY))
    quiet["states"]["card"] = {
        "purpose": "Which card?",
        "required_context_keys": ["card"],
        "transitions": [{"target_state": "paid", "description": "The card is known",
                         "conditions": [{"requires_context_keys": ["card"]}]}],
    }  # fmt: skip
    quiet["tools"] = {}
    definition = {
        **SHOP,
        "context_schema": {"properties": {"total": {"type": "integer"}, "receipt": {}}},
    }
    async with AsyncMachine.from_dict(
        definition, model="offline", store="memory", flows={"pay": quiet}
    ) as machine:
        chat = await machine.start()
        turn = await chat.send("5")
        assert turn.state == "card"
        assert turn.text.endswith("Which card?")
        turn = await chat.send("4111")
        assert (turn.state, turn.ended) == ("thanks", True)
