"""The interface of a model's adapter that a workflow needs, and the values that go in and come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from llm_fsm.llm.clients.messages import LLMResponse, Message, ToolCall

__all__ = ["LLMAdapter", "LLMResponse", "Message", "ToolCall"]


@runtime_checkable
class LLMAdapter(Protocol):
    """A model behind `chat`. `format_tools` gives tools in the model's own form; it may be missing."""

    def chat(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int | None = None,
    ) -> LLMResponse:
        """Ask the model. Raises what goes wrong."""

    def format_tools(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Give tools, each with `name`, `description` and `parameters`, in the model's own form."""
