"""A recorded conversation played again: the same on the same definition, and the first difference
on another one.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from llm_fsm.engine.handlers.registry import Occasion, Veto
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.replay import Divergence, recorded_tools, replay_turns
from llm_fsm.session.events import TaskPassed
from llm_fsm.session.messages import ModelReply
from llm_fsm.testing import calls
from machines import program, reply

pytestmark = pytest.mark.anyio

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "item": {"type": "string"},
            "price": {"type": "integer", "x-source": "tool"},
            "signed": {"type": "string", "x-source": "answer"},
            "seen": {"type": "boolean", "x-source": "host"},
            "pin": {"type": "string", "x-secret": True},
        }
    },
    "tools": {"price": {"registered": "price", "output": {"price": "price"}}},
    "states": {
        "ask": {
            "purpose": "Ask what to buy",
            "tools": ["price"],
            "transitions": [
                {"target_state": "sign", "conditions": [{"logic": {"<": [{"var": "price"}, 10]}}]}
            ],
        },
        "sign": {
            "kind": "wait",
            "wait_for": "signature",
            "output": {"signed": "by"},
            "transitions": [{"target_state": "done"}],
        },
        "done": {"reply": "Thank you, {{ signed }}."},
    },
}


async def test_keys_that_the_definition_sets_are_set_again() -> None:
    states = {
        "a": {
            "set": {"n": {"+": [{"var": ["n", 0]}, 1]}},
            "transitions": [{"target_state": "b", "clear": ["x"]}],
        },
        "b": {"set": {"at": {"var": "_timestamp"}}, "transitions": [{"target_state": "a"}]},
    }
    document = {"name": "count", "initial_state": "a", "states": states}
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([reply("b"), reply("a")]))
    chat = await machine.start(context={"x": 1}, greet=False)
    await chat.send("one")
    assert (await chat.send("two")).context["n"] == 2
    records = await machine._engine.records(chat.id)
    found = await replay_turns(machine.program, recorded_tools(machine.program), chat.id, records)
    assert (found.turns, found.divergence) == (3, None)


async def recorded() -> tuple[AsyncMachine, Any]:
    """A conversation with a tool, a handler, a turn taken back and an answer."""
    bought = calls(("price", {"item": "lamp"}))
    signs = reply("sign", "Please sign.", item="lamp")
    model = ScriptedLLM([reply("ask", "What?"), reply("ask", "Hm?"), bought, signs])
    machine = AsyncMachine.from_dict(DESK, model=model)

    @machine.tool
    def price(item: str) -> dict[str, int]:
        """Say what it costs."""
        return {"price": 7}

    @machine.on("pre_processing")
    def seen(occasion: Occasion) -> dict[str, bool]:
        return {"seen": True}

    chat = await machine.start({"pin": "4711"}, conversation_id="c")
    await chat.send("hm")
    await chat.undo()
    await chat.send("a lamp")
    await chat.answer({"by": "Ada"})
    return machine, await machine._engine.records("c")


async def again(definition: dict[str, Any], records: Any, asks: Any = None) -> Any:
    made = program(definition)
    return await replay_turns(made, recorded_tools(made), "c", records, asks)


async def test_nothing_differs_on_the_same_definition() -> None:
    _, records = await recorded()
    found = await again(DESK, records)
    assert (found.turns, found.divergence) == (4, None)


def _edited(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(DESK)
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "divergence"),
    [
        (
            ("states", "ask", "transitions", 0, "conditions", 0, "logic", "<", 1),
            5,
            Divergence(turn=1, what="state", was="sign", now="ask"),
        ),
        (
            ("states", "ask", "tools"),
            [],
            Divergence(turn=1, what="context", was="price = 7", now="price is not set"),
        ),
        (
            ("context_schema", "properties", "item"),
            {"enum": ["chair"]},
            Divergence(turn=1, what="state", was="sign", now="ask"),
        ),
        (
            ("context_schema", "properties", "pin"),
            {"type": "object"},
            Divergence(
                turn=0,
                what="replies",
                was="as recorded",
                now="context key 'pin': \"4711\" is not an object",
            ),
        ),
        (
            ("states", "sign", "kind"),
            "converse",
            Divergence(turn=1, what="pause", was="waits", now="goes on"),
        ),
        (
            ("states", "done", "reply"),
            "Bye, {{ signed }}.",
            Divergence(turn=2, what="words", was="Thank you, Ada.", now="Bye, Ada."),
        ),
        (
            ("states", "done", "transitions"),
            [{"target_state": "ask"}],
            Divergence(turn=2, what="end", was="final", now="goes on"),
        ),
    ],
)
async def test_first_turn_that_goes_another_way_is_told(
    path: Any, value: Any, divergence: Divergence
) -> None:
    _, records = await recorded()
    found = await again(_edited(path, value), records)
    assert found.divergence == divergence


async def test_another_model_is_asked_instead_of_the_record() -> None:
    _, records = await recorded()
    asked = []

    async def asks(effect: Any) -> ModelReply:
        asked.append(effect.asked_for)
        return ModelReply(text=reply("ask", "Other words"))

    found = await again(DESK, records, asks)
    assert found.divergence == Divergence(turn=1, what="state", was="sign", now="ask")
    assert asked == ["greeting", "turn", "turn"]


async def test_values_of_secret_keys_are_not_told() -> None:
    secret = _edited(
        ("context_schema", "properties", "item"),
        {"type": "string", "x-secret": True, "enum": ["x"]},
    )
    _, records = await recorded()
    found = await again(secret, records)
    assert found.divergence is not None
    assert "lamp" not in found.divergence.was


async def _same_again(machine: AsyncMachine) -> None:
    records = await machine._engine.records("c")
    found = await replay_turns(machine.program, recorded_tools(machine.program), "c", records)
    assert found.divergence is None


async def test_what_silence_has_done_is_played_again() -> None:
    now = [1.0]
    shop = {
        "name": "shop",
        "patterns": ["silence"],
        "initial_state": "ask",
        "states": {"ask": {"purpose": "Ask"}},
    }
    shop["states"]["ask"]["transitions"] = [{"target_state": "bye"}]
    shop["states"]["bye"] = {"purpose": "Say goodbye"}
    machine = AsyncMachine.from_dict(
        shop, model=ScriptedLLM([reply("ask", "What?")]), clock=lambda: now[0]
    )
    chat = await machine.start(conversation_id="c")
    while not chat.ended:
        now[0] += 100.0
        await machine.run_due()
        await chat.refresh()
    kinds = [record.kind for record in await machine._engine.records("c")]
    assert kinds[:3] == ["start", "due", "due"]
    await _same_again(machine)


async def test_a_summary_that_a_model_failed_at_takes_no_later_one() -> None:
    states: dict[str, Any] = {
        "ask": {"purpose": "p", "summarize": True, "transitions": [{"target_state": "work"}]},
        "work": {
            "kind": "task",
            "instructions": "Do it.",
            "transitions": [{"target_state": "tell"}],
        },
        "tell": {"purpose": "t", "transitions": [{"target_state": "ask"}]},
    }
    history = {"max_exchanges": 1, "strategy": "summary"}
    talk = {"name": "talk", "initial_state": "ask", "history": history, "states": states}
    said: list[Any] = [reply("ask", "?"), reply("ask", "?"), reply("work", "Well.")]
    said += [ModelError("down"), "done", {"message": "There."}, {"summary": "s"}]
    machine = AsyncMachine.from_dict(talk, model=ScriptedLLM(said))
    chat = await machine.start(conversation_id="c", greet=False)
    texts = [(await chat.send("Hm")).text for _ in range(3)]
    assert texts[2] == "Well.\n\nThere."
    await _same_again(machine)


async def test_what_handlers_forbade_and_said_and_tools_did_not_take_is_played_again() -> None:
    states: dict[str, Any] = {
        "ask": {"purpose": "p", "tools": ["price"], "transitions": [{"target_state": "tell"}]},
        "tell": {"purpose": "t", "transitions": [{"target_state": "ask"}]},
    }
    tools = {"price": {"registered": "price"}}
    said: list[Any] = [
        reply("tell", "There."),
        reply("ask", "Not yet."),
        calls(("price", {"thing": "lamp"})),
    ]
    said += [reply("ask", "Which one?"), ModelError("down"), reply("tell", "There.")]
    talk = {"name": "talk", "initial_state": "ask", "tools": tools, "states": states}
    machine = AsyncMachine.from_dict(talk, model=ScriptedLLM(said))

    @machine.tool
    def price(item: str) -> int:
        """Say what it costs."""
        return 7

    @machine.on("pre_transition")
    def forbid(occasion: Occasion) -> Veto | None:
        return Veto("too early") if occasion.system["_turn"] == 1 else None

    @machine.on("error")
    def apologise(occasion: Occasion) -> str:
        return "One moment."

    chat = await machine.start(conversation_id="c", greet=False)
    texts = [(await chat.send("Hm")).text for _ in range(4)]
    assert texts == ["Not yet.", "Which one?", "One moment.", "There."]
    await _same_again(machine)


async def test_what_a_handler_wrote_in_a_turn_without_a_message_is_played_again() -> None:
    wait = {"kind": "wait", "wait_for": "w", "transitions": [{"target_state": "done"}]}
    sign = {
        "name": "sign",
        "initial_state": "wait",
        "states": {"wait": wait, "done": {"reply": "Thanks, {{ by }}."}},
    }
    machine = AsyncMachine.from_dict(sign, model=ScriptedLLM([]))

    @machine.on("pre_transition")
    def by(occasion: Occasion) -> dict[str, str]:
        return {"by": "Ada"}

    chat = await machine.start(conversation_id="c")
    assert (await chat.answer(True)).text == "Thanks, Ada."
    await _same_again(machine)


async def test_nobody_is_asked_again_about_a_call_that_the_tool_would_not_have_taken() -> None:
    states: dict[str, Any] = {
        "ask": {"purpose": "p", "tools": ["price"], "transitions": [{"target_state": "tell"}]}
    }
    states["tell"] = {"purpose": "t", "transitions": [{"target_state": "ask"}]}
    tools = {"price": {"registered": "price", "approval": True}}
    said: list[Any] = [
        calls(("price", {"thing": "lamp"})),
        reply("ask", "Which one?"),
        calls(("price", {"item": "a"})),
    ]
    said += [reply("ask", "Another one?"), calls(("price", {"item": "a"})), reply("tell", "There.")]
    talk = {"name": "talk", "initial_state": "ask", "tools": tools, "states": states}
    machine = AsyncMachine.from_dict(talk, model=ScriptedLLM(said))

    @machine.tool
    def price(item: str) -> int:
        """Say what it costs."""
        return 7

    chat = await machine.start(conversation_id="c", greet=False)
    assert (await chat.send("Hm")).text == "Which one?"
    for approved, text in ((False, "Another one?"), (True, "There.")):
        await chat.send("That one")
        assert (await chat.answer({"approved": approved})).text == text
    await _same_again(machine)


WORK: dict[str, Any] = {
    "name": "work",
    "initial_state": "count",
    "states": {
        "count": {"kind": "task", "execute": "count", "transitions": [{"target_state": "done"}]},
        "done": {"kind": "final"},
    },
}
TALK = {
    **WORK,
    "states": {
        **WORK["states"],
        "done": {"purpose": "Ask", "transitions": [{"target_state": "count"}]},
    },
}


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("definition", [WORK, TALK])
async def test_a_run_that_goes_on_at_once_or_in_a_turn_of_its_own_is_played_again(
    definition: dict[str, Any], *, runs: bool
) -> None:
    machine = AsyncMachine.from_dict(
        definition, model=ScriptedLLM([reply("done", "Done, and now?")])
    )

    @machine.function
    def count(task: Any) -> int:
        return 1

    await (machine.run(conversation_id="c") if runs else machine.start(conversation_id="c"))
    await _same_again(machine)


def fails(task: Any) -> None:
    raise ValueError("no")


def counts_too_low(task: Any) -> int:
    task.set_context(counted=True)
    return 1


def asks_whom(task: Any) -> Any:
    return task.ask("who?")


async def asks_too_much(task: Any) -> str:
    return "".join([await task.llm.chat([{"role": "user", "content": "x"}]) for _ in range(3)])


@pytest.mark.parametrize("then", ["raise", "continue", "bad"])
@pytest.mark.parametrize("check", [{">": [{"var": "output"}, 5]}, {"registered": "high"}], ids=str)
@pytest.mark.parametrize(
    "count", [fails, counts_too_low, asks_whom, asks_too_much], ids=lambda count: count.__name__
)
async def test_a_task_whose_function_never_passed_is_played_again(
    count: Any, check: Any, then: str
) -> None:
    """Also one that waits for a person, and one that a limit stopped; what failed attempts wrote
    stays taken back.
    """
    task = {**WORK["states"]["count"], "max_retries": 1, "on_exhausted": then,
            "key_results": [{"name": "high", "check": check}]}  # fmt: skip
    states = {**WORK["states"], "count": task, "bad": {"kind": "final"}}
    replies = ScriptedLLM(["x"], loop=True)
    machine = AsyncMachine.from_dict(
        {**WORK, "limits": {"llm_calls": 2}, "states": states}, model=replies
    )
    machine.function(count, name="count")
    machine.function(lambda output: output > 5, name="high")
    events = (await machine.run(conversation_id="c")).events
    assert not any(isinstance(event, TaskPassed) for event in events)
    await _same_again(machine)


async def test_what_a_handler_put_right_in_a_reply_is_put_right_again() -> None:
    states = {"ask": {"purpose": "What?", "transitions": [{"target_state": "done"}]}, "done": {}}
    desk = {"name": "desk", "initial_state": "ask", "states": states}
    said = [("ask", "lmap"), ("nowhere", "lmap"), ("ask", "dsek")]
    model = ScriptedLLM([reply(target, "Sure?", item=item) for target, item in said])
    machine = AsyncMachine.from_dict(desk, model=model)

    @machine.on("context_update")
    def spelt(occasion: Occasion) -> dict[str, str]:
        return {"item": {"lmap": "lamp", "dsek": "desk"}[occasion.context["item"]]}

    async with machine:
        chat = await machine.start(greet=False, conversation_id="c")
        await chat.send("a lmap")
        assert (await chat.send("no, a dsek")).context == {"item": "desk"}
        made, records = program(desk), await machine._engine.records("c")
        assert (await replay_turns(made, recorded_tools(made), "c", records)).divergence is None
