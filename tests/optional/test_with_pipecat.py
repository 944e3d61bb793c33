"""The Pipecat processor of docs/voice.md, played by Pipecat's own test kit."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.tests.utils import SleepFrame, run_test
from pipecat.utils.text.base_text_aggregator import TextType

from llm_fsm import AsyncMachine
from llm_fsm.testing import ScriptedLLM, reply
from paths import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "voice" / "pipecat_processor.py"))
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


class Voice(FrameProcessor):
    """A voice that speaks the first three words of an answer, and then waits."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.text += frame.text
            return
        if isinstance(frame, LLMFullResponseEndFrame):
            await self.push_frame(BotStartedSpeakingFrame())
            for word in self.text.split()[:3]:
                await self.push_frame(TTSTextFrame(word, TextType.WORD))
            self.text = ""
        await self.push_frame(frame, direction)


def said(text: str) -> TranscriptionFrame:
    return TranscriptionFrame(text, "caller", "2030-01-01T00:00:00Z")


async def test_a_caller_who_interrupts_loses_nothing() -> None:
    machine = AsyncMachine.from_dict(
        LOOP, model=ScriptedLLM([reply("a", TEXT), reply("a", "For nine, then. Else?")])
    )
    chat = await machine.start(greet=False)
    processor = EXAMPLE["MachineProcessor"](chat)
    pipeline = Pipeline([processor, Voice(), EXAMPLE["Spoken"](processor)])
    frames = [
        said("A table"),
        SleepFrame(),
        InterruptionFrame(),
        SleepFrame(),
        said("no, for nine"),
        SleepFrame(),
    ]
    down, _ = await run_test(pipeline, frames_to_send=frames)
    assert [frame.text for frame in down if isinstance(frame, TTSTextFrame)][:3] == [
        "Your",
        "table",
        "is",
    ]
    assert [(message.role, message.text) for message in await chat.history()] == [
        ("user", "A table"),
        ("assistant", "Your table is… [interrupted]"),
        ("user", "no, for nine"),
        ("assistant", "For nine, then. Else?"),
    ]


PAY: dict[str, Any] = {
    "name": "pay",
    "initial_state": "confirm",
    "context_schema": {"properties": {"amount": {"type": "integer"}}},
    "states": {
        "confirm": {
            "reply": "{{ amount }} euros. Shall I pay?",
            "confirms": ["amount"],
            "transitions": [
                {"target_state": "done", "description": "The caller says yes", "agrees": True},
                {"target_state": "no", "description": "No"},
            ],
        },
        "done": {"reply": "Paid."},
        "no": {"reply": "Bye."},
    },
}


class Other(FrameProcessor):
    """A voice that writes other texts than it was given, or none."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words

    async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMFullResponseEndFrame):
            for word in self.words:
                await self.push_frame(TTSTextFrame(word, TextType.WORD))
        await self.push_frame(frame, direction)


@pytest.mark.parametrize("words", [["fifty", "euros"], ["50", "euros.", "Shall", "I"], []])
async def test_a_yes_counts_if_the_voice_was_not_stopped(words: list[str]) -> None:
    replies = [reply("confirm", "Well."), reply("done", "")]
    async with AsyncMachine.from_dict(PAY, model=ScriptedLLM(replies)) as machine:
        chat = await machine.start({"amount": 50}, greet=False)
        processor = EXAMPLE["MachineProcessor"](chat)
        pipeline = Pipeline([processor, Other(words), EXAMPLE["Spoken"](processor)])
        frames = [
            said("hm"),
            SleepFrame(),
            InterruptionFrame(),
            SleepFrame(),
            said("yes"),
            SleepFrame(),
        ]
        await run_test(pipeline, frames_to_send=frames)
        await chat.refresh()
        assert chat.state == "done"


async def test_the_answer_is_spoken_in_pieces_between_its_marks() -> None:
    machine = AsyncMachine.from_dict(LOOP, model=ScriptedLLM([reply("a", TEXT)]))
    chat = await machine.start(greet=False)
    down, _ = await run_test(
        EXAMPLE["MachineProcessor"](chat), frames_to_send=[said("A table"), SleepFrame()]
    )
    names = [type(frame).__name__ for frame in down]
    assert (names[0], names[-1]) == ("LLMFullResponseStartFrame", "LLMFullResponseEndFrame")
    assert len(names) > 3
    assert "".join(frame.text for frame in down if isinstance(frame, LLMTextFrame)) == TEXT
