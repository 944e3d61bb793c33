"""What a model object of the host may do wrong, and how the caller reads of it."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.model_call import ask
from llm_fsm.errors import ConfigurationError, LLMFSMError, ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.events import HistoryTrimmed, LimitReached, ReplyRejected, Summarised
from llm_fsm.session.messages import ModelReply, ToolCall
from llm_fsm.testing.conversations import reply
from llm_fsm.testing.server.server import serve_scripted
from llm_fsm.turn.effects import AskModel
from llm_requests import request

pytestmark = pytest.mark.anyio


class Own:
    """A model object whose `complete` raises, returns or waits."""

    def __init__(self, does: Any) -> None:
        self.does = does
        self.timeouts: list[float | None] = []

    async def complete(self, asked: Any) -> Any:
        self.timeouts.append(asked.timeout)
        if isinstance(self.does, BaseException):
            raise self.does
        if isinstance(self.does, float):
            await asyncio.sleep(self.does)
        return self.does


def question(model: Own, left: float | None = None, whole: float | None = None) -> Any:
    def view() -> Any:
        raise AssertionError("nobody reads the view")

    return ask(model, AskModel(request=request(), asked_for="turn", view=view), left, whole)


async def test_a_reply_comes_back_and_the_model_knows_its_time() -> None:
    model = Own(ModelReply(text="hi"))
    assert (await question(model, 2.0)).text == "hi"
    assert (await question(model)).text == "hi"
    assert model.timeouts == [2.0, None]


@pytest.mark.parametrize("left", [None, 2.0])
async def test_a_cancellation_that_comes_out_of_a_model_is_its_fault_and_cancels_nobody(
    left: float | None,
) -> None:
    with pytest.raises(ModelError, match="the model object Own raised CancelledError"):
        await question(Own(asyncio.CancelledError()), left)
    task = asyncio.create_task(question(Own(30.0), left))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_model_may_give_a_task_for_its_reply_and_has_no_more_time_for_that() -> None:
    class Tasks(Own):
        def complete(self, asked: Any) -> Any:
            return asyncio.ensure_future(super().complete(asked))

    assert (await question(Tasks(ModelReply(text="hi")), 2.0)).text == "hi"
    with pytest.raises(ModelError, match=r"did not answer within 0\.05 seconds"):
        await question(Tasks(30.0), 0.05)


@pytest.mark.parametrize("streams", [False, True], ids=["send", "stream"])
async def test_a_server_that_takes_too_long_is_named(streams: bool) -> None:
    states = {"a": {"transitions": [{"target_state": "b"}]}, "b": {}}
    definition = {"name": "one", "initial_state": "a", "states": states}
    with serve_scripted(["hi"], loop=True, delay=30.0) as server:
        async with AsyncMachine.from_dict(
            definition, model="m", base_url=server.base_url, timeout=0.3
        ) as machine:
            chat = await machine.start(greet=False)

            async def told() -> None:
                if not streams:
                    await chat.send("hello")
                async for _ in chat.stream("hello"):
                    pass

            with pytest.raises(
                ModelError, match=f"{server.base_url} (gave no answer|did not answer) within 0"
            ):
                await told()


CALL = ToolCall(id="1", name="add", arguments={"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("does", "says", "retryable"),
    [
        (RuntimeError("boom"), "the model object Own raised RuntimeError: boom", False),
        (KeyError(), "the model object Own raised KeyError", False),
        (TimeoutError("their own"), "the model object Own raised TimeoutError: their own", True),
        ("words", "the model object Own gave a str; it must give a ModelReply", False),
        (None, "the model object Own gave a NoneType", False),
        (
            ModelReply(text="hi", cost=float("nan")),
            "gave cost as nan, which nothing can take",
            False,
        ),
        (ModelReply(text="hi", seconds=float("inf")), "gave seconds as inf, which nothing", False),
        (ModelReply(text="hi", input_tokens=-1), "gave input_tokens as -1, which nothing", False),
        (ModelReply(text="hi", cost=object()), "object has no JSON form", False),  # type: ignore[arg-type]
        (
            ModelReply(text="hi", attempts=1.5),
            "a wrong ModelReply.attempts: expected a whole number",
            False,
        ),  # type: ignore[arg-type]
        (ModelReply(text=None), "a wrong ModelReply.text: expected text, got null", False),  # type: ignore[arg-type]
        (
            ModelReply(text="", tool_calls=None),
            "ModelReply.tool_calls: expected a list, got null",
            False,
        ),  # type: ignore[arg-type]
        (
            ModelReply(text="", tool_calls=(CALL,)),
            "tool_calls[0].arguments: expected text, got an object",
            False,
        ),
    ],
)
async def test_what_is_no_reply_and_no_model_error_becomes_one(
    does: Any, says: str, retryable: bool
) -> None:
    with pytest.raises(ModelError) as caught:
        await question(Own(does), 60.0)
    assert says in str(caught.value)
    assert caught.value.retryable is retryable
    assert caught.value.__cause__ is (does if isinstance(does, Exception) else None)


async def test_numbers_of_a_reply_become_what_a_record_holds() -> None:
    given = ModelReply(text="hi", cost=Decimal("0.01"), input_tokens=3.0)  # type: ignore[arg-type]
    reply = await question(Own(given), 60.0)
    assert (reply.cost, reply.input_tokens, type(reply.input_tokens)) == (0.01, 3, int)


@pytest.mark.parametrize("error", [ModelError("down", status=503), ConfigurationError("no key")])
async def test_errors_of_this_package_pass_as_they_are(error: LLMFSMError) -> None:
    with pytest.raises(type(error)) as caught:
        await question(Own(error))
    assert caught.value is error


@pytest.mark.parametrize(
    ("whole", "says"), [(None, "within 0.01 seconds"), (3.0, "within 3 seconds")]
)
async def test_the_deadline_is_told_as_the_deadline(whole: float | None, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        await question(Own(60.0), 0.01, whole)
    assert caught.value.retryable


SUMMED = {
    "name": "work",
    "initial_state": "write",
    "states": {
        "write": {
            "kind": "task",
            "purpose": "Write",
            "summarize": True,
            "transitions": [{"target_state": "send"}],
        },
        "send": {"kind": "task", "purpose": "Send"},
    },
}


@pytest.mark.parametrize(
    ("made", "summary", "todo"),
    [
        ("In short.", "In short.", None),
        ({"summary": "In short.", "todo_list": ["send it"]}, "In short.", ("send it",)),
        ({"todo_list": ["send it"]}, "", ("send it",)),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_summarizer_of_the_host_stands_in_for_the_call(
    made: Any, summary: str, todo: Any, is_async: bool
) -> None:
    seen: list[Any] = []

    def plain(about: Any) -> Any:
        seen.append(about)
        return made

    async def awaited(about: Any) -> Any:
        return plain(about)

    model = ScriptedLLM(["a text", "sent"])
    machine = AsyncMachine.from_dict(SUMMED, model=model, summarizer=awaited if is_async else plain)
    turn = await machine.run("x", background={"goals": ["g"]})
    assert [
        (event.of, event.summary, event.todo_list)
        for event in turn.events
        if isinstance(event, Summarised)
    ] == [("write", summary, todo)]
    (about,) = seen
    assert (about["of"], about["summary"], about["background"]) == ("write", "", {"goals": ["g"]})
    assert about["happened"]["output"] == "a text"
    assert (turn.output, model.remaining) == ("sent", 0)


async def test_a_message_is_answered_without_the_summary_that_a_model_fails_at() -> None:
    talk = {
        "name": "talk",
        "initial_state": "a",
        "history": {"max_exchanges": 1, "strategy": "summary"},
        "states": {
            "a": {
                "purpose": "p",
                "summarize": True,
                "transitions": [{"target_state": "b", "description": "on"}],
            },
            "b": {"purpose": "p", "transitions": [{"target_state": "a", "description": "back"}]},
        },
    }
    said = [
        {"transition": {"target_state": at, "context_update": {}}, "message": at * 3}
        for at in "aaab"
    ]
    down = ModelError("the model is down")
    model = ScriptedLLM([*said[:3], down, said[3], down])
    chat = await AsyncMachine.from_dict(talk, model=model).start(greet=False)
    turns = [await chat.send(text) for text in ("1", "2", "3", "4")]
    assert [(turn.text, turn.state) for turn in turns] == [("aaa", "a")] * 3 + [("bbb", "b")]
    missed = [
        [event.reason for event in turn.events if isinstance(event, ReplyRejected)]
        for turn in turns
    ]
    assert missed == [[], [], ["the model is down"], ["the model is down"]]
    assert any(isinstance(event, HistoryTrimmed) for event in turns[2].events)
    assert model.remaining == 0


async def test_a_summary_that_the_model_fails_at_counts_towards_the_limits() -> None:
    down = ModelError("the model is down")
    down.attempts, down.seconds = 3, 7.5
    talk = {
        "name": "talk",
        "initial_state": "a",
        "limits": {"llm_calls": 2},
        "states": {
            "a": {"purpose": "p", "summarize": True, "transitions": [{"target_state": "b"}]},
            "b": {"kind": "task", "instructions": "Do it.", "transitions": [{"target_state": "c"}]},
            "c": {"purpose": "q", "transitions": [{"target_state": "a"}]},
        },
    }
    model = ScriptedLLM([reply("b", "Well."), down, "done", {"message": "There."}])
    turn = await (await AsyncMachine.from_dict(talk, model=model).start(greet=False)).send("x")
    assert (turn.usage.calls, turn.usage.attempts, turn.usage.seconds) == (2, 4, pytest.approx(7.5))
    assert [event.limit for event in turn.events if isinstance(event, LimitReached)] == [
        "llm_calls"
    ]
    assert model.remaining == 2


@pytest.mark.parametrize("made", [ValueError("no idea"), {1, object()}])
async def test_a_summarizer_that_fails_parks_the_run(made: Any) -> None:
    def summarizer(about: Any) -> Any:
        if isinstance(made, Exception) and not later:
            raise made
        return "fine" if later else made

    later: list[int] = []
    machine = AsyncMachine.from_dict(
        SUMMED, model=ScriptedLLM(["a text", "sent"]), summarizer=summarizer
    )
    with pytest.raises(ModelError, match="the summarizer failed: "):
        await machine.run("x", conversation_id="r")
    later.append(1)
    assert (await machine.run(conversation_id="r")).output == "sent"


FORM = {
    "name": "form",
    "initial_state": "ask",
    "context_schema": {"properties": {"guests": {"type": "integer"}, "phone": {"type": "string"}}},
    "states": {
        "ask": {"purpose": "How many?", "transitions": [{"target_state": "end"}]},
        "end": {},
    },
}


async def test_prompt_and_schema_of_a_request_show_the_form_that_the_model_takes() -> None:
    asked: list[Any] = []

    class Strict(Own):
        async def complete(self, request: Any) -> Any:
            asked.append(request)
            return await super().complete(request)

    listed = [
        {"key": "guests", "value": 4},
        {"key": "_extra", "value": {"key": "dog", "value": "Rex"}},
    ]
    text = json.dumps(
        {"transition": {"target_state": "ask", "context_update": listed}, "message": "Four."}
    )
    scripted = ScriptedLLM([reply("ask", "Four.", guests=4)])
    async with AsyncMachine.from_dict(
        FORM, model=Strict(ModelReply(text=text)), store="memory"
    ) as machine:
        chat = await machine.start(greet=False)
        turn = await chat.send("four, and Rex")
        assert (turn.text, turn.context) == (
            "Four.\n\nHow many?",
            {"guests": 4, "_extra": {"dog": "Rex"}},
        )
        machine.llm = scripted
        await chat.send("four")
    (strict, *_), (loose, *_) = asked, scripted.requests
    assert (strict.schema.form, loose.schema.form) == ("list", "object")
    update = strict.schema.schema["properties"]["context_update"]
    assert update["type"] == "array"
    assert '"context_update": [' in strict.messages[0].content
    assert '"context_update": {' in loose.messages[0].content
