"""What a program does between messages: it changes keys and the state, it says something, it takes
over a talk.
"""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import (
    AsyncMachine,
    ConversationConflict,
    ConversationEnded,
    Machine,
    Message,
    observe,
    sink,
)
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import shown_event
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply

pytestmark = pytest.mark.anyio

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "order",
    "context_schema": {
        "properties": {
            "item": {"type": "string"},
            "paid": {"type": "boolean", "x-source": "host"},
            "pin": {"type": "string", "x-secret": True, "x-source": "host"},
        }
    },
    "states": {
        "order": {
            "purpose": "What would you like?",
            "transitions": [
                {
                    "target_state": "sort",
                    "auto": True,
                    "conditions": [{"requires_context_keys": ["paid"]}],
                }
            ],
        },
        "sort": {"kind": "decide", "transitions": [{"target_state": "thanks"}]},
        "thanks": {"reply": "Paid: {{ item }}.", "transitions": [{"target_state": "end"}]},
        "end": {"reply": "Bye."},
    },
}


def shop(*replies: Any, **options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(SHOP, model=ScriptedLLM(list(replies)), **options)


async def test_values_are_kept_with_their_source_and_what_follows_by_itself_happens() -> None:
    store = MemoryStore()
    machine = shop(store=store)
    chat = await machine.start(context={"item": "tea"}, greet=False)
    turn = await chat.update({"paid": True}, request_id="hook-1")
    assert (turn.text, turn.state, turn.moved, turn.request_id) == (
        "Paid: tea.",
        "thanks",
        True,
        "hook-1",
    )
    assert (turn.usage.calls, turn.context) == (0, {"item": "tea", "paid": True})
    kinds = [type(event).__name__ for event in turn.events]
    assert kinds == ["Updated", "ContextSet", "StateEntered", "StateEntered", "BotSaid"]
    assert [message.text for message in await chat.history()] == ["Paid: tea."]
    records = [parse(text) for text in await store.records(chat.id)]
    assert records[-1].kind == "update"
    assert (
        await replay_turns(machine.program, recorded_tools(machine.program), chat.id, records)
    ).divergence is None


async def test_a_conversation_is_moved_and_the_next_message_is_heard_there() -> None:
    chat = await shop(reply("end", "Fine.")).start(greet=False)
    turn = await chat.update(state="thanks")
    assert (turn.state, turn.previous_state, turn.events[1].by) == ("thanks", "order", "host")
    assert (await chat.send("ok")).state == "end"


async def test_a_move_to_an_end_ends_the_conversation_and_handlers_hear_of_it() -> None:
    machine, heard = shop(), []

    @machine.on("end_conversation")
    def over(occasion: Any) -> None:
        heard.append(occasion.state)

    chat = await machine.start(greet=False)
    assert (await chat.update(state="end")).ended
    assert heard == ["end"]
    with pytest.raises(ConversationEnded):
        await chat.update({"item": "x"})


async def test_words_of_an_operator_are_said_as_they_are_and_shown_to_the_model() -> None:
    model = ScriptedLLM([reply("order", "Gladly.")])
    chat = await AsyncMachine.from_dict(SHOP, model=model).start(greet=False)
    turn = await chat.say("Ann here: the tea is out.", request_id="op-1")
    assert (turn.text, turn.state, turn.moved) == ("Ann here: the tea is out.", "order", False)
    await chat.send("Then coffee")
    assert "the tea is out" in model.requests[0].messages[1].content
    assert [message.role for message in await chat.history()] == ["assistant", "user", "assistant"]
    await chat.end()
    assert (await chat.say("Your order has left.")).text == "Your order has left."


async def test_a_request_id_gives_the_recorded_turn_and_serves_for_nothing_else() -> None:
    chat = await shop().start(greet=False)
    first = await chat.update({"item": "tea"}, request_id="r")
    assert (await chat.update({"item": "tea"}, request_id="r")).events == first.events
    assert len(await chat.turns()) == 2
    said = await chat.say("Hello", request_id="s")
    assert (await chat.say("Hello", request_id="s")).events == said.events
    for again in (
        chat.update({"item": "milk"}, request_id="r"),
        chat.say("Hello", request_id="r"),
        chat.say("Hi", request_id="s"),
        chat.send("Hello", request_id="s"),
    ):
        with pytest.raises(ConversationConflict):
            await again


async def test_listeners_and_sinks_hear_of_it() -> None:
    delivered, heard = [], []

    async def take(delivery: Any) -> None:
        delivered.append(delivery.event["type"])

    machine = shop(sinks=[sink(take, events=["Updated", "BotSaid"])])
    chat = await machine.start(greet=False)
    stop = observe(lambda name, event: heard.append((name, type(event).__name__)))
    await chat.say("Hello")
    stop()
    await machine.close()
    assert delivered == ["Updated", "BotSaid"]
    assert [kind for name, kind in heard if name == chat.id][:2] == ["Updated", "BotSaid"]


@pytest.mark.parametrize(
    ("context", "state"),
    [
        ({"paid": "perhaps"}, None),
        ({"_turn": 1}, None),
        ({"x": object()}, None),
        ({}, None),
        (None, "no"),
    ],
)
async def test_what_cannot_be_is_refused_and_changes_nothing(context: Any, state: Any) -> None:
    chat = await shop().start(greet=False)
    with pytest.raises(ValueError, match=r"context|state"):
        await chat.update(context, state)
    assert len(await chat.turns()) == 1


async def test_a_secret_of_an_update_is_masked_where_events_are_shown() -> None:
    machine = shop()
    chat = await machine.start(greet=False)
    turn = await chat.update({"pin": "1234"})
    assert "1234" not in str(
        [shown_event(event, machine.program.is_secret) for event in turn.events]
    )


async def test_none_deletes_a_key() -> None:
    chat = await shop().start(context={"item": "tea"}, greet=False)
    assert (await chat.update({"item": None})).context == {}


async def test_an_update_can_be_taken_back() -> None:
    chat = await shop().start(context={"item": "tea"}, greet=False)
    await chat.update({"paid": True})
    await chat.undo()
    assert (chat.state, chat.context) == ("order", {"item": "tea"})


async def test_a_value_reaches_the_caller_of_a_flow_and_the_flow_itself() -> None:
    inner = {
        "name": "inner",
        "initial_state": "ask",
        "states": {
            "ask": {"reply": "{{ sum }}", "transitions": [{"target_state": "out"}]},
            "out": {},
        },
    }
    outer = {
        "name": "outer",
        "initial_state": "call",
        "states": {
            "call": {
                "kind": "subflow",
                "flow": "inner",
                "input": {"sum": "total"},
                "transitions": [{"target_state": "b"}],
            },
            "b": {"reply": "B", "transitions": [{"target_state": "c"}]},
            "c": {},
        },
    }
    machine = AsyncMachine.from_dict(outer, model=ScriptedLLM([]), flows={"inner": inner})
    chat = await machine.start(context={"total": 1})
    turn = await chat.update({"total": 2})
    assert (turn.context, turn.state, chat.data()["sum"]) == ({"total": 2}, "ask", 2)
    assert (await chat.update(state="b")).state == "b"
    assert isinstance((await chat.turns())[-1].events[1], ev.FlowReturned)


async def test_a_run_that_waits_is_not_moved() -> None:
    states = {
        "w": {"kind": "wait", "wait_for": "boss", "transitions": [{"target_state": "e"}]},
        "e": {},
    }
    machine = AsyncMachine.from_dict(
        {"name": "w", "initial_state": "w", "states": states}, model=ScriptedLLM([])
    )
    chat = await machine.start()
    assert (await chat.update({"note": "x"})).paused is not None
    with pytest.raises(ConversationConflict, match="cannot be moved"):
        await chat.update(state="e")


async def test_an_update_that_was_interrupted_is_played_again() -> None:
    store, tries = MemoryStore(), []
    machine = shop(store=store)

    @machine.on("post_transition")
    def told(occasion: Any) -> dict[str, Any]:
        tries.append(occasion.state)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return {"item": "tea"}

    chat = await machine.start(greet=False)
    with pytest.raises(KeyboardInterrupt):
        await chat.update(state="thanks", request_id="r")
    turn = await chat.update(state="thanks", request_id="r")
    assert (turn.state, turn.context) == ("thanks", {"item": "tea"})


HISTORY = [("user", "Hi"), ("user", "I want tea"), ("assistant", "Green or black?")]


async def test_a_talk_from_elsewhere_is_taken_over() -> None:
    model = ScriptedLLM([reply("order", "Green it is.", item="green tea")])
    store = MemoryStore()
    machine = AsyncMachine.from_dict(SHOP, model=model, store=store)
    chat = await machine.start(greet=False, history=HISTORY)
    await chat.send("Green")
    assert "I want tea" in model.requests[0].messages[1].content
    found = [(message.role, message.text, message.turn) for message in await chat.history()]
    assert found[:3] == [(role, text, 0) for role, text in HISTORY]
    assert found[3:] == [
        ("user", "Green", 1),
        ("assistant", "Green it is.\n\nWhat would you like?", 1),
    ]
    records = [parse(text) for text in await store.records(chat.id)]
    assert (
        await replay_turns(machine.program, recorded_tools(machine.program), chat.id, records)
    ).divergence is None


async def test_a_long_talk_from_elsewhere_is_trimmed_for_prompts_and_kept_whole() -> None:
    model = ScriptedLLM([reply("order", "Yes.")])
    chat = await AsyncMachine.from_dict(SHOP, model=model).start(
        greet=False,
        history=[
            pair
            for n in range(40)
            for pair in (("user", f"u{n}."), Message(role="assistant", text=f"a{n}.", turn=0))
        ],
    )
    await chat.send("and?")
    content = model.requests[0].messages[1].content
    assert ("u39." in content, "u1." in content, len(await chat.history())) == (True, False, 82)


@pytest.mark.parametrize(
    "history", [[("user", "Hi")], [("bot", "Hi")], ["Hi"], [("assistant", "")], "Hi"]
)
async def test_a_history_that_cannot_be_is_refused(history: Any) -> None:
    with pytest.raises(ValueError, match=r"history|message"):
        await shop().start(greet=False, history=history)


def test_the_same_without_asyncio() -> None:
    with Machine.from_dict(SHOP, model=ScriptedLLM([])) as machine:
        chat = machine.start(greet=False, history=HISTORY)
        assert chat.say("One moment.").text == "One moment."
        assert chat.update(context={"paid": True}).state == "thanks"
        assert chat.update(state="end").ended
        assert len(chat.history) == 6


async def test_a_state_that_talks_times_out_when_somebody_looks() -> None:
    states = {
        **SHOP["states"],
        "order": {**SHOP["states"]["order"], "timeout": 60, "on_timeout": "thanks"},
    }
    machine = AsyncMachine.from_dict({**SHOP, "states": states}, model=ScriptedLLM([]))
    chat = await machine.start(greet=False)
    assert chat.due is not None
    assert await machine.run_due() == ()
    [turn] = await machine.run_due(chat.due + 1)
    assert (turn.state, turn.text) == ("thanks", "Paid: .")
    assert await machine.run_due(chat.due + 100) == ()
