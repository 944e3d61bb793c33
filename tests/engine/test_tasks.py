"""Work behind the front door: runs, registered functions, answers, what is due, and crashes in the
middle.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import observe
from llm_fsm.engine.sync import Machine
from llm_fsm.errors import ConfigurationError, ConversationConflict, ConversationEnded, ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import examine
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.tools.schema import CallInfo
from machines import calls, reply

pytestmark = pytest.mark.anyio

FINAL = {"kind": "final"}


def document(states: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "work", "initial_state": next(iter(states)), "states": states, **more}


def task(**more: Any) -> dict[str, Any]:
    return {"kind": "task", "purpose": "Do it", **more}


class Replies:
    """A model that answers from a list of texts and ModelReplies, and counts."""

    def __init__(self, *replies: str | ModelReply | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[LLMRequest] = []

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.requests.append(request)
        found = self.replies.pop(0)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, ModelReply) else ModelReply(text=found)


def made(
    states: dict[str, Any], *replies: Any, options: dict[str, Any] | None = None, **keys: Any
) -> AsyncMachine:
    return AsyncMachine.from_dict(
        document(states, **keys), model=Replies(*replies), **(options or {})
    )


TOOLS = {"add": {"registered": "add", "output": {"sum": "sum"}}}


def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


async def test_run_with_tools_ends_as_passed_and_shows_what_happened() -> None:
    machine = made(
        {"work": task(tools=["add"])},
        calls(("add", {"a": 2})),
        "3",
        tools=TOOLS,
        options={"tools": [add]},
    )
    turn = await machine.run({"want": "sum"}, {"x": 1}, "r1")
    assert (turn.outcome, turn.output, turn.state, turn.ended) == ("passed", 3, "work", True)
    assert (turn.context, turn.conversation_id, turn.usage.calls) == ({"x": 1, "sum": 3}, "r1", 2)
    assert [type(event).__name__ for event in turn.events] == [
        "RunResumed",
        "AttemptBegun",
        "ModelReplied",
        "ToolReturned",
        "ContextSet",
        "ModelReplied",
        "TaskPassed",
        "Ended",
    ]
    again = await machine.run(conversation_id="r1")
    assert (again.outcome, again.events) == ("passed", turn.events)
    with pytest.raises(ConversationConflict, match="begun with another input"):
        await machine.run({"want": "other"}, conversation_id="r1")


def test_the_same_without_asyncio() -> None:
    states = {
        "work": task(tools=["add"], key_results=[{"name": "k", "check": {"registered": "odd"}}])
    }
    with Machine.from_dict(
        document(states, tools=TOOLS), model=Replies(calls(("add", {"a": 2})), "4", "3")
    ) as machine:
        machine.tool(add)

        @machine.function
        def odd(output: int) -> tuple[bool, str]:
            return output % 2 == 1, "it is even"

        turn = machine.run()
        assert (turn.output, turn.outcome) == (3, "passed")


@pytest.mark.parametrize(
    ("states", "tools", "message"),
    [
        (
            {"work": task(tools=["add"])},
            TOOLS,
            "tool 'add' of the definition: there is no tool 'add'",
        ),
        (
            {"work": task(execute="wrk")},
            {},
            "/states/work/execute: no function 'wrk' is registered; did you mean 'work'",
        ),
        (
            {"work": task(key_results=[{"name": "k", "check": {"registered": "lint"}}])},
            {},
            "/states/work/key_results/0/check: no function 'lint' is registered",
        ),
        ({"work": task(tools=["m"])}, {"m": {"mcp": "files", "tool": "read"}}, "files"),
    ],
)
async def test_names_that_are_not_registered_are_found_at_start(
    states: dict[str, Any], tools: dict[str, Any], message: str
) -> None:
    machine = made(states, tools=tools)
    machine.function(lambda: None, name="work")
    with pytest.raises(ConfigurationError) as caught:
        await machine.run(conversation_id="r")
    assert message in str(caught.value)
    assert await machine.conversations() == ()


async def test_checks_take_what_they_name_and_fail_closed() -> None:
    results = [
        {"name": name, "check": {"registered": name}} for name in ("one", "both", "broken", "odd")
    ]
    machine = made({"work": task(key_results=results, max_retries=0)}, "out")
    seen: list[Any] = []

    @machine.function
    def one(text: str) -> bool:
        seen.append(text)
        return True

    @machine.function
    async def both(context: dict[str, Any], input: Any) -> tuple[bool, str]:
        seen.append((context, input))
        return True, ""

    machine.function(lambda output: 1 / 0, name="broken")
    machine.function(lambda output: "yes", name="odd")
    turn = await machine.run(5, {"k": 1})
    assert seen == ["out", ({"k": 1}, 5)]
    checked = {event.name: event for event in turn.events if isinstance(event, ev.KeyResultChecked)}
    assert [checked[name].passed for name in ("one", "both", "broken", "odd")] == [
        True,
        True,
        False,
        False,
    ]
    assert "ZeroDivisionError" in checked["broken"].reason
    assert "instead of True, False" in checked["odd"].reason
    assert turn.outcome == "exhausted"


# -- functions


async def test_function_works_with_its_bench() -> None:
    machine = made(
        {
            "work": task(
                execute="write",
                tools=["add"],
                key_results=[{"name": "k", "check": {"==": [{"var": "output.n"}, 2]}}],
            )
        },
        calls(("add", {"a": 1, "b": 2})),
        "first",
        "second",
        tools=TOOLS,
        options={"tools": [add]},
    )
    seen: list[Any] = []

    @machine.function
    async def write(ctx: Any) -> dict[str, Any]:
        seen.append((ctx.attempt, ctx.input, ctx.feedback, ctx.shared.get("n"), ctx.memory.get(1)))
        ctx.shared.set("n", ctx.attempt)
        ctx.memory.set(1, "kept")
        ctx.emit({"at": ctx.attempt})
        ctx.set_context(done=True)
        text = await ctx.llm.run_with_tools("system", "user")
        return {"n": ctx.attempt, "text": text}

    heard: list[str] = []
    stop = observe(lambda _, event: heard.append(type(event).__name__))
    turn = await machine.run("in")
    stop()
    assert seen == [
        (1, "in", "", None, ""),
        (2, "in", 'k: this must hold: {"==": [{"var": "output.n"}, 2]}', None, ""),
    ]
    assert turn.output == {"n": 2, "text": "second"}
    assert turn.context == {"done": True}
    assert turn.usage.calls == 3
    assert heard.count("Progressed") == 2
    assert [
        type(event).__name__
        for event in turn.events
        if isinstance(event, ev.ToolReturned | ev.Progressed)
    ] == ["Progressed", "ToolReturned", "Progressed"]


async def test_plain_function_works_in_a_thread() -> None:
    machine = made({"work": task(execute="write")}, "hello")

    @machine.function
    def write(ctx: Any) -> str:
        return (
            ctx.llm.chat([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
            + "!"
        )

    assert (await machine.run()).output == "hello!"


async def test_function_that_raises_or_gives_no_json_is_a_failed_attempt() -> None:
    machine = made({"work": task(execute="write")})

    @machine.function
    def write(ctx: Any) -> Any:
        if ctx.attempt == 1:
            raise ValueError("no")
        return object() if ctx.attempt == 2 else 3

    turn = await machine.run()
    reasons = [
        event.failures[0]["reason"] for event in turn.events if isinstance(event, ev.AttemptFailed)
    ]
    assert reasons[0] == "ValueError: no"
    assert "no JSON form" in reasons[1]
    assert turn.output == 3


async def test_function_that_runs_out_of_rounds_gets_an_error_and_a_limit_ends_the_run() -> None:
    endless = [calls(("add", {"a": 1})) for _ in range(20)]
    machine = made(
        {"work": task(execute="write", tools=["add"], max_retries=0)},
        *endless,
        tools=TOOLS,
        options={"tools": [add]},
    )
    caught: list[str] = []

    @machine.function
    async def write(ctx: Any) -> str:
        try:
            return await ctx.llm.run_with_tools("s", "u", max_rounds=2)
        except RuntimeError as error:
            caught.append(str(error))
        return await ctx.llm.run_with_tools("s", "u")

    turn = await machine.run()
    assert caught == ["the model still called tools after 2 rounds"]
    assert turn.outcome == "limited"
    assert [event.limit for event in turn.events if isinstance(event, ev.LimitReached)] == [
        "llm_calls"
    ]
    assert turn.usage.calls == 10


async def test_function_asks_a_person_and_its_calls_are_not_made_again() -> None:
    refs = {"add": {"registered": "add", "approval": True}}
    machine = made(
        {"work": task(execute="write", tools=["add"])},
        "plan",
        calls(("add", {"a": 1})),
        "added",
        tools=refs,
    )
    done: list[int] = []

    @machine.tool(name="add")
    def counted(a: int) -> int:
        done.append(a)
        return a + 1

    @machine.function
    async def write(ctx: Any) -> list[Any]:
        plan = await ctx.llm.chat(
            [{"role": "user", "content": "plan"}, {"role": "user", "content": "now"}]
        )
        colour = ctx.ask("Which colour?", {"type": "string"})
        text = await ctx.llm.run_with_tools("s", "u")
        return [plan, colour, text]

    turn = await machine.run(conversation_id="r")
    assert turn.paused is not None
    assert (turn.outcome, turn.paused.what, turn.paused.kind) == (
        "paused",
        "Which colour?",
        "break",
    )
    turn = await machine.answer("r", "blue")
    assert turn.paused is not None
    assert (turn.paused.kind, turn.paused.what, done) == ("approval", "add", [])
    turn = await machine.answer("r", {"approved": True})
    assert (turn.output, turn.outcome, done) == (["plan", "blue", "added"], "passed", [1])
    assert len(machine.llm.requests) == 3  # type: ignore[attr-defined]
    records = [
        event for record in await (await machine.resume("r")).turns() for event in record.events
    ]
    assert sum(isinstance(event, ev.ModelReplied) for event in records) == 3


# -- answers


WAITING = {
    "wait": {
        "kind": "wait",
        "wait_for": "go",
        "answer_schema": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
        },
        "timeout": 100,
        "on_timeout": "late",
        "remind": [10],
        "transitions": [{"target_state": "end"}],
    },
    "end": FINAL,
    "late": FINAL,
}


async def test_answer_is_checked_and_counts_once() -> None:
    store = MemoryStore()
    first = await made(WAITING, options={"store": store}).start(conversation_id="c")
    assert first.paused is not None
    assert first.paused.expires == pytest.approx(time.time() + 100, abs=5)
    second = await made(WAITING, options={"store": store}).resume("c")
    with pytest.raises(ConversationConflict, match="waits for 'go'"):
        await first.send("hello")
    for bad in ("yes", {"ok": "perhaps"}, {}, object(), float("nan")):
        with pytest.raises(ValueError, match="the answer"):
            await first.answer(bad)
    results = await asyncio.gather(
        first.answer({"ok": True}), second.answer({"ok": False}), return_exceptions=True
    )
    (turn,) = [item for item in results if not isinstance(item, BaseException)]
    (error,) = [item for item in results if isinstance(item, BaseException)]
    assert (turn.state, turn.outcome, turn.number) == ("end", "passed", 1)
    assert isinstance(error, ConversationConflict)
    assert "was answered already" in str(error)
    with pytest.raises(ConversationConflict, match="was answered already"):
        await second.answer({"ok": True})
    with pytest.raises(ConversationEnded):
        await first.send("hello")


async def test_answer_with_a_request_id_can_be_sent_again() -> None:
    machine = made(WAITING)
    chat = await machine.start(conversation_id="c")
    first = await chat.answer({"ok": True}, request_id="a1")
    assert await machine.answer("c", {"ok": True}, request_id="a1") == first
    with pytest.raises(ConversationConflict, match="already used"):
        await machine.answer("c", {"ok": False}, request_id="a1")


async def test_answer_as_a_stream_tells_its_events_once_each_time_it_is_asked() -> None:
    states = {"sign": {"kind": "wait", "transitions": [{"target_state": "work"}]}, "work": task()}
    machine = made(states, "done")
    await machine.run(conversation_id="r")
    for _ in range(2):
        stream = (await machine.resume("r")).stream_answer("yes", request_id="a1")
        told = [type(event).__name__ async for event in stream]
        assert told == [
            "Answered",
            "StateEntered",
            "AttemptBegun",
            "ModelReplied",
            "TaskPassed",
            "Ended",
        ]
        assert stream.turn is not None
        assert (stream.turn.outcome, stream.turn.output) == ("passed", "done")


def test_answer_as_a_stream_without_asyncio() -> None:
    states = {"sign": {"kind": "wait", "transitions": [{"target_state": "work"}]}, "work": task()}
    with Machine.from_dict(document(states), model=Replies("done")) as machine:
        machine.run(conversation_id="r")
        stream = machine.resume("r").stream_answer("yes")
        assert len(list(stream)) == 6
        assert stream.turn is not None


async def test_answer_where_nothing_is_waited_for_is_a_conflict() -> None:
    states = {"a": {"reply": "Hi", "transitions": [{"target_state": "a"}]}}
    chat = await made(states).start()
    with pytest.raises(ConversationConflict, match="waits for no answer"):
        await chat.answer(1)


# -- what is due


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_time_outs_and_reminders_fire_after_a_restart_once(kind: str, tmp_path: Any) -> None:
    memory = MemoryStore()

    def store() -> Any:
        return memory if kind == "memory" else SQLiteStore(tmp_path / "x.db")

    machine = made(WAITING, options={"store": store()})
    for name in ("c1", "c2"):
        await machine.run(conversation_id=name)
    other = AsyncMachine.from_dict(
        {**document(WAITING), "name": "other"}, model=Replies(), store=machine.store
    )
    await other.run(conversation_id="not ours")
    machine = made(WAITING, options={"store": store()})
    now = time.time()
    assert await machine.run_due(now) == ()
    reminded = await machine.run_due(now + 20)
    assert sorted((turn.conversation_id, turn.outcome) for turn in reminded) == [
        ("c1", "paused"),
        ("c2", "paused"),
    ]
    assert all(any(isinstance(event, ev.Reminded) for event in turn.events) for turn in reminded)
    assert await machine.run_due(now + 20) == ()
    await machine.answer("c1", {"ok": True})
    late = await machine.run_due(now + 200)
    assert [(turn.conversation_id, turn.state, turn.outcome) for turn in late] == [
        ("c2", "late", "passed")
    ]
    assert await machine.run_due(now + 200) == ()
    assert (await machine.store.due(now + 200))[0].conversation_id == "not ours"


async def test_answer_after_the_expiry_comes_too_late_even_if_nobody_looked() -> None:
    states = {**WAITING, "wait": {**WAITING["wait"], "timeout": 0.02, "remind": []}}
    machine = made(states)
    chat = await machine.start(conversation_id="c")
    await asyncio.sleep(0.03)
    with pytest.raises(ConversationConflict, match="has expired"):
        await chat.answer({"ok": True})
    assert (chat.state, chat.ended) == ("late", True)
    machine = made(states)
    await machine.run(conversation_id="d")
    await asyncio.sleep(0.03)
    assert (await machine.resume("d")).state == "late"


# -- crashes


class Killed(KeyboardInterrupt):
    pass


async def test_a_run_killed_at_random_finishes_and_no_recorded_call_runs_again() -> None:
    dice = random.Random(7)
    store = MemoryStore()
    finished: list[int] = []
    begun: list[int] = []
    lives = {"left": 0}

    def tick() -> None:
        lives["left"] -= 1
        if lives["left"] == 0:
            raise Killed

    class Model:
        async def complete(self, request: LLMRequest) -> ModelReply:
            tick()
            number = sum(1 for message in request.messages if message.role == "tool")
            if number >= 60:
                return ModelReply(text="done")
            wanted = tuple(
                ToolCall(id=f"c{number + n}", name="step", arguments=json.dumps({"n": number + n}))
                for n in range(3)
            )
            return ModelReply(text="", tool_calls=wanted)

    async def step(n: int) -> int:
        begun.append(n)
        tick()
        finished.append(n)
        return n

    states = {"work": task(tools=["step"])}
    limits = {"llm_calls": 1000, "tool_calls": 1000}
    kills = 0
    while True:
        lives["left"] = dice.randint(2, 14) if kills < 20 else 10_000
        machine = AsyncMachine.from_dict(
            document(states, tools={"step": {"registered": "step"}}, limits=limits),
            model=Model(),
            store=store,
            tools=[step],
        )
        try:
            turn = await machine.run(conversation_id="r")
            break
        except Killed:
            kills += 1
    assert turn.outcome == "passed"
    assert kills >= 5
    assert finished == list(range(60))
    assert sum(isinstance(event, ev.ToolReturned) for event in turn.events) == 60


async def test_call_at_most_once_whose_outcome_is_unknown_stops_the_run() -> None:
    store = MemoryStore()
    tried: list[int] = []

    async def pay() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise Killed
        return "paid"

    def fresh(*replies: Any) -> AsyncMachine:
        tools = {"pay": {"registered": "pay", "at_most_once": True}}
        return made(
            {"work": task(tools=["pay"])},
            *replies,
            tools=tools,
            options={"store": store, "tools": [pay]},
        )

    with pytest.raises(Killed):
        await fresh(calls(("pay", {}))).run(conversation_id="r")
    turn = await fresh().run(conversation_id="r")
    assert turn.paused is not None
    assert (turn.outcome, turn.paused.kind, turn.paused.what, len(tried)) == (
        "paused",
        "unknown_outcome",
        "pay",
        1,
    )
    turn = await fresh("fine").answer("r", {"repeat": True})
    assert (turn.output, len(tried)) == ("fine", 2)


async def test_another_message_does_not_repeat_a_call_at_most_once() -> None:
    store = MemoryStore()
    tried: list[int] = []

    async def pay() -> str:
        tried.append(1)
        raise Killed

    def fresh(*replies: Any) -> AsyncMachine:
        states = {"a": {"tools": ["pay"], "transitions": [{"target_state": "a"}]}}
        tools = {"pay": {"registered": "pay", "at_most_once": True}}
        return made(states, *replies, tools=tools, options={"store": store, "tools": [pay]})

    chat = await fresh(calls(("pay", {}))).start(conversation_id="c", greet=False)
    with pytest.raises(Killed):
        await chat.send("pay please")
    again = await fresh().resume("c")
    with pytest.raises(ConversationConflict, match="unknown_outcome"):
        await again.send("did you pay? please pay")
    await again.refresh()
    assert again.paused is not None
    assert (again.paused.kind, len(tried)) == ("unknown_outcome", 1)
    assert [message.text for message in await again.history() if message.role == "user"] == [
        "pay please"
    ]


async def test_accepted_answer_is_carried_out_before_the_wait_expires_or_another_answer_counts() -> (
    None
):
    store, moment = MemoryStore(), [1000.0]
    states = {
        "sign": {
            "kind": "wait",
            "wait_for": "signature",
            "timeout": 60,
            "on_timeout": "late",
            "output": {"by": "by"},
            "transitions": [{"target_state": "book"}],
        },
        "book": task(),
        "late": FINAL,
    }

    def fresh(*replies: Any) -> AsyncMachine:
        return made(
            states,
            *replies,
            options={"store": store, "tools": [], "clock": lambda: moment[0]},
            tools={},
        )

    paused = await fresh().run(conversation_id="r")
    assert paused.paused is not None
    with pytest.raises(ModelError):
        await fresh(ModelError("down")).answer("r", {"by": "Ada"})
    moment[0] += 61
    turns = await fresh("booked").run_due()
    assert [(turn.outcome, turn.output, turn.context) for turn in turns] == [
        ("passed", "booked", {"by": "Ada"})
    ]


async def test_function_that_exits_or_is_cancelled_is_a_failed_attempt() -> None:
    async def leave(ctx: Any) -> str:
        raise SystemExit(3)

    async def cancelled(ctx: Any) -> str:
        inner = asyncio.create_task(asyncio.sleep(10))
        inner.cancel()
        await inner
        return "never"

    for function in (leave, cancelled):
        states = {"work": task(execute=function.__name__, max_retries=0)}
        assert (await made(states, options={"functions": [function]}).run()).outcome == "exhausted"


async def test_run_goes_on_after_the_model_failed() -> None:
    store = MemoryStore()
    options = {"store": store, "tools": [add]}
    machine = made(
        {"work": task(tools=["add"])},
        calls(("add", {"a": 1})),
        ModelError("down"),
        tools=TOOLS,
        options=options,
    )
    with pytest.raises(ModelError):
        await machine.run(1, conversation_id="r")
    machine = made({"work": task(tools=["add"])}, "2", tools=TOOLS, options=options)
    turn = await machine.run(conversation_id="r")
    assert (turn.output, turn.usage.calls) == (2, 2)


async def test_conversation_that_only_talks_writes_no_journal_and_one_that_calls_a_tool_does() -> (
    None
):
    class Watching(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[str] = []

        async def journal(self, conversation_id: str, step: int, text: str) -> None:
            self.steps.append(json.loads(text)["kind"])
            await super().journal(conversation_id, step, text)

    store = Watching()
    states = {"a": {"tools": ["add"], "transitions": [{"target_state": "a"}]}}
    machine = made(
        states,
        reply("a"),
        reply("a"),
        calls(("add", {"a": 1})),
        reply("a"),
        tools=TOOLS,
        options={"store": store, "tools": [add]},
    )
    chat = await machine.start()
    await chat.send("hello")
    assert store.steps == []
    await chat.send("add")
    assert store.steps == ["message", "model", "keyed"]


async def test_scripted_model_still_serves_machines_that_work() -> None:
    machine = AsyncMachine.from_dict(document({"work": task()}), model=ScriptedLLM([{"a": 1}]))
    assert (await machine.run()).output == {"a": 1}


async def test_function_that_hangs_is_given_up_at_the_limit_of_seconds() -> None:
    machine = made({"work": task(execute="hang")}, limits={"seconds": 0.05})

    @machine.function
    async def hang(ctx: Any) -> None:
        await asyncio.sleep(60)

    turn = await machine.run()
    assert turn.outcome == "limited"
    assert [event.limit for event in turn.events if isinstance(event, ev.LimitReached)] == [
        "seconds"
    ]


async def test_time_of_handlers_counts_towards_the_limit_of_seconds() -> None:
    states = {"first": task(transitions=[{"target_state": "second"}]), "second": task()}
    machine = made(states, "one", "two", limits={"seconds": 0.05})

    @machine.on("post_transition")
    async def slow(occasion: Any) -> None:
        await asyncio.sleep(0.06)

    turn = await machine.run()
    assert (turn.outcome, turn.state) == ("limited", "second")
    assert [event.limit for event in turn.events if isinstance(event, ev.LimitReached)] == [
        "seconds"
    ]


async def test_limits_that_the_model_does_not_report_are_warned_about_once() -> None:
    machine = made({"work": task()}, "one", "two", limits={"money": 1, "tokens": 100})
    says = r"^limits of money and tokens stop nothing: model .* reports no such figure;"
    with pytest.warns(RuntimeWarning, match=says):
        await machine.run()
    assert (await machine.run()).outcome == "passed"  # where a second warning would be an error


async def test_limits_that_the_model_reports_are_not_warned_about() -> None:
    paid = ModelReply(text="one", cost=0.1, input_tokens=3)
    machine = made({"work": task()}, paid, limits={"money": 1, "tokens": 100})
    assert (await machine.run()).outcome == "passed"


async def test_run_as_a_stream_tells_its_events_as_they_happen() -> None:
    machine = made({"work": task()}, "out")
    stream = machine.run_stream(1)
    names = [type(event).__name__ async for event in stream]
    assert names == ["RunResumed", "AttemptBegun", "ModelReplied", "TaskPassed", "Ended"]
    assert stream.turn is not None
    assert stream.turn.output == "out"


async def test_cancelled_run_is_parked_and_goes_on() -> None:
    store = MemoryStore()
    started = asyncio.Event()

    class Hanging(Replies):
        async def complete(self, request: LLMRequest) -> ModelReply:
            if not self.replies:
                started.set()
                await asyncio.sleep(60)
            return await super().complete(request)

    machine = made(
        {"work": task(tools=["add"])}, tools=TOOLS, options={"store": store, "tools": [add]}
    )
    machine.llm = Hanging(calls(("add", {"a": 1})))
    running = asyncio.create_task(machine.run("in", conversation_id="r"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    machine.llm = Replies("2")
    turn = await machine.run(conversation_id="r")
    assert (
        turn.output,
        [event.result for event in turn.events if isinstance(event, ev.ToolReturned)],
    ) == (2, [{"sum": 2}])


async def test_answer_with_a_secret_and_a_request_id_can_be_sent_again() -> None:
    wait = {"kind": "wait", "output": {"pin": "pin"}, "transitions": [{"target_state": "end"}]}
    states = {"wait": wait, "end": FINAL}
    schema = {"properties": {"pin": {"x-source": "answer", "x-secret": True}}}
    machine = made(states, context_schema=schema)
    await machine.run(conversation_id="r")
    first = await machine.answer("r", {"pin": "1234"}, request_id="a")
    assert await machine.answer("r", {"pin": "1234"}, request_id="a") == first
    assert (first.context, first.output) == ({"pin": "1234"}, {"pin": "•••"})


async def test_answer_that_is_json_only_when_read_can_be_sent_again() -> None:
    wait = {"kind": "wait", "output": {"days": "days"}, "transitions": [{"target_state": "end"}]}
    machine = made({"wait": wait, "end": FINAL})
    await machine.run(conversation_id="r")
    given = {"days": (date(2026, 3, 1), date(2026, 3, 2))}
    first = await machine.answer("r", given, request_id="a")
    assert await machine.answer("r", given, request_id="a") == first
    assert first.context == {"days": ["2026-03-01", "2026-03-02"]}
    with pytest.raises(ValueError, match="not JSON"):
        await machine.answer("r", object(), request_id="a")


SECRET_SCHEMA = {
    "properties": {
        "pin": {"x-source": "host", "x-secret": True},
        "code": {"x-source": "tool", "x-secret": True},
    }
}


async def test_no_question_of_a_task_shows_a_secret_that_functions_put_out() -> None:
    states = {
        "open": {"kind": "task", "execute": "show", "transitions": [{"target_state": "work"}]},
        "work": task(
            memory=True,
            max_retries=1,
            summarize=True,
            key_results=[
                {"name": "fine", "check": {"registered": "fine"}},
                {"name": "good", "check": {"judge": "good"}},
            ],
        ),
    }

    def show(ctx: Any) -> Any:
        ctx.memory.set(1, f"it is {ctx.context['pin']}")
        return {"pin": ctx.context["pin"], "note": "kept"}

    def fine(output: Any) -> Any:
        return output == "second 483920", "it is not 483920"

    good = json.dumps({"verdicts": [{"name": "good", "reason": "", "passed": True}]})
    summary = json.dumps({"summary": "done", "todo_list": None})
    look = calls(("get_memory", {"bucket_index": 1}))
    machine = made(
        states, look, "first", "second 483920", good, summary, context_schema=SECRET_SCHEMA
    )
    machine.function(show)
    machine.function(fine)
    turn = await machine.run(context={"pin": "483920"})
    assert turn.outcome == "passed"
    shown = [message.content for request in machine.llm.requests for message in request.messages]  # type: ignore[attr-defined]
    assert not [content for content in shown if "483920" in content]
    assert [content for content in shown if '{"pin":"•••","note":"kept"}' in content]
    assert [content for content in shown if "it is not •••" in content]
    assert [content for content in shown if "it is •••" in content]
    [read] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert "483920" not in str(read.result)


def enrolling(enrol: Callable[[], Any], schema: Any = SECRET_SCHEMA, **terms: Any) -> Any:
    """A machine whose task calls `enrol` once; `terms`: what its tool says more."""
    return made(
        {"work": task(tools=["enrol"])},
        calls(("enrol", {})),
        "done",
        tools={"enrol": {"registered": "enrol", **terms}},
        context_schema=schema,
        options={"tools": [enrol]},
    )


async def test_result_of_a_tool_shows_no_rest_of_a_secret_that_another_one_begins() -> None:
    def enrol() -> Any:
        """Enrol."""
        return {"code": "k7-44", "text": "Your code is k7-44, your PIN still k7-44-plum."}

    machine = enrolling(enrol, output={"code": "code"})
    turn = await machine.run(context={"pin": "k7-44-plum"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"code": "•••", "text": "Your code is •••, your PIN still •••."}


async def test_result_of_a_tool_shows_no_secret_as_the_name_of_a_key() -> None:
    def enrol() -> Any:
        """Enrol."""
        return {"code": "k7-44", "accounts": [{"k7-44": {"total": 3}, "of k7-44-plum": 1}]}

    machine = enrolling(enrol, output={"code": "code"})
    turn = await machine.run(context={"pin": "k7-44-plum"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"code": "•••", "accounts": [{"•••": {"total": 3}, "of •••": 1}]}
    assert turn.outcome == "passed"


async def test_members_of_a_result_whose_names_are_secret_stay_apart() -> None:
    def enrol() -> Any:
        """Enrol."""
        return {"code": "k7-44", "totals": {"k7-44": 3, "k7-44-plum": 1}}

    machine = enrolling(enrol, output={"code": "code"})
    turn = await machine.run(context={"pin": "k7-44-plum"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"code": "•••", "totals": {"•••": 3, "••••••": 1}}


async def test_name_that_the_definition_gives_is_shown_whatever_is_secret() -> None:
    def enrol() -> Any:
        """Enrol."""
        return {"code": "code", "pin": "code", "barcode": "code"}

    machine = enrolling(enrol, output={"code": "code"})
    turn = await machine.run(context={"pin": "k7-44-plum"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"code": "•••", "pin": "•••", "bar•••": "•••"}


async def test_error_of_a_tool_shows_no_secret() -> None:
    def enrol() -> Any:
        """Enrol."""
        raise ValueError("nobody has the PIN 483920")

    machine = enrolling(enrol)
    turn = await machine.run(context={"pin": "483920"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert "the PIN •••" in (returned.error or "")
    assert "the PIN •••" in machine.llm.requests[-1].messages[-1].content  # type: ignore[attr-defined]


async def test_answer_at_a_break_shows_its_secret_nowhere() -> None:
    def enrol() -> Any:
        """Enrol."""
        return None

    schema = {
        "properties": {
            **SECRET_SCHEMA["properties"],
            "code": {"x-source": "answer", "x-secret": True},
        }
    }
    machine = enrolling(enrol, schema, breaking=True, output={"code": "code"})
    turn = await machine.run(context={"pin": "483920"}, conversation_id="c")
    assert turn.outcome == "paused"
    await (await machine.resume("c")).answer(
        {"code": "k7-44-ab", "text": "k7-44-ab, and 483920 still"}
    )
    told = machine.llm.requests[-1].messages[-1].content  # type: ignore[attr-defined]
    assert "•••, and ••• still" in told
    assert "k7-44-ab" not in told


@pytest.mark.parametrize("owner", ["tool", "answer"])
async def test_call_whose_whole_result_or_answer_is_secret_can_be_approved(owner: str) -> None:
    def enrol() -> Any:
        """Enrol."""
        return "k7-44-ab"

    schema = {"properties": {"code": {"x-source": owner, "x-secret": True}}}
    machine = enrolling(enrol, schema, approval=True, output={"code": "$"})
    await machine.run(conversation_id="c")
    turn = await machine.answer("c", {"approved": True})
    assert (turn.outcome, turn.context["code"]) == (
        "passed",
        "k7-44-ab" if owner == "tool" else {"approved": True},
    )


async def test_answer_at_a_break_is_told_where_a_secret_is_the_whole_result() -> None:
    def enrol() -> Any:
        """Enrol."""
        return "k7-44-ab"

    machine = enrolling(enrol, breaking=True, output={"code": "$"})
    await machine.run(conversation_id="c")
    turn = await machine.answer("c", {"go": "on"})
    [answered] = [event for event in turn.events if isinstance(event, ev.Answered)]
    assert answered.value == {"go": "on"}
    assert machine.llm.requests[-1].messages[-1].content == '{"result":"•••","answer":{"go":"on"}}'  # type: ignore[attr-defined]


async def test_outcome_that_a_person_gives_of_a_lost_call_shows_its_secret_nowhere() -> None:
    async def enrol() -> Any:
        """Enrol."""
        await asyncio.sleep(60)

    machine = enrolling(enrol, at_most_once=True, timeout=0.01, output={"code": "code"})
    await machine.run(conversation_id="c")
    turn = await machine.answer("c", {"result": {"code": "k7-44-ab", "n": 1}})
    [answered] = [event for event in turn.events if isinstance(event, ev.Answered)]
    assert answered.value == {"result": {"code": "•••", "n": 1}}
    assert turn.context["code"] == "k7-44-ab"


async def test_result_of_a_tool_shows_its_secret_nowhere() -> None:
    def enrol() -> Any:
        """Enrol."""
        return {"code": "k7-44-ab", "text": "Your code is k7-44-ab, your PIN still 483920."}

    machine = enrolling(enrol, output={"code": "code"})
    turn = await machine.run(context={"pin": "483920"})
    [returned] = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"code": "•••", "text": "Your code is •••, your PIN still •••."}
    told = machine.llm.requests[-1].messages[-1].content  # type: ignore[attr-defined]
    assert "k7-44-ab" not in told
    assert "483920" not in told
    assert turn.context == {"pin": "483920", "code": "k7-44-ab"}


async def test_failed_turn_and_failed_handler_are_kept_and_told_without_secrets() -> None:
    talk = {"talk": {"purpose": "Talk", "transitions": [{"target_state": "talk"}]}}
    failing = [ModelError("it refuses 483920"), reply("talk", "Hello")]
    machine = made(talk, *failing, context_schema=SECRET_SCHEMA, history={"max_message_chars": 20})
    machine.on("error")(lambda _: "Sorry about 483920")

    @machine.on("pre_processing")
    def breaks(occasion: Any) -> None:
        raise ValueError(f"cannot take {occasion.context}")

    chat = await machine.start({"pin": "483920"}, greet=False)
    failed = await chat.send("Mine is 48 39 20, and a long message")
    turn = await chat.send("Again")
    told = [
        event
        for event in (*failed.events, *turn.events)
        if isinstance(event, ev.TurnFailed | ev.HandlerFailed)
    ]
    assert [type(event).__name__ for event in told] == ["TurnFailed", "HandlerFailed"]
    assert "483920" not in str(told)
    asked = machine.llm.requests[-1].messages[-1].content  # type: ignore[attr-defined]
    assert '{"user":"Mine is •••, and a l... [truncated]"},{"system":"Sorry about •••"}' in asked


async def test_calls_whose_ids_are_the_same_or_nearly_so_are_all_made() -> None:
    asked = [
        {"id": id, "name": "add", "arguments": {"a": a}}
        for a, id in enumerate(("c_3", "c", "c", "call_5", ""))
    ]
    states = {"a": {"tools": ["add"], "transitions": [{"target_state": "a"}]}}
    machine = made(states, "unused", tools=TOOLS, options={"tools": [add]})
    machine.llm = ScriptedLLM([{"tool_calls": asked}, reply("a", "Done")])
    turn = await (await machine.start(greet=False)).send("go")
    called = [event.arguments for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert called == [{"a": a} for a in range(5)]


async def test_history_is_trimmed_though_turns_fail() -> None:
    talk = {"talk": {"purpose": "Talk", "transitions": [{"target_state": "talk"}]}}
    failing = [ModelError("it is down")] * 5
    machine = made(talk, *failing, reply("talk", "Hello"), history={"max_exchanges": 2})
    machine.on("error")(lambda _: "Sorry")
    chat = await machine.start(greet=False)
    for number in range(6):
        await chat.send(f"Message {number}")
    asked = machine.llm.requests[-1].messages[-1].content  # type: ignore[attr-defined]
    assert [f"Message {number}" in asked for number in range(6)] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


async def test_what_fails_when_it_is_due_holds_up_nobody_however_much_it_is() -> None:
    now = [1000.0]
    states = {
        "wait": {"kind": "wait", "remind": [10, 20], "timeout": 30, "on_timeout": "work"},
        "work": task(execute="work"),
    }
    machine = made(states, "unused", options={"clock": lambda: now[0]})
    machine.llm = ScriptedLLM([ModelError("down")], loop=True)

    @machine.function(name="work")
    async def ask(ctx: Any) -> Any:
        return await ctx.llm.chat([]) if "asks" in ctx.context else "done"

    for number in range(60):  # each with three rows that stay
        await machine.run(context={"asks": True}, conversation_id=f"asks {number}")
    now[0] += 100
    await machine.run(conversation_id="last")
    with pytest.raises(ModelError, match="down"):
        await machine.run_due(now[0] + 100)
    assert (await machine.resume("last")).ended


def spoil(value: Any) -> None:
    """Change a value in place, as it should not be."""
    value["list"].append("spoilt")


async def test_what_hosts_are_given_is_theirs_and_changes_nothing_by_itself() -> None:
    store = MemoryStore()
    given: list[Any] = []
    states = {
        "work": task(execute="work", max_retries=1, transitions=[{"target_state": "talk"}]),
        "talk": {"tools": ["look"], "transitions": [{"target_state": "talk"}]},
    }
    replies = reply("talk", "Done"), calls(("look", {"at": {"list": [1]}})), reply("talk", "Seen")
    machine = made(
        states, *replies, tools={"look": {"registered": "look"}}, options={"store": store}
    )

    @machine.function
    async def work(ctx: Any) -> str:
        given.append(json.dumps([ctx.input, ctx.context, ctx.shared.get("kept", {"list": []})]))
        for value in (ctx.input, ctx.context):
            spoil(value)
        ctx.shared.set("kept", {"list": []})
        spoil(ctx.shared.get("kept"))
        if ctx.attempt == 1:
            raise ValueError("once more")
        return "done"

    @machine.tool
    def look(at: dict[str, Any]) -> str:
        spoil(at)
        return "seen"

    @machine.on("pre_processing", "post_processing")
    async def look_on(occasion: Any) -> None:
        spoil(occasion.context)

    turn = await machine.run({"list": [1]}, {"list": [2]}, conversation_id="c")
    assert given == ['[{"list": [1]}, {"list": [2]}, {"list": []}]'] * 2
    assert turn.context == {"list": [2]}
    turn = await (await machine.resume("c")).send("Look")
    assert turn.context == {"list": [2]}
    assert [event.arguments for event in turn.events if isinstance(event, ev.ToolReturned)] == [
        {"at": {"list": [1]}}
    ]
    assert list(await examine(store)) == []


async def test_silence_after_a_failed_turn_is_noticed() -> None:
    talk = {"talk": {"purpose": "Talk", "transitions": [{"target_state": "talk"}]}}
    machine = made(
        talk, ModelError("it is down"), patterns=["silence"], options={"clock": lambda: 1000.0}
    )
    machine.on("error")(lambda _: "Sorry")
    chat = await machine.start(greet=False)
    await chat.send("Hello?")
    assert [turn.ended for turn in await machine.run_due(1000.0 + 1800)] == [True]


async def test_run_begun_twice_at_once_is_one_run() -> None:
    store = MemoryStore()
    machine = made({"work": task()}, "out", "never", options={"store": store})
    first, second = await asyncio.gather(
        machine.run(1, conversation_id="r"), machine.run(1, conversation_id="r")
    )
    assert (first.output, second.output, first.events) == ("out", "out", second.events)
    assert len(await store.records("r")) == 2


async def test_run_of_a_machine_that_also_talks_stops_where_a_user_is_needed() -> None:
    states = {
        "work": task(transitions=[{"target_state": "talk"}]),
        "talk": {"purpose": "Say it", "transitions": [{"target_state": "talk"}]},
    }
    machine = made(states, "out", reply("talk", "Here it is"), reply("talk", "Yes"))
    turn = await machine.run(conversation_id="r")
    assert (turn.text, turn.state, turn.outcome) == ("Here it is", "talk", "")
    assert (await machine.run(conversation_id="r")).text == "Here it is"
    assert (await (await machine.resume("r")).send("really?")).text == "Yes"


async def test_calls_of_a_turn_that_failed_stay_on_record() -> None:
    states = {"a": {"tools": ["add"], "transitions": [{"target_state": "a"}]}}
    machine = made(
        states, calls(("add", {"a": 1})), ModelError("down"), tools=TOOLS, options={"tools": [add]}
    )
    machine.on("error")(lambda _: "Sorry")
    chat = await machine.start(greet=False)
    turn = await chat.send("go")
    assert turn.text == "Sorry"
    assert [type(event).__name__ for event in turn.events] == [
        "UserSaid",
        "ToolReturned",
        "TurnFailed",
        "BotSaid",
    ]
    assert turn.context == {}


async def test_background_is_given_at_the_start_and_shown_where_work_is_done() -> None:
    machine = made({"work": task()}, "out", "out")
    turn = await machine.run(
        background={"goals": ["tidy up"], "custom_fields": {"team": 7}}, conversation_id="r"
    )
    assert (
        '<background>\n{"goals":["tidy up"],"custom_fields":{"team":7}}'
        in machine.llm.requests[0].messages[1].content
    )  # type: ignore[attr-defined]
    chat = await machine.resume(turn.conversation_id)
    assert chat.memory == {"background": {"goals": ["tidy up"], "custom_fields": {"team": 7}}}
    with pytest.raises(ValueError, match="did you mean 'goals'"):
        await machine.run(background={"goal": []})


async def test_the_same_call_twice_in_a_batch_is_made_twice() -> None:
    machine = made(
        {"work": task(tools=["count"], memory=True)},
        calls(("count", {}), ("set_memory", {"bucket_index": 0, "content": "x"}), ("count", {})),
        "done",
        tools={"count": {"registered": "count", "parallel": True}},
    )
    made_calls: list[int] = []

    @machine.tool
    def count() -> int:
        made_calls.append(1)
        return len(made_calls)

    turn = await machine.run()
    returned = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert [event.name for event in returned] == ["count", "set_memory", "count"]
    assert sorted(event.result for event in returned if event.name == "count") == [1, 2]


async def test_a_call_approved_again_after_undo_has_its_key_and_that_of_a_new_message_another() -> (
    None
):
    keys: list[str] = []

    def pay(amount: int, info: CallInfo) -> None:
        keys.append(info.key)

    asked, said = calls(("pay", {"amount": 3})), reply("talk", "Paid.")
    machine = made(
        {
            "talk": {"purpose": "Pay", "tools": ["pay"], "transitions": [{"target_state": "end"}]},
            "end": FINAL,
        },
        *(asked, said, said, asked, said),
        tools={"pay": {"registered": "pay", "approval": True, "at_most_once": True}},
        options={"tools": [pay]},
    )
    chat = await machine.start(greet=False)
    await chat.send("pay 3")
    for _ in range(2):
        assert (await chat.answer({"approved": True})).text == "Paid."
        await chat.undo()
        assert chat.paused is not None
    await chat.undo()
    await chat.send("pay 3")
    await chat.answer({"approved": True})
    first, again, other = keys
    assert first == again != other


@pytest.mark.parametrize("asked", ["text", ["text"], [{"role": "user"}], [{"content": "text"}]])
async def test_function_that_asks_with_what_are_no_messages_is_told_what_they_are(
    asked: Any,
) -> None:
    machine = made({"t": task(execute="f", max_retries=0)})

    @machine.function
    async def f(ctx: Any) -> str:
        return str(await ctx.llm.chat(asked))

    async with machine:
        turn = await machine.run()
    failed = [event.failures for event in turn.events if isinstance(event, ev.AttemptFailed)]
    why = 'ValueError: messages are a list of {"role": "user", "content": "…"}'
    assert [item["reason"] for item in failed[0]] == [why]


async def test_a_run_that_exists_takes_nothing_that_nobody_reads() -> None:
    document = {
        "name": "greet",
        "initial_state": "w",
        "context_schema": {"properties": {"town": {"type": "string", "description": "Town"}}},
        "states": {
            "w": {"kind": "task", "execute": "greet", "transitions": [{"target_state": "e"}]},
            "e": {"kind": "final"},
        },
    }
    async with AsyncMachine.from_dict(document, model="offline") as machine:
        machine.function(lambda ctx: f"Hello {ctx.input}", name="greet")
        first = await machine.run("Ada", {"town": "Bonn"}, conversation_id="x")
        assert await machine.run("Ada", {"town": "Bonn"}, conversation_id="x") == first
        assert await machine.run(conversation_id="x") == first
        assert await machine.step("Ada", conversation_id="x") == first
        for given, context in (("Ben", None), (None, {"town": "Rome"}), ("Ada", {"town": "Rome"})):
            with pytest.raises(ConversationConflict, match="was begun with another"):
                await machine.run(given, context, conversation_id="x")
        with pytest.raises(ConversationConflict, match="is finished, so nothing reads this input"):
            await machine.step("Ben", conversation_id="x")
