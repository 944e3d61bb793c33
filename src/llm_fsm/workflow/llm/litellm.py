"""The adapter for every provider that litellm knows, with the cost of its replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_fsm.llm.clients.litellm_sdk import LiteLLMClient


class LiteLLMAdapter(LiteLLMClient):
    """A `provider/model` for a workflow. `total_cost` is in US dollars. The arguments are those of `LiteLLMClient`."""

    def format_tools(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Convert tools to the form of chat completions.

        Args:
            tools: Tools, each with `name`, `description` and `parameters`.

        Returns:
            JSON data for `chat`.
        """
        return [tool.to_openai_schema() for tool in tools]
