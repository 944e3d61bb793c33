"""Functions of tasks, and all else that takes time in a run: what they may ask, hand in, and how
long it may take.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.sync import Machine
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall
from llm_fsm.stores.base import Commit
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, calls
from llm_fsm.tools.schema import CallInfo

pytestmark = pytest.mark.anyio

LIMIT = 0.2


def document(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "work",
        "initial_state": "work",
        "states": {"work": {"kind": "task", **state}},
        **more,
    }


def made(state: dict[str, Any], *replies: Any, functions: Any = (), **more: Any) -> AsyncMachine:
    options = {name: more.pop(name) for name in ("tools_of_host", "model", "store") if name in more}
    return AsyncMachine.from_dict(
        document({"purpose": "Do it", **state}, **more),
        model=options.get("model") or ScriptedLLM(list(replies)),
        tools=options.get("tools_of_host", ()),
        functions=functions,
    )


def reasons(turn: Turn) -> list[str]:
    return [
        failure["reason"]
        for event in turn.events
        if isinstance(event, ev.AttemptFailed)
        for failure in event.failures
    ]


# -- the limit of seconds


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """A model that never answers."""

    async def complete(self, request: LLMRequest) -> ModelReply:
        await asyncio.sleep(60)
        raise AssertionError


def hanging(where: str, release: threading.Event) -> AsyncMachine:
    """A machine in which something hangs, with a limit of seconds."""

    async def asleep(_: Any = None) -> bool:
        await asyncio.sleep(60)
        return True

    def stuck(_: Any = None) -> bool:
        return release.wait(60)

    async def tool_asleep() -> bool:
        return await asleep()

    def tool_stuck() -> bool:
        return stuck()

    def asks(ctx: Any) -> Any:
        return ctx.llm.chat([{"role": "user", "content": "hello"}])

    more: dict[str, Any] = {"limits": {"seconds": LIMIT}}
    tools = {"tools": {"hang": {"registered": "hang"}}}
    if where == "model":
        return made({}, model=Hanging(), **more)
    if where == "function that asks":
        return made({"execute": "asks"}, functions=[asks], model=Hanging(), **more)
    if where.startswith("tool"):
        tool = tool_asleep if where == "tool" else tool_stuck
        machine = made({"tools": ["hang"]}, *[calls(("hang", {}))] * 9, **tools, **more)
        machine.tool(tool, name="hang")
        return machine
    function = stuck if "thread" in where else asleep
    state = (
        {"execute": "slow"}
        if where.startswith("function")
        else {"key_results": [{"name": name, "check": {"registered": "slow"}} for name in "ab"]}
    )
    machine = made({**state, "max_retries": 50}, *["text"] * 9, **more)
    machine.function(function, name="slow")
    return machine


HANGS = (
    "model", "tool", "tool in a thread", "function", "function in a thread", "function that asks", "check",
    "check in a thread",
)  # fmt: skip


@pytest.mark.parametrize("where", HANGS)
async def test_a_run_ends_as_limited_whatever_hangs(where: str, released: threading.Event) -> None:
    async with asyncio.timeout(30):
        turn = await hanging(where, released).run()
    assert turn.outcome == "limited"
    assert "seconds" in [event.limit for event in turn.events if isinstance(event, ev.LimitReached)]


async def test_time_before_a_pause_counts_after_it() -> None:
    async def slow(ctx: Any) -> Any:
        await asyncio.sleep(0.06)
        return ctx.ask("go on?")

    machine = made({"execute": "slow"}, functions=[slow], limits={"seconds": 0.1})
    assert (await machine.run(conversation_id="r")).outcome == "paused"
    assert (await machine.answer("r", "yes")).outcome == "limited"


async def test_a_function_that_was_given_up_asks_no_model_any_more(
    released: threading.Event,
) -> None:
    ended = threading.Event()
    said: list[str] = []

    def late(ctx: Any) -> None:
        released.wait(60)
        try:
            ctx.llm.chat([{"role": "user", "content": "still there?"}])
        except BaseException as error:
            said.append(type(error).__name__)
        ended.set()

    machine = made({"execute": "late"}, "reply", functions=[late], limits={"seconds": 0.02})
    assert (await machine.run()).outcome == "limited"
    released.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert (said, machine.llm.remaining) == (["RuntimeError"], 1)  # type: ignore[attr-defined]


# -- several questions at once


class Slow:
    """A model that takes a moment, and calls the tool `act` where the user asks for it."""

    def __init__(self) -> None:
        self.asked = 0

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.asked += 1
        await asyncio.sleep(0.01)
        wants = request.messages[-1].content == "act"
        return ModelReply(
            text="ok", tool_calls=(ToolCall(id="1", name="act", arguments="{}"),) if wants else ()
        )


def acting(function: Any, acted: list[str], **more: Any) -> AsyncMachine:
    async def act() -> None:
        """Act."""
        acted.append("begun")
        await asyncio.sleep(0.02)
        acted.append("done")

    tools = {"act": {"registered": "act", "at_most_once": True}}
    state = {"execute": function.__name__, "tools": ["act"], "max_retries": 1}
    return made(state, model=Slow(), tools=tools, tools_of_host=[act], functions=[function], **more)


async def test_questions_that_are_asked_at_once_keep_to_the_limits_together() -> None:
    async def many(ctx: Any) -> int:
        return len(
            await asyncio.gather(
                *(ctx.llm.run_with_tools("s", "u") for _ in range(20)), return_exceptions=True
            )
        )

    machine = acting(many, [], limits={"llm_calls": 5})
    turn = await machine.run()
    assert (turn.outcome, turn.usage.calls, machine.llm.asked) == ("limited", 5, 5)  # type: ignore[attr-defined]


async def test_calls_of_questions_that_are_asked_at_once_keep_to_their_limit_together() -> None:
    async def many(ctx: Any) -> None:
        await asyncio.gather(
            *(ctx.llm.run_with_tools("s", "act") for _ in range(4)), return_exceptions=True
        )

    acted: list[str] = []
    assert (await acting(many, acted, limits={"tool_calls": 2}).run()).outcome == "limited"
    assert acted.count("begun") == 2


async def test_time_counts_once_however_many_questions_are_asked_in_it() -> None:
    class Told:
        async def complete(self, request: LLMRequest) -> ModelReply:
            return ModelReply(text="ok", seconds=60.0)

    async def many(ctx: Any) -> str:
        await asyncio.gather(*(ctx.llm.run_with_tools("s", "u") for _ in range(5)))
        return str(await ctx.llm.run_with_tools("s", "u"))

    turn = await made(
        {"execute": "many"}, model=Told(), functions=[many], limits={"seconds": 100}
    ).run()
    assert (turn.outcome, turn.output) == ("passed", "ok")


async def test_what_questions_that_are_asked_at_once_change_is_all_kept() -> None:
    class Remembers(Slow):
        async def complete(self, request: LLMRequest) -> ModelReply:
            await asyncio.sleep(0)
            number = request.messages[1].content
            remember = ToolCall(
                id="m", name="set_memory", arguments=f'{{"bucket_index": {number}, "content": "x"}}'
            )
            put = ToolCall(id="p", name=f"put{number}", arguments="{}")
            return ModelReply(
                text="ok", tool_calls=() if len(request.messages) > 2 else (remember, put)
            )

    async def both(ctx: Any) -> Any:
        await asyncio.gather(*(ctx.llm.run_with_tools("s", number) for number in "12"))
        ctx.memory.set(3, "x")
        return ctx.context

    def put() -> int:
        """Put."""
        return 5

    tools = {
        f"put{number}": {"registered": "put", "output": {f"k{number}": "$"}} for number in "12"
    }
    state = {"execute": "both", "memory": True, "tools": list(tools)}
    machine = made(state, model=Remembers(), tools=tools, tools_of_host=[put], functions=[both])
    turn = await machine.run()
    assert turn.output == turn.context == {"k1": 5, "k2": 5}
    assert [
        (event.values, event.removed) for event in turn.events if isinstance(event, ev.MemorySet)
    ] == [(dict.fromkeys("123", "x"), ())]


class Uneven:
    """A model that takes longest for what begins with "1", so that questions end in another order
    than they began.
    """

    async def complete(self, request: LLMRequest) -> ModelReply:
        text = request.messages[1].content
        await asyncio.sleep(0.03 if text.startswith("1") else 0)
        pays = "pay" in text and len(request.messages) == 2
        call = ToolCall(id="p", name="pay", arguments=f'{{"amount": {text[0]}}}')
        return ModelReply(text=f"to {text}", tool_calls=(call,) if pays else ())


async def test_an_approval_counts_for_no_other_call_than_the_one_that_was_shown() -> None:
    def pay(amount: int) -> None:
        """Pay."""
        paid.append(amount)

    async def both(ctx: Any) -> Any:
        return await asyncio.gather(
            *(ctx.llm.run_with_tools("s", f"{amount} pay") for amount in (1, 2))
        )

    paid: list[int] = []
    tools = {"pay": {"registered": "pay", "approval": True}}
    state = {"execute": "both", "tools": ["pay"]}
    machine = made(state, model=Uneven(), tools=tools, tools_of_host=[pay], functions=[both])
    turn = await machine.run(conversation_id="r")
    asked = []
    while turn.paused is not None:
        asked.append(turn.paused.call["arguments"]["amount"])  # type: ignore[index]
        turn = await machine.answer("r", {"approved": asked[-1] == 2})
    assert (sorted(asked), paid, turn.output) == ([1, 2], [2], ["to 1 pay", "to 2 pay"])


async def test_an_answer_counts_for_no_other_question_that_is_asked_at_once() -> None:
    async def both(ctx: Any) -> Any:
        async def one(number: int) -> Any:
            await ctx.llm.run_with_tools("s", str(number))
            return ctx.ask(f"{number}?")

        return await asyncio.gather(one(1), one(2))

    machine = made({"execute": "both"}, model=Uneven(), functions=[both])
    turn = await machine.run(conversation_id="r")
    asked = []
    while turn.paused is not None:
        asked.append(turn.paused.what)
        turn = await machine.answer("r", f"to {asked[-1]}")
    assert (asked, turn.output) == (["2?", "1?"], ["to 1?", "to 2?"])


async def test_a_question_that_a_function_puts_in_other_words_again_has_its_answer() -> None:
    async def work(ctx: Any) -> Any:
        runs.append(1)
        return ctx.ask(f"Asked {len(runs)} times, may I?")

    runs: list[int] = []
    machine = made({"execute": "work"}, model=Slow(), functions=[work])
    await machine.run(conversation_id="r")
    assert (await machine.answer("r", "yes")).output == "yes"


async def test_a_run_goes_on_that_an_older_version_paused() -> None:
    class Older(MemoryStore):
        """As of a version that did not write what answers are about."""

        async def save(self, commit: Commit) -> None:
            session = commit.session.replace(',"about":[["break","Name?",null]]', "")
            shorter.append(len(commit.session) - len(session))
            await super().save(replace(commit, session=session))

    async def work(ctx: Any) -> Any:
        return [ctx.ask("Name?"), ctx.ask("Age?")]

    shorter: list[int] = []
    machine = AsyncMachine.from_dict(
        document({"purpose": "Do it", "execute": "work"}),
        model=Slow(),
        functions=[work],
        store=Older(),
    )
    await machine.run(conversation_id="r")
    await machine.answer("r", "Ada")
    assert (await machine.answer("r", 36)).output == ["Ada", 36]
    assert any(shorter)


async def test_replies_are_given_back_to_the_questions_that_they_answered() -> None:
    async def ask(ctx: Any) -> Any:
        async def two(name: str) -> list[str]:
            return [await ctx.llm.run_with_tools("s", f"{name}{number}") for number in "ab"]

        return [*await asyncio.gather(two("1"), two("2")), ctx.ask("Go on?")]

    machine = made({"execute": "ask"}, model=Uneven(), functions=[ask])
    assert (await machine.run(conversation_id="r")).outcome == "paused"
    turn = await machine.answer("r", "yes")
    assert turn.output == [["to 1a", "to 1b"], ["to 2a", "to 2b"], "yes"]
    assert turn.usage.calls == 0


async def test_replies_are_given_back_to_tasks_that_come_to_their_questions_in_another_order() -> (
    None
):
    async def read(ctx: Any) -> Any:
        async def one(text: str, seconds: float) -> Any:
            await asyncio.sleep(seconds)
            return await ctx.llm.run_with_tools("s", text)

        runs.append(1)
        first, last = (0.02, 0) if len(runs) == 1 else (0, 0.02)
        return [
            *await asyncio.gather(one("a", first), one("b", last), one("b", last)),
            ctx.ask("Go on?"),
        ]

    runs: list[int] = []
    machine = made({"execute": "read"}, model=Uneven(), functions=[read])
    await machine.run(conversation_id="r")
    turn = await machine.answer("r", "yes")
    assert (turn.output, turn.usage.calls) == (["to a", "to b", "to b", "yes"], 0)


async def test_replies_are_given_back_to_their_tasks_in_another_order_after_a_crash() -> None:
    class Stuck(Uneven):
        async def complete(self, request: LLMRequest) -> ModelReply:
            asked.append(request.messages[1].content)
            await asyncio.sleep(60 if asked == ["a"] else 0)
            return await super().complete(request)

    async def read(ctx: Any) -> Any:
        async def one(text: str) -> Any:
            await asyncio.sleep(0 if text == order[0] else 0.02)
            return await ctx.llm.run_with_tools("s", text)

        return await asyncio.gather(one("a"), one("b"))

    asked: list[str] = []
    order = ["a", "b"]
    machine = made({"execute": "read"}, model=Stuck(), functions=[read])
    run = asyncio.create_task(machine.run(conversation_id="r"))
    await asyncio.sleep(0.1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    order.reverse()
    assert (await machine.run(conversation_id="r")).output == ["to a", "to b"]
    assert asked == ["a", "b", "a"]


async def test_replies_are_given_back_to_questions_of_a_queue_that_tasks_share_after_a_crash() -> (
    None
):
    delays = {"a": 0.05, "c": 60.0}

    class Slow(Uneven):
        async def complete(self, request: LLMRequest) -> ModelReply:
            text = str(request.messages[1].content)
            asked.append(text)
            await asyncio.sleep(delays.get(text, 0))
            return ModelReply(text=f"to {text}")

    async def read(ctx: Any) -> Any:
        queue, found = list("dcba"), {}

        async def worker() -> None:
            while queue:
                text = queue.pop()
                found[text] = await ctx.llm.run_with_tools("s", text)

        await asyncio.gather(worker(), worker())
        return found

    asked: list[str] = []
    machine = made({"execute": "read"}, model=Slow(), functions=[read])
    run = asyncio.create_task(machine.run(conversation_id="r"))
    # "d" is asked when the reply to "a" is on record.
    while "d" not in asked:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    delays.clear()
    assert (await machine.run(conversation_id="r")).output == {
        text: f"to {text}" for text in "abcd"
    }
    assert sorted(asked) == list("abccd")


class Paying:
    """A model that pays, once, what a question begins with; greetings are answered at once, and
    what waits late.
    """

    def __init__(self) -> None:
        self.delay = 60.0

    async def complete(self, request: LLMRequest) -> ModelReply:
        text = str(request.messages[1].content)
        if text.startswith("wait"):
            await asyncio.sleep(self.delay)
        if len(request.messages) > 2 or not text[0].isdigit():
            return ModelReply(text=f"got {request.messages[-1].content}")
        call = ToolCall(id="p", name="pay", arguments=f'{{"amount": {text[0]}}}')
        return ModelReply(text="", tool_calls=(call,))


class Till:
    """A machine whose function asks several questions at once, with a clock in those that lead to
    payments.
    """

    def __init__(self, *, lost: int = 0, ask: bool = False) -> None:
        self.paid: list[tuple[int, str]] = []
        self.clock = 0
        self.model = Paying()

        async def pay(amount: int, info: CallInfo) -> str:
            """Pay."""
            self.paid.append((amount, info.key))
            if len(self.paid) == lost:
                await asyncio.sleep(60)
            return f"receipt {len(self.paid)}"

        async def all_at_once(ctx: Any) -> Any:
            async def one(number: int, amount: int) -> str:
                await ctx.llm.run_with_tools("s", f"hello {number}")
                self.clock += 1
                return str(await ctx.llm.run_with_tools("s", f"{amount} at {self.clock}"))

            found = await asyncio.gather(
                one(1, 1), one(2, 1), one(3, 2), ctx.llm.run_with_tools("s", "wait")
            )
            return [*found[:3], *([ctx.ask("All right?")] if ask else [])]

        tools = {"pay": {"registered": "pay", "at_most_once": True}}
        state = {"execute": "all_at_once", "tools": ["pay"]}
        more: dict[str, Any] = {"tools": tools, "limits": {"llm_calls": 50}, "tools_of_host": [pay]}
        self.machine = made(state, model=self.model, functions=[all_at_once], **more)

    async def crash(self) -> None:
        """Run until all but one question is answered."""
        run = asyncio.create_task(self.machine.run(conversation_id="r"))
        await asyncio.sleep(0.3)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        self.model.delay = 0.0

    @property
    def amounts(self) -> list[int]:
        return [amount for amount, _ in self.paid]


RECEIPTS = [f'got "receipt {number}"' for number in (1, 2, 3)]


async def test_a_call_that_must_not_run_twice_is_known_again_when_its_question_has_other_words_after_a_crash() -> (
    None
):
    till = Till()
    await till.crash()
    turn = await till.machine.run(conversation_id="r")
    assert (turn.output, till.amounts, till.clock) == (RECEIPTS, [1, 1, 2], 6)


async def test_and_so_it_is_after_an_answer() -> None:
    till = Till(ask=True)
    till.model.delay = 0.0
    assert (await till.machine.run(conversation_id="r")).outcome == "paused"
    turn = await till.machine.answer("r", "yes")
    assert (turn.output, till.amounts, till.clock) == ([*RECEIPTS, "yes"], [1, 1, 2], 6)


def paying_by_the_day(days: Any, paid: list[int]) -> Any:
    """A machine that pays 1 in a question of the day, and 1 after two answers."""

    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"receipt {len(paid)}"

    async def daily(ctx: Any) -> Any:
        async def one(number: int, text: str) -> str:
            await ctx.llm.run_with_tools("s", f"hello {number}")
            return str(await ctx.llm.run_with_tools("s", text))

        found = await asyncio.gather(
            one(1, f"1 on day {days.today}"), ctx.llm.run_with_tools("s", "hello 2")
        )
        ctx.ask("Is it another day?")
        await ctx.llm.run_with_tools("s", "wait")
        ctx.ask("And another?")
        return [found[0], *await asyncio.gather(one(3, "1 for the last time"))]

    tools = {"pay": {"registered": "pay", "at_most_once": True}}
    state = {"execute": "daily", "tools": ["pay"]}
    limits = {"llm_calls": 50}
    return made(
        state, model=days.model, functions=[daily], tools=tools, limits=limits, tools_of_host=[pay]
    )


@pytest.mark.parametrize("crash", [True, False])
async def test_a_call_known_again_after_an_answer_stays_so_after_a_crash_and_another_answer(
    *, crash: bool
) -> None:
    days, paid = SimpleNamespace(today=1, model=Paying()), list[int]()
    machine = paying_by_the_day(days, paid)
    await machine.run(conversation_id="r")
    days.today = 2
    if crash:
        answered = asyncio.create_task(machine.answer("r", "yes", request_id="q"))
        await asyncio.sleep(0.3)
        answered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answered
    days.model.delay = 0.0
    await machine.answer("r", "yes", request_id="q")
    assert paid == [1]
    turn = await machine.answer("r", "yes")
    assert (turn.output, paid) == ([f'got "receipt {number}"' for number in (1, 2)], [1, 1])


@pytest.mark.parametrize("repeat", [True, False])
async def test_a_lost_call_whose_question_has_other_words_asks_a_person_and_keeps_its_key(
    *, repeat: bool
) -> None:
    till = Till(lost=1)
    await till.crash()
    turn = await till.machine.run(conversation_id="r")
    assert turn.paused is not None
    assert (turn.paused.kind, till.amounts) == ("unknown_outcome", [1, 1, 2])
    turn = await till.machine.answer("r", {"repeat": True} if repeat else {"result": "receipt 1"})
    assert sorted(turn.output) == sorted(
        [*RECEIPTS[1:], 'got "receipt 4"' if repeat else RECEIPTS[0]]
    )
    assert till.amounts == [1, 1, 2, *([1] if repeat else [])]
    assert len({key for _, key in till.paid}) == 3


async def test_a_question_that_its_function_does_not_wait_for_ends_with_it() -> None:
    async def hasty(ctx: Any) -> str:
        asked = asyncio.create_task(ctx.llm.run_with_tools("s", "act"))
        await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise ValueError("one of two failed")
        left.append(asked)
        return "passed"

    left: list[asyncio.Task[str]] = []
    acted: list[str] = []
    machine = acting(hasty, acted)
    assert (await machine.run()).output == "passed"
    await asyncio.sleep(0.05)
    assert (left[0].cancelled(), acted, machine.llm.asked) == (True, [], 2)  # type: ignore[attr-defined]


async def test_what_is_asked_beside_a_question_to_a_person_is_not_done_again_with_the_answer() -> (
    None
):
    async def both(ctx: Any) -> list[str]:
        async def person() -> str:
            await asyncio.sleep(0.03)
            return str(ctx.ask("May I?"))

        return list(await asyncio.gather(ctx.llm.run_with_tools("s", "act"), person()))

    acted: list[str] = []
    machine = acting(both, acted)
    turn = await machine.run(conversation_id="r")
    assert (turn.outcome, acted) == ("paused", ["begun", "done"])
    assert [event.name for event in turn.events if isinstance(event, ev.ToolReturned)] == ["act"]
    assert (await machine.answer("r", "yes")).output == ["ok", "yes"]
    assert acted == ["begun", "done"]


async def test_a_function_and_its_calls_keep_their_keys_when_they_are_repeated_with_an_answer() -> (
    None
):
    keys: list[str] = []

    async def act(info: CallInfo) -> None:
        """Act."""
        keys.append(info.key)
        if len(keys) == 1:
            await asyncio.sleep(60)

    async def work(ctx: Any) -> str:
        functions.append(ctx.key)
        return str(await ctx.llm.run_with_tools("s", "act"))

    functions: list[str] = []
    tools = {"act": {"registered": "act", "at_most_once": True, "timeout": 0.01}}
    state = {"execute": "work", "tools": ["act"]}
    machine = made(state, model=Slow(), tools=tools, tools_of_host=[act], functions=[work])
    assert (await machine.run(conversation_id="r")).outcome == "paused"
    assert (await machine.answer("r", {"repeat": True})).output == "ok"
    assert (len(keys), len(set(keys)), len(functions), len(set(functions))) == (2, 1, 2, 1)


# -- what a function asks and hands in


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "nonsense"}, "the schema of the answer is no JSON Schema"),
        ({"$ref": "https://example.com/x"}, "the schema of the answer is no JSON Schema"),
        ([1], "the schema of the answer is no JSON Schema"),
    ],
)
async def test_a_question_that_nobody_could_answer_fails_the_attempt(
    schema: Any, says: str
) -> None:
    def wonder(ctx: Any) -> Any:
        return ctx.ask("what?", schema)

    turn = await made({"execute": "wonder", "max_retries": 0}, functions=[wonder]).run()
    assert (turn.outcome, turn.paused) == ("exhausted", None)
    assert says in reasons(turn)[0]


def hands_in(value: Any) -> Callable[[Any], Any]:
    def function(ctx: Any) -> Any:
        return value

    return function


def shares(ctx: Any) -> None:
    for number in range(3):
        ctx.shared.set(f"part {number}", "x" * 400_000)


@pytest.mark.parametrize(
    "function", [hands_in("x" * 1_000_001), hands_in(["é" * 10_000] * 60), shares]
)
async def test_what_a_function_hands_in_is_bounded(function: Any) -> None:
    machine = made({"execute": "big", "max_retries": 0})
    machine.function(function, name="big")
    turn = await machine.run()
    assert "at most 1000000 characters of JSON are taken" in reasons(turn)[0]


def sets(ctx: Any) -> None:
    ctx.set_context(found=object())


def keeps(ctx: Any) -> None:
    ctx.shared.set("parts", [])
    ctx.shared.get("parts").append(object())


def forgets(ctx: Any) -> None:
    ctx.memory.background = "all of it"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (sets, "the result is not JSON: a object has no JSON form"),
        (keeps, "the result is not JSON: a object has no JSON form"),
        (forgets, "AttributeError"),
    ],
)
async def test_what_a_function_leaves_and_nobody_can_keep_fails_the_attempt(
    function: Any, says: str
) -> None:
    machine = made({"execute": "odd", "max_retries": 0})
    machine.function(function, name="odd")
    turn = await machine.run()
    assert turn.outcome == "exhausted"
    assert says in reasons(turn)[0]


async def test_a_long_report_is_shortened() -> None:
    def report(ctx: Any) -> str:
        ctx.emit({"lines": "x" * 100_000})
        return "done"

    turn = await made({"execute": "report"}, functions=[report]).run()
    (event,) = [event for event in turn.events if isinstance(event, ev.Progressed)]
    assert len(event.report["lines"]) < 8_000


# -- who may stop the program


class Stop(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyError("words")


@pytest.mark.parametrize(
    "state",
    [{"execute": "stop"}, {"key_results": [{"name": "k", "check": {"registered": "stop"}}]}],
)
@pytest.mark.parametrize(
    ("raised", "says"),
    [(Stop("out"), "Stop: out"), (Mute(), "Mute: (its words cannot be had: KeyError)")],
)
async def test_functions_cannot_end_the_program(
    state: dict[str, Any], raised: BaseException, says: str
) -> None:
    async def stop(_: Any) -> Any:
        raise raised

    turn = await made({**state, "max_retries": 0}, "text", functions=[stop]).run()
    assert turn.outcome == "exhausted"
    assert says in reasons(turn)[0]


def test_an_interrupt_raised_by_a_tool_reaches_the_caller_and_the_machine_lives_on() -> None:
    model = ScriptedLLM([calls(("interrupt", {})), "done"])
    with Machine.from_dict(
        document(
            {"purpose": "x", "tools": ["interrupt"]},
            tools={"interrupt": {"registered": "interrupt"}},
        ),
        model=model,
    ) as machine:

        @machine.tool
        async def interrupt() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            machine.run(conversation_id="r")
        assert [item.conversation_id for item in machine.conversations()] == ["r"]


# -- calls that must not run twice


async def test_a_call_at_most_once_that_ran_out_of_time_stops_the_run() -> None:
    asked: list[str] = []

    async def pay(amount: int) -> str:
        asked.append(str(amount))
        if len(asked) == 1:
            await asyncio.sleep(60)
        return "paid"

    machine = made(
        {"tools": ["pay"]},
        calls(("pay", {"amount": 5})),
        "done",
        tools={"pay": {"registered": "pay", "at_most_once": True, "timeout": 0.02}},
        tools_of_host=[pay],
    )
    turn = await machine.run(conversation_id="r")
    assert turn.paused is not None
    assert (turn.paused.kind, turn.paused.what, asked) == ("unknown_outcome", "pay", ["5"])
    turn = await machine.answer("r", {"repeat": True})
    assert (turn.outcome, turn.output, asked) == ("passed", "done", ["5", "5"])
