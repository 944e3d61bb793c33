"""A conversation begins again after its end, under the same id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, ConversationConflict, ConversationEnded, Machine
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import fork
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER

SECRETS: dict[str, Any] = {
    **GREETER,
    "context_schema": {
        "properties": {"name": {"type": "string"}, "pin": {"type": "string", "x-secret": True}}
    },
}


def replies() -> ScriptedLLM:
    return ScriptedLLM(
        [
            reply("bye", "Bye Ada.", name="Ada"),
            reply("hello", "Hi."),
            reply("bye", "Bye.", name="Bo"),
        ]
    )


def test_what_has_ended_begins_again_under_its_id(store_url: str) -> None:
    with Machine.from_dict(GREETER, model=replies(), store=store_url) as machine:
        chat = machine.open("a", {"kept": 1}, greet=False, metadata={"user": "ada"})
        first = chat.send("I am Ada", request_id="m1")
        assert (chat.ended, chat.generation) == (True, 1)
        assert machine.open("a").ended
        again = machine.open("a", greet=False, anew=True, metadata={"user": "bob"})
        assert (again.is_new, again.ended, again.generation) == (True, False, 2)
        assert (again.context, again.metadata) == ({}, {"user": "ada"})
        assert again.send("I am Ada", request_id="m1").text == first.text
        with pytest.raises(ConversationConflict):
            again.send("another text", request_id="m1")
        again.send("Hello", request_id="m2")
        assert not machine.open("a", anew=True).is_new
        assert again.send("I am Bo", request_id="m3").ended
        numbers = [turn.number for turn in again.turns]
        assert numbers == sorted(set(numbers))
        assert [one.text for one in again.history][:2] == ["I am Ada", "Bye Ada."]


@pytest.fixture(params=["memory", "sqlite", "file"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kinds = {
        "memory": "memory",
        "sqlite": f"sqlite:///{tmp_path}/a.db",
        "file": f"file://{tmp_path}/a",
    }
    return kinds[request.param]


def test_another_process_resumes_the_last_generation_and_the_record_is_sound(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    model = ScriptedLLM(
        [reply("hello", "One."), reply("hello", "Two."), reply("bye", "Bye.", name="A")]
    )
    with Machine.from_dict(GREETER, model=model, store=url) as machine:
        machine.open("a").end()
        machine.open("a", anew=True)
    with Machine.from_dict(GREETER, model=model, store=url) as machine:
        chat = machine.resume("a")
        assert (chat.greeting, chat.generation, chat.ended) == ("Two.", 2, False)
        with pytest.raises(ConversationConflict):
            chat.undo()
        assert chat.send("I am A").ended
        chat.undo()
        assert not chat.ended


def test_start_begins_anew_what_has_ended_and_nothing_else() -> None:
    with Machine.from_dict(GREETER, model=replies()) as machine:
        chat = machine.start(conversation_id="a", greet=False, anew=True)
        for anew in (True, False):
            with pytest.raises(ConversationConflict):
                machine.start(conversation_id="a", greet=False, anew=anew)
        chat.end()
        with pytest.raises(ConversationConflict):
            machine.start(conversation_id="a", greet=False)
        assert machine.start(conversation_id="a", greet=False, anew=True).generation == 2
        with pytest.raises(ConversationEnded):
            machine.start(conversation_id="b", greet=False).end() or machine.resume("b").send("x")


def test_a_record_of_two_generations_is_sound_and_travels() -> None:
    async def play() -> None:
        async with AsyncMachine.from_dict(GREETER, model=replies()) as machine:
            await (await machine.open("a", greet=False)).send("I am Ada")
            again = await machine.open("a", greet=False, anew=True)
            await again.send("Hello")
            await machine.take_in(await machine.export("a"), "b")
            await fork(machine.store, "a", "c", (await again.turns())[-1].number)
            for name in ("b", "c"):
                chat = await machine.resume(name)
                assert (chat.generation, chat.state) == (2, "hello")
            assert list(await examine(machine.store)) == []

    asyncio.run(play())


def test_of_many_callers_one_begins_anew() -> None:
    async def opened() -> list[bool]:
        async with AsyncMachine.from_dict(GREETER, model=replies()) as machine:
            await (await machine.open("a", greet=False)).end()
            chats = await asyncio.gather(
                *(machine.open("a", greet=False, anew=True) for _ in range(8))
            )
            assert {chat.generation for chat in chats} == {2}
            return [chat.is_new for chat in chats]

    assert asyncio.run(opened()).count(True) == 1


def test_a_secret_of_an_earlier_generation_stays_one() -> None:
    model = ScriptedLLM(
        [reply("bye", "Bye.", pin="471199", name="A"), reply("hello", "Hm."), reply("hello", "Hm.")]
    )
    with Machine.from_dict(SECRETS, model=model) as machine:
        machine.open("a", greet=False).send("My PIN is 471199, I am A")
        again = machine.open("a", greet=False, anew=True)
        again.send("was it 471199?")
        again.send("and now?")
    assert "471199" not in model.requests[-1].messages[-1].content.split("<user_input>")[0]
