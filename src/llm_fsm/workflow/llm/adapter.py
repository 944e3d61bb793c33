"""The interface of a model's adapter for workflows, with its input and output values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from llm_fsm._json import JsonDict
from llm_fsm.llm.clients.messages import LLMResponse, Message, ToolCall

__all__ = ["LLMAdapter", "LLMResponse", "Message", "ToolCall"]


@runtime_checkable
class LLMAdapter(Protocol):
    """A model behind `chat`. `format_tools` converts tools to the model's own form; it may be
    missing.
    """

    def chat(
        self,
        messages: list[Message],
        *,
        tools: list[JsonDict] | None = None,
        temperature: float = 0.7,
        max_tokens: int | None = None,
    ) -> LLMResponse:
        """Ask the model.

        Args:
            messages: The conversation so far, oldest first.
            tools: The tools that it may call, in the form of chat completions.
            temperature: Sampling temperature.
            max_tokens: The most tokens of the reply.

        Returns:
            The reply, with its text and tool calls.

        Raises:
            Exception: The model failed.
        """

    def format_tools(self, tools: Sequence[Any]) -> list[JsonDict]:
        """Convert tools to the model's own form, which is that of chat completions unless you
        override it.

        Args:
            tools: Tools, each with `name`, `description` and `parameters`.

        Returns:
            JSON data for `chat`.
        """
        return [tool.to_openai_schema() for tool in tools]
