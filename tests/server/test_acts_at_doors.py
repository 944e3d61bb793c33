"""A yes is good for one act with its own values at every door through which a message arrives.

One table of conversations, one table of doors. The bank counts what it was asked to pay.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from mcp import Client

from llm_fsm import AsyncMachine, ConversationConflict
from llm_fsm.durable import result, submit
from llm_fsm.engine.batch import play_lines, read_lines
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.server import create_app
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.testing import ScriptedLLM, calls, reply
from served import served

KEYS: dict[str, Any] = {
    "properties": {
        "amount": {"type": "number", "description": "Euros"},
        "name": {"type": "string", "description": "To whom"},
    }
}
PAY: dict[str, Any] = {
    "name": "pay",
    "initial_state": "ask",
    "context_schema": KEYS,
    "tools": {"pay": {"registered": "pay", "acts": True}},
    "states": {
        "ask": {
            "purpose": "How much, and to whom?",
            "required_context_keys": ["amount", "name"],
            "transitions": [
                {
                    "target_state": "confirm",
                    "conditions": [{"requires_context_keys": ["amount", "name"]}],
                }
            ],
        },
        "confirm": {
            "reply": "{{ amount }} euros to {{ name }}. Shall I pay?",
            "confirms": ["amount", "name"],
            "transitions": [
                {"target_state": "act", "description": "The user says yes", "agrees": True},
                {"target_state": "ask", "description": "Something else"},
            ],
        },
        "act": {
            "kind": "task",
            "purpose": "Pay it",
            "acts": True,
            "tools": ["pay"],
            "max_retries": 1,
            "on_exhausted": "failed",
            "transitions": [{"target_state": "done"}],
        },
        "done": {"purpose": "Anything else?", "transitions": [{"target_state": "ask"}]},
        "failed": {"purpose": "It failed", "transitions": [{"target_state": "ask"}]},
    },
}
ALL = {"amount": 50, "name": "Ada"}
RIGHT = calls(("pay", ALL))
YES = reply("act", "", _quotes={"_yes": "pay it"})
FORGET = reply("act", "", _clear=["amount"], _quotes={"_clear": "forget the amount"})
CASES: dict[str, tuple[str, list[Any], list[float]]] = {
    "a yes": ("yes", [YES, RIGHT, "Paid."], [50]),
    "a value taken back": ("yes, but forget the amount", [FORGET, RIGHT], []),
    "another value": ("yes, but 60", [reply("act", "", amount=60), RIGHT], []),
    "a no": ("No, do not pay it!", [YES, RIGHT], []),
    "a no behind a yes": ("Pay it. No, wait", [YES, RIGHT], []),
    "a question": ("Pay it?", [YES, RIGHT], []),
    "two calls at once": ("yes", [YES, calls(("pay", ALL), ("pay", ALL)), "Paid."], [50]),
    "a second call": ("yes", [YES, RIGHT, RIGHT, "Paid."], [50]),
    "other arguments": ("yes", [YES, calls(("pay", {**ALL, "amount": 500})), "Paid."], []),
    "another name": ("yes", [YES, calls(("pay", {**ALL, "name": "Eve"})), "Paid."], []),
    "a right and a wrong call": (
        "yes",
        [YES, calls(("pay", ALL), ("pay", {**ALL, "amount": 500})), "Paid."],
        [50],
    ),
}
FIRST = "50 to Ada"


class Model:
    """It replies what a case has left, and stays where it has nothing left."""

    def __init__(self) -> None:
        self.script = ScriptedLLM([])
        self.seconds = 0.0

    async def complete(self, request: LLMRequest) -> ModelReply:
        await asyncio.sleep(self.seconds)
        try:
            return await self.script.complete(request)
        except Exception:
            stay = request.targets[-1] if request.targets else ""
            return ModelReply(text=json.dumps({"target_state": stay, "message": "Well."}))


class Bank:
    """A machine, what it paid, and what its model says next."""

    def __init__(self, tool: dict[str, Any] | None = None, **settings: Any) -> None:
        self.paid: list[float] = []
        self.model = Model()
        document = {**PAY, "tools": {"pay": {**PAY["tools"]["pay"], **(tool or {})}}}
        self.machine = AsyncMachine.from_dict(document, model=self.model, **settings)
        self.machine.tool(self._pay, name="pay")

    def _pay(self, amount: float, name: str) -> str:
        """Pay somebody."""
        self.paid.append(amount if name == "Ada" else -amount)
        return f"paid {amount}"

    def begin(self, case: str, *, greets: bool = False) -> str:
        """Let the model play a case, and return the second message of it."""
        self.paid.clear()
        text, replies, _ = CASES[case]
        first = [{"message": "Hello!"}] if greets else []
        self.model.script = ScriptedLLM([*first, reply("confirm", "", **ALL), *replies])
        return text


async def _by_program(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    chat = await bank.machine.start(conversation_id=name, greet=False)
    for text in texts:
        await chat.send(text)


async def _by_stream(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    chat = await bank.machine.start(conversation_id=name, greet=False)
    for text in texts:
        async for _ in chat.stream(text):
            pass


async def _durably(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    chat = await bank.machine.start(conversation_id=name, greet=False)
    for number, text in enumerate(texts):
        for _ in range(2):
            await chat.send(text, request_id=f"r{number}", durable=True)


async def _by_submission(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    keeper = Upkeep(lambda: [bank.machine])
    for number, text in enumerate(texts):
        await submit("pay", name, text, f"r{number}", store=bank.machine.store)
        await keeper.look()
        await result(name, f"r{number}", 10, store=bank.machine.store)
    await keeper.stop()


async def _merged(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    first, second = texts
    chat = await bank.machine.start(conversation_id=name, greet=False)
    await asyncio.gather(chat.send("hello"), chat.send(first))
    await asyncio.gather(chat.send(second), chat.send("thank you"))


async def _in_a_batch(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    line = json.dumps({"messages": list(texts)})
    batch = read_lines(line.encode(), name, talks=True)
    await play_lines(bank.machine, batch.lines, lambda _: None)


INSIDE = {
    "program": _by_program,
    "stream": _by_stream,
    "durable": _durably,
    "submission": _by_submission,
    "batch": _in_a_batch,
}


@pytest.mark.parametrize("door", INSIDE)
def test_a_yes_is_good_for_its_own_act_at_doors_of_the_program(door: str) -> None:
    async def play() -> dict[str, list[float]]:
        found = {}
        async with bank.machine:
            for number, case in enumerate(CASES):
                text = bank.begin(case, greets=door == "batch")
                await INSIDE[door](bank, f"c{number}", (FIRST, text))
                found[case] = list(bank.paid)
        return found

    bank = Bank()
    assert asyncio.run(play()) == {case: paid for case, (_, _, paid) in CASES.items()}


def _by_rest(client: httpx.Client, name: str, texts: tuple[str, ...]) -> None:
    client.post("/conversations", json={"definition": "pay", "greet": False, "id": name})
    for number, text in enumerate(texts):
        for _ in range(2):  # a client that repeats its request
            headers = {"Idempotency-Key": f"r{number}"}
            place = f"/conversations/{name}/messages"
            assert client.post(place, json={"text": text}, headers=headers).status_code == 200


def _accepted(client: httpx.Client, name: str, texts: tuple[str, ...]) -> None:
    client.post("/conversations", json={"definition": "pay", "greet": False, "id": name})
    place = f"/conversations/{name}/messages"
    for number, text in enumerate(texts):
        headers = {"Idempotency-Key": f"r{number}", "Prefer": "respond-async"}
        assert client.post(place, json={"text": text}, headers=headers).status_code == 202
        while client.get(f"{place}/r{number}").status_code == 202:
            time.sleep(0.02)


def _in_the_openai_form(client: httpx.Client, name: str, texts: tuple[str, ...]) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": name}]
    for text in texts:
        messages.append({"role": "user", "content": text})
        body = {"model": "pay", "messages": messages}
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        messages.append(answer.json()["choices"][0]["message"])


def _by_ag_ui(client: httpx.Client, name: str, texts: tuple[str, ...]) -> None:
    for number, text in enumerate(texts):
        message = {"id": f"m{number}", "role": "user", "content": text}
        body = {"threadId": name, "runId": f"r{number}", "messages": [message]}
        assert "RUN_FINISHED" in client.post("/ag-ui/pay", json=body).text


def _by_mcp(client: httpx.Client, name: str, texts: tuple[str, ...]) -> None:
    async def talk() -> None:
        async with Client(str(client.base_url.join("/mcp"))) as mcp:
            begun = await mcp.call_tool("start_conversation", {"definition": "pay", "greet": False})
            place = begun.structured_content["id"]
            for text in texts:
                wish = {"conversation_id": place, "text": text}
                assert not (await mcp.call_tool("send_message", wish)).is_error

    asyncio.run(talk())


SERVED = {
    "REST": _by_rest,
    "accepted": _accepted,
    "OpenAI form": _in_the_openai_form,
    "AG-UI": _by_ag_ui,
    "MCP": _by_mcp,
}


@pytest.mark.parametrize("door", SERVED)
def test_a_yes_is_good_for_its_own_act_at_doors_of_a_server(door: str) -> None:
    bank = Bank()
    app = create_app(bank.machine, closes=True, due_seconds=0.1)
    found = {}
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        for number, case in enumerate(CASES):
            text = bank.begin(case)
            SERVED[door](client, f"c{number}", (FIRST, text))
            found[case] = list(bank.paid)
    assert found == {case: paid for case, (_, _, paid) in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_messages_that_are_merged_are_judged_as_one(case: str) -> None:
    async def play() -> None:
        async with bank.machine:
            await _merged(bank, "c", (FIRST, text))

    bank = Bank(merge_within=0.02)
    text = bank.begin(case)
    asyncio.run(play())
    assert bank.paid == CASES[case][2]


async def _submitted_at_once(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    store = bank.machine.store
    for number, text in enumerate(texts):
        await submit("pay", name, text, f"r{number}", store=store)
    keeper = Upkeep(lambda: [bank.machine])
    while len(await store.records(name)) <= len(texts):
        await keeper.look()
        await asyncio.sleep(0.02)
    await keeper.stop()


async def _sent_at_once(
    bank: Bank, name: str, texts: tuple[str, ...], *, durable: bool = False
) -> None:
    chat = await bank.machine.start(conversation_id=name, greet=False)
    sent = [
        chat.send(text, request_id=f"r{number}", durable=durable)
        for number, text in enumerate(texts)
    ]
    await asyncio.gather(*sent)


async def _sent_durably_at_once(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    await _sent_at_once(bank, name, texts, durable=True)


async def _merged_behind_the_first(bank: Bank, name: str, texts: tuple[str, ...]) -> None:
    chat = await bank.machine.start(conversation_id=name, greet=False)
    first = asyncio.create_task(chat.send(texts[0]))
    await asyncio.sleep(0.1)  # its turn is under way
    later = [chat.send(text) for text in (*texts[1:], "thank you")]
    await asyncio.gather(first, *later)


AT_ONCE = {
    "submission": (_submitted_at_once, None),
    "at once": (_sent_at_once, None),
    "durable": (_sent_durably_at_once, None),
    "merged": (_merged_behind_the_first, 0.02),
}


@pytest.mark.parametrize("door", AT_ONCE)
@pytest.mark.parametrize("text", ["yes", "Yes, please", "Pay it", "ok", "go ahead"])
def test_a_yes_that_was_accepted_before_the_read_back_was_saved_is_none(
    door: str, text: str
) -> None:
    async def play() -> None:
        async with bank.machine:
            await send(bank, "c", (FIRST, text))
            assert bank.paid == []
            chat = await bank.machine.resume("c")
            assert chat.state == "confirm"
            await chat.send(text)

    send, merge_within = AT_ONCE[door]
    bank = Bank(merge_within=merge_within)
    bank.model.seconds = 0.3
    said = reply("confirm", "", **ALL)
    agrees = reply("act", "", _quotes={"_yes": text})
    bank.model.script = ScriptedLLM([said, agrees, agrees, RIGHT, "Paid."])
    asyncio.run(play())
    assert bank.paid == [50]


@pytest.mark.parametrize("case", CASES)
def test_calls_that_run_beside_each_other_are_one_act(case: str) -> None:
    async def play() -> None:
        async with bank.machine:
            await _by_program(bank, "c", (FIRST, text))

    bank = Bank({"parallel": True})
    text = bank.begin(case)
    asyncio.run(play())
    assert bank.paid == CASES[case][2]


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ({"approved": True}, [50]),
        ({"approved": False}, []),
        ({"approved": True, "arguments": {"amount": 40, "name": "Ada"}}, [40]),
        ({"approved": True, "arguments": {"amount": 40}}, []),
        ({"approved": True, "arguments": {"amount": "lots", "name": "Ada"}}, []),
    ],
)
def test_an_approval_is_good_for_one_act(answer: dict[str, Any], paid: list[float]) -> None:
    async def play() -> None:
        async with bank.machine:
            await _by_program(bank, "c", (FIRST, text))
            assert bank.paid == []
            chat = await bank.machine.resume("c")
            pause = chat.paused
            assert pause is not None
            for _ in range(2):  # two colleagues answer
                try:
                    await chat.answer(answer, pause=pause.id)
                except ConversationConflict:
                    continue

    bank = Bank({"approval": True})
    text = bank.begin("a second call")
    asyncio.run(play())
    assert bank.paid == paid


@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("approved", [True, False])
def test_a_task_whose_tools_a_person_approves_needs_no_yes(*, approved: bool, acts: bool) -> None:
    async def play() -> None:
        async with machine:
            chat = await machine.start(ALL, greet=False)
            await chat.send("please")
            assert bank.paid == []
            if chat.paused is not None:
                await chat.answer({"approved": True})

    bank = Bank()
    ask = {
        "purpose": "Well?",
        "transitions": [{"target_state": "act"}, {"target_state": "confirm"}],
    }
    tool = {"registered": "pay", "acts": acts, "approval": approved}
    document = {**PAY, "tools": {"pay": tool}, "states": {**PAY["states"], "ask": ask}}
    bank.model.script = ScriptedLLM([reply("act", ""), RIGHT, "Paid."])
    machine = AsyncMachine.from_dict(document, model=bank.model, allow_unsafe=True)
    machine.tool(bank._pay, name="pay")
    asyncio.run(play())
    assert bank.paid == ([50] if approved else [])


ACTING = {"kind": "task", "purpose": "Pay it", "acts": True, "tools": ["pay"]}
TALKING = {"purpose": "Well?", "transitions": [{"target_state": "end"}]}
CALLED: dict[str, tuple[dict[str, Any], bool]] = {
    "a task": ({"go": {**ACTING, "transitions": [{"target_state": "end"}]}}, True),
    "a task behind words": (
        {
            "go": {**TALKING, "transitions": [{"target_state": "pay"}]},
            "pay": {**ACTING, "transitions": [{"target_state": "end"}]},
        },
        True,
    ),
    "a tool in a state that talks": ({"go": {**TALKING, "tools": ["pay"]}}, True),
    "words alone": ({"go": TALKING}, False),
    "a yes of its own": (
        {
            "go": {
                "purpose": "Shall I?",
                "confirms": ["amount", "name"],
                "transitions": [{"target_state": "pay", "agrees": True}],
            },
            "pay": {**ACTING, "transitions": [{"target_state": "end"}]},
        },
        False,
    ),
}


@pytest.mark.parametrize("case", CALLED)
@pytest.mark.parametrize("place", ["start", "update"])
@pytest.mark.parametrize("between", [False, True])
def test_a_called_definition_that_acts_needs_the_yes_of_the_program(
    case: str, place: str, *, between: bool
) -> None:
    states, is_refused = CALLED[case]
    inner = {
        "name": "inner",
        "initial_state": "go",
        "context_schema": KEYS,
        "tools": PAY["tools"],
        "states": {**states, "end": {"purpose": "Say goodbye"}},
    }
    call = {"kind": "subflow", "flow": "inner", "transitions": [{"target_state": "end"}]}
    end = {"purpose": "Say goodbye"}
    middle = {"name": "middle", "initial_state": "go", "states": {"go": call, "end": end}}
    outer_call = {**call, "flow": "middle"} if between else call
    hello = {"purpose": "Hello?", "transitions": [{"target_state": "end"}]}
    outer = {"name": "outer", "initial_state": "hello",
             "states": {"hello": hello, "call": outer_call, "end": end}}  # fmt: skip

    async def play() -> None:
        flows = {"inner": inner, "middle": middle}
        model = Model()
        machine = AsyncMachine.from_dict(outer, model=model, flows=flows, allow_unsafe=True)
        machine.tool(bank._pay, name="pay")
        async with machine:
            if place == "start":
                await machine.start(state="call")
            else:
                chat = await machine.start(greet=False)
                await chat.update(state="call")

    bank = Bank()
    if is_refused:
        with pytest.raises(ConversationConflict, match="agreed=True"):
            asyncio.run(play())
    else:
        asyncio.run(play())
    assert bank.paid == []


def test_the_program_acts_by_its_own_yes_alone() -> None:
    async def play() -> None:
        async with bank.machine:
            for agreed in (False, True):
                bank.model.script = ScriptedLLM([RIGHT, RIGHT, "Paid."])
                for place in ("start", "update"):
                    try:
                        if place == "start":
                            await bank.machine.start(ALL, state="act", agreed=agreed)
                        else:
                            chat = await bank.machine.start(ALL, greet=False)
                            bank.model.script = ScriptedLLM([RIGHT, RIGHT, "Paid."])
                            await chat.update(state="act", agreed=agreed)
                    except ConversationConflict:
                        assert not agreed
            assert bank.paid == [50, 50]

    bank = Bank()
    asyncio.run(play())
