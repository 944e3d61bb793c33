"""The LiveKit agent of docs/voice.md, played in an AgentSession without a room."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.testing import ScriptedLLM, reply
from paths import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "voice" / "livekit_agent.py"))
LOOP: dict[str, Any] = {
    "name": "loop",
    "initial_state": "a",
    "states": {
        "a": {"purpose": "Answer", "transitions": [{"target_state": "end"}]},
        "end": {"purpose": "Bye"},
    },
}
TEXT = "Your table is booked for eight. Do you need anything else?"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Slow(ScriptedLLM):
    """A model whose words come one by one."""

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        whole = await self.complete(request)
        for start in range(0, len(whole.text), 8):
            await asyncio.sleep(0.02)
            yield whole.text[start : start + 8]
        yield whole


async def interrupted(after: float) -> tuple[list[tuple[str, str, bool]], Slow]:
    """Hold a talk of three messages, and interrupt the second answer so many seconds after its
    question.
    """
    llm = Slow(
        [reply("a", "Hello! For when?"), reply("a", TEXT), reply("a", "For nine, then. Else?")]
    )
    chat = await AsyncMachine.from_dict(LOOP, model=llm).start(greet=False)
    agent = EXAMPLE["MachineAgent"](chat)
    async with EXAMPLE["session_of"](agent) as session:
        await session.start(agent)
        first = await session.run(user_input="A table, please")
        first.expect.next_event().is_message(role="assistant")
        run = session.run(user_input="For eight")
        await asyncio.sleep(after)
        await session.interrupt()
        await run
        await session.run(user_input="No, for nine")
    return [
        (message.role, message.text, message.interrupted) for message in await chat.history()
    ], llm


@pytest.mark.parametrize("after", [0.02, 0.25])
async def test_a_caller_who_interrupts_loses_nothing(after: float) -> None:
    history, llm = await interrupted(after)
    assert [role for role, *_ in history] == ["user", "assistant"] * 3
    assert history[1] == ("assistant", "Hello! For when?", False)
    _, text, was_interrupted = history[3]
    assert was_interrupted
    assert TEXT.startswith(text.removesuffix("… [interrupted]"))
    assert history[5] == ("assistant", "For nine, then. Else?", False)
    assert "the user heard only the words before it" in llm.requests[-1].messages[-1].content
