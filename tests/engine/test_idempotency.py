"""The same message, the same answer: what was answered is answered again, by whichever process, and
once only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import warm_parent
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConversationConflict
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.memory import MemoryStore
from machines import GREETER, reply

pytestmark = pytest.mark.anyio
WAITS: dict[str, Any] = {
    "name": "waits",
    "initial_state": "ask",
    "states": {
        "ask": {
            "kind": "wait",
            "wait_for": "go",
            "output": {"by": "by"},
            "transitions": [{"target_state": "end"}],
        },
        "end": {"kind": "final"},
    },
}
PROGRAM = """
import json, os, sys, time
from llm_fsm import Machine
from llm_fsm.errors import ConversationConflict

url, ledger, definition, what, name = sys.argv[1:]

class Model:
    async def complete(self, request):
        from llm_fsm.session.messages import ModelReply
        with open(ledger, "a") as file:
            file.write("asked\\n")
        time.sleep(0.05)
        return ModelReply(text=json.dumps({"transition": {"target_state": "hello"}, "message": "Hi"}))

with Machine.from_dict(json.loads(definition), model=Model(), store=url) as machine:
    chat = machine.resume("c")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        if what == "answer":
            turn = machine.answer("c", {"by": name}, request_id=name)
        else:
            turn = chat.send(what if what != "own" else f"I am {name}", request_id="m1")
        print(json.dumps([turn.number, turn.text, turn.context]))
    except ConversationConflict as error:
        print(json.dumps(str(error)))
"""


def at_once(url: str, ledger: Path, definition: dict[str, Any], what: str) -> list[Any]:
    """What three processes are told that do the same at the same time."""
    with ExitStack() as stack:
        running = []
        for name in "abc":
            command = [
                sys.executable,
                "-c",
                PROGRAM,
                url,
                str(ledger),
                json.dumps(definition),
                what,
                name,
            ]
            process = warm_parent.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.callback(process.kill)
            running.append(stack.enter_context(process))
        for process in running:
            assert process.stdout.readline() == "ready\n"
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(process.stdout.read()) for process in running]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bots.db'}"
    return str(request.getfixturevalue("postgresql_url"))


async def begun(url: str, definition: dict[str, Any]) -> None:
    async with AsyncMachine.from_dict(definition, model="offline", store=url) as machine:
        if definition is WAITS:
            await machine.run(conversation_id="c")
        else:
            await machine.start(conversation_id="c", greet=False)


async def test_one_message_from_several_processes_is_answered_once(
    url: str, tmp_path: Path
) -> None:
    await begun(url, GREETER)
    ledger = tmp_path / "ledger"
    assert at_once(url, ledger, GREETER, "hello") == [[1, "Hi", {}]] * 3
    assert ledger.read_text() == "asked\n"


async def test_same_id_with_other_texts_is_a_conflict_for_all_but_one(
    url: str, tmp_path: Path
) -> None:
    await begun(url, GREETER)
    ledger = tmp_path / "ledger"
    told = at_once(url, ledger, GREETER, "own")
    assert [item for item in told if not isinstance(item, str)] == [[1, "Hi", {}]]
    assert (
        sum(
            "'m1' was already used for another message" in item
            for item in told
            if isinstance(item, str)
        )
        == 2
    )
    assert ledger.read_text() == "asked\n"


async def test_one_answer_wins_and_the_others_are_told(url: str, tmp_path: Path) -> None:
    await begun(url, WAITS)
    told = at_once(url, tmp_path / "ledger", WAITS, "answer")
    (winner,) = [item for item in told if not isinstance(item, str)]
    assert (
        sum(
            "was answered already; this answer was not used" in item
            for item in told
            if isinstance(item, str)
        )
        == 2
    )
    async with AsyncMachine.from_dict(WAITS, model="offline", store=url) as machine:
        assert (await machine.resume("c")).context == winner[2]


async def test_a_message_that_comes_again_after_its_turn_was_taken_back_does_not_bring_it_back() -> (
    None
):
    model = ScriptedLLM([reply("hello", "Hi"), reply("hello", "Hi again")])
    machine = AsyncMachine.from_dict(GREETER, model=model, store=MemoryStore())
    chat = await machine.start(conversation_id="c", greet=False)
    first = await chat.send("hello", request_id="m1")
    await chat.undo()
    assert (await chat.send("hello", request_id="m1")).text == first.text == "Hi"
    assert (await chat.history(), model.remaining) == ((), 1)
    assert (await chat.send("hello", request_id="m2")).text == "Hi again"
    assert [said.text for said in await chat.history()] == ["hello", "Hi again"]


async def test_id_of_a_message_is_none_for_an_answer_and_the_other_way_round() -> None:
    mixed = {
        **WAITS,
        "initial_state": "talk",
        "states": {
            **WAITS["states"],
            "end": {"kind": "final", "reply": "Done."},
            "talk": {
                "purpose": "Talk",
                "transitions": [{"target_state": "ask", "description": "Go on"}],
            },
        },
    }
    machine = AsyncMachine.from_dict(
        mixed, model=ScriptedLLM([reply("ask", "Wait.")]), store=MemoryStore()
    )
    chat = await machine.start(conversation_id="c", greet=False)
    await chat.send("go", request_id="r")
    with pytest.raises(ConversationConflict, match="used for a message"):
        await chat.answer({"by": "Ada"}, request_id="r")
    answered = await chat.answer({"by": "Ada"}, request_id="a")
    assert await chat.answer({"by": "Ada"}, request_id="a") == answered
    with pytest.raises(ConversationConflict, match="used for another answer"):
        await chat.answer({"by": "Eve"}, request_id="a")
    with pytest.raises(ConversationConflict, match="'a' was already used for an answer"):
        await chat.send("go", request_id="a")


async def test_a_message_with_a_character_in_two_halves_is_the_same_message_when_it_comes_again(
    tmp_path: Path,
) -> None:
    talks = {
        "name": "talks",
        "initial_state": "talk",
        "states": {
            "talk": {
                "purpose": "Talk",
                "transitions": [{"target_state": "talk", "description": "Go on"}],
            }
        },
    }
    machine = AsyncMachine.from_dict(
        talks, model=ScriptedLLM([reply("talk", "Yes.")]), store=f"sqlite:///{tmp_path / 'x.db'}"
    )
    chat = await machine.start(
        conversation_id="c", greet=False, context={"given": ["\ud83d\ude00", "\ude00\ud83d"]}
    )
    assert chat.context == {"given": ["\U0001f600", "\ufffd\ufffd"]}
    first = await chat.send("\ud83d\ude00", request_id="r")
    again = await machine.resume("c")
    assert (await again.send("\ud83d\ude00", request_id="r")).number == first.number
    assert (await again.send("\U0001f600", request_id="r")).number == first.number
    assert again.context == chat.context
    await machine.close()
