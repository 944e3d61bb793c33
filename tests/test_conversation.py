"""What a caller holds of a conversation changes nothing of it, and never stands for what others have written."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import records
from llm_fsm.conversation import AsyncConversation
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.machine import AsyncMachine
from llm_fsm.session import Session, is_closed
from llm_fsm.stores.memory import MemoryStore
from machines import GREETER, reply

pytestmark = pytest.mark.anyio


async def begun(*replies: Any) -> tuple[AsyncConversation, MemoryStore]:
    store = MemoryStore()
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)), store=store)
    return await machine.start(greet=False), store


@pytest.mark.parametrize("value", ["Rome", ["Rome", "Oslo"], {"at": {"day": 1}}])
async def test_turns_can_be_changed_by_whoever_holds_them_and_the_conversation_stays(value: Any) -> None:
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
    assert records.parse_session(stored.session).context == {"city": value}


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
    again = await AsyncMachine.from_dict(GREETER, model=ScriptedLLM([]), store=store).resume(chat.id)
    await again.undo()
    turn = await chat.send("third")
    assert (turn.number, turn.context) == (2, {"city": "Rome"})


@pytest.mark.parametrize(
    ("fields", "closed"),
    [
        ({}, True),
        ({"context": {"name": "Ada", "age": 36, "sure": True, "height": 1.7}}, True),
        ({"context": {"cities": []}}, False),
        ({"context": {"at": {}}}, False),
        ({"input": []}, False),
        ({"input": "words"}, True),
        ({"memory": {"background": {}}}, False),
        ({"shared": {"notes": []}}, False),
    ],
)
def test_a_session_is_closed_where_no_part_of_it_can_be_changed(fields: dict[str, Any], closed: bool) -> None:
    assert is_closed(Session(conversation_id="c", **fields)) is closed


def test_a_closed_session_is_what_its_text_says() -> None:
    session = Session(
        conversation_id="c",
        state="a",
        context={"name": "Ada 🦊", "age": 36, "height": 1.7, "none": None},
        origins={"name": (1, "model")},
        window=((None, "Hi"), ("a\ud800", "b")),
        notes=(("age", "too old"),),
        time=1763767000.123456,
        skipped=("age",),
        path=(("a", "/states/a/transitions/0"),),
        misses=(1, 2),
        settled=("id", "answered"),
        reminders=(1.5,),
        spent={"money": 0.25},
    )
    assert is_closed(session)
    assert records.parse_session(records.dump_session(session)) == session
