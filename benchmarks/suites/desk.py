"""A customer at the desk of `examples/retail`, over the database of τ-bench.

A program plays the customer, and another one the model. The desk records what was said and every
write, with the data before it, for `policy.py` to judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.suites.policy import YES, Call, Said
from benchmarks.suites.retail_tools import Json, module_of
from benchmarks.suites.tau import Retail, Task, data_of, right_data
from llm_fsm import AsyncMachine
from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.errors import LLMFSMError
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm, ToolCall

RETAIL = Path(__file__).parents[2] / "examples" / "retail"
STATES = {
    "cancel_pending_order": "cancel",
    "exchange_delivered_order_items": "exchange_items",
    "modify_pending_order_address": "order_address",
    "modify_pending_order_items": "order_items",
    "modify_pending_order_payment": "order_payment",
    "modify_user_address": "own_address",
    "return_delivered_order_items": "return_items",
}
"""The state that collects what a call needs."""
ADDRESS = ("address1", "address2", "city", "state", "country", "zip")
COPIED = ("order_id", "reason", "payment_method_id")
SWAPS = ("exchange_delivered_order_items", "modify_pending_order_items")
NEEDED = {
    "cancel_pending_order": ("order_id", "reason"),
    "exchange_delivered_order_items": ("order_id", "payment_method_id"),
    "modify_pending_order_address": ("order_id",),
    "modify_pending_order_items": ("order_id", "payment_method_id"),
    "modify_pending_order_payment": ("order_id", "payment_method_id"),
    "return_delivered_order_items": ("order_id", "item_ids", "payment_method_id"),
}
"""The keys of the example that are arguments of a call under the same name."""


Write = tuple[Call, Json, tuple[Said, ...]]
"""A write, the data before it, and what was said before it."""


class Puppet:
    """A model whose replies to a message are given; the last one is repeated."""

    def __init__(self) -> None:
        self._replies: list[ModelReply] = []

    def reply_form(self, model: str | None) -> ReplyForm:  # noqa: ARG002
        """Return the form of its replies."""
        return "object"

    def will(self, *replies: Json) -> None:
        """Set the replies to the next message."""
        self._replies = list(map(_prepared, replies))

    async def complete(self, request: LLMRequest) -> ModelReply:  # noqa: ARG002
        """Return the next reply."""
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def _prepared(one: Json) -> ModelReply:
    asked = [
        ToolCall(id=f"call{number}", name=call["name"], arguments=json.dumps(call["arguments"]))
        for number, call in enumerate(one.get("tool_calls", ()))
    ]
    return ModelReply(text="" if asked else json.dumps(one), tool_calls=tuple(asked))


def move(target: str, values: Json | None = None, quotes: Json | None = None) -> Json:
    """Return a reply of the model."""
    update = {**(values or {}), **({"_quotes": quotes} if quotes else {})}
    return {"target_state": target, "context_update": update, "message": "", "question": "And?"}


def values_of(call: Call) -> Json:
    """Return the values of a call, as the keys of `examples/retail` have them."""
    given = call.arguments
    found = {name: given[name] for name in COPIED if name in given}
    if "address1" in given:
        found["address"] = {name: given[name] for name in ADDRESS if given.get(name)}
    if "new_item_ids" in given:
        pairs = zip(given["new_item_ids"], given["item_ids"], strict=False)
        found["swaps"] = [{"new_item_id": new, "item_id": old} for new, old in pairs]
    elif "item_ids" in given:
        found["item_ids"] = given["item_ids"]
    return found


def call_of(user_id: str, request: str, given: Json) -> Call:
    """Return a write of `examples/retail` as a call of τ-bench."""
    found: Json = {"user_id": user_id}
    if request != "modify_user_address":
        found = {name: given[name] for name in NEEDED[request]}
    if "address" in request:
        found |= {name: given["address"].get(name) or "" for name in ADDRESS}
    if request in SWAPS:
        found["item_ids"] = [swap["item_id"] for swap in given["swaps"]]
        found["new_item_ids"] = [swap["new_item_id"] for swap in given["swaps"]]
    return Call(request, found)


EXAMPLE: Any = module_of(RETAIL / "retail.py", "retail_example")
"""The functions and the rules of the example."""


class Desk:
    """A conversation with `examples/retail`. All share one machine, one after the other."""

    def __init__(self, retail: Retail, task: Task, others: Sequence[str] = ()) -> None:
        self.task = task
        self.user = retail.data["users"][task.user_id]
        self.data = data_of(retail.data, (task.user_id, *others))
        self.said: list[Said] = []
        self.writes: list[Write] = []
        self.chat: AsyncConversation | None = None
        self.model, self.machine, self._counter = _office()
        self._counter.shop = _RecordingShop(self)

    async def say(self, text: str, *replies: Json) -> str:
        """Say something as the customer. The model gives these replies. Return the state after it."""
        if self.chat is None:
            self.chat = await self.machine.start(greet=False)
        if self.chat.ended:
            return self.chat.state
        self.said.append(Said("user", text))
        self.model.will(*replies)
        try:
            turn = await self.chat.send(text)
        except LLMFSMError as error:
            self.said.append(Said("agent", str(error)))
            return self.chat.state
        self.said.append(Said("agent", turn.text))
        return turn.state

    async def identify(self) -> str:
        """Say who the customer is, truly."""
        words = identity(self.user)
        name, zip_code = self.user["name"], self.user["address"]["zip"]
        values = {**name, "zip_code": zip_code}
        return await self.say(words, move("find", values, values))

    async def ask(self, wanted: Call, written: Call) -> str:
        """Ask for a call. The model writes down another one, or the same."""
        state = STATES[written.name]
        return await self.say(request(wanted), move(state, values_of(written)))

    async def agree(self) -> str:
        """Say yes. The model understands it."""
        return await self.say(YES, move("write"))

    async def close(self) -> None:
        """Forget the conversation."""
        if self.chat is not None:
            await self.machine.delete(self.chat.id)


class _Counter:
    """Stands before the shop of the conversation that is played now."""

    shop: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shop, name)


@cache
def _office() -> tuple[Puppet, AsyncMachine, _Counter]:
    model, counter = Puppet(), _Counter()
    machine = AsyncMachine.from_file(
        RETAIL / "retail.json", model=model, store="memory", tools=EXAMPLE.tools(counter)
    )
    for function in EXAMPLE.functions(counter):
        machine.function(function)
    return model, machine, counter


class _RecordingShop(EXAMPLE.Shop):  # type: ignore[misc]
    """The shop of the example, whose writes the desk records."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.data)
        self._desk = desk

    def perform(self, user_id: str, request: str, given: Json) -> None:
        desk = self._desk
        call = call_of(user_id, request, given)
        before = data_of(desk.data, owners(desk.data, call))
        desk.writes.append((call, before, tuple(desk.said)))
        desk.said.append(Said("write"))
        super().perform(user_id, request, given)


