"""A machine as a processor of a Pipecat pipeline: it stands between the transcription and the
voice.

Run:  pip install pipecat-ai
      Pipeline([transport.input(), stt, machine, tts, transport.output(), Spoken(machine)])

`MachineProcessor` answers each final transcription. The caller may interrupt at any time: the turn
is finished all the same, and `Spoken` tells what the caller has heard of it.
"""

from pipecat.frames.frames import (
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSTextFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from llm_fsm import AsyncConversation
from llm_fsm.events import MessageDelta


class MachineProcessor(FrameProcessor):
    """Answers what the caller says with the turns of a conversation."""

    def __init__(self, chat: AsyncConversation) -> None:
        super().__init__()
        self.chat, self.stream, self.recording, self.spoken = chat, None, None, ""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame) and self.stream is not None:
            self.recording = self.create_task(self.record(self.stream, self.spoken))
            self.stream = None
        if isinstance(frame, TranscriptionFrame):
            await self.answer(frame.text)
        else:
            await self.push_frame(frame, direction)

    async def answer(self, text: str) -> None:
        if self.recording is not None:
            await self.recording
        self.stream, self.spoken = self.chat.stream(text, keep=True), ""
        await self.push_frame(LLMFullResponseStartFrame())
        async for event in self.stream:  # Pipecat cancels this loop when the caller interrupts
            if isinstance(event, MessageDelta):
                await self.push_frame(LLMTextFrame(event.text))
        await self.push_frame(LLMFullResponseEndFrame())

    async def record(self, stream, heard: str) -> None:
        turn = await stream.finish()
        await self.chat.heard(turn.number, heard)


class Spoken(FrameProcessor):
    """Notes the words that were spoken: it stands behind the output."""

    def __init__(self, machine: MachineProcessor) -> None:
        super().__init__()
        self.machine = machine

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSTextFrame):
            self.machine.spoken += f"{frame.text} "
        await self.push_frame(frame, direction)
