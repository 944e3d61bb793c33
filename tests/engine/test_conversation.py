"""What a caller holds of a conversation changes nothing of it, and never stands for what others
have written.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.session import parse_session
from llm_fsm.stores.memory import MemoryStore
from machines import GREETER, reply

pytestmark = pytest.mark.anyio


async def begun(*replies: Any) -> tuple[AsyncConversation, MemoryStore]:
    store = MemoryStore()
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)), store=store)
    return await machine.start(greet=False), store


@pytest.mark.parametrize("value", ["Rome", ["Rome", "Oslo"], {"at": {"day": 1}}])
async def test_turns_can_be_changed_by_whoever_holds_them_and_the_conversation_stays(
    value: Any,
) -> None:
    chat, store = await begun(
        reply("hello", "one", city=value), reply("hello", "two"), reply("hello", "three")
    )
    for message in ("first", "second"):
        turn = await chat.send(message)
        held: Any = [
            turn.context,
            chat.context,
            *(event.values for event in turn.events if hasattr(event, "values")),
        ]
        for values in held:
            found = values.get("city")
            if isinstance(found, list | dict):
                found.clear()
            values["city"] = values["more"] = "changed"
    assert (await chat.send("third")).context == {"city": value}
    stored = await store.load(chat.id)
    assert stored is not None
    assert parse_session(stored.session).context == {"city": value}


async def test_a_failed_turn_leaves_nothing_of_what_a_handler_changed_in_place() -> None:
    store = MemoryStore()
    model = ScriptedLLM(
        [reply("hello", "one", city=["Rome"]), ModelError("down"), reply("hello", "two")]
    )
    machine = AsyncMachine.from_dict(GREETER, model=model, store=store)

    @machine.on("pre_processing")
    def spoils(occasion: Any) -> None:
        if occasion.user_input == "second":
            occasion.context["city"].append("Oslo")

    chat = await machine.start(greet=False)
    await chat.send("first")
    with pytest.raises(ModelError):
        await chat.send("second")
    assert (await chat.send("third")).context == {"city": ["Rome"]}


async def test_changes_of_a_resumed_conversations_lists_are_not_kept() -> None:
    async with AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello")], loop=True)
    ) as machine:
        chat = await machine.start(context={"tags": ["a"]}, greet=False)
        resumed = await machine.resume(chat.id)
        resumed.context["tags"].append("b")
        assert (await resumed.send("m")).context == {"tags": ["a"]}


async def test_changes_of_a_conversations_lists_in_a_digression_are_not_kept() -> None:
    aside = {"target_state": "why", "description": "Asks why", "return": True}
    document = {
        "name": "trip",
        "initial_state": "ask",
        "context_schema": {
            "type": "object",
            "properties": {"cities": {"type": "array"}, "sure": {"type": "boolean"}},
        },
        "global_transitions": [aside],
        "states": {
            "ask": {
                "purpose": "Where to?",
                "transitions": [{"target_state": "end", "description": "All is said"}],
            },
            "why": {
                "purpose": "Say why",
                "transitions": [{"target_state": "done", "description": "It was said"}],
            },
            "done": {"reply": "Well."},
            "end": {"purpose": "Goodbye"},
        },
    }
    model = ScriptedLLM(
        [
            reply("ask", "And?", cities=["Rome"]),
            reply("why", "For the ticket. All right?"),
            reply("why", "Really?"),
            reply("done", "Good."),
        ]
    )
    machine = AsyncMachine.from_dict(document, model=model, store=MemoryStore())
    chat = await machine.start(greet=False, background={"goals": ["a trip"]})
    known = copy.deepcopy(chat.memory)
    for message, state in (("Rome", "ask"), ("why?", "why"), ("hm", "why"), ("yes", "ask")):
        turn = await chat.send(message)
        assert (turn.state, turn.context, chat.memory) == (state, {"cities": ["Rome"]}, known)
        turn.context["cities"].clear()
        chat.memory["background"].clear()


async def test_what_another_writes_meanwhile_is_seen() -> None:
    chat, store = await begun(reply("hello", "one", city="Rome"), reply("hello", "three"))
    await chat.send("first")
    other = AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "two", city="Oslo")]), store=store
    )
    await (await other.resume(chat.id)).send("second")
    turn = await chat.send("third")
    assert (turn.number, turn.context) == (3, {"city": "Oslo"})


async def test_what_was_taken_back_meanwhile_is_gone() -> None:
    chat, store = await begun(
        reply("hello", "one", city="Rome"), reply("hello", "two", city="Oslo"), reply("hello", "3")
    )
    await chat.send("first")
    await chat.send("second")
    again = await AsyncMachine.from_dict(GREETER, model=ScriptedLLM([]), store=store).resume(
        chat.id
    )
    await again.undo()
    turn = await chat.send("third")
    assert (turn.number, turn.context) == (2, {"city": "Rome"})


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [({}, "passed"), ({"outcome": "failed"}, "failed"), ({"outcome": "sold"}, "sold")],
)
async def test_a_final_state_says_how_the_conversation_ended(
    declared: dict[str, str], outcome: str
) -> None:
    states = {
        "ask": {"purpose": "Ask", "transitions": [{"target_state": "end"}]},
        "end": {"kind": "final", **declared},
    }
    definition = {"name": "deal", "initial_state": "ask", "states": states}
    machine = AsyncMachine.from_dict(definition, model=ScriptedLLM([reply("end", "Bye.")]))
    turn = await (await machine.start(greet=False)).send("well")
    assert (turn.ended, turn.outcome) == (True, outcome)


@pytest.mark.parametrize(("zone", "day"), [("", "2026-11-25"), ("Pacific/Auckland", "2026-11-26")])
async def test_days_are_counted_in_the_time_zone_of_the_user(zone: str, day: str) -> None:
    noon = 1795608000.0
    model = ScriptedLLM([reply("hello", "Tomorrow, then.")])
    machine = AsyncMachine.from_dict(GREETER, model=model, clock=lambda: noon)
    chat = await machine.start(greet=False, timezone=zone)
    await chat.send("tomorrow")
    assert f"{day}</today>" in model.requests[0].messages[0].content


async def test_a_time_zone_that_does_not_exist_is_refused() -> None:
    machine = AsyncMachine.from_dict(GREETER, model="offline")
    with pytest.raises(ValueError, match="IANA name"):
        await machine.start(timezone="Middle/Earth")