def owners(data: Json, *made: Call | None) -> list[str]:
    """Return the users whose data these calls touch."""
    found: dict[str, None] = {}
    for call in filter(None, made):
        order = data["orders"].get(call.arguments.get("order_id"), call.arguments)
        found[order["user_id"]] = None
    return list(found)


def identity(user: Json) -> str:
    """Return what a customer says of themselves."""
    name = user["name"]
    zip_code = user["address"]["zip"]
    return f"I am {name['first_name']} {name['last_name']}, and my zip code is {zip_code}."


def request(call: Call) -> str:
    """Return the words of a customer who wants a call."""
    given = ", ".join(map(str, call.arguments.values()))
    return f"Please do this: {call.name.replace('_', ' ')}: {given}."


# -- the right path --------------------------------------------------------------------------------


async def right_path(retail: Retail, task: Task) -> str:
    """Play a task with the right model. Return what differs from the right database; "" if nothing.

    The right database is the one that the tools of τ-bench leave, which run the calls by themselves.
    """
    desk = Desk(retail, task)
    await desk.identify()
    for call in task.writes:
        if await desk.ask(call, call) == "confirm":
            await desk.agree()
    await desk.close()
    return difference(right_data(retail, task), desk.data)


def difference(gold: Json, ours: Json) -> str:
    """Name the users and orders that differ, amounts compared in cents; "" if none does."""
    wrong: list[str] = []
    for table in ("orders", "users"):
        for name, right in gold[table].items():
            found = ours[table][name]
            if found is not right and _cents(found) != _cents(right):
                wrong.append(name)
    return ", ".join(wrong)


def _cents(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cents(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_cents, value))
    return round(value, 2) if isinstance(value, float) else value
