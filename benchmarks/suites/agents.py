"""The two agents of a live task: the bot of `examples/retail`, and a bare tool loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from benchmarks.suites.desk import EXAMPLE, RETAIL
from benchmarks.suites.retail_tools import Json, Tool
from llm_fsm import AsyncMachine
from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.llm.base import LLM
from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolCall, ToolSpec
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments

ROUNDS = 30
"""Calls of the model for one message of the customer, at most."""
TRANSFER = "transfer_to_human_agents"
"""The tool of τ-bench that ends a talk."""


class Agent(Protocol):
    """Talks to a customer."""

    @property
    def ended(self) -> bool:
        """True if the agent has ended the talk."""

    async def answer(self, words: str) -> str:
        """Return the answer to a message."""

    async def close(self) -> None:
        """Free what the agent holds."""


class RetailBot:
    """The bot of `examples/retail` over a database.

    Args:
        llm: The model.
        data: The database, which the bot changes.
        reply: The setting `reply` of the machine.
    """

    def __init__(self, llm: LLM, data: Json, reply: str = "") -> None:
        shop = EXAMPLE.Shop(data)
        self._machine = AsyncMachine.from_file(
            RETAIL / "retail.json",
            model=llm,
            store="memory",
            tools=EXAMPLE.tools(shop),
            functions=EXAMPLE.functions(shop),
            timeout=None,
            reply=reply or "schema",
        )
        self._chat: AsyncConversation | None = None

    @property
    def ended(self) -> bool:
        """True if the conversation is over."""
        return self._chat is not None and self._chat.ended

    async def answer(self, words: str) -> str:
        """Return the text of the turn."""
        if self._chat is None:
            self._chat = await self._machine.start(greet=False)
        return (await self._chat.send(words)).text

    async def close(self) -> None:
        """Free the machine."""
        await self._machine.close()


class ToolLoop:
    """A model with the policy as its system prompt, which calls the tools of τ-bench.

    Args:
        llm: The model.
        data: The database, which the tools change.
        policy: The system prompt.
        tools: The tools.
    """

    def __init__(self, llm: LLM, data: Json, policy: str, tools: Sequence[Tool]) -> None:
        self.ended = False
        self._llm = llm
        self._data = data
        self._tools = {tool.name: tool for tool in tools}
        self._specs = tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in tools
        )
        self._messages = [LLMMessage("system", policy)]

    async def answer(self, words: str) -> str:
        """Call tools until the model says something. Return that; "" after too many calls."""
        self._messages.append(LLMMessage("user", words))
        for _ in range(ROUNDS):
            reply = await self._llm.complete(
                LLMRequest(
                    messages=tuple(self._messages),
                    tools=self._specs,
                    temperature=0.0,
                    defaults=frozenset({"temperature"}),
                )
            )
            self._messages.append(
                LLMMessage("assistant", reply.text, reply.tool_calls, native=reply.native)
            )
            if not reply.tool_calls:
                return reply.text
            for call in reply.tool_calls:
                result = LLMMessage("tool", self._result(call), tool_call_id=call.id)
                self._messages.append(result)
        return ""

    def _result(self, call: ToolCall) -> str:
        """Run a tool as τ-bench does: an error is a text for the model."""
        tool = self._tools.get(call.name)
        if tool is None:
            return f"Unknown action {call.name}"
        try:
            arguments = read_arguments(call.arguments)
        except ArgumentsFault as fault:
            return f"Error: {fault}"
        self.ended = self.ended or call.name == TRANSFER
        try:
            return tool.invoke(self._data, **arguments)
        except Exception as error:
            return f"Error: {error}"

    async def close(self) -> None:
        """Nothing is held."""
