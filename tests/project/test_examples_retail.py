"""The desk of the shop: what is read back, what is written, and what is refused."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from example_modules import EXAMPLES, example
from llm_fsm import AsyncMachine, load
from llm_fsm.documents.check import check
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.testing import reply

__all__ = ["example"]

FILE = EXAMPLES / "retail" / "retail.json"
ADA = reply("find", email="ada@example.org", _quotes={"email": "ada@example.org"})
CANCEL = reply("cancel", order_id="#W0000001", reason="no longer needed")


@pytest.fixture
def desk(example: Any) -> Any:
    """Return a function that plays messages, and returns the turns and the shop."""

    def talk(messages: list[str], replies: list[Any]) -> tuple[list[Any], Any]:
        module = example("retail")
        shop = module.Shop(copy.deepcopy(module.SHOP.__dict__))
        model = ScriptedLLM(replies)

        async def run() -> list[Any]:
            async with AsyncMachine.from_file(
                FILE, model=model, store="memory", tools=module.tools(shop)
            ) as machine:
                for function in module.functions(shop):
                    machine.function(function)
                chat = await machine.start(greet=False)
                return [await chat.send(message) for message in messages]

        return asyncio.run(run()), shop

    return talk


def test_the_definition_has_no_findings() -> None:
    assert load(FILE).name == "retail"
    assert check(FILE) == []


def test_an_order_is_cancelled_after_a_yes_to_what_was_read_back(desk: Any) -> None:
    turns, shop = desk(
        ["I'm ada@example.org", "Cancel #W0000001, I don't need it", "Yes"], [ADA, CANCEL]
    )
    assert turns[1].text.startswith(
        "Cancellation, order #W0000001, no longer needed. 30.00 go back"
    )
    assert [turn.state for turn in turns] == ["menu", "confirm", "menu"]
    assert turns[2].text == "Cancellation: done. What can I do for you?"
    assert shop.orders["#W0000001"]["status"] == "cancelled"


SWAP = [{"new_item_id": "1100000002", "item_id": "1100000001"}]
LAMP = ["1200000001"]
HOME = {"address1": "2 Oak St", "city": "Waco", "state": "TX", "country": "USA", "zip": "76701"}


@pytest.mark.parametrize(
    ("asked", "status", "shown"),
    [
        (reply("order_address", order_id="#W0000001", address=HOME), "pending", "2 Oak St, Waco"),
        (reply("order_items", order_id="#W0000001", swaps=SWAP, payment_method_id="gift_card_1"),
         "pending (item modified)", "1100000001 becomes 1100000002"),
        (reply("return_items", order_id="#W0000002", item_ids=LAMP, payment_method_id="gift_card_1"),
         "return requested", "80.00 go back"),
        (reply("exchange_items", order_id="#W0000002", payment_method_id="credit_card_1",
               swaps=[{"new_item_id": "1200000002", "item_id": "1200000001"}]),
         "exchange requested", "You get 7.75 back"),
    ],
)  # fmt: skip
def test_each_request_is_read_back_and_done(desk: Any, asked: Any, status: str, shown: str) -> None:
    turns, shop = desk(["I'm ada@example.org", "This, please", "yes."], [ADA, asked])
    assert shown in turns[1].text
    order = asked["transition"]["context_update"]["order_id"]
    assert (turns[1].state, shop.orders[order]["status"]) == ("confirm", status)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (reply("cancel", order_id="#W0000002", reason="no longer needed"), "is delivered"),
        (reply("order_payment", order_id="#W0000001", payment_method_id="credit_card_1"),
         "another payment method"),
        (reply("order_payment", order_id="#W0000001", payment_method_id="gift_card_1"),
         "does not cover the order"),
        (reply("order_items", order_id="#W0000001", payment_method_id="gift_card_1",
               swaps=[{"new_item_id": "1100000003", "item_id": "1100000001"}]), "not available"),
        (reply("return_items", order_id="#W0000002", payment_method_id="credit_card_1",
               item_ids=["1200000001", "1200000001"]), "is not in the order"),
    ],
)  # fmt: skip
def test_what_the_rules_forbid_is_never_read_back(desk: Any, asked: Any, said: str) -> None:
    turns, shop = desk(["I'm ada@example.org", "This, please"], [ADA, asked])
    assert said in turns[1].text
    assert (turns[1].state, shop.done) == ("menu", {})


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("No.", None),
        ("Why so much?", reply("write", _quotes={"_yes": "Why"})),
        ("Hm", reply("write", _quotes={"_yes": "Hm"})),
        ("Do it when it is free", reply("write", order_id="#W0000002")),
        ("Well", calls(("write_request", {}))),
    ],
)
def test_nothing_is_written_without_a_clear_yes(desk: Any, message: str, answer: Any) -> None:
    replies = [ADA, CANCEL, *([answer, reply("confirm", "Please answer.")] * (answer is not None))]
    _, shop = desk(["I'm ada@example.org", "Cancel #W0000001", message], replies)
    assert (shop.orders["#W0000001"]["status"], shop.done) == ("pending", {})


def test_the_order_of_another_customer_is_refused(desk: Any) -> None:
    foreign = reply("cancel", order_id="#W0000003", reason="no longer needed")
    turns, shop = desk(["I'm ada@example.org", "Cancel #W0000003"], [ADA, foreign, foreign])
    assert "order_id" not in turns[1].context
    assert shop.orders["#W0000003"]["status"] == "pending"


def test_a_customer_whom_nobody_named_is_not_found(desk: Any) -> None:
    bo = reply("find", email="bo@example.org", _quotes={"email": "bo@example.org"})
    turns, _ = desk(["I'm ada@example.org"], [bo, bo])
    assert (turns[0].state, "user_id" in turns[0].context) == ("identify", False)


def test_an_act_that_is_repeated_writes_once(example: Any) -> None:
    module = example("retail")
    shop = module.Shop(copy.deepcopy(module.SHOP.__dict__))
    given = {"order_id": "#W0000001", "reason": "ordered by mistake"}
    news = [shop.write("ada_byron_1", "cancel_pending_order", given, "k") for _ in range(3)]
    assert news == ["Cancellation: done."] * 3
    assert len(shop.orders["#W0000001"]["payment_history"]) == 2
