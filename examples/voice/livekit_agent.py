"""A machine behind a LiveKit agent: `llm_node` asks it instead of a model.

Run:  pip install livekit-agents
      await session.start(MachineAgent(chat), room=room)

LiveKit says what the caller has heard of an answer that was interrupted, and `on_spoken` records
it.
"""

import asyncio

from livekit.agents import Agent, AgentSession, llm

from llm_fsm import AsyncConversation
from llm_fsm.events import MessageDelta


class NoModel(llm.LLM):
    """LiveKit wants a model before it answers; `llm_node` does not call it."""

    def chat(self, **_):
        raise NotImplementedError


class MachineAgent(Agent):
    """Answers with the turns of a conversation."""

    def __init__(self, chat: AsyncConversation) -> None:
        super().__init__(instructions="", llm=NoModel())
        self.chat, self.recording = chat, None

    async def llm_node(self, chat_ctx, *_):
        if self.recording is not None:
            await self.recording
        self.stream = self.chat.stream(chat_ctx.items[-1].text_content, keep=True)
        async for event in self.stream:  # LiveKit closes it when the caller interrupts
            if isinstance(event, MessageDelta):
                yield event.text

    def on_speech(self, created) -> None:
        """Take the session's event `speech_created`."""
        created.speech_handle.add_done_callback(self.on_spoken)

    def on_spoken(self, speech) -> None:
        if speech.interrupted:
            heard = " ".join(
                item.text_content or "" for item in speech.chat_items if item.type == "message"
            )
            self.recording = asyncio.create_task(self.record(self.stream, heard))

    async def record(self, stream, heard: str) -> None:
        turn = await stream.finish()
        await self.chat.heard(turn.number, heard)


def session_of(agent: MachineAgent, **options) -> AgentSession:
    """Return a session that tells the agent what was heard. `options`: stt, tts, vad and others of
    AgentSession.
    """
    session = AgentSession(**options)
    session.on("speech_created", agent.on_speech)
    return session
