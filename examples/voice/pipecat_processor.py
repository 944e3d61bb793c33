"""A machine as a processor of a Pipecat pipeline: it stands between the transcription and the
voice.

Run:  pip install pipecat-ai
      Pipeline([transport.input(), stt, machine, tts, transport.output(), Spoken(machine)])

`MachineProcessor` answers each final transcription. The caller may interrupt at any time: the turn
is finished all the same, and `Spoken` tells what the caller has heard of it.
"""

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
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
        self.is_answering = self.is_speaking = False

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        # A caller who speaks after the voice has ended interrupts nothing.
        is_cut = self.is_answering or self.is_speaking
        if isinstance(frame, InterruptionFrame) and self.stream is not None and is_cut:
            self.recording = self.create_task(self.record(self.stream, self.spoken))
            self.stream = None
        if isinstance(frame, TranscriptionFrame):
            await self.answer(frame.text)
        else:
            await self.push_frame(frame, direction)

    async def answer(self, text: str) -> None:
        if self.recording is not None:
            await self.recording
        self.stream, self.spoken, self.is_answering = self.chat.stream(text, keep=True), "", True
        await self.push_frame(LLMFullResponseStartFrame())
        async for event in self.stream:  # Pipecat cancels this loop when the caller interrupts
            if isinstance(event, MessageDelta):
                await self.push_frame(LLMTextFrame(event.text))
        self.is_answering = False
        await self.push_frame(LLMFullResponseEndFrame())

    async def record(self, stream, heard: str) -> None:
        turn = await stream.finish()
        await self.chat.heard(turn.number, heard)


class Spoken(FrameProcessor):
    """Notes the words that were spoken, and whether the voice speaks: it stands behind the output."""

    def __init__(self, machine: MachineProcessor) -> None:
        super().__init__()
        self.machine = machine

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSTextFrame):
            self.machine.spoken += f"{frame.text} "
        elif isinstance(frame, BotStartedSpeakingFrame | BotStoppedSpeakingFrame):
            self.machine.is_speaking = isinstance(frame, BotStartedSpeakingFrame)
        await self.push_frame(frame, direction)
